//! Relatives of the ways by which files once lost their rules: each has an effect without a rule, and none with one.

use turnkey_tests::Run;

use super::{monitor, rule, under};

/// Each way is tried in a directory with a guarded file of its own, `kept`, and then looked at from outside of the way:
/// `same` when content, mode, attributes and names are as before and nothing was read.
const WAYS: &str = r#"
import array, ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
HIGH = 1 << 32
def call(number, *words):
    words = [w.encode() if isinstance(w, str) else w for w in words]
    words = [ctypes.c_char_p(w) if isinstance(w, bytes) else ctypes.c_long(w) for w in words]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
entry = lambda tag, bits: struct.pack('HHI', tag, bits, 0xffffffff)
ACL = struct.pack('I', 2) + entry(1, 7) + entry(4, 7) + entry(32, 7)
HERE, EMPTY, FOLLOW, EXCHANGE, WHITEOUT = -100, 0x1000, 0x400, 2, 4
path = lambda: os.open('kept', os.O_PATH)
within = lambda: os.open('.', os.O_PATH | os.O_DIRECTORY)
listed = lambda fd: '/proc/self/fd/%d' % fd
def other(name='other'):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT))
    return name
def made():
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, b'bad')
    return fd
def copied():
    out = os.open('out', os.O_RDWR | os.O_CREAT)
    os.sendfile(out, os.open('kept', os.O_RDONLY), 0, 9)
def spliced():
    r, w = os.pipe()
    os.splice(os.open('kept', os.O_RDONLY), w, 9)
    os.write(os.open('out', os.O_WRONLY | os.O_CREAT), os.read(r, 9))
def mapped():
    import mmap
    text = mmap.mmap(os.open('kept', os.O_RDONLY), 4, prot=mmap.PROT_READ)
    os.write(os.open('out', os.O_WRONLY | os.O_CREAT), text[:])
def sent():
    a, b = socket.socketpair(); sender = os.fork()
    if sender == 0:
        try: socket.send_fds(a, [b'x'], [os.open('kept', os.O_RDONLY)])
        except OSError: a.send(b'n')
        os._exit(0)
    fds = socket.recv_fds(b, 1, 1)[1]; os.waitpid(sender, 0)
    if not fds: raise PermissionError(1, 'nothing came')
    os.write(os.open('out', os.O_WRONLY | os.O_CREAT), os.read(fds[0], 9))
def allocated():
    fd = os.open(listed(path()), os.O_RDWR)
    os.posix_fallocate(fd, 0, 4096)
ways = {
    'high-truncate': lambda: call(HIGH | 76, 'kept', 0),
    'high-chmod': lambda: call(HIGH | 90, 'kept', 0o777),
    'high-rename': lambda: call(HIGH | 82, 'kept', 'taken'),
    'truncate-listed': lambda: os.truncate(listed(path()), 0),
    'truncate-thread': lambda: os.truncate('/proc/thread-self/fd/%d' % path(), 0),
    'truncate-root': lambda: os.truncate('/proc/self/root' + os.path.abspath('kept'), 0),
    'punch-hole': lambda: call(285, os.open('kept', os.O_RDWR), 3, 0, 4),
    'fallocate-listed': allocated,
    'chmod-listed': lambda: os.chmod(listed(path()), 0o777),
    'chmod-empty': lambda: call(452, path(), '', 0o777, EMPTY),
    'chown-empty': lambda: (call(260, path(), '', os.getuid(), -1, EMPTY), os.chmod('kept', 0o777)),
    'acl-listed': lambda: os.setxattr(listed(path()), 'system.posix_acl_access', ACL),
    'acl-descriptor': lambda: os.setxattr(os.open('kept', os.O_RDONLY), 'system.posix_acl_access', ACL),
    'acl-default': lambda: (os.setxattr('kept', 'system.posix_acl_access', ACL), os.removexattr('kept', 'system.posix_acl_access')),
    'rename-dirfd': lambda: os.rename('kept', 'taken', src_dir_fd=within(), dst_dir_fd=within()),
    'rename-above': lambda: os.rename('../' + os.path.basename(os.getcwd()) + '/kept', '../../taken%d' % os.getpid()),
    'exchange-dirfd': lambda: call(316, within(), 'kept', within(), other(), EXCHANGE),
    'exchange-back': lambda: call(316, within(), other(), within(), 'kept', EXCHANGE),
    'whiteout': lambda: call(316, HERE, 'kept', HERE, 'taken', WHITEOUT),
    'over': lambda: os.rename(other(), 'kept'),
    'link-listed': lambda: call(265, HERE, listed(path()), HERE, 'taken', FOLLOW),
    'link-empty': lambda: call(265, path(), '', HERE, 'taken', EMPTY),
    'unlink-dirfd': lambda: os.unlink('kept', dir_fd=within()),
    'temporary-over': lambda: (os.unlink('kept'), call(265, HERE, listed(made()), HERE, 'kept', FOLLOW)),
    'socket-over': lambda: (os.unlink('kept'), socket.socket(socket.AF_UNIX).bind('kept')),
    'symlink-over': lambda: (os.unlink('kept'), os.symlink('/tmp', 'kept')),
    'by-handle': lambda: call(304, within(), b'\0' * 24, 0),
    'sendfile': copied,
    'splice': spliced,
    'map': mapped,
    'send': sent,
    'io-uring': lambda: call(425, 8, b'\0' * 120),
}
top = os.getcwd()
def state(place):
    data = os.lstat(place + '/kept')
    return data.st_size, data.st_mtime_ns, data.st_mode, os.listxattr(place + '/kept'), sorted(os.listdir(place))
for number, (name, way) in enumerate(ways.items()):
    place = f'{top}/g/{number}'
    os.chdir(place)
    before = state(place)
    try: way(); came = 'done'
    except OSError as error: came = str(error.errno)
    for made_by_us in ('other', 'out'):
        if os.path.exists(made_by_us) and (made_by_us != 'out' or os.path.getsize('out') == 0):
            os.unlink(made_by_us)
    try: same = 'same' if state(place) == before else 'changed'
    except OSError: same = 'changed'
    print(name, same, came, flush=True)
"#;

/// Ways that no jail has, with or without a rule.
const REFUSED: [&str; 5] = [
    "whiteout",
    "link-listed",
    "link-empty",
    "by-handle",
    "io-uring",
];

fn with_files(run: Run) -> Run {
    (0..32).fold(run, |run, number| {
        run.file(&format!("g/{number}/kept"), "text\n")
    })
}

/// Ways that had no effect, and those that had one.
fn outcome(stdout: &str) -> (Vec<&str>, Vec<&str>) {
    let lines = stdout.lines().filter_map(|line| line.split_once(' '));
    let (same, changed): (Vec<_>, Vec<_>) = lines.partition(|(_, came)| came.starts_with("same"));
    (
        same.into_iter().map(|(name, _)| name).collect(),
        changed.into_iter().map(|(name, _)| name).collect(),
    )
}

#[test]
fn m37_no_relative_of_a_known_way_changes_or_reads_a_guarded_file() {
    let free = with_files(Run::new()).python(WAYS);
    let kinds = ["open", "link", "rename", "unlink", "chmod", "truncate"];
    let rules: String = kinds
        .map(|on| rule(on, "/workspace/g/*/kept", "deny"))
        .concat();
    let ran = with_files(under(&rules)).python(WAYS);
    free.expect_code(0);
    ran.expect_code(0);
    ran.expect(monitor(&ran).starts_with("lsm"), "the tier");
    let (_, effective) = outcome(&free.stdout);
    let (same, changed) = outcome(&ran.stdout);
    ran.expect(same.len() == 32, "every way was tried");
    ran.expect(changed.is_empty(), "and none had an effect");
    for name in same {
        let is_refused = REFUSED.contains(&name);
        free.expect(is_refused != effective.contains(&name), name);
    }
}
