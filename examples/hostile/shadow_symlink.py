#!/usr/bin/env python3
# tries: read /etc/shadow through a symbolic link with a harmless name
# must: die; the kernel names the file that was really opened
# expect: exit=121 status=killed_by_policy verdict=violated rule=credential-file/kill path=/etc/shadow
# expect: stdout-lacks=root:
# control: exit=0 stdout-has=root: workdir=changed

import os

os.symlink("/etc/shadow", "notes.txt")
with open("notes.txt") as file:
    print(file.read())
