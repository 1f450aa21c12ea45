#!/bin/sh
# tries: go to /etc first and read the file by its bare name
# must: die; the report names the file, not the bare name
# profile: shell
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
# expect: stdout-lacks=root:
# control: exit=0 stdout-has=root:
cd /etc && cat ./shadow
