//! What is executed, by whatever name and way: J15 to J20.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, outside, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "which program ran is seen by the hooks of `monitoring::`"
);

/// A profile on top of `untrusted`, in a directory that no jail sees.
fn profile(rules: &str) -> (tempfile::TempDir, String) {
    let directory = scratch();
    let path = directory.path().join("mine.toml");
    let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
    std::fs::write(&path, format!("{head}{rules}")).expect("a test can write its directory");
    let option = format!("--profile {}", path.display());
    (directory, option)
}

fn rule(on: &str, path: &str) -> String {
    format!(
        "[[rule]]\nid = \"denied-program\"\non = {on}\n{path}\naction = \"kill\"\nwhy = \"a test\"\n"
    )
}

fn paths_of(ran: &Ran, rule: &str) -> Vec<String> {
    let of_rule = ran
        .violations()
        .iter()
        .filter(|violation| violation["rule"] == rule);
    of_rule
        .map(|violation| violation["path"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
pub fn j15_the_working_directory_is_inside() {
    // The control: who changes the root and not the directory is still outside.
    let forgetful = "import os
os.chdir('/')
os.chroot('/usr')
print(os.path.exists('etc/passwd'), os.path.exists('/etc/passwd'))";
    let arguments = ["-Ur", "python3", "-c", forgetful];
    let (_, told) = outside("unshare", &arguments);
    assert_eq!(told, "True False\n", "the control: only the way up is left");
    let run = Run::new().option("--unmonitored");
    let ran = run.shell("pwd -P; readlink /proc/self/cwd; ls -d /proc/self/cwd/../../.. >/dev/null && readlink -f /proc/self/cwd/../../..");
    ran.expect(
        ran.stdout == "/workspace\n/workspace\n/\n",
        "no way up but the jail's own root",
    );
}

#[test]
pub fn j16_the_runner_is_not_overwritten() {
    let before = std::fs::read(turnkey_tests::binary()).unwrap();
    // Run by whoever executes it: runc's own mistake was to be that.
    let entry = "#!/proc/self/exe\nprint('the runner ran this')\n";
    let run = Run::new().option("--mode observe").file("entry", entry);
    let path = run.path().join("entry");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let start = format!(
        "import os; os.execv({:?}, ['entry'])",
        path.display().to_string()
    );
    let (_, told) = outside("python3", &["-c", &start]);
    assert_eq!(
        told, "the runner ran this\n",
        "the control: outside it is the runner that runs"
    );
    let ran = run.run(&["./entry"]);
    ran.expect_code(126);

    let overwrite = "import glob, os
for exe in glob.glob('/proc/*/exe') + ['/proc/self/exe', '/proc/1/exe']:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_PATH):
        try:
            fd = os.open(exe, flags)
            if flags == os.O_PATH: fd = os.open(f'/proc/self/fd/{fd}', os.O_WRONLY)
            os.write(fd, b'overwritten')
            print('wrote', exe)
        except OSError: pass
print('tried')";
    let ran = Run::new().option("--mode observe").python(overwrite);
    ran.expect(
        ran.stdout == "tried\n",
        "nothing could be opened for writing",
    );
    assert!(
        before == std::fs::read(turnkey_tests::binary()).unwrap(),
        "byte for byte the same"
    );
    assert!(
        overwritten_outside(),
        "the control: outside a program's file is reached this way"
    );
}

/// Whether a program of one's own that has just ended is overwritten through a descriptor taken
/// from its /proc/PID/exe.
fn overwritten_outside() -> bool {
    let directory = scratch();
    let victim = directory.path().join("victim");
    std::fs::copy("/usr/bin/sleep", &victim).expect("a test can copy");
    let program = format!(
        "import os, subprocess, time
victim = subprocess.Popen([{:?}, '60'])
taken = os.open(f'/proc/{{victim.pid}}/exe', os.O_PATH)
victim.kill(); victim.wait()
# A process that has been waited for may still have its program open for a moment.
for _ in range(500):
    try:
        os.write(os.open(f'/proc/self/fd/{{taken}}', os.O_WRONLY | os.O_TRUNC), b'overwritten')
        break
    except OSError:
        time.sleep(0.01)",
        victim.display().to_string()
    );
    let (status, _) = outside("python3", &["-c", &program]);
    status.success() && std::fs::read(&victim).expect("it is there") == b"overwritten"
}

const SPELLINGS: &str = "import os
os.symlink('/usr/bin/id', '/tmp/link')
os.symlink('/usr/bin', '/tmp/directory')
spellings = ['/usr/bin/id', '/proc/self/root/usr/bin/id', '/usr/bin/../bin/./id', '/tmp/link',
    '/tmp/directory/id', '/proc/self/fd/%d/id' % os.open('/usr/bin', os.O_PATH)]
def start(what, *more):
    if os.fork() == 0:
        os.execve(what, ['id', '-u'], {})
    os.wait()
for spelling in spellings: start(spelling)
start(os.open('/usr/bin/id', os.O_PATH))
os.chdir('/usr/bin')
start('./id')";

#[test]
fn j17_another_spelling_of_a_program_is_the_same_program() {
    let (_kept, option) = profile(&rule("\"exec\"", "path = \"/usr/bin/id\""));
    let ran = Run::new()
        .option(&format!("{option} --mode observe"))
        .python(SPELLINGS);
    ran.expect(
        ran.stdout.lines().count() == 8,
        "the control: unhindered, all eight run",
    );
    let told: u64 = ran
        .violations()
        .iter()
        .filter(|violation| {
            violation["rule"] == "denied-program" && violation["path"] == "/usr/bin/id"
        })
        .map(|violation| violation["count"].as_u64().unwrap_or(1))
        .sum();
    ran.expect(told == 8, "each is told as the program it is");
    let ran = Run::new()
        .option(&option)
        .shell("/proc/self/root/usr/bin/id; echo survived");
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "it neither ran nor was survived");
}

#[test]
fn j17_a_copy_is_another_program_which_a_list_of_allowed_ones_refuses() {
    let program = "import os, shutil
shutil.copy('/usr/bin/id', '/tmp/copy'); os.link('/tmp/copy', '/tmp/hard')
for path in ('/tmp/copy', '/tmp/hard'):
    if os.fork() == 0: os.execv(path, ['id', '-u'])
    os.wait()";
    let everything_else = rule("\"exec\"", "");
    let (_kept, option) = profile(&everything_else);
    let observed = Run::new()
        .option(&format!("{option} --mode observe"))
        .python(program);
    observed.expect(
        observed.stdout == "1000\n1000\n",
        "the control: unhindered, both run",
    );
    let told = paths_of(&observed, "denied-program");
    observed.expect(
        told.contains(&"/tmp/copy".into()) && told.contains(&"/tmp/hard".into()),
        "both are told",
    );
    let ran = Run::new().option(&option).python(program);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "neither ran");
}

#[test]
fn j18_a_program_started_by_the_loader_is_caught_by_a_rule_on_opening_it() {
    let loader = "/lib64/ld-linux-x86-64.so.2 /usr/bin/id -u";
    // SECURITY.md: a rule on exec sees the loader.
    let (_kept, option) = profile(&rule("\"exec\"", "path = \"/usr/bin/id\""));
    let blind = Run::new().option(&option).shell(loader);
    blind.expect(
        blind.stdout == "1000\n",
        "the control: a rule on exec alone is passed by",
    );
    let (_kept, option) = profile(&rule("[\"exec\", \"open\"]", "path = \"/usr/bin/id\""));
    let ran = Run::new().option(&option).shell(loader);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "it did not run");
    ran.expect(
        paths_of(&ran, "denied-program") == ["/usr/bin/id"],
        "and is named",
    );
}

#[test]
pub fn j20_what_would_load_foreign_code_is_not_passed() {
    let directory = scratch();
    turnkey_tests::open_to_all(directory.path());
    let library = directory.path().join("preloaded.so");
    let text = directory.path().join("preloaded.c");
    let source = "#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { if (write(1, \"foreign code\\n\", 13)) {} }";
    std::fs::write(&text, source).unwrap();
    let paths = [&library, &text].map(|path| path.display().to_string());
    let (status, _) = outside("cc", &["-shared", "-fPIC", "-o", &paths[0], &paths[1]]);
    assert!(status.success());
    // The profile's own says how many CPUs there are.
    let script = "env | grep -E '^(LD_|BASH_ENV|ENV|PYTHON|PERL|NODE_OPTIONS|BUN_OPTIONS|RUBYOPT|GCONV_PATH|GLIBC_TUNABLES)' \
                  | grep -v '^PYTHON_CPU_COUNT=' | sort; /bin/true";
    let foreign = [
        ("LD_AUDIT", "/nonexistent"),
        ("BASH_ENV", "/nonexistent"),
        ("PYTHONPATH", "/nonexistent"),
        ("NODE_OPTIONS", "--require=/nonexistent"),
        ("BUN_OPTIONS", "--preload=/nonexistent"),
        ("PERL5OPT", "-M/nonexistent"),
        ("GCONV_PATH", "/nonexistent"),
        ("GLIBC_TUNABLES", "glibc.malloc.check=0"),
    ];
    let passed = Command::new("/bin/sh")
        .args(["-c", script])
        .envs(foreign)
        .output()
        .unwrap();
    let passed = String::from_utf8_lossy(&passed.stdout).into_owned();
    for (name, value) in foreign {
        let line = format!("{name}={value}\n");
        assert!(passed.contains(&line), "the control: {line} {passed}");
    }
    let place = directory.path().display();
    let run = Run::new().option(&format!("--unmonitored --read {place}"));
    let mut command = run.command(&["/bin/sh", "-c", script]);
    command.envs(foreign).stdout(std::process::Stdio::piped());
    let output = turnkey_tests::finish(command.spawn().unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "none of them");
    let preload = format!("--unmonitored --read {place} --env LD_PRELOAD={}", paths[0]);
    let asked = Run::new().option(&preload).shell("/bin/true");
    asked.expect(
        asked.stdout.contains("foreign code"),
        "the control: only when it is asked for",
    );
    let (_, told) = outside("env", &[&format!("LD_PRELOAD={}", paths[0]), "/bin/true"]);
    assert_eq!(told, "foreign code\n", "the control: outside it is loaded");
}
