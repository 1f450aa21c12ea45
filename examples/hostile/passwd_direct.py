#!/usr/bin/env python3
# tries: read the account database itself, without another program
# must: die: under strict nothing has business there
# profile: strict
# expect: exit=121 status=killed_by_policy verdict=violated rule=account-database/kill
# expect: path=/etc/passwd stdout-lacks=root: stdout-lacks=jail:
# control: exit=0 stdout-has=root:

print(open("/etc/passwd").read())
