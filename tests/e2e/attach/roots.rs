//! Ways to a file past its name: a rule is about the file, wherever chroot(2) has put its name, and by whatever handle it is opened.

use turnkey_tests::scratch;

use super::{Attached, Others, OthersGroup, broken};

/// Changes its root to the first argument, does the second to `/guarded`, and says what came of it.
const BELOW_ANOTHER_ROOT: &str = "
import os, sys
for line in sys.stdin:
    if line.startswith('go'):
        os.chroot(sys.argv[1])
        if sys.argv[2] == 'cwd':
            os.chdir('/')
        name = 'guarded' if sys.argv[2] == 'cwd' else '/guarded'
        acts = {'read': lambda: open(name).read(), 'cwd': lambda: open(name).read(),
                'unlink': lambda: os.unlink(name), 'chmod': lambda: os.chmod(name, 0o600),
                'link': lambda: os.link(name, '/other'), 'rename': lambda: os.rename(name, '/other')}
        print(acts[sys.argv[2]](), flush=True)
    else:
        break
";

/// A profile in `place` that kills for what becomes of `guarded` in a directory; its path.
fn guarding(place: &tempfile::TempDir, directory: &str) -> String {
    let profile = place.path().join("mine.toml");
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"container\"]\n[[rule]]\nid = \"guarded\"\n\
         on = [\"open\", \"unlink\", \"chmod\", \"link\", \"rename\"]\npath = [\"{directory}/guarded\"]\naction = \"kill\"\n\
         severity = \"high\"\nwhy = \"it is guarded\"\n"
    );
    std::fs::write(&profile, text).expect("a test can write");
    profile.display().to_string()
}

#[test]
fn another_root_directory_takes_no_file_from_its_rule() {
    for act in ["read", "cwd", "unlink", "chmod", "link", "rename"] {
        let place = scratch();
        let root = place.path().display().to_string();
        let guarded = place.path().join("guarded");
        std::fs::write(&guarded, "guarded").unwrap();
        let profile = guarding(&place, &root);
        let group = OthersGroup::new();
        let program = |act| Others::start_with(&group.path, BELOW_ANOTHER_ROOT, &[&root, act]);

        let mut control = program("read");
        assert_eq!(control.ask("go"), "guarded", "the control");
        assert_eq!(control.end(), None);
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
        let mut others = program(act);
        assert_eq!(others.ask("go"), "", "{act}: it died of it");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{act}");
        let (code, report, said) = attached.end();
        assert_eq!(code, 121, "{act}: {said}");
        assert!(
            broken(&report).contains(&"guarded"),
            "{act}: {}: {said}",
            report["violations"]
        );
    }
}

/// Does to `guarded` in its first argument, by a tree of mounts that is mounted nowhere, what the second says: it is a copy, or one that
/// was let go while it was in use.
const IN_A_TREE_OF_ITS_OWN: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, CLONE, NEWNS, BIND, PRIVATE, DETACH, OPEN_TREE = -100, 1, 0x20000, 4096, 1 << 18, 2, 428
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'a call')
    return result
directory, tree, act = (word.encode() for word in sys.argv[1:4])
for line in sys.stdin:
    if line.startswith('go'):
        check(libc.unshare(NEWNS))
        check(libc.mount(None, b'/', None, PRIVATE | 16384, None))
        if tree == b'copy':
            top = check(libc.syscall(OPEN_TREE, AT_FDCWD, directory, CLONE))
        else:
            check(libc.mount(directory, directory, None, BIND, None))
            top = os.open(directory, os.O_PATH)
            check(libc.umount2(directory, DETACH))
        acts = {b'chmod': lambda: os.chmod('guarded', 0o600, dir_fd=top),
                b'read': lambda: os.read(os.open('guarded', os.O_RDONLY, dir_fd=top), 9).decode(),
                b'unlink': lambda: os.unlink('guarded', dir_fd=top),
                b'rename': lambda: os.rename('guarded', 'other', src_dir_fd=top, dst_dir_fd=top)}
        print(acts[act](), flush=True)
    else:
        break
";

/// The tree is in no mount namespace, so that no name of it begins there; the file is that of the rule all the same.
#[test]
fn a_tree_that_is_mounted_nowhere_takes_no_file_from_its_rule() {
    for (tree, act) in [
        ("copy", "read"),
        ("copy", "unlink"),
        ("copy", "chmod"),
        ("let go", "read"),
        ("let go", "rename"),
    ] {
        let place = scratch();
        let root = place.path().display().to_string();
        std::fs::write(place.path().join("guarded"), "guarded").unwrap();
        let profile = guarding(&place, &root);
        let group = OthersGroup::new();
        let program =
            |act| Others::start_with(&group.path, IN_A_TREE_OF_ITS_OWN, &[&root, tree, act]);

        let mut control = program("read");
        assert_eq!(control.ask("go"), "guarded", "the control");
        assert_eq!(control.end(), None);
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
        let mut others = program(act);
        assert_eq!(others.ask("go"), "", "{tree}, {act}: it died of it");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{tree}, {act}");
        let (code, report, said) = attached.end();
        assert_eq!(code, 121, "{tree}, {act}: {said}");
        assert!(
            broken(&report).contains(&"guarded"),
            "{tree}, {act}: {}: {said}",
            report["violations"]
        );
    }
}

/// Opens `guarded` by its handle, and prints what is in it; the second argument says how: as the kernel finds it in its memory; from a mount
/// that does not reach it; when no directory is known to hold it any more; or as a path alone that is opened by its number.
const BY_HANDLE: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWNS, BIND, REMOUNT, PRIVATE, PATH = 0x20000, 4096, 32, 1 << 18, os.O_PATH
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'a call')
    return result
directory, way = sys.argv[1].encode(), sys.argv[2]
check(libc.unshare(NEWNS))
check(libc.mount(None, b'/', None, PRIVATE | 16384, None))
if way == 'unknown':
    check(libc.mount(b'tmpfs', directory, b'tmpfs', 0, None))
    for name in (b'/lower', b'/upper', b'/work'):
        os.mkdir(directory + name)
    options = b'lowerdir=%b/lower,upperdir=%b/upper,workdir=%b/work,nfs_export=on,index=on' % ((directory,) * 3)
    check(libc.mount(b'overlay', directory, b'overlay', 0, options))
    with open(directory + b'/guarded', 'w') as file:
        file.write('guarded')
handle, mount = ctypes.create_string_buffer((128).to_bytes(4, 'little'), 136), ctypes.c_int()
check(libc.name_to_handle_at(-100, directory + b'/guarded', handle, ctypes.byref(mount), 0))
below = directory + b'/below'
os.makedirs(below, exist_ok=True)
if way == 'beside':
    check(libc.mount(below, below, None, BIND, None))
top = os.open(below if way == 'beside' else directory, os.O_RDONLY)
for line in sys.stdin:
    if line.startswith('made'):
        print('made', flush=True)
    elif line.startswith('go'):
        if way == 'unknown':
            check(libc.mount(None, directory, None, REMOUNT, None))
        file = check(libc.open_by_handle_at(top, handle, PATH if way == 'number' else os.O_RDONLY))
        if way == 'number':
            file = os.open('/proc/self/fd/%d' % file, os.O_RDONLY)
        print(os.read(file, 9).decode(), flush=True)
    else:
        break
";

/// A handle leads to a file by no name: what the kernel has opened decides, and where no directory is known to hold it, as the strictest
/// rule says.
#[test]
fn a_handle_takes_no_file_from_its_rule() {
    for way in ["known", "number", "beside", "unknown"] {
        let place = scratch();
        let root = place.path().display().to_string();
        std::fs::write(place.path().join("guarded"), "guarded").unwrap();
        let profile = guarding(&place, &root);
        let group = OthersGroup::new();
        let program = || Others::start_with(&group.path, BY_HANDLE, &[&root, way]);

        let mut control = program();
        assert_eq!(control.ask("go"), "guarded", "{way}: the control");
        assert_eq!(control.end(), None);
        let mut others = program();
        assert_eq!(others.ask("made"), "made", "{way}");
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
        assert_eq!(others.ask("go"), "", "{way}: it died of it");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{way}");
        let (code, report, said) = attached.end();
        assert_eq!(code, 121, "{way}: {said}");
        let is_named = matches!(way, "known" | "number");
        assert_eq!(
            broken(&report).contains(&"guarded"),
            is_named,
            "{way}: {}: {said}",
            report["violations"]
        );
        let found = &report["findings"];
        assert!(
            found.to_string().contains("by its handle"),
            "{way}: {found}"
        );
    }
}

#[test]
fn a_file_that_no_rule_is_about_is_opened_by_its_handle_and_told() {
    let place = scratch();
    let root = place.path().display().to_string();
    std::fs::write(place.path().join("guarded"), "guarded").unwrap();
    let lines = place.path().join("lines");
    let group = OthersGroup::new();
    let attached = Attached::to(
        &["--cgroup", &group.name],
        &["--events", lines.to_str().unwrap()],
    );
    let mut others = Others::start_with(&group.path, BY_HANDLE, &[&root, "known"]);
    assert_eq!(others.ask("go"), "guarded");
    assert_eq!(others.end(), None);
    let (code, _, said) = attached.end();
    assert_eq!(code, 0, "{said}");

    let lines = std::fs::read_to_string(lines).unwrap();
    let told: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains("\"by_handle\":true"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let path = format!("\"path\":\"{root}/guarded\"");
    assert!(
        told[0].contains(&path) && told[0].contains("\"kind\":\"open\""),
        "{told:?}"
    );
}

/// Opens by its handle what the first argument names: itself by a pidfd, or a namespace that it is in; `none` where the kernel gives no handle
/// of those.
const OF_THE_KERNEL_BY_HANDLE: &str = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
EMPTY_PATH = 0x1000
file = os.pidfd_open(os.getpid()) if sys.argv[1] == 'pidfd' else os.open('/proc/self/ns/' + sys.argv[1], os.O_RDONLY)
handle, mount = ctypes.create_string_buffer((128).to_bytes(4, 'little'), 136), ctypes.c_int()
for line in sys.stdin:
    if not line.startswith('go'):
        break
    if libc.name_to_handle_at(file, b'', handle, ctypes.byref(mount), EMPTY_PATH) < 0:
        print('none' if ctypes.get_errno() == errno.EOPNOTSUPP else ctypes.get_errno(), flush=True)
    else:
        again = libc.open_by_handle_at(file, handle, os.O_RDONLY)
        print(again >= 0 and os.fstat(again).st_ino == os.fstat(file).st_ino, flush=True)
";

/// Such a file stands in no directory, and its handle leads past none.
#[test]
fn a_file_of_the_kernels_own_that_is_opened_by_its_handle_is_no_escape() {
    for what in ["pidfd", "mnt", "net"] {
        let place = scratch();
        let lines = place.path().join("lines");
        let group = OthersGroup::new();
        let attached = Attached::to(
            &["--cgroup", &group.name],
            &["--events", lines.to_str().unwrap()],
        );
        let mut others = Others::start_with(&group.path, OF_THE_KERNEL_BY_HANDLE, &[what]);
        let answer = others.ask("go");
        assert!(["True", "none"].contains(&answer.as_str()), "{answer}");
        assert_eq!(others.end(), None);
        let (code, report, said) = attached.end();
        assert_eq!(report["findings"], serde_json::json!([]), "{what}: {said}");
        let ended = (code, report["verdict"].as_str());
        assert_eq!(ended, (0, Some("clean")), "{what}: {said}");

        let lines = std::fs::read_to_string(lines).unwrap();
        let told = lines.matches("\"by_handle\":true").count();
        assert_eq!(told, usize::from(answer == "True"), "{what}: {lines}");
    }
}
