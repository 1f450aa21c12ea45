#!/bin/sh
# tries: let another program, two processes down, read /etc/shadow
# must: die as a whole: the shells around cat do not go on
# profile: shell
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
# expect: stdout-lacks=root: stdout-lacks="still running"
# control: exit=0 stdout-has=root: stdout-has="still running"
sh -c 'cat /etc/shadow; true'
echo "still running"
