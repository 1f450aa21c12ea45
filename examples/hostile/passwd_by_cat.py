#!/usr/bin/env python3
# tries: start a shell that starts cat to read the account database
# must: die at the start of the shell: strict allows no second program
# profile: strict
# expect: exit=121 status=killed_by_policy verdict=violated rule=no-exec/kill stdout-lacks=root: stdout-lacks=jail:
# control: exit=0 stdout-has=root:

import os

os.system("cat /etc/passwd")
