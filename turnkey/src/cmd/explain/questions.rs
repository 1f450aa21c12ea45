//! Questions, and the answers as people see them.

use clap::Parser;
use turnkey_policy::{Overrides, Policy};

use super::answer;
use super::decision::ExplainedDecision;
use super::question::ExplainQuestion;
use super::snapshots::{host, plan};
use super::view::PlanView;
use crate::cli::{CommandLine, TurnkeyCommand};
use crate::output::rendered;

const RULES: &str = r#"
[[rule]]
id = "all"
on = ["open", "connect"]
action = "log"

[[rule]]
id = "settings"
on = "open"
path = "/srv/**"
action = "deny"
why = "settings are for others"

[[rule]]
id = "one-setting"
on = "open"
access = "write"
path = ["/srv/{app,web}/config", "/srv/app/*"]
action = "kill"
severity = "critical"
technique = "T1565.001"
why = "nobody writes it"

[[rule]]
id = "may-be-read"
on = "open"
access = "read"
path = "/srv/app/config"
action = "allow"

[[rule]]
id = "the-file-itself"
on = "exec"
path = "/srv/app/tool"
same_file = "optional"
action = "kill"

[[rule]]
id = "code-in-memory"
on = "exec"
flags = "memfd"
action = "deny"

[[rule]]
id = "own"
on = "open"
path = "/srv/own"
action = "kill"

[[rule]]
id = "own-git"
on = "open"
path = "/srv/own"
exe = ["/usr/bin/git", "/usr/lib/git-core/**"]
action = "allow"
why = "it is git's own"

[[rule]]
id = "own-run"
on = "open"
path = "/srv/own"
script = "/workspace/run"
action = "log"

[[rule]]
id = "lab"
on = ["connect", "send"]
address = "10.0.0.0/8"
action = "deny"

[[rule]]
id = "lab-web"
on = "connect"
address = "10.0.0.0/8"
port = [80, "8000-8010"]
action = "allow"

[[rule]]
id = "own-loopback"
on = "connect"
address = "127.0.0.1"
action = "kill"
"#;

fn policy(head: &str) -> Policy {
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\n{head}\n[syscalls]\nallow = \"@basic\"\n{RULES}"
    );
    let read = |_: &str| Ok(text.clone());
    turnkey_policy::load("./mine.toml", &read, &Overrides::default()).expect("it can be used")
}

fn question(line: &str) -> anyhow::Result<Option<ExplainQuestion>> {
    let words = ["turnkey", "explain"].into_iter().chain(line.split(' '));
    let TurnkeyCommand::Explain(arguments) = CommandLine::try_parse_from(words)?.command else {
        panic!("`explain` explains")
    };
    ExplainQuestion::new(&arguments.question)
}

fn asked(policy: &Policy, line: &str) -> String {
    let question = question(line)
        .expect("a question")
        .expect("it asks something");
    let tree = PlanView::new(&plan(policy, &host(), &["tool"])).tree;
    let decision = ExplainedDecision::new(policy, &question, Some(tree));
    let text = rendered(&decision, false, answer::write).expect("memory takes it");
    String::from_utf8(text).expect("the page is text")
}

macro_rules! answers {
    ($($name:ident: $head:expr, $line:expr;)+) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), asked(&policy($head), $line));
        }
    )+};
}

answers! {
    every_reason: "", "--path /srv/app/config";
    one_access: "", "--on open --path /srv/web/config --access write";
    no_rule: "", "--on chmod --path /srv/app/config";
    an_act_on_a_name: "", "--on rename --path /srv/app/config";
    an_attempt_without_a_path: "", "--on connect";
    the_file_itself: "", "--on exec --path /srv/app/tool";
    an_address: "", "--address 10.0.0.1:8001";
    an_address_within_another: "", "--on send --address [::ffff:10.1.2.3]:1";
    an_unspecified_address: "", "--address 0.0.0.0:1";
    an_address_of_its_own: "[network]\nmode = \"loopback\"", "--address 127.0.0.2:1";
    a_state_of_the_file: "", "--on exec --path memfd:x --flag memfd";
    somebody: "", "--path /srv/own --exe /usr/bin/git";
    somebody_else: "", "--path /srv/own --exe /usr/bin/vi --access read";
    a_script: "", "--path /srv/own --exe /usr/bin/dash --script ~/run --access read";
    nobody_known: "", "--path /srv/own --access read";
    rules_that_only_speak: "[enforcement]\nmode = \"observe\"", "--path /srv/app/config";
}

#[test]
fn a_shipped_profile() {
    let policy = super::snapshots::policy("untrusted");
    insta::assert_snapshot!("a_decoy", asked(&policy, "--path /etc/shadow"));
    insta::assert_snapshot!("a_link", asked(&policy, "--on exec --path /bin/sh"));
    insta::assert_snapshot!(
        "at_home",
        asked(&policy, "--path ~/.ssh/id_rsa --access read")
    );
}

#[test]
fn for_programs() {
    let question = question("--path /srv/app/config")
        .expect("right")
        .expect("asked");
    let decision = ExplainedDecision::new(&policy(""), &question, Some(Vec::new()));
    let json = rendered(&decision, true, answer::write).expect("memory takes it");
    insta::assert_snapshot!("for_programs", String::from_utf8(json).expect("text"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let lines = [
        "--on open",
        "--on open --path relative",
        "--on connect --path /etc",
        "--on exec --path /bin/sh --access read",
        "--on unlink --path /x --flag deleted",
        "--access read",
        "--on opne --path /x",
        "--path /x --access exec",
        "--path /x --address 10.0.0.1:1",
        "--address 10.0.0.1",
        "--exe /usr/bin/git",
        "--path /x --exe git",
        "--path /x --script /run",
        "--path /x --exe /bin/sh --script run",
    ];
    let told: String = lines
        .iter()
        .map(|line| match question(line) {
            Ok(question) => panic!("{line}: {question:?}"),
            Err(error) => format!("{line}\n    {error}\n"),
        })
        .collect();
    insta::assert_snapshot!("refused", told);
}

/// Advice of an attachment asks this of its profile, which makes no jail.
#[test]
fn a_profile_for_attachments_answers_as_well() {
    for profile in ["container", "service", "runner"] {
        let mut command = vec!["turnkey", "explain", profile];
        command.extend(["--on", "open", "--path", "/etc/shadow"]);
        let TurnkeyCommand::Explain(arguments) = CommandLine::try_parse_from(command)
            .expect("a question")
            .command
        else {
            panic!("`explain` explains")
        };
        assert_eq!(super::explain(&arguments).expect("an answer"), 0);
        let policy = arguments.overrides.over(&arguments.profile);
        let policy = policy.expect("it is shipped");
        let question = ExplainQuestion::new(&arguments.question).expect("a question");
        let question = question.expect("it asks something");
        let decision = ExplainedDecision::new(&policy, &question, None);
        let text = rendered(&decision, false, answer::write).expect("memory takes it");
        let text = String::from_utf8(text).expect("the page is text");
        assert!(text.contains("credential-file"), "{text}");
        assert!(!text.contains("jail"), "{text}");
    }
}
