#!/bin/sh
# tries: copy ~/.aws/credentials to a file that can be carried away
# must: die before the copy has any content
# expect: exit=121 status=killed_by_policy verdict=violated rule=stored-credential/kill path=/workspace/.aws/credentials
# expect: stdout-lacks=aws_secret_access_key
# control: exit=0 stdout-has=aws_secret_access_key workdir=changed
cp ~/.aws/credentials loot.txt && cat loot.txt
