#!/bin/sh
# tries: run a program out of /dev/shm, which is memory as well and needs no memfd_create
# must: die; the program never runs
# profile: shell
# expect: exit=121 status=killed_by_policy verdict=violated rule=memory-exec/kill stdout-lacks="ran from memory"
# control: exit=0 stdout-has="ran from memory"
cp /bin/echo /dev/shm/turnkey-stage2 || exit 1
/dev/shm/turnkey-stage2 "ran from memory"
status=$?
rm /dev/shm/turnkey-stage2
exit $status
