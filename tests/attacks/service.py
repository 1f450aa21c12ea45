"""Talks to turnkey.fd.sock in every way that is none. Prints one line for each way: the number of the refusal, `ended`, or
`closed`. A way that is named on the command line is tried alone."""

import array
import os
import socket
import struct
import sys

SOCKET = os.path.join(os.environ["TURNKEY_SOCKET_DIR"], "turnkey.fd.sock")


def connect():
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(20)
    line.connect(SOCKET)
    return line


def order(*arguments, variables=()):
    strings = [word.encode() + b"\0" for word in (*arguments, *variables)]
    return struct.pack("<II", len(arguments), len(variables)) + b"".join(strings)


def packet(kind, body, descriptors, magic=b"tkfd", version=1, length=None, count=None):
    length = len(body) if length is None else length
    count = len(descriptors) if count is None else count
    return magic + struct.pack("<HHII", version, kind, length, count) + body


def send(line, bytes_, descriptors=()):
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    line.sendmsg([bytes_], beside)


def answer(line):
    while True:
        try:
            came = line.recv(1 << 17)
        except ConnectionResetError:
            continue
        except socket.timeout:
            return "silent"
        if not came:
            return "closed"
        kind, = struct.unpack_from("<H", came, 6)
        number, = struct.unpack_from("<I", came, 16)
        return "ended" if kind == 3 else str(number) if kind == 4 else "strange"


def null():
    return os.open("/dev/null", os.O_RDWR)


def here():
    return os.open(".", os.O_PATH)


def usual():
    return [null(), null(), null(), here()]


RUN = order("run", "--service", "--no-tty", "--", "true")


def run(descriptors, body=RUN, **other):
    line = connect()
    send(line, packet(1, body, descriptors, **other), descriptors)
    return answer(line)


def with_stream(place, descriptor):
    descriptors = usual()
    descriptors[place] = descriptor
    return run(descriptors)


def own_socket():
    line = connect()
    return with_stream(0, line.fileno())


def unconnected_socket():
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("\0turnkey-test-%d" % os.getpid())
    listening.listen()
    return with_stream(0, listening.fileno())


def internet_socket():
    internet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return with_stream(0, internet.fileno())


def memory(sealed):
    descriptor = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    return with_stream(3, descriptor)


def raw(bytes_, descriptors=()):
    line = connect()
    send(line, bytes_, descriptors)
    return answer(line)


def second(first, then):
    line = connect()
    send(line, first)
    try:
        send(line, then)
    except BrokenPipeError:
        pass
    return answer(line)


def hang_up(parts):
    line = connect()
    if parts:
        descriptors = usual()
        send(line, packet(1, RUN, descriptors), descriptors)
    line.close()
    return "closed"


def words(*arguments):
    return lambda: run(usual(), order(*arguments))


WAYS = {
    "the usual": lambda: run(usual()),
    "no descriptors": lambda: run([]),
    "three descriptors": lambda: run(usual()[:3]),
    "six descriptors": lambda: run([*usual(), null(), null()]),
    "forty descriptors": lambda: run([null() for _ in range(40)]),
    "fewer than it says": lambda: run(usual()[:2], count=4),
    "events that nobody asked for": lambda: run([*usual(), null()]),
    "events without a descriptor": words("run", "--service", "--events", "x", "--", "true"),
    "a name as input": lambda: with_stream(0, os.open("/etc/passwd", os.O_PATH)),
    "a closed file's name as input": lambda: with_stream(0, os.open("/etc/shadow", os.O_PATH)),
    "a directory as input": lambda: with_stream(0, os.open("/", os.O_RDONLY)),
    "a device as input": lambda: with_stream(0, os.open("/dev/zero", os.O_RDONLY)),
    "the kernel's file as input": lambda: with_stream(0, os.open("/proc/self/status", os.O_RDONLY)),
    "an output as input": lambda: with_stream(0, os.open("/dev/null", os.O_WRONLY)),
    "an input as output": lambda: with_stream(1, os.open("/etc/passwd", os.O_RDONLY)),
    "an input as error": lambda: with_stream(2, os.open("/etc/passwd", os.O_RDONLY)),
    "the service as input": own_socket,
    "a socket that listens as input": unconnected_socket,
    "an internet socket as input": internet_socket,
    "a file as directory": lambda: with_stream(3, null()),
    "memory as directory": lambda: memory(False),
    "the kernel's directory": lambda: with_stream(3, os.open("/proc/self", os.O_PATH)),
    "another directory's insides": lambda: with_stream(3, os.open("/proc/self/fd", os.O_PATH)),
    "nothing at all": lambda: raw(b"x"),
    "half a header": lambda: raw(b"tkfd\x01\x00"),
    "another magic": lambda: raw(packet(1, RUN, [], magic=b"http")),
    "another version": lambda: raw(packet(1, RUN, [], version=7)),
    "another kind": lambda: raw(packet(9, b"", [])),
    "a signal first": lambda: raw(packet(2, struct.pack("<I", 9), [])),
    "an answer": lambda: raw(packet(3, struct.pack("<I", 0), [null()]), [null()]),
    "the listener's own kind": lambda: raw(packet(5, b"", [null()]), [null()]),
    "longer than it says": lambda: run(usual(), length=4),
    "shorter than it says": lambda: run(usual(), length=60000),
    "more than fits": lambda: run(usual(), RUN + b"x" * 70000),
    "counts that overflow": lambda: run(usual(), struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF)),
    "words without an end": lambda: run(usual(), struct.pack("<II", 1, 0) + b"run"),
    "a variable without a sign": lambda: run(usual(), order("run", "--", "true", variables=["X"])),
    "no command": words("run", "--service"),
    "another command": words("monitor", "unload", "--all"),
    "the maker's own command": words("serve-run", "--service", "1"),
    "no words": words(),
    "an export": words("run", "--service", "--export", "/tmp/x", "--", "true"),
    "a layer": words("run", "--service", "--keep", "x", "--", "true"),
    "a sink": words("run", "--service", "--to", "file:/etc/x", "--", "true"),
    "without a monitor": words("run", "--service", "--unmonitored", "--", "true"),
    "with what is there": words("run", "--service", "--best-effort", "--", "true"),
    "every call": words("run", "--service", "--report", "x", "--syscalls", "--", "true"),
    "a port": words("run", "--service", "--publish", "80", "--", "true"),
    "two requests": lambda: second(packet(1, RUN, []), packet(1, RUN, [])),
    "gone at once": lambda: hang_up(False),
    "gone after the request": lambda: hang_up(True),
}

for name, way in WAYS.items():
    if not sys.argv[1:] or name in sys.argv[1:]:
        print(f"{name}: {way()}", flush=True)
