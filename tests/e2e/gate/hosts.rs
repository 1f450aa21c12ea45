//! The gate where code hosts and hooks call it: `action.yml` and `.pre-commit-hooks.yaml` of this repository.

use std::path::Path;
use std::process::{Command, Output};

use turnkey_expectations::expected;
use turnkey_tests::{binary, measured, reader, scratch};

use super::repository::{TestRepository, WRITTEN, unrunnable};

const ACTION: &str = include_str!("../../../action.yml");
const HOOKS: &str = include_str!("../../../.pre-commit-hooks.yaml");

/// The script of the action's step, and its variables with the inputs that they hold.
fn step() -> (String, Vec<(String, String)>) {
    let (_, step) = ACTION.split_once("      env:\n").expect("a step");
    let (variables, script) = step.split_once("      run: |\n").expect("a script");
    let variables = variables.lines().map(|line| {
        let (name, value) = line.trim().split_once(": ").expect("a variable");
        let input = value.strip_prefix("${{ inputs.");
        let input = input.and_then(|input| input.strip_suffix(" }}"));
        (name.to_owned(), input.expect("an input").to_owned())
    });
    let lines = script.lines();
    let script: Vec<&str> = lines
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    (script.join("\n"), variables.collect())
}

/// Does what a runner does with the step, with this base.
fn on_a_runner(repository: &TestRepository, place: &Path, base: &str) -> Output {
    let (script, variables) = step();
    let file = place.join("step.sh");
    std::fs::write(&file, script).expect("it can be written");
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail"])
        .arg(file);
    for (name, input) in variables {
        let value = match input.as_str() {
            "base" => base.to_owned(),
            "head" => "HEAD".to_owned(),
            "config" => "turnkey.toml".to_owned(),
            "turnkey" => binary().display().to_string(),
            other => panic!("the action has an input more: {other}"),
        };
        bash.env(name, value);
    }
    bash.current_dir(repository.path())
        .env("RUNNER_TEMP", place)
        .env("GITHUB_OUTPUT", place.join("output"))
        .env("GITHUB_STEP_SUMMARY", place.join("summary"));
    bash.output().expect("bash is here")
}

#[test]
fn the_action_does_what_it_says_on_a_runner() {
    let (script, _) = step();
    assert!(
        !script.contains("${{"),
        "a runner would write a stranger's words into it"
    );
    let repository = TestRepository::new(&unrunnable());
    let message = format!("::set-env name=A::x\n\n{WRITTEN}");
    repository.commit(&message, &[("a", "x")]);
    let place = scratch();
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
    let done = on_a_runner(&repository, place.path(), "base");
    assert_eq!(done.status.code(), Some(120), "{done:?}");
    let output = read("output");
    for line in output.lines().skip(1) {
        let (_, path) = line.split_once('=').expect("an output");
        assert!(Path::new(path).is_file(), "{line}");
    }
    assert!(
        output.starts_with("verdict=inconclusive\nresult="),
        "{output}"
    );
    assert!(read("summary").contains("**turnkey gate: inconclusive**"));
    // The words of the commit stand between the marks.
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    let first = printed.lines().next();
    let token = first.and_then(|line| line.strip_prefix("::stop-commands::"));
    let end = format!("::{}::", token.expect("a mark"));
    assert_eq!(printed.lines().last(), Some(end.as_str()), "{printed}");
    assert!(printed.contains("::set-env name=A::x"), "{printed}");

    let done = on_a_runner(&repository, place.path(), "$(touch taken); touch taken #");
    assert_eq!(done.status.code(), Some(125), "{done:?}");
    assert!(read("output").contains("verdict=error"));
    assert!(!repository.at("taken").exists());
    repository.git(&["branch", "-f", "base", "HEAD"]);
    let done = on_a_runner(&repository, place.path(), "base");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

/// The schema of code hosts, as check-jsonschema has it.
#[test]
fn the_action_fits_the_schema_of_its_host() {
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/../action.yml");
    let options = ["--builtin-schema", "vendor.github-actions", action];
    let Some(mut checker) = reader("check-jsonschema") else {
        return;
    };
    let checked = checker.args(options).output().expect("it can be started");
    assert!(checked.status.success(), "{checked:?}");
}

expected!(
    the_hooks_do_what_they_say: at_night,
    "pre-commit clones and asks git for seconds; `the_action_does_what_it_says_on_a_runner` has the gate by day"
);
/// By pre-commit itself, where this machine has it: `pip install pre-commit`.
#[test]
fn the_hooks_do_what_they_say() {
    let Ok(_) = Command::new("pre-commit").arg("--version").output() else {
        return measured("pre-commit is not here, and ran no hook");
    };
    let hooks = TestRepository::new("");
    hooks.commit("hooks", &[(".pre-commit-hooks.yaml", HOOKS)]);
    let repository = TestRepository::new(&unrunnable());
    let config = format!(
        "repos:\n  - repo: {}\n    rev: {}\n    hooks:\n      - id: turnkey-gate\n        args: [--base=base]\n      - id: turnkey-scan\n",
        hooks.path().display(),
        hooks.git(&["rev-parse", "HEAD"]).trim()
    );
    repository.commit("by hand", &[(".pre-commit-config.yaml", &config)]);
    let home = scratch();
    let folder = binary();
    let folder = folder.parent().expect("it lies in a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{folder}:{path}");
    let hook = |line: &str| {
        let mut hook = Command::new("pre-commit");
        hook.current_dir(repository.path())
            .args(["run", "--verbose", "--color", "never"])
            .args(line.split(' '))
            .env("PRE_COMMIT_HOME", home.path())
            .env("PATH", &path);
        let output = hook.output().expect("it can be started");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), printed)
    };
    let pushed = "turnkey-gate --hook-stage pre-push --from-ref base --to-ref";
    let (code, printed) = hook(&format!("{pushed} HEAD"));
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("turnkey gate: pass"), "{printed}");
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    let (code, printed) = hook(&format!("{pushed} HEAD"));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("turnkey gate: inconclusive"), "{printed}");
    repository.commit("by hand", &[("a.py", "print(1)\n")]);
    let (code, printed) = hook("turnkey-scan --all-files");
    assert_eq!(code, Some(0), "{printed}");
    let script = "import base64\nexec(base64.b64decode('aW1wb3J0IG9zO29zLnN5c3RlbSgnaWQnKQ=='))\n";
    repository.commit("by hand", &[("a.py", script)]);
    let (code, printed) = hook("turnkey-scan --all-files");
    assert_eq!(code, Some(1), "{printed}");
    repository.git(&["reset", "-q", "--hard", "HEAD~2"]);
    // What is pushed is judged, and not what is checked out.
    let (code, printed) = hook(&format!("{pushed} HEAD~1"));
    assert_eq!(code, Some(0), "{printed}");
}
