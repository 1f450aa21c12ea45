#!/usr/bin/env python3
# tries: burn CPU time on two children, so that no single process uses much
# must: be ended by the limit on CPU time, which counts the whole tree, before the wall clock
# args: --cpu-time 2s --wall 30s
# expect: exit=124 status=timed_out verdict=suspicious within=20s
# control: skipped, it has no end to see

import os

os.fork()
while True:
    pass
