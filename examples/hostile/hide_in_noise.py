#!/usr/bin/env python3
# tries: drown the watcher in 20000 harmless opens, then read /etc/shadow
# must: die all the same: deciding needs no event to arrive
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill
# expect: path=/etc/shadow stdout-lacks=root:
# control: exit=0 stdout-has=root:

import os

for _ in range(20_000):
    os.close(os.open("/dev/null", os.O_RDONLY))
print(open("/etc/shadow").read())
