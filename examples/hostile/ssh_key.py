#!/usr/bin/env python3
# tries: collect the private keys in ~/.ssh, which lie in the directory that the caller works in
# must: die at the first key
# expect: exit=121 status=killed_by_policy verdict=violated rule=private-key/kill path=/workspace/.ssh/id_rsa
# expect: stdout-lacks="PRIVATE KEY"
# control: exit=0 stdout-has="PRIVATE KEY"

import pathlib

for key in sorted(pathlib.Path("~/.ssh").expanduser().glob("id_*")):
    print(key, key.read_text())
