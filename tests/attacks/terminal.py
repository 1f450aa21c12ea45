"""Acts on the terminal it was given, in every way that programs know: types into it, changes its
settings, makes it its own; and types into the terminals that are named to it. Tells what went through."""

import fcntl
import os
import sys
import termios
import tty

went_through = []


def attempt(name, act):
    try:
        act()
        went_through.append(name)
    except (OSError, termios.error, ValueError):
        pass


def type_into(descriptor, request=termios.TIOCSTI):
    for byte in b"echo owned\n":
        fcntl.ioctl(descriptor, request, bytes([byte]))


def by_name(path):
    attempt(path, lambda: type_into(os.open(path, os.O_RDWR | os.O_NOCTTY)))


for descriptor in (0, 1, 2):
    attempt(f"type {descriptor}", lambda: type_into(descriptor))
    attempt(f"select {descriptor}", lambda: fcntl.ioctl(descriptor, 0x541C, b"\x02" + bytes(16)))
    attempt(f"raw {descriptor}", lambda: tty.setraw(descriptor, termios.TCSANOW))
    attempt(f"own {descriptor}", lambda: fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0))
for path in ["/dev/tty", "/proc/self/fd/0", *sys.argv[1:]]:
    by_name(path)
print("went through:", ", ".join(went_through) or "nothing")
