"""Makes the calls that would rearrange a system: J43. One line each: what, and the error number or
`done`. Every call is made in a process of its own, so that none stands in the way of the next."""

import ctypes
import os
import stat

libc = ctypes.CDLL(None, use_errno=True)
NAMESPACES = {
    "time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000,
    "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}
CLONE, CLONE_NEWTIME_IS_A_SIGNAL = 56, "time"
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSMOUNT, FSPICK, MOUNT_SETATTR = 428, 429, 430, 432, 433, 442


def attempt(name, call):
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        answer = call()
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
    return libc.setns(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY), NAMESPACES[kind])


os.makedirs("/tmp/forbidden", exist_ok=True)
attempt("mount-tmpfs", lambda: libc.mount(b"none", b"/tmp/forbidden", b"tmpfs", 0, None))
attempt("mount-bind", lambda: libc.mount(b"/usr", b"/tmp/forbidden", None, 4096 | 16384, None))
attempt("mount-private", lambda: libc.mount(None, b"/", None, 1 << 18 | 16384, None))
attempt("umount", lambda: libc.umount2(b"/proc", 2))
attempt("pivot_root", lambda: libc.syscall(155, b"/tmp", b"/tmp"))
attempt("chroot", lambda: libc.chroot(b"/tmp"))
attempt("open_tree", lambda: libc.syscall(OPEN_TREE, -100, b"/tmp", 1))
attempt("fsopen", lambda: libc.syscall(FSOPEN, b"tmpfs", 0))
attempt("fspick", lambda: libc.syscall(FSPICK, -100, b"/tmp", 0))
attempt("fsmount", lambda: libc.syscall(FSMOUNT, -1, 0, 0))
attempt("move_mount", lambda: libc.syscall(MOVE_MOUNT, -100, b"/tmp/forbidden", -100, b"/tmp", 0))
attempt("mount_setattr", lambda: libc.syscall(MOUNT_SETATTR, -100, b"/", 0, (ctypes.c_uint64 * 4)(), 32))
for kind, flag in NAMESPACES.items():
    attempt(f"unshare-{kind}", lambda: libc.unshare(flag))
    attempt(f"setns-{kind}", lambda: join(kind))
    if kind != CLONE_NEWTIME_IS_A_SIGNAL:
        attempt(f"clone-{kind}", lambda: clone(flag))
for name, kind in (("character", stat.S_IFCHR), ("block", stat.S_IFBLK)):
    path = f"/tmp/forbidden/{name}-{os.getpid()}".encode()
    attempt(f"mknod-{name}", lambda: libc.syscall(133, path, kind | 0o600, os.makedev(1, 3)))
    attempt(f"mknodat-{name}", lambda: libc.syscall(259, -100, path + b"-at", kind | 0o600, os.makedev(1, 3)))
