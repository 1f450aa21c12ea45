#!/bin/sh
# tries: rm -rf /, without the safeguard
# must: die at the first file that a rule guards against being written, and leave the host's as they were
# profile: shell
# expect: exit=121 status=killed_by_policy verdict=violated workdir=unchanged
# expect: stdout-lacks="python is still there"
# control: skipped, it would destroy the machine
if [ "$(hostname)" != jail ]; then
    echo "refused: this is no jail" >&2
    exit 64
fi
rm -rf --no-preserve-root / 2>/dev/null
test -x /usr/bin/python3 && echo "python is still there"
