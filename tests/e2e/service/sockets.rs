//! Sockets as a caller's streams, and what a service makes for a run: nobody takes the caller for root.

use std::os::unix::fs::MetadataExt;

use turnkey_tests::{
    SERVED, Service, binary_for_everybody, eventually, group_traces, hand_over, open_to_all,
    scratch,
};

use super::{as_served, talks, told};

/// Asks who has written to a socket; what it answers has the user.
const WHO: &str = "
import socket, struct, subprocess, sys
def who(kind, *command):
    own, other = socket.socketpair(socket.AF_UNIX, kind)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    subprocess.run(command, stdout=other, check=True)
    words, beside, _, _ = own.recvmsg(4096, 1000)
    return words, struct.unpack('iii', beside[0][2])[1]
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    own = who(kind, '/bin/echo', 'x')
    assert own == (b'x\\n', 4242), f'the control: {own}'
    served = who(kind, sys.argv[1], 'run', '--service', '--quiet', '--', 'echo', 'x')
    assert served == own, served
    events = who(kind, sys.argv[1], 'run', '--service', '--quiet', '--events', '-', '--', 'true')
    assert events[1] == 4242, events
";

#[test]
fn who_listens_on_a_socket_hears_the_caller_and_not_root() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let binary = binary_for_everybody(&service.directory());
    let mut command = as_served(&service, "python3", place.path());
    command.args(["-c", WHO]).arg(binary);
    told(&command.output().expect("python3 is there"));
    let refused = "
own, other = socket.socketpair()
memory = os.memfd_create('x')
print([with_stream(at, other.fileno()) for at in range(3)], [with_stream(at, memory) for at in range(3)])
print(run([*usual(), other.fileno()], order('run', '--service', '--no-tty', '--events', 'x', '--', 'true')))";
    let answers = talks(&service, place.path(), refused);
    let expected = "['400', '400', '400'] ['ended', '400', '400']\n400";
    assert_eq!(answers, expected);
}

#[test]
fn what_a_service_makes_for_a_run_is_root_s_whatever_its_caller_withholds() {
    let service = Service::start("");
    let place = scratch();
    open_to_all(place.path());
    hand_over(place.path(), SERVED);
    let binary = binary_for_everybody(&service.directory());
    let mut command = as_served(&service, "sh", place.path());
    let script = "umask 0; exec \"$0\" run --service --quiet -- sh -c 'umask; read x'";
    command.args(["-c", script]).arg(binary);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    let mut client = command.spawn().expect("turnkey can be started");
    let own = || -> Vec<String> {
        let makers = service.makers();
        let is_own = |group: &String| {
            let mut makers = makers.iter();
            makers.any(|maker| group.contains(&format!("turnkey-{maker}-")))
        };
        group_traces().into_iter().filter(is_own).collect()
    };
    eventually("the run has groups", || !own().is_empty());
    for group in own() {
        let mode = std::fs::metadata(&group).map(|group| group.mode());
        assert!(mode.is_ok_and(|mode| mode & 0o022 == 0), "{group}");
    }
    let umask = |maker: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{maker}/status"));
        status.is_ok_and(|status| status.contains("Umask:\t0022\n"))
    };
    // Whatever else is made, in other control groups and file systems.
    assert!(service.makers().iter().all(umask));
    drop(client.stdin.take());
    let output = client.wait_with_output().expect("it can be waited for");
    // The program has its caller's, all the same.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0000\n");
}
