#!/usr/bin/env python3
# tries: find secrets in the environment that the caller never meant to hand over
# must: see only the names that the profile passes or sets
# expect: exit=0 status=exited stdout-has=HOME=/workspace stdout-lacks={secret}
# control: exit=0 stdout-has={secret}

import os

for name, value in os.environ.items():
    print(f"{name}={value}")
