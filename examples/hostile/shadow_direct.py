#!/usr/bin/env python3
# tries: read the password hashes in /etc/shadow
# must: die before the file's content reaches it
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill
# expect: path=/etc/shadow technique=T1003.008
# expect: stdout-lacks=root:
# control: exit=0 stdout-has=root:

with open("/etc/shadow") as file:
    print(file.read())
