#!/bin/sh
# tries: count the words that come in on standard input
# must: see the caller's input; it passes through
# profile: shell
# stdin: the quick brown fox jumps over the lazy dog
# expect: exit=0 status=exited verdict=clean stdout-has="2 the" stdout-has="9 words"
set -e
words=$(tr ' ' '\n')
echo "$words" | sort | uniq -c | sort -rn | head -n 1 | awk '{ print $1, $2 }'
echo "$(echo "$words" | wc -l) words"
