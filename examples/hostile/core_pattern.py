#!/usr/bin/env python3
# tries: have the host's kernel run a program as root at the next crash, through core_pattern
# must: die; the host's setting stays as it was
# expect: exit=121 status=killed_by_policy verdict=violated rule=kernel-setting/kill path=/proc/sys/kernel/core_pattern
# expect: stdout-lacks=written
# control: skipped, it would reconfigure the host's kernel

import sys

try:
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/workspace/stage2")
except OSError as error:
    sys.exit(f"refused: {error}")
print("written")
