#!/usr/bin/env python3
# tries: take 1 GiB of memory where 256 MiB are allowed
# must: be ended by the memory limit, long before the time limit
# args: --memory 256M
# expect: exit=122 status=out_of_memory verdict=suspicious within=10s stdout-lacks=taken
# control: skipped, one process harms nobody, but a small machine may not have 1 GiB to spare

blocks = []
for _ in range(64):
    block = bytearray(16 << 20)
    block[::4096] = b"x" * len(block[::4096])
    blocks.append(block)
print("1 GiB taken")
