#!/usr/bin/env python3
# tries: look up its own account and host name, as many programs do at start
# must: find the jail's own account database, not the host's
# expect: exit=0 status=exited verdict=clean stdout-has="jail 1000 /workspace jail"

import os
import pwd
import socket

account = pwd.getpwuid(os.getuid())
print(account.pw_name, account.pw_uid, account.pw_dir, socket.gethostname())
