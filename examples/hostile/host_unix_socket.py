#!/usr/bin/env python3
# tries: talk to a daemon of the host through its socket file, as with docker.sock
# must: not even see the socket: /tmp in the jail is the jail's own
# run: python3 {file} {socket}
# expect: exit=1 status=exited stdout-lacks=connected listener=silent
# control: exit=0 stdout-has=connected listener=reached

import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    try:
        connection.connect(sys.argv[1])
    except OSError as error:
        sys.exit(f"no connection: {error}")
    print("connected")
    try:
        connection.sendall(b"GET /containers/json HTTP/1.0\r\n\r\n")
    except OSError:
        pass  # A daemon may hang up as soon as it has seen who came.
