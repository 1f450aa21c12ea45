#!/usr/bin/env python3
# tries: stay behind: fork twice, start a session of its own, and sleep while the main process ends well
# must: be gone when the run is over, though its parent's status is 0
# run: python3 {file} {marker}
# expect: exit=0 status=exited verdict=clean stdout-has="left a daemon behind" within=10s survivors=none
# control: exit=0 stdout-has="left a daemon behind" survivors=some

import os
import sys
import time

readable, writable = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.write(writable, b"x")
        time.sleep(30)
    os._exit(0)
os.wait()
os.read(readable, 1)
print("left a daemon behind")
sys.exit(0)
