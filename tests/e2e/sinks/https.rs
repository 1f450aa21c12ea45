//! Webhooks behind TLS, by the host's curl: a receiver with a certificate of an authority that the test has made.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, outside, scratch};

use super::receiver::SECRET;
use super::with_secret_and;

expected!(
    not_on[ORDINARY_6_12],
    "TLS is curl's, which the guest does not have, and nothing of it is a kernel's"
);

/// Answers what is asked of it, and prints each request as JSON: its head and its body.
const SERVER: &str = "
import http.server, json, ssl, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length'])).decode()
        with open(sys.argv[3], 'a') as kept:
            print(json.dumps({'path': self.path, 'head': {k.lower(): v for k, v in self.headers.items()}, 'body': body}), file=kept)
        self.send_response(int(sys.argv[4]))
        self.send_header('Location', '/elsewhere')
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

/// The receiver, with all that it was sent in a file.
struct HttpsReceiver {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl HttpsReceiver {
    /// One that answers with this status.
    fn start(status: u16) -> HttpsReceiver {
        let directory = scratch();
        let place = |name: &str| directory.path().join(name).display().to_string();
        let [key, certificate] = ["key.pem", "ca.pem"].map(place);
        let (made, _) = outside(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                &key,
                "-out",
                &certificate,
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ],
        );
        assert!(made.success());
        let mut child = Command::new("python3")
            .args([
                "-c",
                SERVER,
                &certificate,
                &key,
                &place("kept"),
                &status.to_string(),
            ])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python is there");
        let mut port = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("it is a pipe"));
        said.read_line(&mut port).expect("a pipe can be read");
        HttpsReceiver {
            port: port.trim().parse().expect("a port"),
            child,
            directory,
        }
    }

    fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory.path().join("kept"));
        let text = text.unwrap_or_default();
        let parse = |line| serde_json::from_str(line).expect("the server writes JSON");
        text.lines().map(parse).collect()
    }
}

impl Drop for HttpsReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that tells a receiver, and trusts an authority.
fn told(url: &str, authority: Option<&Path>) -> Ran {
    let run = Run::new()
        .option("--mode observe")
        .option(&format!("--to webhook:{url}"));
    with_secret_and(run, &["cat", "/etc/shadow"], |command| {
        if let Some(authority) = authority {
            command.env("CURL_CA_BUNDLE", authority);
        }
    })
}

#[test]
fn alerts_reach_a_receiver_behind_tls_whole_and_signed() {
    let receiver = HttpsReceiver::start(204);
    let url = format!("https://localhost:{}/hooks/{{a}}?x=[1-2]", receiver.port);
    let ran = told(&url, Some(&receiver.authority()));
    let requests = receiver.requests();
    let alerts: Vec<Value> = requests
        .iter()
        .map(|request| serde_json::from_str(request["body"].as_str().expect("text")).expect("JSON"))
        .collect();
    let kinds: Vec<_> = alerts.iter().map(|alert| alert["alert"].as_str()).collect();
    ran.expect(kinds.contains(&Some("finding")), "a finding");
    ran.expect(kinds.last() == Some(&Some("verdict")), "and the verdict");
    let sink = ran.at("/sinks/0");
    ran.expect(sink["sent"] == requests.len(), "as many as the report says");
    ran.expect(sink["lost"] == 0, "and none is lost");
    let name = format!("webhook:https://localhost:{}", receiver.port);
    ran.expect(sink["to"] == name.as_str(), "its path may be a secret");
    for (request, alert) in requests.iter().zip(&alerts) {
        assert_eq!(request["path"], "/hooks/{a}?x=[1-2]");
        let head = |name: &str| {
            request["head"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(head("turnkey-alert"), alert["id"].as_str().expect("a name"));
        assert_eq!(head("content-type"), "application/json");
        let signature = head("turnkey-signature");
        let (time, digest) = signature.split_once(",v1=").expect("two parts");
        let time = time.strip_prefix("t=").expect("the time comes first");
        let program = "import hashlib, hmac, sys\nkey, text = (word.encode() for word in sys.argv[1:])\n\
                       print(hmac.new(key, text, hashlib.sha256).hexdigest())";
        let signed = format!("{time}.{}", request["body"].as_str().expect("text"));
        let (_, expected) = outside("python3", &["-c", program, SECRET, &signed]);
        assert_eq!(digest, expected.trim());
    }
}

#[test]
fn a_certificate_that_is_not_trusted_starts_nothing() {
    let receiver = HttpsReceiver::start(204);
    let other = HttpsReceiver::start(204);
    let url = format!("https://localhost:{}/", receiver.port);
    for authority in [None, Some(other.authority())] {
        let ran = told(&url, authority.as_deref());
        ran.expect_code(125);
        ran.expect(ran.stderr.contains("certificate"), "the reason is told");
    }
    let away = super::Receiver::http(|_| super::Answer::Nothing).closed_port();
    let ran = told(&format!("https://localhost:{away}/"), None);
    ran.expect_code(125);
    ran.expect(
        ran.stderr.contains("start its receiver first"),
        "the fix is told",
    );
    // Its certificate is for a name, and this is an address.
    let url = format!("https://127.0.0.1:{}/", receiver.port);
    told(&url, Some(&receiver.authority())).expect_code(125);
    assert_eq!(receiver.requests(), Vec::<Value>::new(), "nothing was sent");
}

#[test]
fn a_redirection_is_a_refusal() {
    let receiver = HttpsReceiver::start(307);
    let url = format!("https://localhost:{}/hook", receiver.port);
    let ran = told(&url, Some(&receiver.authority()));
    let sink = ran.at("/sinks/0");
    ran.expect(
        sink["sent"] == 0 && sink["error"] == "it answered 307",
        "it is told",
    );
    let paths = receiver.requests();
    assert!(
        paths.iter().all(|request| request["path"] == "/hook"),
        "{paths:?}"
    );
}
