#!/usr/bin/env python3
# tries: connect to a public address, over IPv4 and over IPv6
# must: get no connection; both attempts are recorded
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny
# expect: network=1.1.1.1:443 network=[2606:4700:4700::1111]:443 stdout-lacks=connected
# control: skipped, it would leave the machine

import socket
import sys

for family, address in (
    (socket.AF_INET, "1.1.1.1"),
    (socket.AF_INET6, "2606:4700:4700::1111"),
):
    with socket.socket(family) as connection:
        connection.settimeout(5)
        try:
            connection.connect((address, 443))
            print("connected to", address)
            sys.exit(0)
        except OSError as error:
            print(address, error, file=sys.stderr)
sys.exit(1)
