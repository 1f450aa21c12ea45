#!/bin/sh
# tries: make an account with the rights of root, by a line in /etc/passwd
# must: die; the host's file stays as it was
# profile: shell
# expect: exit=121 status=killed_by_policy verdict=violated rule=account-change/kill path=/etc/passwd
# expect: stdout-lacks=added
# control: skipped, it would change the host's accounts
echo 'intruder::0:0::/:/bin/sh' >> /etc/passwd && echo "added"
