#!/bin/sh
# tries: read /etc/shadow while the rules only log
# must: run to its end and read the worthless decoy; the violation is in the report as logged
# args: --mode observe
# expect: exit=0 status=exited verdict=violated rule=credential-file/log path=/etc/shadow
# expect: stdout-has="ran to its end"
# control: exit=0 stdout-has=root: stdout-has="ran to its end"
cat /etc/shadow
echo "ran to its end"
