#!/usr/bin/env python3
# tries: exhaust whoever walks the results, by 1500 folders inside each other
# must: end in time; the walk is bounded
# expect: exit=0 status=exited within=15s workdir=unchanged stdout-has="1500 deep"
# control: exit=0 workdir=changed

import os

for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
print("1500 deep")
