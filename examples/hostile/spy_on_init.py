#!/usr/bin/env python3
# tries: read environment, memory map and memory of the jail's first process, which came from outside
# must: read none of them
# expect: stdout-lacks={secret} stdout-lacks=opened
# control: skipped, process 1 of the host is none of its business

import sys

opened = 0
for name in ("environ", "maps", "auxv", "mem"):
    try:
        with open(f"/proc/1/{name}", "rb") as file:
            print("opened", name, file.read(4096) if name != "mem" else "")
        opened += 1
    except OSError as error:
        print(error, file=sys.stderr)
sys.exit(opened == 0)
