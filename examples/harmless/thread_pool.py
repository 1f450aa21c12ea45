#!/usr/bin/env python3
# tries: hash 64 blocks on eight threads
# must: finish; threads are cloned without a namespace flag and are no violation
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="64 blocks, 64 different"

import concurrent.futures
import hashlib


def digest(number):
    return hashlib.sha256(bytes([number]) * 100_000).hexdigest()


with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
    digests = list(pool.map(digest, range(64)))
print(len(digests), "blocks,", len(set(digests)), "different")
