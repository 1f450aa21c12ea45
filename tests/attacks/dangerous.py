"""Makes the calls that look into other processes or drive the kernel, each as an honest program
would: J45. One line each: what, and the error number or `done`."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, *call):
    """In a process of its own: some of these change the caller."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        # As whole registers: a plain int would leave the upper half to chance.
        whole = [ctypes.c_long(one) if isinstance(one, int) else one for one in call]
        answer = libc.syscall(*whole)
        os.write(telling, b"done" if answer >= 0 else str(ctypes.get_errno()).encode())
        os._exit(0)
    os.close(telling)
    print(name, os.read(told, 16).decode())
    os.close(told)
    os.waitpid(child, 0)


own = os.getpid()
memory = ctypes.create_string_buffer(b"secret", 16)
copy = ctypes.create_string_buffer(16)
local = (ctypes.c_uint64 * 2)(ctypes.addressof(copy), 16)
remote = (ctypes.c_uint64 * 2)(ctypes.addressof(memory), 16)
# A software counter of this process alone, without the kernel: exclude_kernel, exclude_hv.
event = (ctypes.c_uint32 * 32)(1, 128)
event[10] = 1 << 5 | 1 << 6
bpf_map = (ctypes.c_uint32 * 18)(2, 4, 4, 1)
handle = (ctypes.c_uint8 * 136)(128)
mount_id = ctypes.c_int(0)

attempt("ptrace", 101, 0, 0, 0, 0)
attempt("process_vm_readv", 310, own, local, 1, remote, 1, 0)
attempt("process_vm_writev", 311, own, local, 1, remote, 1, 0)
attempt("kcmp", 312, own, own, 2, 0, 0)
attempt("pidfd_getfd", 438, os.pidfd_open(own), 0, 0)
attempt("process_madvise", 440, os.pidfd_open(own), remote, 1, 20, 0)
attempt("perf_event_open", 298, event, 0, -1, -1, 0)
attempt("userfaultfd", 323, 1)
attempt("bpf", 321, 0, bpf_map, 72)
attempt("name_to_handle_at", 303, -100, b"/usr", handle, ctypes.byref(mount_id), 0)
attempt("open_by_handle_at", 304, -100, handle, 0)
attempt("add_key", 248, b"user", b"turnkey-test", b"x", 1, -2)
attempt("keyctl", 250, 0, -3, 0)
attempt("seccomp", 317, 2, 0, ctypes.byref(ctypes.c_uint32(0)))
attempt("landlock", 444, None, 0, 1)
attempt("vmsplice", 278, os.pipe()[1], remote, 1, 0)
attempt("io_setup", 206, 1, ctypes.byref(ctypes.c_uint64(0)))
attempt("fanotify_init", 300, 0x200, 0)
attempt("mbind", 237, 0, 0, 0, 0, 0, 0)
attempt("set_mempolicy", 238, 0, 0, 0)
attempt("init_module", 175, b"", 0, b"")
attempt("finit_module", 313, -1, b"", 0)
attempt("delete_module", 176, b"turnkey-test", 0)
attempt("kexec_load", 246, 0, 0, 0, 0)
attempt("kexec_file_load", 320, -1, -1, 0, b"", 0)
attempt("syslog", 103, 10, None, 0)
attempt("quotactl", 179, 0, None, 0, None)
attempt("acct", 163, None)
attempt("lookup_dcookie", 212, 0, None, 0)
attempt("modify_ldt", 154, 0, copy, 16)
attempt("swapoff", 168, b"/nonexistent")
attempt("iopl", 172, 0)
