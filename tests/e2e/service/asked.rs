//! The file by which an administrator has every ordinary user's run made by the service, and who is not meant by it.

use std::process::{Command, Output};

use turnkey_tests::{SERVED, binary, scratch};

/// `turnkey run` with these flags where /etc has that file, or has not, and no service listens. In a mount namespace of its own: the
/// file would be every other test's, too.
fn run_where(file: &str, user: u32, flags: &str) -> Output {
    let (place, sockets) = (scratch(), scratch());
    let script = format!(
        "set -e; chmod 755 .; mkdir -m 777 w; mkdir -p etc/turnkey; cp -a /etc/passwd /etc/group /etc/ld.so.cache /etc/nsswitch.conf /etc/alternatives etc
         {file}; mount --bind etc /etc; cd w
         exec setpriv --reuid {user} --regid {user} --clear-groups {} run {flags} -- /bin/echo made",
        binary().display()
    );
    Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .env("TURNKEY_SOCKET_DIR", sockets.path())
        .current_dir(place.path())
        .output()
        .expect("unshare is part of every system")
}

#[test]
fn a_file_of_the_administrators_sends_ordinary_users_to_the_service_and_local_does_not() {
    const FILE: &str = "touch etc/turnkey/use-service";
    let asks = |output: &Output| {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let asks = output.status.code() == Some(125) && told.contains("service");
        assert!(
            asks || output.stdout == b"made\n",
            "neither asked nor made: {told}"
        );
        asks
    };
    assert!(
        !asks(&run_where("true", SERVED, "--best-effort")),
        "no file"
    );
    assert!(asks(&run_where(FILE, SERVED, "")), "the file");
    let local = run_where(FILE, SERVED, "--local --best-effort");
    assert!(!asks(&local), "--local");
    assert!(!asks(&run_where(FILE, 0, "--unmonitored")), "root");
    assert!(asks(&run_where("true", SERVED, "--service")), "--service");
}
