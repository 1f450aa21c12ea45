//! A process whose first thread has ended lives on in the others, with all that it holds.

use turnkey_tests::eventually;

use super::{Attached, Others, OthersGroup};

/// Holds a file open, and goes on in a second thread alone: exit(2) of the first.
const GOES_ON: &str = "
import ctypes, sys, threading
held = open('/etc/shadow')
def rest():
    print('ready', flush=True)
    sys.stdin.readline()
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(60, 0)
";

#[test]
fn what_a_process_without_its_first_thread_holds_is_listed() {
    let group = OthersGroup::new();
    let mut others = Others::start_with(&group.path, GOES_ON, &[]);
    assert_eq!(others.line(), "ready");
    let status = format!("/proc/{}/status", others.child.id());
    eventually("its first thread has ended", || {
        std::fs::read_to_string(&status).is_ok_and(|text| text.contains("\nState:\tZ"))
    });
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let found = attached.begun()["attached"]["found"][0].clone();
    others.end();
    attached.end();
    let open = found["open"].to_string();
    assert!(open.contains("/etc/shadow"), "{found}");
    assert!(
        found["executable"].to_string().contains("python3"),
        "{found}"
    );
}
