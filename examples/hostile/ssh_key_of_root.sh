#!/bin/sh
# tries: read the key of root at its usual place
# must: die, although the jail holds no /root: the attempt counts
# expect: exit=121 status=killed_by_policy verdict=violated rule=private-key/kill path=/root/.ssh/id_rsa
# expect: stdout-lacks="PRIVATE KEY"
# control: skipped, it would print the real key of whoever runs the demo
cat /root/.ssh/id_rsa
