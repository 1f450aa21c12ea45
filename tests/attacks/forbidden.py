"""Makes the calls that would rearrange a system: J43. One line each: what, and the error number or
`done`. Every call is made in a process of its own; as root and with `apart` in mounts of its own,
too, so that none stands in the way of the next, and nothing is left."""

import ctypes
import os
import signal
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
NAMESPACES = {
    "time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000,
    "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}
CLONE, CLONE_NEWTIME_IS_A_SIGNAL = 56, "time"
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK, MOUNT_SETATTR = 428, 429, 430, 431, 432, 433, 442
BIND, RECURSIVE, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2
PLACE = b"/tmp/forbidden"


def settle():
    """Mounts of this process's own, with one to try things on. A jail has to do without."""
    if "apart" not in sys.argv:
        os.makedirs(PLACE, exist_ok=True)
        return
    assert libc.unshare(NAMESPACES["mnt"]) == 0, ctypes.get_errno()
    assert libc.mount(None, b"/", None, PRIVATE | RECURSIVE, None) == 0, ctypes.get_errno()
    for place in (b"/tmp", PLACE):
        os.makedirs(place, exist_ok=True)
        assert libc.mount(b"none", place, b"tmpfs", 0, None) == 0, ctypes.get_errno()
    os.mkdir(PLACE + b"/below")


def attempt(name, act):
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        settle()
        ctypes.set_errno(0)
        answer = act()
        os.write(telling, b"done" if answer >= 0 else str(ctypes.get_errno()).encode())
        os._exit(0)
    os.close(telling)
    print(name, os.read(told, 16).decode())
    os.close(told)
    os.waitpid(child, 0)


def clone(flag):
    answer = libc.syscall(CLONE, flag | 17, 0, 0, 0, 0)
    if answer == 0:
        os._exit(0)
    return answer


def join(kind):
    """Another process's namespace, if it could make itself one."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        libc.unshare(NAMESPACES[kind])
        os.write(telling, b"x")
        signal.pause()
    os.read(told, 1)
    space = os.open(f"/proc/{child}/ns/{kind}", os.O_RDONLY)
    answer = libc.setns(space, NAMESPACES[kind])
    error = ctypes.get_errno()
    os.kill(child, signal.SIGKILL)
    ctypes.set_errno(error)
    return answer


def fsmount():
    """A new file system, as far as it can be made."""
    system = libc.syscall(FSOPEN, b"tmpfs", 0)
    libc.syscall(FSCONFIG, system, 6, None, None, 0)
    return libc.syscall(FSMOUNT, system, 0, 0)


def move_mount():
    """A copy of a tree, put in another place."""
    tree = libc.syscall(OPEN_TREE, -100, b"/usr", 1)
    return libc.syscall(MOVE_MOUNT, tree, b"", -100, PLACE, 4)


def mount_setattr():
    read_only = (ctypes.c_uint64 * 4)(1)
    return libc.syscall(MOUNT_SETATTR, -100, PLACE, 0, read_only, 32)


attempt("mount-tmpfs", lambda: libc.mount(b"none", PLACE, b"tmpfs", 0, None))
attempt("mount-bind", lambda: libc.mount(b"/usr", PLACE, None, BIND | RECURSIVE, None))
attempt("mount-private", lambda: libc.mount(None, b"/", None, PRIVATE | RECURSIVE, None))
attempt("umount", lambda: libc.umount2(b"/proc", DETACH))
attempt("pivot_root", lambda: libc.syscall(155, PLACE, PLACE + b"/below"))
attempt("chroot", lambda: libc.chroot(b"/tmp"))
attempt("open_tree", lambda: libc.syscall(OPEN_TREE, -100, b"/tmp", 1))
attempt("fsopen", lambda: libc.syscall(FSOPEN, b"tmpfs", 0))
attempt("fspick", lambda: libc.syscall(FSPICK, -100, PLACE, 0))
attempt("fsmount", fsmount)
attempt("move_mount", move_mount)
attempt("mount_setattr", mount_setattr)
for kind, flag in NAMESPACES.items():
    attempt(f"unshare-{kind}", lambda: libc.unshare(flag))
    attempt(f"setns-{kind}", lambda: join(kind))
    if kind != CLONE_NEWTIME_IS_A_SIGNAL:
        attempt(f"clone-{kind}", lambda: clone(flag))
for name, kind in (("character", stat.S_IFCHR), ("block", stat.S_IFBLK)):
    path = PLACE + f"/{name}".encode()
    attempt(f"mknod-{name}", lambda: libc.syscall(133, path, kind | 0o600, os.makedev(1, 3)))
    attempt(f"mknodat-{name}", lambda: libc.syscall(259, -100, path, kind | 0o600, os.makedev(1, 3)))
