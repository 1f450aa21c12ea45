#!/usr/bin/env python3
# tries: keep the caller waiting: a daemon holds the pipe of standard output open while the main process ends
# must: be gone when the main process has ended; the caller does not wait for the pipe
# run: python3 {file} {marker}
# expect: exit=0 status=exited verdict=clean stdout-has="main is done" within=10s survivors=none
# control: skipped, the caller would wait for as long as the daemon likes

import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("main is done")
