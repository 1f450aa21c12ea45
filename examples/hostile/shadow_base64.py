#!/usr/bin/env python3
# tries: hide what it does from a reader of the source: exec() of a base64 text that opens /etc/shadow
# must: die; what a program does counts, not what it looks like
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
# expect: stdout-lacks=root:
# control: exit=0 stdout-has=root:

import base64

exec(base64.b64decode("cHJpbnQob3BlbigiL2V0Yy9zaGFkb3ciKS5yZWFkKCkp"))
