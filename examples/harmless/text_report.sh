#!/bin/sh
# tries: make a table of the file types in /usr/bin with find, awk and sort
# must: work on the read-only system directories
# profile: shell
# expect: exit=0 status=exited verdict=clean stdout-has="programs in /usr/bin" stderr-lacks="Permission denied"
set -e
find /usr/bin -maxdepth 1 -printf '%y\n' \
    | awk '{ count[$1]++ } END { for (type in count) printf "%6d %s\n", count[type], type }' \
    | sort -rn
echo "programs in /usr/bin: $(find /usr/bin -maxdepth 1 -type f | wc -l)"
