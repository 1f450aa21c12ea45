#!/usr/bin/env python3
# tries: talk to a child through a Unix socket on /tmp, as local services do
# must: work; a socket that lives in the jail is no network attempt
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="parent heard: ping"

import os
import socket

server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/service.sock")
server.listen(1)
if os.fork() == 0:
    client = socket.socket(socket.AF_UNIX)
    client.connect("/tmp/service.sock")
    client.sendall(b"ping")
    os._exit(0)
connection, _ = server.accept()
print("parent heard:", connection.recv(16).decode())
os.wait()
