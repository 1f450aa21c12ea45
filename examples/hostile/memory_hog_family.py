#!/usr/bin/env python3
# tries: take 640 MiB where 256 MiB are allowed, spread over eight processes that each stay below the limit
# must: be ended by the memory limit, which counts the jail and not the process
# args: --memory 256M
# expect: exit=122 status=out_of_memory verdict=suspicious within=10s stdout-lacks=taken
# control: skipped, a small machine may not have the memory to spare

import os
import sys
import time

readable, writable = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(80 << 20)
        block[::4096] = b"x" * len(block[::4096])
        os.write(writable, b"x")
        time.sleep(60)
        os._exit(0)
os.close(writable)
for _ in range(8):
    if not os.read(readable, 1):
        sys.exit("a child is gone")
print("640 MiB taken by eight processes")
