//! What `turnkey doctor` says of the monitor, on a kernel that was started with BPF LSM and on one
//! that was started without it. The lines that begin with `told:` are for the table of kernels.

use std::process::Command;

use serde_json::Value;
use turnkey_tests::{Run, binary, compile, eventually, measured, outside, scratch};

/// What the doctor finds here, told for the table.
fn doctor() -> Vec<Value> {
    let output = Command::new(binary())
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = object["findings"].as_array().unwrap().clone();
    for check in ["monitor-tier", "monitor", "default-profile"] {
        if let Some(finding) = findings.iter().find(|it| it["check"] == check) {
            eprintln!("told: {check}: {}", finding["found"].as_str().unwrap());
        }
    }
    findings
}

fn find<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no check is called {check}: {findings:#?}"))
}

/// The hooks of the monitor that the kernel names nowhere among its functions.
fn unknown_to_the_kernel(hooks: &[&str]) -> Vec<String> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let names: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let unknown = hooks
        .iter()
        .filter(|hook| !names.contains(&format!("bpf_lsm_{hook}").as_str()));
    unknown.map(|hook| (*hook).to_owned()).collect()
}

/// Nanoseconds for each of some calls: opening and three that ask about names and attributes, and one that has no hook.
const LOOPS: &str = r#"
#include <stdio.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
enum { TIMES = 2000 };
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
#define EACH(name, act) { double start = now(); for (int i = 0; i < TIMES; i++) { act; } printf(name " %.0f\n", (now() - start) / TIMES); }
int main(void) {
    close(open("a", O_WRONLY | O_CREAT, 0600));
    EACH("getppid", syscall(SYS_getppid))
    EACH("open", close(open("a", O_RDONLY)))
    EACH("truncate", truncate("a", i & 1))
    EACH("chmod", chmod("a", i & 1 ? 0600 : 0640))
    EACH("rename", rename(i & 1 ? "b" : "a", i & 1 ? "a" : "b"))
}
"#;

/// The program, where the host can run it.
struct Loops {
    place: tempfile::TempDir,
}

impl Loops {
    fn new() -> Self {
        let place = scratch();
        compile(&place.path().join("loops"), LOOPS);
        Self { place }
    }

    /// The figures that it told on the host.
    fn on_the_host(&self, how: &str) -> String {
        let go = format!("cd {} && ./loops", self.place.path().display());
        let told = outside("sh", &["-c", &go]).1;
        tell(how, &told);
        told
    }
}

/// Shows the figures of the program.
fn tell(who: &str, told: &str) {
    measured(&format!("{who}: {}", told.replace('\n', ", ")));
}

/// The nanoseconds that were told of a call.
fn nanoseconds_of(call: &str, told: &str) -> u64 {
    let line = told.lines().find_map(|line| line.strip_prefix(call));
    line.and_then(|rest| rest.trim().parse().ok()).expect(call)
}

/// Does what `turnkey monitor` is told.
fn monitor(what: &str) -> bool {
    outside(binary(), &["monitor", what]).0.success()
}

mod lsm {
    use super::*;
    use turnkey_expectations::expected;

    expected!(on [BY_DAY, LSM_6_12, MONITOR_6_1, NEWEST]);

    #[test]
    fn doctor_shows_the_lsm_tier_and_names_the_hooks_that_the_kernel_lacks() {
        let findings = doctor();
        let tier = find(&findings, "monitor-tier");
        let found = tier["found"].as_str().unwrap();
        assert!(found.starts_with("lsm, with"), "{tier}");
        assert_eq!(find(&findings, "monitor")["state"], "ok", "{findings:#?}");
        match found.split_once("this kernel has no ") {
            None => assert_eq!(tier["state"], "ok"),
            Some((_, missing)) => {
                assert_eq!(tier["state"], "limited");
                let missing: Vec<_> = missing.split(", ").collect();
                assert_eq!(unknown_to_the_kernel(&missing), missing, "they lack");
            }
        }
        let there = ["file_open", "bprm_check_security", "path_unlink"];
        assert!(unknown_to_the_kernel(&there).is_empty(), "the control");
    }
}

mod price {
    use std::io::Read;
    use std::process::{Child, Stdio};
    use turnkey_expectations::expected;

    use super::*;

    expected!(on[LSM_6_12]);

    /// A run that is watched until it is killed.
    fn lasting(run: &Run) -> Child {
        let mut command = run.command(&["/bin/sh", "-c", "echo there; sleep 60"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut turnkey = command.spawn().unwrap();
        let mut there = [0; 6];
        let stdout = turnkey.stdout.as_mut().unwrap();
        stdout.read_exact(&mut there).expect("the program speaks");
        turnkey
    }

    /// Decision 0054 has the figures.
    #[test]
    fn hooks_that_stay_attached_cost_the_host_little_and_its_other_calls_nothing() {
        assert!(monitor("load"), "this machine is ours");
        let loops = Loops::new();
        let run = Run::new();
        let mut watched = lasting(&run);
        let with_another = loops.on_the_host("the host, with a run watched elsewhere");
        watched.kill().unwrap();
        watched.wait().unwrap();
        let is_watched = || {
            let told = outside(binary(), &["monitor", "status", "--json"]).1;
            told.contains("\"watching\": true") || told.contains("\"watching\":true")
        };
        eventually("nobody watches any more", || !is_watched());
        let unwatched = loops.on_the_host("the host, with all programs loaded");
        assert!(monitor("unload"), "this machine is ours");
        let without = loops.on_the_host("the host");
        assert!(monitor("load"), "as it was");
        let cost = |call: &str, told: &str| {
            nanoseconds_of(call, told) as f64 / nanoseconds_of(call, &without) as f64
        };
        assert!(cost("open", &unwatched) < 1.5, "hooks ask");
        assert!(cost("getppid", &unwatched) < 1.2, "no hook, no tracepoint");
        assert!(cost("getppid", &with_another) > 1.2, "the control");
    }
}

mod tracepoint {
    use turnkey_expectations::expected;
    use turnkey_tests::Ran;

    use super::*;

    expected!(on [TRACEPOINT_6_12, TRACEPOINT_6_1, NEWEST_TRACEPOINT]);

    /// Rules on all the kinds that programs at the entry of functions are for, about a file that is not there.
    const RULES: &str = "[[rule]]\nid = \"names\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\n\
        on = [\"open\", \"link\", \"rename\", \"unlink\", \"chmod\", \"truncate\"]\npath = \"/workspace/nothing\"\n";
    /// A profile without any rule, and so without these programs.
    const ALONE: &str = "[[rule]]\nid = \"calls\"\nwhy = \"test\"\nseverity = \"high\"\naction = \"kill\"\non = \"ptrace\"\n";

    fn under(rules: &str) -> Run {
        let run = Run::new().compiled("loops", LOOPS);
        let shipped = include_str!("../../profiles/untrusted.toml");
        let bare = shipped.split("[[rule]]").next().unwrap_or_default();
        let place = scratch().keep().join("profile.toml");
        std::fs::write(&place, format!("{bare}\n{rules}")).unwrap();
        // With no programs but those that the rules need.
        let run = run.option("--leave-nothing");
        run.option(&format!("--profile {}", place.display()))
    }

    fn programs(ran: &Ran) -> &str {
        let layers = ran.list("/enforcement").iter();
        let mut layers = layers.filter(|layer| layer["layer"] == "monitor");
        layers
            .next()
            .and_then(|layer| layer["effective"].as_str())
            .unwrap_or_default()
    }

    /// Decision 0051 has the figures. For the host itself all programs are there, or none.
    #[test]
    fn programs_at_the_entry_of_functions_cost_less_than_the_call() {
        let loops = Loops::new();
        loops.on_the_host("the host, with all programs loaded");
        assert!(monitor("unload"), "this machine is ours");
        loops.on_the_host("the host");
        let bare = under(RULES).option("--unmonitored").run(&["./loops"]);
        tell("a jail, unmonitored", &bare.stdout);
        let without = under(ALONE).run(&["./loops"]);
        tell(programs(&without), &without.stdout);
        let with = under(RULES).run(&["./loops"]);
        tell(programs(&with), &with.stdout);
        assert!(monitor("load"), "as it was");
        without.expect(programs(&without) == "tracepoint", "none at the entry");
        let (told, hooks) = (programs(&with), " hooks");
        with.expect(
            told.starts_with("tracepoint, ") && told.contains(hooks),
            "those that this kernel has",
        );
        for call in ["truncate", "chmod", "rename"] {
            let (with, without) = (
                nanoseconds_of(call, &with.stdout),
                nanoseconds_of(call, &without.stdout),
            );
            assert!(with < 2 * without, "{call}: {with} and {without}");
        }
    }

    #[test]
    fn doctor_shows_the_tracepoint_tier_and_how_to_have_the_other() {
        let findings = doctor();
        let tier = find(&findings, "monitor-tier");
        assert_eq!(tier["state"], "limited");
        let found = tier["found"].as_str().unwrap();
        assert!(found.starts_with("tracepoint; not the lsm tier"), "{tier}");
        assert!(found.contains("`bpf` is not among"), "{tier}");
        let fix = tier["fix"].as_str().unwrap();
        let list = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap();
        assert!(fix.contains(&format!("lsm={},bpf", list.trim())), "{tier}");
        assert_eq!(find(&findings, "monitor")["state"], "ok", "{findings:#?}");
    }
}
