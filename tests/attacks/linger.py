"""Descriptors that make whoever closes them last wait: TCP sockets that linger, socket(7), with data that nobody reads."""

import array
import os
import socket
import struct
import time

KEPT = []


def lingering(seconds):
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    KEPT.append(listener.accept()[0])
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(1 << 16))
    except BlockingIOError:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        return sender


def queue(line, sender, words=b"x"):
    """Sends one, whose last descriptor is then the one that waits in the queue; whether it does."""
    try:
        line.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))])
        os.close(sender.detach())
        return True
    except BrokenPipeError:
        KEPT.append(sender)
        return False


def control():
    """The time that closing takes who has one in a queue, which is to be a second."""
    own, other = socket.socketpair()
    assert queue(other, lingering(1))
    began = time.monotonic()
    own.close()
    took = time.monotonic() - began
    assert took > 0.9, f"the control: {took}"
