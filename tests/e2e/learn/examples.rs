//! The programs in `examples/`: harmless ones run under what was learned of them as they do otherwise, and
//! hostile ones are stopped by what was learned of a harmless one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{Run, binary, compile, finish};

expected!(
    at_night,
    "each example is learned from and run again; `learn::` has what learning is"
);

/// Where the repository lies.
pub fn examples(kind: &str) -> PathBuf {
    let root = std::env::var_os("TURNKEY_ROOT").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    root.join("examples").join(kind)
}

/// A value of a program's header.
fn header(text: &str, key: &str) -> Option<String> {
    let lines = text
        .lines()
        .map(|line| line.trim_start_matches(['#', '/', ' ']));
    let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    values.next().map(str::to_owned)
}

/// Puts a program where it runs, with what some expect beside it; its command.
pub fn set_up(file: &Path, directory: &Path) -> Vec<String> {
    let name = file
        .file_name()
        .expect("a file")
        .to_string_lossy()
        .into_owned();
    let text = std::fs::read_to_string(file).expect("an example");
    std::fs::write(directory.join("todo.txt"), "buy milk\n").expect("a new file");
    std::fs::write(directory.join("draft.txt"), "draft\n").expect("a new file");
    std::fs::copy(file, directory.join(&name)).expect("a copy");
    let stem = file
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let words: Vec<&str> = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => vec!["python3", &name],
        Some("sh") => vec!["sh", &name],
        _ => {
            compile(&directory.join(&stem), &text);
            return vec![format!("./{stem}")];
        }
    };
    words.into_iter().map(str::to_owned).collect()
}

/// What a run of `turnkey` came to.
struct Came {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn turnkey(directory: &Path, arguments: &[String], stdin: Option<&Path>) -> Came {
    let stdin = match stdin {
        Some(file) => Stdio::from(std::fs::File::open(file).expect("a file")),
        None => Stdio::null(),
    };
    let mut command = Command::new(binary());
    command.current_dir(directory).args(arguments).stdin(stdin);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("turnkey can be started"));
    Came {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Learns a program, checks the profile, and runs it again under that.
fn round_trip(file: &Path) {
    let (directory, profiles) = (turnkey_tests::scratch(), turnkey_tests::scratch());
    let program = set_up(file, directory.path());
    let text = std::fs::read_to_string(file).expect("an example");
    let profile = profiles.path().join("learned.toml").display().to_string();
    let report = profiles.path().join("report.json");
    let input = header(&text, "stdin").map(|line| {
        let input = profiles.path().join("input");
        std::fs::write(&input, line + "\n").expect("a new file");
        input
    });
    let base = header(&text, "profile").unwrap_or_else(|| "untrusted".to_owned());
    let flags = header(&text, "args").unwrap_or_default();
    let line = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words
            .chain(["--".to_owned()])
            .chain(program.clone())
            .collect()
    };
    let mut options = vec!["learn", "--profile", &base, "--out", &profile];
    options.extend(flags.split_whitespace());
    let learned = turnkey(directory.path(), &line(&options), input.as_deref());
    let name = file.display();
    let written = std::fs::read_to_string(&profile);
    let written = written.unwrap_or_else(|_| panic!("{name}: {}", learned.stderr));
    let check = turnkey(
        directory.path(),
        &["check".to_owned(), profile.clone()],
        None,
    );
    assert_eq!(check.code, Some(0), "{name}: {}\n{written}", check.stdout);
    let place = report.display().to_string();
    let options = ["run", "--profile", &profile, "--report", &place];
    let again = turnkey(directory.path(), &line(&options), input.as_deref());
    let story = format!("{name}\n{}\n{}\n{written}", again.stdout, again.stderr);
    assert_eq!(again.code, learned.code, "{story}");
    // The port is the kernel's choice.
    let plain = |text: &str| {
        text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '\n')
            .to_owned()
    };
    assert_eq!(plain(&again.stdout), plain(&learned.stdout), "{story}");
    let report = std::fs::read(report).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("it is JSON");
    assert_eq!(report["verdict"], "clean", "{story}");
}

fn round_trips(ending: &str, begins: impl Fn(char) -> bool) {
    let mut tried = 0;
    for entry in std::fs::read_dir(examples("harmless")).expect("examples") {
        let file = entry.expect("it can be listed").path();
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(ending) && name.starts_with(&begins) {
            round_trip(&file);
            tried += 1;
        }
    }
    assert!(tried > 0, "there are such programs");
}

#[test]
fn harmless_python_programs_run_clean_under_what_was_learned_of_them() {
    round_trips(".py", |first| first < 'm');
}

#[test]
fn more_harmless_python_programs_run_clean_under_what_was_learned_of_them() {
    round_trips(".py", |first| first >= 'm');
}

#[test]
fn harmless_scripts_run_clean_under_what_was_learned_of_them() {
    round_trips(".sh", |_| true);
}

#[test]
fn harmless_c_programs_run_clean_under_what_was_learned_of_them() {
    round_trips(".c", |_| true);
}

/// Each gets at what a run under `python` denies it no more than under what was learned of the CSV script,
/// and most of what `python` lets them do is stopped as well.
#[test]
fn hostile_programs_are_stopped_by_what_was_learned_of_a_harmless_one() {
    let (directory, profiles) = (turnkey_tests::scratch(), turnkey_tests::scratch());
    let harmless = set_up(
        &examples("harmless").join("csv_summary.py"),
        directory.path(),
    );
    let profile = profiles.path().join("learned.toml").display().to_string();
    let mut learn: Vec<String> = ["learn", "--profile", "python", "--out", &profile, "--"]
        .map(str::to_owned)
        .to_vec();
    learn.extend(harmless);
    let learned = turnkey(directory.path(), &learn, None);
    assert_eq!(learned.code, Some(0), "{}", learned.stderr);
    // What must not come out of each; whether `python` lets it come out; whether it is killed.
    let attacks = [
        ("passwd_direct.py", "jail:", true, true),
        ("passwd_by_cat.py", "jail:", true, true),
        ("shadow_direct.py", "root:", false, true),
        ("shadow_proc_root.py", "root:", false, true),
        ("new_account.sh", "added", false, true),
        ("bashrc_append.sh", "appended", false, true),
        ("shadow_by_cat.sh", "root:", false, false),
        ("memfd_exec_by_path.py", "ran from memory", false, false),
    ];
    for (name, effect, works, killed) in attacks {
        let run = |profile: &str| {
            let run = Run::new().option(&format!("--profile {profile}"));
            let program = set_up(&examples("hostile").join(name), run.path());
            run.run(&program.iter().map(String::as_str).collect::<Vec<_>>())
        };
        if works {
            let before = run("python");
            before.expect(
                before.stdout.contains(effect),
                &format!("{name} works under python"),
            );
        }
        let after = run(&profile);
        after.expect(
            !after.stdout.contains(effect),
            &format!("{name} has no effect"),
        );
        after.expect(after.code != 0, &format!("{name} fails"));
        after.expect(after.code == 121 || !killed, &format!("{name} is killed"));
    }
}
