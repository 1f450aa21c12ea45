"""Makes the calls that look into other processes or drive the kernel, each as an honest program
would, on a child of its own or a file of its own: J45. One line each: what, and the error number
or `done`."""

import ctypes
import mmap
import os
import signal
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)


def call(*words):
    """As whole registers: a plain int would leave the upper half to chance."""
    whole = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return libc.syscall(*whole)


def attempt(name, act):
    """In a process of its own: some of these change the caller. `act` is the words of a call, or
    makes it and says whether it had its effect."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        answer = act() if callable(act) else call(*act) >= 0
        os.write(telling, b"done" if answer else str(ctypes.get_errno()).encode())
        os._exit(0)
    os.close(telling)
    print(name, os.read(told, 16).decode())
    os.close(told)
    os.waitpid(child, 0)


page = mmap.mmap(-1, 4096)
page.write(b"before")
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
whole_page = (ctypes.c_uint64 * 2)(address, 4096)
secret = ctypes.create_string_buffer(b"secret", 16)
remote = (ctypes.c_uint64 * 2)(ctypes.addressof(secret), 16)


def of_a_child(act):
    """`act` is given the id of a child of the caller, who has a copy of everything here."""

    def attempt_on_child():
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            return act(child)
        finally:
            # Asking it to end may reset the number.
            error = ctypes.get_errno()
            os.kill(child, signal.SIGKILL)
            ctypes.set_errno(error)

    return attempt_on_child


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_PEEKDATA = 0x4206, 0x4207, 2


def ptrace(child):
    """Reads a word of a stopped child."""
    if call(101, PTRACE_SEIZE, child, 0, 0) < 0:
        return False
    call(101, PTRACE_INTERRUPT, child, 0, 0)
    os.waitpid(child, 0x40000000)
    word = ctypes.create_string_buffer(8)
    call(101, PTRACE_PEEKDATA, child, secret, word)
    return word.value == b"secret"


def process_vm_readv(child):
    copy = ctypes.create_string_buffer(16)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(copy), 16)
    call(310, child, local, 1, remote, 1, 0)
    return copy.value == b"secret"


def process_vm_writev(child):
    new = ctypes.create_string_buffer(b"forged", 16)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(new), 16)
    return call(311, child, local, 1, remote, 1, 0) == 16


def pidfd_getfd(child):
    """Another process's open file."""
    return call(438, os.pidfd_open(child), 0, 0) >= 0


HANDLE_BYTES = 128


def own_file():
    file = tempfile.NamedTemporaryFile()
    file.write(b"by handle")
    file.flush()
    return file


def handle_of(file):
    handle = (ctypes.c_uint8 * (8 + HANDLE_BYTES))(HANDLE_BYTES)
    answer = call(303, -100, file.name.encode(), handle, ctypes.byref(ctypes.c_int(0)), 0)
    return handle if answer >= 0 else None


def open_by_handle_at():
    """Reads a file without a path to it."""
    file = own_file()
    handle = handle_of(file) or (ctypes.c_uint8 * (8 + HANDLE_BYTES))(8)
    mount = os.open(os.path.dirname(file.name), os.O_RDONLY)
    opened = call(304, mount, handle, os.O_RDONLY)
    return opened >= 0 and os.read(opened, 16) == b"by handle"


# A software counter of this process alone, without the kernel: exclude_kernel, exclude_hv.
event = (ctypes.c_uint32 * 32)(1, 128)
event[10] = 1 << 5 | 1 << 6
# struct bpf_attr of BPF_MAP_CREATE: an array of one.
bpf_map = (ctypes.c_uint32 * 18)(2, 4, 4, 1)
QUOTA_SYNC = 0x800001 << 8

attempt("ptrace", of_a_child(ptrace))
attempt("process_vm_readv", of_a_child(process_vm_readv))
attempt("process_vm_writev", of_a_child(process_vm_writev))
attempt("kcmp", of_a_child(lambda child: call(312, os.getpid(), child, 0, 0, 0) >= 0))
attempt("pidfd_getfd", of_a_child(pidfd_getfd))
attempt("process_madvise", of_a_child(lambda child: call(440, os.pidfd_open(child), whole_page, 1, 20, 0) == 4096))
attempt("perf_event_open", (298, event, 0, -1, -1, 0))
attempt("userfaultfd", (323, 1))
attempt("bpf", (321, 0, bpf_map, 72))
attempt("name_to_handle_at", lambda: handle_of(own_file()) is not None)
attempt("open_by_handle_at", open_by_handle_at)
attempt("add_key", (248, b"user", b"turnkey-test", b"x", 1, -2))
attempt("keyctl", (250, 0, -3, 0))
attempt("seccomp", (317, 2, 0, ctypes.byref(ctypes.c_uint32(0x7FFF0000))))
attempt("landlock", (444, None, 0, 1))
attempt("vmsplice", (278, os.pipe()[1], remote, 1, 0))
attempt("io_setup", (206, 1, ctypes.byref(ctypes.c_uint64(0))))
attempt("fanotify_init", (300, 0x200, 0))
attempt("mbind", (237, address, 4096, 0, 0, 0, 0))
attempt("set_mempolicy", (238, 0, 0, 0))
attempt("syslog", (103, 10, None, 0))
attempt("quotactl", (179, QUOTA_SYNC, None, 0, None))
attempt("acct", (163, None))
attempt("modify_ldt", (154, 0, secret, 16))
attempt("iopl", (172, 0))
# What would change the machine if it succeeded is asked for what cannot be done: no module, none of
# that name, flags that no kernel has, no such file.
attempt("init_module", (175, b"", 0, b""))
attempt("finit_module", (313, -1, b"", 0))
attempt("delete_module", (176, b"turnkey-test", 0o4000))
attempt("kexec_load", (246, 0, 0, 0, 0xFF00))
attempt("kexec_file_load", (320, -1, -1, 0, b"", 0))
attempt("swapoff", (168, b"/nonexistent"))
attempt("lookup_dcookie", (212, 0, None, 0))
