"""Talks to turnkey.fd.sock in every way that is none. Prints one line for each way: the number of the refusal, `ended`, or
`closed`. A way that is named on the command line is tried alone. Other programs take its functions."""

import array
import fcntl
import mmap
import os
import socket
import struct
import sys
import tempfile

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


def run(descriptors, body=RUN, kind=1, **other):
    line = connect()
    send(line, packet(kind, body, descriptors, **other), descriptors)
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


ALL_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def long_run(words):
    """Asks for a run whose words are behind this descriptor."""
    return run([*usual(), words], b"", kind=6)


def words_in_memory(body=RUN, seals=ALL_SEALS, offset=0):
    descriptor = os.memfd_create("words", os.MFD_ALLOW_SEALING)
    os.write(descriptor, body)
    os.lseek(descriptor, offset, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def holes(length, seals=ALL_SEALS):
    descriptor = os.memfd_create("words", os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, length)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def mapped_to_be_written():
    """Words that go on changing through a mapping: the seal against writing cannot be had, and the next best one can."""
    descriptor = os.memfd_create("words", os.MFD_ALLOW_SEALING)
    os.write(descriptor, RUN)
    mapping = mmap.mmap(descriptor, len(RUN))
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        return "sealed"
    except OSError:
        future = 0x10  # F_SEAL_FUTURE_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, ALL_SEALS & ~fcntl.F_SEAL_WRITE | future)
    told = long_run(descriptor)
    mapping[0:1] = b"x"
    return told


def fifo_as_words():
    with tempfile.TemporaryDirectory() as place:
        fifo = os.path.join(place, "fifo")
        os.mkfifo(fifo)
        return long_run(os.open(fifo, os.O_RDWR))


def file_as_words(place):
    with tempfile.TemporaryFile(dir=place) as file:
        os.write(file.fileno(), RUN)
        return long_run(file.fileno())


def other_way(flags):
    memory = words_in_memory(seals=0)
    other = os.open("/proc/self/fd/%d" % memory, flags)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, ALL_SEALS)
    return long_run(other)


COMMAND = ("run", "--service", "--no-tty", "--", "true")


def long_order(length):
    # No word is longer than execve(2) takes.
    words = ["X%d=" % number + "x" * 100_000 for number in range(length // 100_000 + 1)]
    return order("run", "--service", "--no-tty", "--", "true", variables=words)


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
    "the usual in memory": lambda: long_run(words_in_memory()),
    "the usual in memory, read to its end": lambda: long_run(words_in_memory(offset=len(RUN))),
    "words of 1 MiB in memory": lambda: long_run(words_in_memory(long_order(1 << 20))),
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
    "memory without a seal": lambda: long_run(words_in_memory(seals=0)),
    "memory that can be written": lambda: long_run(words_in_memory(seals=ALL_SEALS & ~fcntl.F_SEAL_WRITE)),
    "memory that can grow": lambda: long_run(words_in_memory(seals=ALL_SEALS & ~fcntl.F_SEAL_GROW)),
    "memory that can shrink": lambda: long_run(words_in_memory(seals=ALL_SEALS & ~fcntl.F_SEAL_SHRINK)),
    "memory that can be sealed": lambda: long_run(words_in_memory(seals=ALL_SEALS & ~fcntl.F_SEAL_SEAL)),
    "memory that is mapped to be written": mapped_to_be_written,
    "a word of 128 KiB": lambda: long_run(words_in_memory(order(*COMMAND, variables=["X=" + "x" * (128 << 10)]))),
    "70 000 words": lambda: long_run(words_in_memory(order(*COMMAND, *["x"] * 70_000))),
    "5 000 words of turnkey's own": lambda: run(usual(), order("run", "--service", *["--env", "X=1"] * 2_500, "--", "true")),
    "memory that holds too much": lambda: long_run(words_in_memory(long_order(2 << 20))),
    "memory of a terabyte": lambda: long_run(holes(1 << 40)),
    "memory of nothing but holes": lambda: long_run(holes(1 << 20)),
    "empty memory": lambda: long_run(holes(0)),
    "a fifo as memory": fifo_as_words,
    "a file as memory": lambda: file_as_words(None),
    "a file in memory as memory": lambda: file_as_words("/dev/shm"),
    "memory's name": lambda: other_way(os.O_PATH),
    "memory that cannot be read": lambda: other_way(os.O_WRONLY),
    "words in memory and in the packet": lambda: run([*usual(), words_in_memory()], RUN, kind=6),
    "no memory": lambda: run(usual(), b"", kind=6),
    "memory beside a short request": lambda: run([*usual(), words_in_memory()]),
    "half words in memory": lambda: long_run(words_in_memory(RUN[:-1])),
    "nothing at all": lambda: raw(b"x"),
    "half a header": lambda: raw(b"tkfd\x01\x00"),
    "another magic": lambda: raw(packet(1, RUN, [], magic=b"http")),
    "another version": lambda: raw(packet(1, RUN, [], version=7)),
    "another kind": lambda: raw(packet(99, b"", [])),
    "a claim": lambda: raw(packet(8, struct.pack("<QQQ", 1, 1, 1), [])),
    "what is granted": lambda: raw(packet(9, b"", [])),
    "a signal first": lambda: raw(packet(2, struct.pack("<I", 9), [])),
    "an answer": lambda: raw(packet(3, struct.pack("<I", 0), [null()]), [null()]),
    "the listener's own kind": lambda: raw(packet(5, struct.pack("<Q", 1), [null()]), [null()]),
    "longer than it says": lambda: run(usual(), length=4),
    "shorter than it says": lambda: run(usual(), length=60000),
    "more than fits": lambda: run(usual(), RUN + b"x" * 70000),
    "counts that overflow": lambda: run(usual(), struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF)),
    "words without an end": lambda: run(usual(), struct.pack("<II", 1, 0) + b"run"),
    "a variable without a sign": lambda: run(usual(), order("run", "--", "true", variables=["X"])),
    "no command": words("run", "--service"),
    "another command": words("monitor", "unload", "--all"),
    "the maker's own command": words("serve-run", "--service", "1", "--nice", "0"),
    "no words": words(),
    "an export without a connection": words("run", "--service", "--export", "/tmp/x", "--", "true"),
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

if __name__ == "__main__":
    for name, way in WAYS.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            print(f"{name}: {way()}", flush=True)
