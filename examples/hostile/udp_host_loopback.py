#!/usr/bin/env python3
# tries: send datagrams to a service on the host's loopback, once with sendto and once connected
# must: never arrive there; the attempts are recorded
# run: python3 {file} {port}
# expect: exit=1 status=exited verdict=violated rule=network-connect/deny rule=network-send/deny
# expect: network=127.0.0.1:{port} stdout-lacks=sent listener=silent
# control: exit=0 stdout-has=sent listener=reached

import socket
import sys

address = ("127.0.0.1", int(sys.argv[1]))


def send_unconnected(tunnel):
    return tunnel.sendto(b"first", address)


def send_connected(tunnel):
    tunnel.connect(address)
    return tunnel.send(b"second")


status = 1
for send in (send_unconnected, send_connected):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tunnel:
        try:
            print("sent", send(tunnel), "bytes")
            status = 0
        except OSError as error:
            print("not sent:", error, file=sys.stderr)
sys.exit(status)
