#!/bin/sh
# tries: rm -rf /, without the safeguard
# must: leave the host's files and the caller's directory as they were; the jail's own copies may go
# profile: shell
# expect: exit=0 status=exited stdout-has="python is still there" workdir=unchanged
# control: skipped, it would destroy the machine
if [ "$(hostname)" != jail ]; then
    echo "refused: this is no jail" >&2
    exit 64
fi
rm -rf --no-preserve-root / 2>/dev/null
test -x /usr/bin/python3 && echo "python is still there"
