//! Installers of packages under shipped profiles, from a registry of the test's own that a name allows: what they fetch is there
//! afterwards, what it builds ran, and none of it is a finding.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, Server, network_of_its_own, outside, scratch};

/// The content of a registry, by the path of the request.
type Pages = BTreeMap<String, Vec<u8>>;

const PORT: u16 = 8443;
const HOST: &str = "server.test:8443";

/// A server of pages by HTTP/1.1, one for each connection.
fn registry(pages: Pages) -> Server {
    Server::start(PORT, move |connection| {
        let _ = answer(connection, &pages);
    })
}

fn answer(mut connection: TcpStream, pages: &Pages) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let page = pages.get(path);
    let status = if page.is_some() {
        "200 OK"
    } else {
        "404 Not Found"
    };
    let body = page.map(Vec::as_slice).unwrap_or_default();
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    connection.write_all(body)
}

/// A packed directory with these files.
fn packed(directory: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let place = scratch();
    for (name, text) in files {
        let file = place.path().join(directory).join(name);
        std::fs::create_dir_all(file.parent().expect("it is below")).expect("a test can write");
        std::fs::write(file, text).expect("a test can write");
    }
    let (archive, from) = (
        place.path().join("archive"),
        place.path().display().to_string(),
    );
    let (done, _) = outside(
        "tar",
        &[
            "-czf",
            &archive.display().to_string(),
            "-C",
            &from,
            directory,
        ],
    );
    assert!(done.success());
    std::fs::read(archive).expect("tar wrote it")
}

/// The digest of some bytes as a program of the system prints it.
fn digest(command: &str, bytes: &[u8]) -> String {
    let place = scratch();
    let file = place.path().join("file");
    std::fs::write(&file, bytes).expect("a test can write");
    let (done, told) = outside("sh", &["-c", command, "sh", &file.display().to_string()]);
    assert!(done.success());
    told.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// An installer with nothing but its registry to talk to did its work, and nothing of it is told as more.
fn is_clean(ran: &Ran, said: &str) {
    ran.expect_code(0);
    ran.expect(ran.stdout.contains(said), "what was installed runs");
    ran.expect(ran.at("/verdict") == "clean", "nothing is wrong with it");
    ran.expect(ran.list("/findings").is_empty(), "nor is it told as more");
}

const GREET: &str = r#"{"name":"greet","version":"1.0.0","main":"index.js","scripts":{"install":"node install.js"}}"#;

expected!(npm_ci_from_an_allowed_registry_is_no_finding: not_on[ORDINARY_6_12], "npm is not in the guest");
/// The package has a script that npm runs when it is installed.
#[test]
fn npm_ci_from_an_allowed_registry_is_no_finding() {
    network_of_its_own();
    let files = [
        ("package.json", GREET),
        ("index.js", "module.exports = require('./made')"),
        (
            "install.js",
            "require('fs').writeFileSync('made.js', 'module.exports = \"hello\"')",
        ),
    ];
    let archive = packed("package", &files);
    let integrity = digest("openssl dgst -sha512 -binary \"$1\" | base64 -w0", &archive);
    let place = format!("http://{HOST}/greet/-/greet-1.0.0.tgz");
    let lock = format!(
        r#"{{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{{
            "":{{"name":"app","version":"1.0.0","dependencies":{{"greet":"1.0.0"}}}},
            "node_modules/greet":{{"version":"1.0.0","resolved":"{place}","integrity":"sha512-{integrity}","hasInstallScript":true}}}}}}"#
    );
    let _registry = registry([("/greet/-/greet-1.0.0.tgz".to_owned(), archive)].into());
    let run = Run::new()
        .option("--profile node")
        .option(&format!("--allow {HOST}"))
        .file(
            "package.json",
            r#"{"name":"app","version":"1.0.0","dependencies":{"greet":"1.0.0"}}"#,
        )
        .file("package-lock.json", &lock);
    let script = format!(
        "npm ci --registry http://{HOST} --no-audit --no-fund >&2 && node -e 'console.log(require(\"greet\"))'"
    );
    is_clean(&run.shell(&script), "hello\n");
}

expected!(cargo_build_from_an_allowed_registry_is_no_finding: not_on[ORDINARY_6_12], "cargo is not in the guest");
/// The crate has a build script, which cargo compiles and runs. Above two seconds for the compiler's sake.
#[test]
fn cargo_build_from_an_allowed_registry_is_no_finding() {
    network_of_its_own();
    let manifest = "[package]\nname = \"greet\"\nversion = \"1.0.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n";
    let build = "fn main() { let out = std::env::var(\"OUT_DIR\").unwrap();
        std::fs::write(std::path::Path::new(&out).join(\"made.rs\"), \"\\\"hello\\\"\").unwrap(); }";
    let library =
        "pub fn greet() -> &'static str { include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\")) }";
    let files = [
        ("Cargo.toml", manifest),
        ("build.rs", build),
        ("src/lib.rs", library),
    ];
    let archive = packed("greet-1.0.0", &files);
    let sum = digest("sha256sum \"$1\"", &archive);
    let row = format!(
        r#"{{"name":"greet","vers":"1.0.0","deps":[],"cksum":"{sum}","features":{{}},"yanked":false}}"#
    );
    let config = format!(r#"{{"dl":"http://{HOST}/crates"}}"#);
    let pages = [
        ("/index/config.json", config.into_bytes()),
        ("/index/gr/ee/greet", row.into_bytes()),
        ("/crates/greet/1.0.0/download", archive),
    ];
    let _registry = registry(pages.map(|(path, page)| (path.to_owned(), page)).into());
    let source = format!(
        "[source.crates-io]\nreplace-with = \"local\"\n[source.local]\nregistry = \"sparse+http://{HOST}/index/\"\n"
    );
    let run = Run::new()
        .option("--profile rust")
        .option(&format!("--allow {HOST}"))
        .file("Cargo.toml", "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\ngreet = \"1\"\n")
        .file("src/main.rs", "fn main() { println!(\"{}\", greet::greet()); }\n")
        .file(".cargo/config.toml", &source);
    is_clean(&run.run(&["cargo", "run", "--quiet"]), "hello\n");
}
