#!/usr/bin/env python3
# tries: talk to a daemon of the host through a socket in the abstract namespace, which no mount hides
# must: not reach it: the jail has a network namespace of its own
# run: python3 {file} {abstract}
# expect: exit=1 status=exited stdout-lacks=connected listener=silent
# control: exit=0 stdout-has=connected listener=reached

import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect("\0" + sys.argv[1])
    except OSError as error:
        sys.exit(f"no connection: {error}")
    print("connected")
    try:
        connection.sendall(b"hello from the jail\n")
    except OSError:
        pass  # A daemon may hang up as soon as it has seen who came.
