//! Settings of a program's own that its home lacks: nobody's secret, and a matter of the rules as soon as they are there.

use std::io::Read as _;
use std::process::Stdio;

use turnkey_tests::{Run, finish, scratch};

/// Programs that look for them at every start, as far as this machine has them.
const CLIENTS: &[(&str, &[&str])] = &[
    ("docker", &["docker", "-v"]),
    ("kubectl", &["kubectl", "config", "view"]),
    (
        "curl",
        &["curl", "--netrc-optional", "file:///etc/hostname"],
    ),
    (
        "python3",
        &[
            "python3",
            "-c",
            "import netrc\ntry: netrc.netrc()\nexcept FileNotFoundError: print('none')",
        ],
    ),
];

fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path);
    directories
        .into_iter()
        .any(|one| one.join(program).is_file())
}

#[test]
fn clients_find_none_of_their_own_and_go_on() {
    let here = CLIENTS.iter().filter(|(program, _)| is_here(program));
    for (program, command) in here {
        let ran = Run::new().option("--wall 60s").run(command);
        ran.expect(ran.code == 0, program);
        // kubectl looks for a cluster on this machine as well.
        let mut rules = ran.violations().iter().map(|one| &one["rule"]);
        ran.expect(rules.all(|rule| rule == "network-connect"), program);
    }
}

/// The open is the same; the file makes the difference.
#[test]
fn the_same_question_kills_where_there_is_an_answer() {
    let ask = "open('/workspace/.netrc').read()";
    let absent = Run::new().python(&format!(
        "try: {ask}\nexcept FileNotFoundError: print('none')"
    ));
    absent.expect_code(0);
    absent.expect(absent.violations().is_empty(), "there is none");
    let told = absent.list("/file_operations").iter();
    absent.expect(
        told.into_iter()
            .any(|one| one["path"] == "/workspace/.netrc"),
        "the question is told all the same",
    );
    let there = Run::new()
        .file(".netrc", "machine x password y")
        .python(ask);
    there.expect_code(121);
    there.expect(
        there.violations()[0]["rule"] == "stored-credential",
        "it is guarded",
    );
    let own = Run::new().python(
        "open('/workspace/.netrc', 'w').write('mine'); print(open('/workspace/.netrc').read())",
    );
    own.expect(
        own.code == 0 && own.stdout == "mine\n",
        "what it made is its own",
    );
}

#[test]
fn elsewhere_and_in_somebody_elses_project_it_kills_as_before() {
    for path in ["/root/.netrc", "/home/ada/.docker/config.json"] {
        let ran = Run::new().python(&format!("open('{path}')"));
        ran.expect_code(121);
    }
    for path in [
        "/workspace/project/.pgpass",
        "/workspace/other/.aws/credentials",
    ] {
        let ran = with("project", ".netrc").python(&format!("open('{path}')"));
        ran.expect_code(121);
    }
    let moved = with("project", ".netrc").shell("mv project/.netrc .netrc; cat .netrc");
    moved.expect_code(121);
    moved.expect(
        !moved.stdout.contains("secret"),
        "the old name is asked about",
    );
    let script = "mv project/.docker .docker; cat .docker/config.json";
    let directory = with("project/.docker", "config.json").shell(script);
    directory.expect_code(121);
    directory.expect(!directory.stdout.contains("secret"), "and those below it");
}

/// A secret of somebody's project in the workspace.
fn with(directory: &str, name: &str) -> Run {
    let run = Run::new();
    std::fs::create_dir_all(run.path().join(directory))
        .expect("a test can write its own directory");
    let run = run.file(&format!("{directory}/{name}"), "secret");
    let mut place = run.path().join(directory);
    while place != run.path() {
        turnkey_tests::open_to_all(&place);
        place.pop();
    }
    run
}

#[test]
fn who_hunts_in_an_empty_home_is_named() {
    for hunt in [
        "cat ~/.ssh/id_rsa; true",
        "base64 ~/.aws/credentials; true",
        "python3 -c \"open('/workspace/.ssh/id_ed25519')\"; true",
        "python3 -c \"\nfor name in ('.netrc', '.kube/config'):\n  try: open('/workspace/' + name)\n  except OSError: pass\"",
    ] {
        let ran = Run::new().shell(hunt);
        let found = ran.list("/findings").iter();
        let mut ids = found.map(|one| &one["id"]);
        ran.expect(ids.any(|id| id == "behaviour:credential-access"), hunt);
        ran.expect(ran.at("/verdict") == "violated", "which is high");
    }
}

/// The limit of rules on what is present, as SECURITY.md has it: the file is read, and the run is no clean one.
#[test]
fn what_somebody_outside_puts_there_meanwhile_is_read_and_named() {
    let run = Run::new();
    // By its input and not by looking: an overlay remembers names that were not there.
    let waits = "echo go; read -r word; cat .netrc";
    let mut child = run
        .command(&["/bin/sh", "-c", waits])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("turnkey can be started");
    let mut go = [0; 3];
    let output = child.stdout.as_mut().expect("it is piped");
    output.read_exact(&mut go).expect("the program runs");
    std::fs::write(run.path().join(".netrc"), "SECRETZ")
        .expect("a test can write its own directory");
    drop(child.stdin.take());
    let ended = finish(child);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "SECRETZ");
    let report = run.report();
    assert_eq!(report["verdict"], "violated", "{report:#}");
    let mut found = report["findings"].as_array().into_iter().flatten();
    assert!(
        found.any(|one| one["id"] == "behaviour:credential-access"),
        "{report:#}"
    );
}

#[test]
fn another_home_is_looked_at_too() {
    let home = scratch();
    turnkey_tests::open_to_all(home.path());
    let path = home.path().display().to_string();
    let run = || Run::new().option(&format!("--env HOME={path} --read {path}"));
    let ask = "import os, sys\ntry: print(open(os.environ['HOME'] + '/.netrc').read())\nexcept FileNotFoundError: print('none')";
    let empty = run().python(ask);
    empty.expect(empty.code == 0 && empty.stdout == "none\n", "it has none");
    empty.expect(empty.violations().is_empty(), "and no rule speaks");
    std::fs::write(home.path().join(".netrc"), "secret")
        .expect("a test can write its own directory");
    run().python(ask).expect_code(121);
}

#[test]
fn explain_says_why_nothing_is_said() {
    let place = scratch();
    let answer = |directory: &std::path::Path| {
        let output = std::process::Command::new(turnkey_tests::binary())
            .args(["explain", "untrusted", "--on", "open", "--path", "~/.netrc"])
            .current_dir(directory)
            .output()
            .expect("turnkey can be started");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let silent = answer(place.path());
    assert!(
        silent.contains("the rule stored-credential says nothing of it"),
        "{silent}"
    );
    assert!(silent.contains("none stops it"), "{silent}");
    std::fs::write(place.path().join(".netrc"), "x").expect("a test can write its own directory");
    let speaks = answer(place.path());
    assert!(
        speaks.contains("Decides: kill, by the rule stored-credential"),
        "{speaks}"
    );
}

/// Acts of a program on files that it makes itself under guarded names, each with the content of one as its output.
const OF_ITS_OWN: &[&str] = &[
    "mkdir -p d/.ssh; echo x > d/.ssh/id_x; cat $PWD/d/.ssh/id_x; rm -r d",
    "cat d/.netrc $PWD/d/.netrc; mkdir d; echo x > $PWD/d/.new; mv $PWD/d/.new $PWD/d/.netrc; cat d/.netrc; rm $PWD/d/.netrc",
    "mkdir -p d/.docker; echo x > d/.docker/config.json; mv d/.docker d/other; ln d/other/config.json d/.netrc; cat d/.netrc",
    "mkdir d; ln -s d here; echo x > here/.netrc; cat $PWD/d/.netrc; mkdir .aws; cd .aws; echo x > credentials; mv credentials other; cat other",
    "mkdir -p p/.ssh; echo x > p/.ssh/id_x; tar cf p.tar p; rm -r p; tar xf p.tar; cat p/.ssh/id_x",
];

#[test]
fn what_a_program_makes_itself_where_nothing_of_the_kind_was_is_its_own() {
    let scripts = OF_ITS_OWN.iter();
    let acts = scripts.flat_map(|script| ["/tmp", "/workspace"].map(|place| (place, script)));
    for (place, script) in acts {
        let ran = Run::new().shell(&format!("cd {place}; {{ {script}; }} 2>/dev/null"));
        ran.expect(ran.stdout.contains('x') && ran.code == 0, script);
        ran.expect(ran.violations().is_empty(), script);
    }
}

/// Settings of somebody's that are unpacked, each with the content of one as its output.
const UNPACKED: &[&str] = &[
    "mkdir -p d/.ssh d/.config/autostart; for name in .bashrc .profile .ssh/authorized_keys .config/autostart/x.desktop; do echo x > d/$name; done; \
     tar cf d.tar d; rm -r d; tar xf d.tar; cat d/.bashrc; mv d/.bashrc d/bashrc; mv d other; cat other/.ssh/authorized_keys",
    "git init -q d; cd d; mkdir .ssh; echo x > .zshrc; cp .zshrc .ssh/authorized_keys; git add .; git -c user.name=x -c user.email=x commit -q -m x; \
     cd ..; git clone -q d clone; cat clone/.zshrc clone/.ssh/authorized_keys",
    "python3 -c \"import os; os.makedirs('h/.config/fish'); open('h/.config/fish/config.fish', 'w').write('x'); os.rename('h', 'home')\"; cat $PWD/home/.config/fish/config.fish",
];

#[test]
fn settings_that_are_unpacked_where_nobody_has_a_home_are_nobodys() {
    for (place, script) in UNPACKED
        .iter()
        .flat_map(|script| ["/tmp", "/workspace"].map(|place| (place, script)))
    {
        let ran = Run::new().shell(&format!("cd {place}; {{ {script}; }} 2>/dev/null"));
        ran.expect(ran.stdout.contains('x') && ran.code == 0, script);
        ran.expect(ran.violations().is_empty(), script);
        ran.expect(
            ran.at("/findings").as_array().is_some_and(Vec::is_empty),
            script,
        );
    }
}

/// Settings that are somebody's lie among a directory's, and somebody's home lies in one: what is put beside them may be run.
#[test]
fn m05_m06_where_somebody_may_run_it_nothing_is_put_for_later() {
    let write = "mkdir -p new; echo x > new/.bashrc; cat new/.bashrc";
    let free = Run::new().file("bash/bashrc", "mine").shell(write);
    free.expect(free.code == 0 && free.stdout == "x\n", "the control");
    let dotfiles = Run::new().file("bash/.bashrc", "mine").shell(write);
    dotfiles.expect_code(121);
    let homes = Run::new().file("ada/notes", "mine");
    let mut command = homes.command(&["sh", "-c", write]);
    command.env("HOME", homes.path().join("ada"));
    let started = std::time::Instant::now();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("turnkey starts");
    homes.end(child, started).expect_code(121);
}

/// Ways by which they would come to run later: each says so where nothing is enforced.
const RUNS_LATER: &[&str] = &[
    "echo x > ~/.bashrc; cat ~/.bashrc",
    "echo x > /tmp/.bashrc; cp /tmp/.bashrc ~/.bashrc; cat ~/.bashrc",
    "echo x > /tmp/.bashrc; mv /tmp/.bashrc ~/.bashrc; cat ~/.bashrc",
    "echo x > /tmp/.bashrc; ln -s /tmp/.bashrc ~/.bashrc; cat ~/.bashrc",
    "ln -s /workspace /tmp/home; echo x > /tmp/home/.bashrc; cat ~/.bashrc",
    "cd /tmp; ln -s ../workspace home; cd -P home; echo x > .bashrc; cat ~/.bashrc",
    "mkdir -p /tmp/.ssh; echo x > /tmp/.ssh/authorized_keys; cp -r /tmp/.ssh ~/; cat ~/.ssh/authorized_keys",
    "mkdir -p /tmp/.ssh; echo x > /tmp/.ssh/authorized_keys; ln -s /tmp/.ssh ~/.ssh; cat ~/.ssh/authorized_keys",
];

/// The same by a directory of the workspace.
const RUNS_LATER_BY_A_DIRECTORY: &[&str] = &[
    "mkdir d; echo x > d/.bashrc; mv d/.bashrc ~/.bashrc; cat ~/.bashrc",
    "mkdir d; echo x > d/.bashrc; ln d/.bashrc .bashrc; cat ~/.bashrc",
    "mkdir d; echo x > d/.bashrc; ln -s d/.bashrc .bashrc; cat ~/.bashrc",
    "mkdir d; echo x > d/.bashrc; cp d/.bashrc d/../.bashrc; cat ~/.bashrc",
    "mkdir d; ln -s ../d/.. d/up; echo x > d/up/.bashrc; cat ~/.bashrc",
    "mkdir -p d/.ssh; echo x > d/.ssh/authorized_keys; mv d/.ssh ~/; cat ~/.ssh/authorized_keys",
    "mkdir -p d/.ssh; echo x > d/.ssh/authorized_keys; ln -s d/.ssh .ssh; cat ~/.ssh/authorized_keys",
    "mkdir -p d/autostart; echo x > d/autostart/x.desktop; mv d ~/.config; cat ~/.config/autostart/x.desktop",
    "mkdir d .ssh; echo x > d/authorized_keys; mv d/authorized_keys .ssh; cat ~/.ssh/authorized_keys",
];

#[test]
fn m05_m06_memory_is_no_way_to_what_runs_later() {
    kills_each(RUNS_LATER);
}

#[test]
fn m05_m06_a_directory_of_the_workspace_is_no_way_to_what_runs_later() {
    kills_each(RUNS_LATER_BY_A_DIRECTORY);
}

fn kills_each(ways: &[&str]) {
    for way in ways {
        let control = Run::new().option("--mode observe").shell(way);
        control.expect(control.stdout.contains('x'), &format!("control: {way}"));
        let ran = Run::new().shell(way);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains('x'), way);
    }
}

/// Ways through memory of the jail's own to a secret of the workspace; each prints it where nothing is enforced.
const BY_MEMORY: &[&str] = &[
    "ln -s /workspace/project /tmp/a; cat /tmp/a/.netrc",
    "ln -s /workspace/project /tmp/a; mv /tmp/a/.netrc /tmp/a/x; cat project/x",
    "ln -s /workspace/project /tmp/a; ln /tmp/a/.netrc /tmp/a/x; cat project/x",
    "cd /tmp; ln -s ../workspace/project a; mv a/.netrc a/x; cat a/x",
    "cd /tmp; ln -s ../workspace/project a; cd -P a; mv .netrc x; cat x",
    "cd /tmp; ln -s /workspace/project/.netrc .netrc; cat .netrc",
    "mkdir /tmp/d; ln -s /tmp/d d; mv d/../workspace/project/.netrc x 2>/dev/null || mv /tmp/../workspace/project/.netrc x; cat x",
    "mv project/.netrc /tmp/.netrc; cat /tmp/.netrc",
    "cp project/.netrc /tmp/.netrc; cat /tmp/.netrc",
    "mv project /tmp/project; cat /tmp/project/.netrc",
];

#[test]
fn m05_m06_memory_of_its_own_is_no_way_round_a_rule_on_what_is_present() {
    for way in BY_MEMORY {
        let control = with("project", ".netrc")
            .option("--mode observe")
            .shell(way);
        control.expect(
            control.stdout.contains("secret"),
            &format!("the control: {way}"),
        );
        let ran = with("project", ".netrc").shell(way);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("secret"), way);
        let mut rules = ran.violations().iter().map(|one| &one["rule"]);
        ran.expect(rules.any(|rule| rule == "stored-credential"), way);
    }
}

/// A look through a symlink at what is not there is one at where it leads to.
#[test]
fn an_absent_secret_elsewhere_is_one_through_a_symlink_in_memory_too() {
    for ask in ["cat /tmp/home/.ssh/id_rsa", "head /tmp/home/.netrc"] {
        let ran = Run::new().shell(&format!("ln -s /root /tmp/home; {ask}"));
        ran.expect_code(121);
    }
}

/// Suites of tests make symlinks, and homes in the directory for temporary files.
#[test]
fn what_a_run_makes_in_a_home_of_its_own_is_free_beside_symlinks() {
    let acts = [
        "os.symlink('dots', h + '/.bashrc')",
        "os.symlink('x', h + '/y'); os.symlink('dots', h + '/.profile')",
        "os.symlink('x', h + '/y'); os.rename(made, h + '/.bashrc')",
        "os.symlink('x', h + '/y'); os.link(made, h + '/.zshrc'); os.unlink(h + '/.zshrc')",
        "os.symlink('x', h + '/y'); os.mkfifo(h + '/.profile'); os.chmod(h + '/.profile', 0o600)",
        "os.symlink('x', h + '/y'); asked(h + '/.netrc'); asked(h + '/.docker/config.json')",
    ];
    let ran = in_own_home(&acts);
    ran.expect_code(0);
    ran.expect(ran.stdout.contains("lived on"), "the control: all is done");
    ran.expect(ran.violations().is_empty(), "nothing is told of it");
}

#[test]
fn a_symlink_out_of_a_home_of_its_own_leads_to_the_programs() {
    for act in [
        "os.symlink('/workspace', h + '/d'); os.symlink('dots', h + '/d/.bashrc')",
        "os.symlink('/workspace', h + '/d'); os.rename('made', h + '/d/.bashrc')",
        "os.symlink('/workspace', h + '/d'); os.mkfifo(h + '/d/.profile')",
        "os.symlink('/root/.netrc', h + '/.netrc'); asked(h + '/.netrc')",
        "os.symlink('/root', h + '/d'); asked(h + '/d/.netrc')",
    ] {
        in_own_home(&[act]).expect_code(121);
    }
}

fn in_own_home(acts: &[&str]) -> turnkey_tests::Ran {
    let acts: Vec<String> = acts.iter().map(|act| format!("home(); {act}")).collect();
    Run::new().python(&format!(
        "import os, tempfile
def home():
    global h, made
    h = tempfile.mkdtemp(); made = h + '/made'; open(made, 'w').close(); open('made', 'w').close()
def asked(path):
    try: open(path)
    except OSError as error: print(error)
{}
print('lived on')",
        acts.join("\n")
    ))
}
