#!/usr/bin/env python3
# tries: run a program from a memory file by its name under /proc, without execveat
# must: die as with execveat
# expect: exit=121 status=killed_by_policy verdict=violated rule=memory-exec/kill stdout-lacks="ran from memory"
# control: exit=0 stdout-has="ran from memory"

import os

memory = os.memfd_create("stage2", 0)
with open("/bin/echo", "rb") as program:
    os.write(memory, program.read())
os.execv(f"/proc/self/fd/{memory}", ["echo", "ran from memory"])
