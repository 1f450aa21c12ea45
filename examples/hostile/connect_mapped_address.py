#!/usr/bin/env python3
# tries: reach the host's loopback over an IPv6 socket, its IPv4 address wrapped as ::ffff:127.0.0.1
# must: never arrive there; the attempt is recorded
# run: python3 {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=*:{port} stdout-lacks=connected listener=silent
# control: exit=0 stdout-has=connected listener=reached

import socket
import sys

with socket.socket(socket.AF_INET6) as connection:
    connection.settimeout(5)
    try:
        connection.connect(("::ffff:127.0.0.1", int(sys.argv[1])))
    except OSError as error:
        sys.exit(f"no connection: {error}")
    print("connected")
