//! The second lock: what Landlock refuses, whatever the mounts and namespaces say.

use turnkey_tests::{Ran, Run};

const TCP: &str = "import socket
def tell(act):
    try: act(); print('went through')
    except OSError as error: print(error.errno)
tell(lambda: socket.create_connection(('127.0.0.1', 9), 2))
tell(lambda: socket.socket().bind(('0.0.0.0', 0)))
def through_loopback():
    server = socket.create_server(('127.0.0.1', 0))
    socket.create_connection(server.getsockname(), 2)
tell(through_loopback)";

fn landlock(ran: &Ran) -> String {
    let layers = ran.list("/enforcement");
    let layer = layers.iter().find(|layer| layer["layer"] == "landlock");
    layer.map(ToString::to_string).unwrap_or_default()
}

/// From the kernel itself, not from turnkey.
fn kernel_has_tcp() -> bool {
    let version = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let (_, told) = turnkey_tests::outside("python3", &["-c", version]);
    told.trim().parse().is_ok_and(|abi: i32| abi >= 4)
}

#[test]
fn tcp_is_refused_where_nobody_watches() {
    let ran = Run::new().option("--unmonitored").python(TCP);
    // The control: with a network to use it on, it is not refused.
    let asked = Run::new()
        .option("--unmonitored --network loopback")
        .python(TCP);
    asked.expect(
        asked.stdout == "111\nwent through\nwent through\n",
        "its own loopback",
    );
    if kernel_has_tcp() {
        ran.expect(
            ran.stdout == "13\n13\n13\n",
            "EACCES, not the network's own error",
        );
        ran.expect(
            landlock(&ran).contains("the bind of a TCP port went through, then EACCES"),
            "proved",
        );
    } else {
        ran.expect(
            landlock(&ran).contains("too old for"),
            "and what is missing is told",
        );
    }
}

#[test]
fn a_watched_connect_reaches_those_who_watch() {
    let ran = Run::new().python(TCP);
    ran.expect(
        ran.stdout.starts_with("111\n"),
        "ECONNREFUSED, from the kernel, whom the group's program lets answer",
    );
    let told = ran.list("/network_attempts").iter();
    ran.expect(
        told.clone()
            .any(|attempt| attempt["address"] == "127.0.0.1:9"),
        "with its address",
    );
    ran.expect(
        !landlock(&ran).contains("TCP port"),
        "so Landlock leaves TCP to it",
    );
}

#[test]
fn every_act_is_refused_only_since_landlock() {
    let ran = Run::new().option("--unmonitored").shell("true");
    let told = landlock(&ran);
    ran.expect(
        told.contains("the open of a file outside the rules went through, then EACCES"),
        "files",
    );
    let scoped =
        told.contains("the connect to an abstract socket from before went through, then EPERM");
    let old = told.contains("too old for") && told.contains("abstract unix sockets");
    ran.expect(
        scoped || old,
        "abstract sockets, where the kernel has the scope",
    );
}
