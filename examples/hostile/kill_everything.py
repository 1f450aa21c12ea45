#!/usr/bin/env python3
# tries: kill every process it can name, with kill -9 -1, process 1 by name, and its own parent
# must: hit processes of the jail alone; turnkey still reports
# expect: status=exited exit=0 stdout-has="still here"
# control: skipped, it would end the session of whoever runs the demo

import os
import signal
import socket
import sys

if socket.gethostname() != "jail":
    sys.exit("refused: this is no jail")
for target in (-1, 1, os.getppid()):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError as error:
        print(target, error, file=sys.stderr)
print("still here")
