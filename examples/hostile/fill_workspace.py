#!/usr/bin/env python3
# tries: fill the disk through the working directory
# must: be stopped by a limit; the caller's disk holds nothing of it
# expect: stdout-lacks="1 GiB written" workdir=unchanged within=20s
# control: skipped, it would fill the host's disk

block = bytes(1 << 20)
for number in range(64):
    with open(f"part-{number}", "wb", buffering=0) as file:
        for _ in range(16):
            if file.write(block) != len(block):
                raise SystemExit("a short write")
print("1 GiB written")
