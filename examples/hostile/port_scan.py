#!/usr/bin/env python3
# tries: scan 1000 ports of the host's loopback, those around a service that really listens
# must: find nothing; the attempts are recorded
# run: python3 {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=127.0.0.1:{port} stdout-has="0 open of 1000" listener=silent
# control: exit=0 stdout-has="open: {port}" listener=reached

import socket
import sys

CENTRE = int(sys.argv[1])
first = max(1, min(CENTRE - 500, 65535 - 999))
found = []
for port in range(first, first + 1000):
    with socket.socket() as probe:
        probe.settimeout(0.2)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            found.append(port)
            print("open:", port)
print(len(found), "open of 1000")
sys.exit(0 if found else 1)
