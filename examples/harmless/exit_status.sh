#!/bin/sh
# tries: end with status 7 after a trap has cleaned up
# must: keep its own exit status, and its trap must run
# profile: shell
# expect: exit=7 status=exited verdict=clean stdout-has="cleaned up"
trap 'rm -f /tmp/scratch; echo "cleaned up"' EXIT
echo busy > /tmp/scratch
exit 7
