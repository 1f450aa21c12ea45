#!/usr/bin/env python3
# tries: fill the disk through /tmp, in files that each stay below the limit on size
# must: find /tmp full at 64 MiB; it is the jail's own memory
# expect: exit=0 status=exited stdout-has="full after 64 MiB"
# control: skipped, it would fill the host's disk

import errno

written = 0
block = bytes(1 << 20)
try:
    for number in range(256):
        with open(f"/tmp/part-{number}", "wb", buffering=0) as file:
            for _ in range(4):
                written += file.write(block)
except OSError as error:
    if error.errno != errno.ENOSPC:
        raise
print("full after", written >> 20, "MiB")
