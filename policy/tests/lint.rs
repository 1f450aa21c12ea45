//! Findings of `turnkey check` in profiles that can be used, and what it leaves alone.

use std::path::{Path, PathBuf};

use miette::{GraphicalReportHandler, GraphicalTheme};
use time::{Date, Month};
use turnkey_policy::lint::{CheckedProfile, Lint};
use turnkey_policy::{SHIPPED, check};

const HEADER: &str = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = \"untrusted\"\n";

/// The profile lies in /srv/profiles; /srv/link leads there.
fn known_as(path: &Path) -> Vec<PathBuf> {
    let absolute = Path::new("/srv/profiles").join(path.strip_prefix("./").unwrap_or(path));
    let real = match absolute.strip_prefix("/srv/link") {
        Ok(rest) => Path::new("/srv/profiles").join(rest),
        Err(_) => absolute.clone(),
    };
    vec![absolute, real]
}

/// The day on which these profiles are looked at.
fn today() -> Date {
    Date::from_calendar_date(2027, Month::June, 1).expect("a day")
}

fn checked(text: &str) -> CheckedProfile {
    let read = |path: &str| match path {
        "./mine.toml" => Ok(text.to_owned()),
        "./base.toml" => Ok("schema = \"turnkey.profile/v1\"\nname = \"base\"\n\
                             extends = \"untrusted\"\n\
                             [[rule]]\nid = \"data\"\non = \"open\"\npath = \"/srv/data/**\"\n\
                             action = \"deny\"\nwhy = \"not for jails\"\n"
            .to_owned()),
        _ => Err("No such file or directory".to_owned()),
    };
    check("./mine.toml", &read, &known_as, today())
        .unwrap_or_else(|error| panic!("{text}\n{:?}", error.problems()))
}

fn rendered(text: &str) -> String {
    let checked = checked(text);
    let mut page = String::new();
    for finding in &checked.findings {
        GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .with_width(100)
            .render_report(&mut page, finding)
            .expect("writing to a String");
    }
    page.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn with_header(text: &str) -> String {
    rendered(&format!("{HEADER}{text}"))
}

/// A rule as a few words: `id on action path…`, with more keys behind `;`.
fn rules(lines: &[&str]) -> String {
    let rule = |line: &&str| {
        let (words, keys) = line.split_once(';').unwrap_or((line, ""));
        let words: Vec<&str> = words.split_whitespace().collect();
        let [id, on, action, paths @ ..] = words.as_slice() else {
            panic!("{line}")
        };
        let on: Vec<String> = on.split('+').map(|on| format!("{on:?}")).collect();
        let path = match paths {
            [] => String::new(),
            paths => format!("path = {paths:?}\n"),
        };
        let keys: String = keys
            .split(';')
            .map(|key| format!("{}\n", key.trim()))
            .collect();
        format!(
            "\n[[rule]]\nid = \"{id}\"\non = [{}]\n{path}action = \"{action}\"\n{keys}",
            on.join(", ")
        )
    };
    lines.iter().map(rule).collect()
}

macro_rules! shown {
    ($name:ident, $text:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(concat!("lint_", stringify!($name)), with_header($text));
        }
    };
}

/// A near miss: it looks like a finding and is none.
macro_rules! silent {
    ($name:ident, $text:expr) => {
        #[test]
        fn $name() {
            let page = with_header($text);
            assert!(page.is_empty(), "{page}");
        }
    };
}

const WHY: &str = "; why = \"it is meant\"";

fn meant(line: &str) -> String {
    format!("{line}{WHY}")
}

// Allows without a reason.

shown!(
    host_without_reason,
    "[network]\nallow = [\n  { to = \"example.org:443\" },\n  { to = \"169.254.169.254:80\", why = \" \" },\n]\n"
);
silent!(
    host_with_reason,
    "[network]\nallow = [{ to = \"169.254.169.254:80\", why = \"it asks for its own region\" }]\n"
);
shown!(
    write_without_reason,
    "[filesystem]\nwrite = [{ path = \"/srv/out\" }]\n"
);
shown!(
    write_with_a_blank_reason,
    "[filesystem]\nwrite = [{ path = \"/srv/out\", why = \"  \" }]\n"
);
shown!(
    read_of_secrets_without_reason,
    "[filesystem]\nread = [{ path = \"/home/someone\" }, { path = \"/srv/build/.docker\" }, { path = \"/var\" }]\n"
);
silent!(
    read_of_data_needs_no_reason,
    "[filesystem]\nread = [{ path = \"/srv/data\" }, { path = \"/home/someone/data\" }, { path = \"/opt/tool\" }, { path = \"/runtime\" }, { path = \"/root/project\" }]\n"
);
silent!(
    what_has_a_reason,
    "[filesystem]\nwrite = [{ path = \"/srv/out\", why = \"the result\" }]\nread = [{ path = \"/var/log\", why = \"it reads logs\" }]\n"
);
shown!(
    allow_of_a_guarded_file,
    &rules(&["own-key open allow /workspace/.ssh/id_test"])
);
shown!(
    allow_of_a_pattern_that_meets_a_guarded_one,
    &rules(&["hooks open+link allow /workspace/**/config"])
);
shown!(
    allow_of_a_directory_that_could_hold_a_guarded_file,
    &rules(&["data open allow /srv/data/*"])
);
shown!(
    log_in_place_of_a_kill,
    &rules(&["own-key open log /workspace/.ssh/id_test"])
);
shown!(
    replacing_a_kill_with_an_allow,
    &rules(&["mount mount allow; replaces = true"])
);
silent!(
    replacing_a_kill_with_a_denial,
    &rules(&["mount mount deny; replaces = true"])
);
silent!(
    an_allow_that_takes_nothing_away,
    &rules(&["data open allow /srv/data/a"])
);
// What is written there is guarded, what is read is not.
silent!(
    an_allow_of_the_other_access,
    &rules(&["startup open allow /workspace/.bashrc; access = \"read\""])
);
silent!(
    an_allow_with_its_reason,
    &rules(&[&meant("own-key open allow /workspace/.ssh/id_test")])
);
// A third rule would let it pass as well.
silent!(
    an_allow_inside_another_one,
    &rules(&[
        &meant("keys open allow /workspace/.ssh/id_test*"),
        "own-key open allow /workspace/.ssh/id_test_of_mine",
    ])
);

// Rules that can never match.

shown!(
    a_path_that_the_kernel_never_writes,
    &rules(&["up open kill /srv/*/{..,.}/secret; why = \"no\""])
);
shown!(
    one_pattern_of_two_never_matches,
    &rules(&["up open kill /srv/secret /**//secret; why = \"no\""])
);
shown!(
    memory_files_have_no_directory,
    &rules(&["gone unlink+rename log memfd:**"])
);
shown!(
    memory_files_by_a_path,
    &rules(&["run exec kill /usr/bin/*; flags = \"memfd\""])
);
shown!(
    deleted_memory_files,
    &rules(&["run exec kill memfd:**; flags = \"deleted\""])
);
silent!(
    dots_that_are_part_of_a_name,
    &rules(&["dots open kill /srv/.../x /srv/..x /srv/{.a,..b}/* /srv/*/.*"])
);
silent!(
    memory_files_that_are_opened_or_linked,
    &rules(&["memory open+link+chmod log memfd:**"])
);
silent!(
    a_flag_of_two_that_fits,
    &rules(&["run exec kill /usr/bin/*; flags = [\"memfd\", \"deleted\"]"])
);
silent!(
    a_pattern_that_meets_memory_files_too,
    &rules(&["run open kill **; flags = \"memfd\""])
);

shown!(
    programs_and_scripts_that_there_are_none_of,
    &rules(&[
        "odd open kill /srv/a; exe = [\"/usr/bin/tool\", \"/usr/*/{..,.}/tool\"]",
        "memory open kill /srv/b; script = \"memfd:**\"",
    ])
);

// Who acts.

shown!(
    an_allow_for_programs_that_the_jail_can_make,
    &rules(&[
        &meant("own open allow /srv/a; exe = [\"/usr/bin/git\", \"/workspace/bin/*\"]"),
        &meant("any open allow /srv/b; exe = \"**/git\""),
        &meant("temporary open log /srv/c; script = \"/tmp/run\""),
        &meant("memory open allow /srv/d; exe = \"memfd:git\""),
    ])
);
silent!(
    an_allow_for_programs_that_the_jail_cannot_make,
    &rules(&[
        &meant("git open allow /srv/a; exe = [\"/usr/bin/git\", \"/usr/lib/git-core/**\"]"),
        &meant("both open allow /srv/b; exe = \"/usr/bin/python3*\"; script = \"/workspace/run\""),
    ])
);
silent!(
    a_stop_for_programs_that_the_jail_can_make,
    &rules(&["own open kill /srv/a; exe = \"/workspace/**\""])
);
shown!(
    an_exception_for_one_program_without_a_reason,
    &rules(&[
        "all open kill /srv/a",
        "git open allow /srv/a; exe = \"/usr/bin/git\""
    ])
);
silent!(
    exceptions_for_programs_take_nothing_from_other_rules,
    &rules(&[
        "all open kill /srv/a",
        &meant("git open allow /srv/a; exe = \"/usr/bin/git\""),
        &meant("tool open allow /srv/a; exe = \"/usr/bin/tool\""),
        "late open log /srv/**; script = \"/srv/script\"; why = \"it is meant\"",
    ])
);
silent!(
    a_stop_of_one_program_is_not_what_another_is_let_through,
    &rules(&[
        "tool open kill /srv/a; exe = \"/usr/bin/tool\"",
        "git open allow /srv/a; exe = \"/usr/bin/git\""
    ])
);
shown!(
    one_program_behind_a_rule_for_it_and_others,
    &rules(&[
        "first open deny /srv/a; exe = [\"/usr/bin/git\", \"/usr/bin/vim\"]",
        "second open log /srv/a; exe = \"/usr/bin/vim\"",
        "third open deny /srv/*; exe = \"/usr/bin/vim\"",
        "fourth open log /srv/*; exe = \"/usr/bin/vim\"",
    ])
);

// Rules behind others.

shown!(
    an_allow_behind_a_stronger_rule_of_the_same_length,
    &rules(&["tree open deny /srv/**", "top open allow /srv/*"])
);
shown!(
    the_same_path_twice,
    &rules(&["first open deny /srv/a", "second open deny /srv/a"])
);
shown!(
    a_stop_behind_an_allow,
    &rules(&[
        "free exec allow; flags = \"memfd\"; why = \"it builds its own\"",
        "stop exec deny memfd:tmp*",
    ])
);
shown!(
    alternatives_that_cover_only_together,
    &rules(&[
        "names open kill /srv/*",
        "trees open kill /srv/*/**",
        "below open deny /srv/**",
    ])
);
shown!(
    every_attempt_of_a_kind_twice,
    &rules(&["links link deny", "links-too link log"])
);
shown!(
    one_pattern_of_two_is_behind_another_rule,
    &rules(&["first open deny /srv/a", "second open log /srv/a /srv/b"])
);
shown!(
    all_patterns_are_behind_other_rules,
    &rules(&[
        "first open deny /srv/a",
        "other open deny /srv/b",
        "second open log /srv/a /srv/b"
    ])
);
shown!(
    memory_files_behind_a_rule_with_flags,
    &rules(&[
        "memory open deny; flags = \"memfd\"",
        "named open log memfd:tmp*"
    ])
);
shown!(
    an_inherited_rule_is_behind_an_own_one,
    &rules(&[&meant("free ptrace kill")])
);
silent!(
    a_more_specific_exception,
    &rules(&["tree open deny /srv/**", "data open allow /srv/data/**"])
        .replace("action = \"allow\"", "action = \"allow\"\nwhy = \"meant\"")
);
silent!(
    longer_but_not_all_of_it,
    &rules(&["one open deny /srv/?", "all open log /srv/*"])
);
silent!(
    the_same_path_for_another_access,
    &rules(&[
        "reading open deny /srv/a; access = \"read\"",
        "writing open deny /srv/a; access = \"write\"",
    ])
);
silent!(
    covered_for_one_access_of_two,
    &rules(&[
        "reading open deny /srv/a; access = \"read\"",
        "both open log /srv/a"
    ])
);
silent!(
    covered_for_one_kind_of_two,
    &rules(&["opening open deny /srv/a", "both open+link log /srv/a"])
);
silent!(
    the_same_path_in_another_state,
    &rules(&[
        "gone open kill /srv/a; flags = \"deleted\"",
        "there open log /srv/a"
    ])
);
silent!(
    a_flag_of_two_is_covered,
    &rules(&[
        "memory open kill **; flags = \"memfd\"",
        "both open deny **; flags = [\"memfd\", \"deleted\"]",
    ])
);
silent!(
    the_file_itself_and_its_name,
    &rules(&[
        "name open deny /srv/a",
        "file open log /srv/a; same_file = \"optional\""
    ])
);
silent!(
    every_path_but_memory_files,
    &rules(&["tree open log /**", "all open log **"])
);
// Attempts without a path are left to it.
silent!(
    a_rule_on_every_path_behind_patterns,
    &rules(&[
        &meant("tree open log /**"),
        &meant("memory open log memfd:**"),
        "rest open deny"
    ])
);
silent!(
    memory_of_no_file_and_memory_of_a_file,
    &rules(&["code map kill", "loader map log /srv/*"])
);
silent!(
    patterns_of_one_rule_may_overlap,
    &rules(&["all open deny /srv/** /srv/a /srv/* /srv/a"])
);

// What a jail is judged by.

shown!(
    own_directory_is_writable,
    "[filesystem]\nwrite = [{ path = \"/srv/profiles\", why = \"results\" }]\n"
);
shown!(
    own_directory_is_writable_by_another_name,
    "[filesystem]\nwrite = [{ path = \"/srv/link\", why = \"results\" }]\n"
);
shown!(
    own_directory_is_below,
    "[filesystem]\nwrite = [{ path = \"/srv\", why = \"results\" }]\n"
);
silent!(
    a_neighbour_is_writable,
    "[filesystem]\nwrite = [{ path = \"/srv/profiles2\", why = \"results\" }, { path = \"/srv/profiles/out\", why = \"results\" }]\n"
);

// Layers.

shown!(
    layers_left_out,
    "[enforcement]\nrequired = [\"root\", \"seccomp\", \"no-new-privileges\"]\n"
);
silent!(
    every_layer_by_name,
    &format!(
        "[enforcement]\nrequired = {:?}\n",
        turnkey_policy::Layer::ALL
            .iter()
            .map(|layer| layer.name())
            .collect::<Vec<_>>()
    )
);
silent!(
    the_layer_of_a_limit_that_is_not_set,
    &format!(
        "[enforcement]\nrequired = {:?}\n",
        turnkey_policy::Layer::ALL
            .iter()
            .map(|layer| layer.name())
            .filter(|name| *name != "io")
            .collect::<Vec<_>>()
    )
);
shown!(
    the_layer_of_a_limit_that_is_set,
    &format!(
        "[limits]\nio_read = \"1M\"\n[enforcement]\nrequired = {:?}\n",
        turnkey_policy::Layer::ALL
            .iter()
            .map(|layer| layer.name())
            .filter(|name| *name != "io")
            .collect::<Vec<_>>()
    )
);

// Addresses and ports.

shown!(
    an_address_behind_the_same_one,
    &rules(&[
        "first connect deny; address = \"10.0.0.0/8\"",
        "second connect log; address = [\"10.0.0.0/8\", \"10.1.0.0/16\"]",
    ])
);
shown!(
    halves_that_cover_only_together,
    &rules(&[
        "halves connect deny; address = [\"10.0.0.0/9\", \"10.128.0.0/9\"]",
        "whole connect kill; address = \"10.0.0.0/8\"",
    ])
);
shown!(
    ports_that_cover_only_together,
    &rules(&[
        "low send deny; port = \"1-1023\"",
        "high send deny; port = \"1024-65535\"",
        "all-of-four send kill; port = \"1-65535\"",
        "web send kill; port = 443; address = \"::/0\"",
    ])
);
shown!(
    an_allowed_address_without_reason,
    &rules(&["web connect allow; address = \"192.0.2.0/24\"; port = 443"])
);
shown!(
    a_network_that_holds_the_metadata_of_clouds,
    &rules(&[
        &meant("local connect allow; address = \"169.254.0.0/16\""),
        &meant("everything send allow; replaces = true").replace("everything", "network-send"),
    ])
);
silent!(
    an_exception_from_a_network,
    &rules(&[
        &meant("net connect allow; address = \"192.0.2.0/24\""),
        "host connect deny; address = \"192.0.2.1\"",
        "port connect deny; port = 25",
        "net-port connect kill; address = \"192.0.2.0/24\"; port = \"20-30\"",
    ])
);
silent!(
    the_metadata_of_clouds_by_itself_and_with_a_reason,
    &rules(&[&meant(
        "own connect allow; address = \"169.254.169.254\"; port = 80"
    )])
);
silent!(
    a_network_with_the_metadata_taken_out,
    &rules(&[
        &meant("local connect allow; address = \"169.254.0.0/16\""),
        "metadata connect kill; address = [\"169.254.169.254\", \"169.254.170.2\"]",
    ])
);

/// Entries of `accept`, by their last days.
fn accepted(days: [&str; 4]) -> String {
    ["evasion", "persistence", "injection", "exhaustion"].iter().zip(days).fold(String::new(), |all, (finding, until)| {
        all + &format!("[[accept]]\nfinding = \"behaviour:{finding}\"\nwhy = \"known\"\nuntil = \"{until}\"\n")
    })
}

shown!(
    acceptances_that_are_over_or_soon_will_be,
    &accepted(["2027-05-31", "2027-06-01", "2027-06-02", "2027-06-15"])
);
silent!(an_acceptance_that_goes_on, &accepted(["2027-06-16"; 4]));

#[test]
fn the_place_of_a_rule_in_another_file_is_shown() {
    let text = format!(
        "{HEADER}{}",
        rules(&["own open kill /srv/data/**; why = \"no\""])
    )
    .replace("\"untrusted\"", "\"base.toml\"");
    insta::assert_snapshot!("lint_another_file", rendered(&text));
    let found = checked(&text);
    let places = found.findings[0].problem().places();
    let files: Vec<&str> = places.iter().map(|place| place.file.as_str()).collect();
    assert_eq!(files, ["./base.toml", "./mine.toml"]);
    let place = &places[0];
    assert_eq!((place.line, place.column, place.end_column), (7, 8, 22));
    assert_eq!(place.text, "\"/srv/data/**\"");
}

#[test]
fn every_lint_is_shown_by_some_test_above() {
    let tests = include_str!("lint.rs");
    let snapshots = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"));
    let texts: String = snapshots
        .expect("there are snapshots")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    for lint in Lint::ALL.iter().filter(|lint| **lint != Lint::NotCompared) {
        assert!(texts.contains(&format!("{lint}\n")), "{lint}");
    }
    assert!(tests.contains("not_compared"));
}

#[test]
fn shipped_profiles_are_free_of_findings() {
    for (name, _) in SHIPPED {
        let no_files = |path: &str| Err(path.to_owned());
        let checked = check(name, &no_files, &known_as, today()).expect("it is shipped");
        let found: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

/// A hostile profile costs bounded time, and what was not compared is named.
#[test]
fn rules_that_are_too_many_are_not_compared_and_it_is_said() {
    let many: Vec<String> = (0..900)
        .map(|index| format!("r{index} open allow /srv/**/a{index}*/**/b*/{{c,d,e*}}/**/f*/**/{{g,h}}*/**/*{index}"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let started = std::time::Instant::now();
    let checked = checked(&format!("{HEADER}{}", rules(&many)));
    let lints: Vec<Lint> = checked
        .findings
        .iter()
        .map(|finding| finding.lint())
        .collect();
    assert!(lints.contains(&Lint::NotCompared), "not_compared");
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
