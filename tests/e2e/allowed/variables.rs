//! The caller's own certificates and proxy: a program that lacks them is told so, and what is told works.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{eventually, finish, network_of_its_own, open_to_all, outside, scratch};

use super::talking_to;

expected!(
    not_on[ORDINARY_6_12],
    "openssl and what it is asked for are programs as others"
);

/// Openssl's server, with a certificate of an authority that nobody knows.
struct Stranger(Child);

impl Stranger {
    fn new(place: &Path) -> Stranger {
        let [key, certificate] =
            ["key.pem", "ca.pem"].map(|name| place.join(name).display().to_string());
        let make = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=server.test \
             -addext subjectAltName=DNS:server.test -keyout {key} -out {certificate}"
        );
        assert!(
            outside("sh", &["-c", &make]).0.success(),
            "openssl makes a certificate"
        );
        open_to_all(Path::new(&certificate));
        let mut server = Command::new("openssl");
        server.args([
            "s_server",
            "-accept",
            "8443",
            "-quiet",
            "-www",
            "-cert",
            &certificate,
            "-key",
            &key,
        ]);
        let quiet = server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Stranger(quiet.spawn().expect("openssl starts"));
        eventually("the server listens", || {
            std::net::TcpStream::connect("127.0.0.1:8443").is_ok()
        });
        server
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status of a run of the caller with this variable, and what turnkey and the program said.
fn run(options: &[&str], variable: (&str, &str), program: &str) -> (Option<i32>, String) {
    let run = options
        .iter()
        .fold(talking_to(&[]), |run, option| run.option(option));
    let mut command = run.command(&["/usr/bin/python3", "-c", program]);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env(variable.0, variable.1);
    let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(streams.spawn().expect("turnkey can be started"));
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The flags that are told for the variable.
fn flags(told: &str, name: &str) -> Vec<String> {
    let begin = format!(
        "turnkey: {name} of your environment did not pass; a program that talks to others may go by it: "
    );
    let line = told.lines().find_map(|line| line.strip_prefix(&begin));
    let flags = line.and_then(|line| line.strip_suffix(" passes it"));
    let flags = flags.unwrap_or_else(|| panic!("{told}")).split(" --");
    flags
        .map(|flag| format!("--{}", flag.trim_start_matches('-')))
        .collect()
}

#[test]
fn certificates_that_the_caller_trusts_are_trusted_with_the_flags_that_are_told() {
    const ASK: &str =
        "import urllib.request\nurllib.request.urlopen('https://server.test:8443/', timeout=9)";
    network_of_its_own();
    let place = scratch();
    let _server = Stranger::new(place.path());
    let authority = place.path().join("ca.pem").display().to_string();
    let variable = ("SSL_CERT_FILE", authority.as_str());
    let allow = "--allow server.test:8443";

    let (code, told) = run(&[allow], variable, ASK);
    assert!(
        code == Some(1) && told.contains("CERTIFICATE_VERIFY_FAILED"),
        "the control: {told}"
    );
    let flags = flags(&told, "SSL_CERT_FILE");
    let options: Vec<&str> = [allow]
        .into_iter()
        .chain(flags.iter().map(String::as_str))
        .collect();
    let (code, told) = run(&options, variable, ASK);
    assert_eq!(code, Some(0), "{options:?}: {told}");

    let failed = format!("{ASK}\n").replace("server.test:8443", "server.test:1");
    let (_, told) = run(&[], variable, &failed);
    assert!(
        !told.contains("did not pass"),
        "nobody could be talked to: {told}"
    );
}

#[test]
fn a_proxy_of_the_caller_is_reached_with_the_flags_that_are_told() {
    const ASK: &str = "import os, socket\n\
                       try: socket.create_connection(('203.0.113.8', 443), 2)\n\
                       except OSError: pass\n\
                       host, port = os.environ['HTTPS_PROXY'].rsplit('@')[1].split(':')\n\
                       socket.create_connection((host, int(port)), 9)";
    network_of_its_own();
    let proxy = turnkey_tests::Server::echo(3128);
    let variable = ("HTTPS_PROXY", "http://user:secret@server.test:3128");
    let allow = "--allow 203.0.113.8:443";

    let (code, told) = run(&[allow], variable, ASK);
    assert!(
        code == Some(1) && !told.contains("secret"),
        "the control: {told}"
    );
    let flags = flags(&told, "HTTPS_PROXY");
    let options: Vec<&str> = [allow]
        .into_iter()
        .chain(flags.iter().map(String::as_str))
        .collect();
    let (code, told) = run(&options, variable, ASK);
    assert_eq!((code, proxy.came()), (Some(0), 1), "{options:?}: {told}");
}
