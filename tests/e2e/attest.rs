//! `turnkey attest` and `turnkey verify`, with keys of openssl and verifiers of others.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use turnkey_expectations::expected;
use turnkey_tests::{Run, binary, measured, outside, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "keys and signatures have nothing of the kernel, and its guest no openssl"
);

/// A directory with a pair of keys, a report and something to deploy.
struct Place(tempfile::TempDir);

impl Place {
    fn new(report: &Value) -> Place {
        let place = Place(scratch());
        place.key("key");
        std::fs::write(place.at("report.json"), report.to_string()).expect("it can be written");
        std::fs::create_dir(place.at("app")).expect("it can be made");
        std::fs::write(place.at("app/main"), "#!/bin/sh\n").expect("it can be written");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// NAME.pem and NAME.pub.pem.
    fn key(&self, name: &str) {
        let (private, public) = (
            self.at(&format!("{name}.pem")),
            self.at(&format!("{name}.pub.pem")),
        );
        let (private, public) = (private.to_string_lossy(), public.to_string_lossy());
        let made = ["genpkey", "-algorithm", "ed25519", "-out", &private];
        let shown = ["pkey", "-in", &private, "-pubout", "-out", &public];
        assert!(outside("openssl", &made).0.success());
        assert!(outside("openssl", &shown).0.success());
    }

    fn turnkey(&self, line: &str) -> Output {
        let mut command = Command::new(binary());
        command
            .current_dir(self.0.path())
            .args(line.split_whitespace());
        command.output().expect("turnkey can be started")
    }

    /// The attestation of the report, about the application.
    fn attest(&self) {
        let line = "attest --key key.pem --report report.json --subject app -o app.att";
        let done = self.turnkey(line);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }

    #[track_caller]
    fn verified(&self, line: &str, code: i32, told: &str) {
        let done = self.turnkey(&format!("verify {line}"));
        let said = [&done.stdout[..], &done.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(done.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(told), "{line}: {said}");
    }

    fn envelope(&self) -> Value {
        let text = std::fs::read(self.at("app.att")).expect("it was written");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// A report of a run that ends well, or with other values in these places.
fn report(changes: &[(&str, Value)]) -> Value {
    let golden =
        include_str!("../../report/src/snapshots/turnkey_report__golden__a_clean_run.snap");
    let (_, golden) = golden.split_once("\n---\n").expect("a head and a report");
    let mut report: Value = serde_json::from_str(golden).expect("JSON");
    report["exit_code"] = json!(0);
    for (key, value) in changes {
        report[*key] = value.clone();
    }
    report
}

fn decoded(text: &Value) -> Vec<u8> {
    let program = "import base64,sys; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))";
    let text = text.as_str().expect("text");
    let output = Command::new("python3").args(["-c", program, text]).output();
    output.expect("python3 is here").stdout
}

#[test]
fn a_report_is_not_written_over_the_secret_of_webhooks() {
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback is up");
    let address = receiver.local_addr().expect("it is bound");
    let (place, work) = (scratch(), scratch());
    let secret = place.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").expect("it can be written");
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&secret, own).expect("it is the test's own");
    let mut command = Command::new(binary());
    let line = format!(
        "run --unmonitored --to webhook:http://{address}/ --webhook-secret-file secret --report secret --workdir"
    );
    command.current_dir(place.path()).args(line.split(' '));
    let done = command.arg(work.path()).args(["--", "true"]).output();
    let done = done.expect("turnkey can be started");
    assert_eq!(done.status.code(), Some(125), "{done:?}");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        said.contains("is the secret of webhooks, which would be written over"),
        "{said}"
    );
    let kept = std::fs::read(&secret).expect("it is there");
    assert_eq!(kept, b"0123456789abcdef0123456789abcdef");
}

/// A command that reads a file writes nothing over it.
#[test]
fn no_output_is_written_over_what_is_read() {
    let ran = Run::new().run(&["true"]);
    let place = Place::new(&ran.report);
    std::os::unix::fs::symlink("key.pem", place.at("link.pem")).expect("it can be made");
    let profile = "schema = \"turnkey.profile/v1\"\nname = \"own\"\nextends = [\"untrusted\"]\n";
    std::fs::write(place.at("own.toml"), profile).expect("it can be written");
    let profile = profile.replace("untrusted", "container");
    std::fs::write(place.at("group.toml"), profile).expect("it can be written");
    for (line, file) in [
        (
            "attest --key key.pem --report report.json -o key.pem",
            "key.pem",
        ),
        (
            "attest --key link.pem --report report.json -o key.pem",
            "key.pem",
        ),
        (
            "attest --key key.pem --report report.json -o report.json",
            "report.json",
        ),
        (
            "attest --key key.pem --report report.json --subject app/main -o app/main",
            "app/main",
        ),
        ("report report.json --out ./report.json", "report.json"),
        (
            "run --unmonitored --profile ./own.toml --report own.toml -- true",
            "own.toml",
        ),
        (
            "attach --cgroup /none --profile ./group.toml --events group.toml",
            "group.toml",
        ),
        (
            "attach --cgroup /none --to webhook:http://127.0.0.1:9/ --webhook-secret-file key.pem --report key.pem",
            "key.pem",
        ),
    ] {
        let before = std::fs::read(place.at(file)).expect("it is there");
        let done = place.turnkey(line);
        assert_eq!(done.status.code(), Some(125), "{line}: {done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("would be written over"), "{line}: {said}");
        assert_eq!(
            std::fs::read(place.at(file)).expect("it is there"),
            before,
            "{line}"
        );
    }
    place.attest();
}

#[test]
fn a_run_is_attested_and_two_other_verifiers_agree() {
    let ran = Run::new().shell("exit 0");
    ran.expect_code(0);
    let place = Place::new(&ran.report);
    place.attest();
    place.verified(
        "--key key.pub.pem --subject app --max-age 1h app.att",
        0,
        "app.att is accepted: clean",
    );
    let envelope = place.envelope();
    let payload = decoded(&envelope["payload"]);
    let statement: Value = serde_json::from_slice(&payload).expect("JSON");
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    let run = &statement["predicate"]["run"];
    for key in [
        "id",
        "command",
        "started_at",
        "verdict",
        "exit_code",
        "profile",
        "enforcement",
    ] {
        assert_eq!(run[key], ran.report[key], "{key}");
    }
    assert!(!run["enforcement"].as_array().expect("a list").is_empty());

    let kind = envelope["payloadType"].as_str().expect("text");
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend(&payload);
    std::fs::write(place.at("signed"), &signed).expect("it can be written");
    let signature = decoded(&envelope["signatures"][0]["sig"]);
    std::fs::write(place.at("signature"), signature).expect("it can be written");
    let by_openssl = || {
        let line = "pkeyutl -verify -rawin -pubin -inkey key.pub.pem -in signed -sigfile signature";
        let mut command = Command::new("openssl");
        command.current_dir(place.0.path()).args(line.split(' '));
        command.output().expect("openssl is here").status.success()
    };
    assert!(by_openssl());
    signed.push(b' ');
    std::fs::write(place.at("signed"), &signed).expect("it can be written");
    assert!(!by_openssl(), "the control");
    by_securesystemslib(&place);
}

/// The library of in-toto and TUF, where this machine has it: `pip install securesystemslib[crypto]`.
fn by_securesystemslib(place: &Place) {
    let program = "
import json, sys
try:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey
except ImportError:
    sys.exit('absent')
envelope = json.load(open('app.att'))
key = SSlibKey.from_crypto(load_pem_public_key(open('key.pub.pem', 'rb').read()))
assert key.keyid == envelope['signatures'][0]['keyid'], key.keyid
read = Envelope.from_dict(envelope)
assert list(read.verify([key], 1)) == [key.keyid]
read.payload += b' '
try:
    read.verify([key], 1)
    sys.exit('a changed payload is accepted')
except VerificationError:
    print('verified')
";
    let output = Command::new("python3")
        .current_dir(place.0.path())
        .args(["-c", program])
        .output();
    let output = output.expect("python3 is here");
    let errors = String::from_utf8_lossy(&output.stderr);
    match errors.trim() {
        "absent" => measured("securesystemslib is not here, and did not verify the attestation"),
        _ => assert_eq!(output.stdout, b"verified\n", "{errors}"),
    }
}

#[test]
fn what_does_not_hold_is_refused_with_the_reason() {
    let place = Place::new(&report(&[]));
    place.attest();
    place.key("other");
    place.verified("--key key.pub.pem --subject app app.att", 0, "accepted");
    place.verified(
        "--key other.pub.pem app.att",
        1,
        "the key has not signed it",
    );
    place.verified(
        "--key key.pub.pem --key other.pub.pem app.att",
        1,
        "one of the keys has not signed it",
    );
    place.verified(
        "--key key.pub.pem --max-age 24h app.att",
        1,
        "it is too old",
    );
    place.verified(
        "--key key.pub.pem --subject key.pub.pem app.att",
        1,
        "something else",
    );
    // The same bytes, which its owner may execute now.
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.at("app/main"), mode).expect("its own");
    place.verified(
        "--key key.pub.pem --subject app app.att",
        1,
        "app as it is now",
    );
    let text = std::fs::read_to_string(place.at("app.att")).expect("it is there");
    let changed = text.replacen("\"payload\":\"e", "\"payload\":\"f", 1);
    assert_ne!(changed, text);
    std::fs::write(place.at("app.att"), changed).expect("it can be written");
    place.verified("--key key.pub.pem app.att", 1, "changed since");
}

#[test]
fn a_run_that_did_not_end_well_is_attested_and_not_accepted() {
    let suspicious = [("verdict", json!("suspicious")), ("is_safe", json!(false))];
    let place = Place::new(&report(&suspicious));
    place.attest();
    place.verified(
        "--key key.pub.pem app.att",
        1,
        "verdict is suspicious, and not clean",
    );
    place.verified(
        "--key key.pub.pem --verdict suspicious app.att",
        0,
        "accepted",
    );
    let place = Place::new(&report(&[("exit_code", json!(3))]));
    place.attest();
    place.verified("--key key.pub.pem app.att", 1, "ended with exit code 3");
    place.verified("--key key.pub.pem --exit-code 3 app.att", 0, "accepted");
    let killed = [
        ("status", json!("killed_by_policy")),
        ("exit_code", json!(null)),
    ];
    let place = Place::new(&report(&killed));
    place.attest();
    place.verified(
        "--key key.pub.pem app.att",
        1,
        "ended with status killed_by_policy",
    );
}

#[test]
fn a_gate_is_attested_with_the_commit_that_it_judged() {
    let place = Place::new(&report(&[]));
    let head = "0123456789012345678901234567890123456789";
    let gate = |verdict: &str, check: &str| {
        let check = json!({ "name": "scan", "verdict": check, "findings": [] });
        let result = json!({
            "schema": "turnkey.gate/v1", "turnkey": "0.1.0", "verdict": verdict, "base": "1", "head": head,
            "finished_at": "2026-01-02T03:04:05.000000Z", "config": { "from": "x", "sha256": "x" },
            "commits": 1, "model_commits": [], "files": [], "checks": [check], "notes": [],
        });
        std::fs::write(place.at("gate.json"), result.to_string()).expect("it can be written");
        place.turnkey("attest --key key.pem --report report.json --gate gate.json -o app.att")
    };
    assert_eq!(gate("pass", "pass").status.code(), Some(0));
    place.verified("--key key.pub.pem --gate app.att", 0, "accepted");
    let line = format!("--key key.pub.pem --commit {head} app.att");
    place.verified(&line, 0, "accepted");
    let other = line.replace("0123", "3210");
    place.verified(&other, 1, "its gate judged another commit: 0123");
    place.verified(
        "--key key.pub.pem --max-age 1h app.att",
        1,
        "its gate ended at 2026-01-02",
    );
    for verdict in ["fail", "inconclusive"] {
        assert_eq!(gate(verdict, verdict).status.code(), Some(0));
        let told = format!("its gate came to {verdict}, and not to pass");
        place.verified("--key key.pub.pem app.att", 1, &told);
    }
    let contradicting = gate("pass", "inconclusive");
    assert_eq!(contradicting.status.code(), Some(125), "{contradicting:?}");
    place.attest();
    place.verified(
        "--key key.pub.pem --gate app.att",
        1,
        "it says nothing of a gate",
    );
}

#[test]
fn bad_input_is_told_with_its_place() {
    let place = Place::new(&report(&[]));
    place.attest();
    let told = |line: &str, words: &str| {
        let done = place.turnkey(line);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(125), "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    };
    told("verify --key key.pem app.att", "-pubout");
    told(
        "attest --key key.pub.pem --report report.json",
        "openssl genpkey",
    );
    place.key("open");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.at("open.pem"), open).expect("it is the test's own");
    told("attest --key open.pem --report report.json", "chmod 600");
    told(
        "verify --key key.pub.pem report.json",
        "report.json is no attestation",
    );
    told("verify --key key.pub.pem missing", "could not read missing");
    told(
        "verify --key key.pub.pem --subject missing app.att",
        "the subject missing",
    );
    told(
        "attest --key key.pem --report app.att",
        "app.att is no report",
    );
    told(
        "attest --key key.pem --report report.json --subject /dev/null",
        "it is a device",
    );
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.at("key.pem"), mode).expect("its own");
    };
    mode(0o640);
    told(
        "attest --key key.pem --report report.json -o new",
        "chmod 600 key.pem",
    );
    assert!(!Path::new(&place.at("new")).exists());
    mode(0o600);
    let text = std::fs::read_to_string(place.at("report.json")).expect("it is there");
    let twice = text.replacen('{', "{\"verdict\":\"violated\",", 1);
    std::fs::write(place.at("report.json"), twice).expect("it can be written");
    told(
        "attest --key key.pem --report report.json",
        "stands there twice",
    );
}
