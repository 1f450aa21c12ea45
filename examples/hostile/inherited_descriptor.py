#!/usr/bin/env python3
# tries: read from descriptors that the caller left open by mistake
# must: find 0, 1 and 2 and nothing else
# expect: exit=0 status=exited stdout-has="inherited: 0 1 2 end" stdout-lacks={secret}
# control: exit=0 stdout-has={secret}

import os

inherited = []
for descriptor in range(256):
    try:
        os.fstat(descriptor)
    except OSError:
        continue
    inherited.append(descriptor)
print("inherited:", *inherited, "end")
for descriptor in inherited[3:]:
    try:
        print(os.pread(descriptor, 4096, 0).decode(errors="replace"))
    except OSError as error:
        print(descriptor, error)
