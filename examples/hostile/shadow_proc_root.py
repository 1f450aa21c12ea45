#!/usr/bin/env python3
# tries: read /etc/shadow by way of /proc/self/root, which a comparison of names does not see through
# must: die; the rule speaks of the file, not of its spelling
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
# expect: stdout-lacks=root:
# control: exit=0 stdout-has=root:

with open("/proc/self/root/etc/../etc/shadow") as file:
    print(file.read())
