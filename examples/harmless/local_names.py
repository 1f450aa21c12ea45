#!/usr/bin/env python3
# tries: look up localhost and its own host name, and list the network interfaces
# must: find its own names in the jail's hosts file without touching any network
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="localhost is 127.0.0.1" stdout-has="jail is 127."

import socket

for name in ("localhost", socket.gethostname()):
    print(name, "is", socket.gethostbyname(name))
try:
    print("interfaces:", socket.if_nameindex())
except OSError as error:
    print("no interfaces:", error)
