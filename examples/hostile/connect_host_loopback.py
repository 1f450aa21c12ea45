#!/usr/bin/env python3
# tries: reach a service that listens on the host's loopback only
# must: never arrive there; the attempt is recorded with address and port
# run: python3 {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=127.0.0.1:{port} stdout-lacks=connected listener=silent
# control: exit=0 stdout-has=connected listener=reached

import socket
import sys

try:
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
except OSError as error:
    sys.exit(f"no connection: {error}")
connection.sendall(b"hello from the jail\n")
print("connected")
