#!/usr/bin/env python3
# tries: print 10 GB, to fill the caller's disk or memory
# must: be ended by the limit on output; what passed is no more than the limit
# expect: exit=122 status=limit_exceeded verdict=suspicious within=15s stdout-at-most=1M
# control: skipped, 10 GB would have to go somewhere

import os

block = b"all work and no play makes jack a dull boy\n" * 23_256
written = 0
while written < 10_000_000_000:
    written += os.write(1, block)
