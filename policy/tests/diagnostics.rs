//! Diagnostics as people see them when a profile or a flag is wrong.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use turnkey_policy::{Overrides, load};

fn render(error: &dyn Diagnostic) -> String {
    let mut text = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .render_report(&mut text, error)
        .expect("writing to a String");
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// The diagnostic for a profile's text, with a second file beside it.
fn diagnostic(text: &str) -> String {
    let read = |path: &str| match path {
        "./mine.toml" => Ok(text.to_owned()),
        "./circle.toml" => Ok(HEADER.replace("mine", "circle") + "extends = \"mine.toml\"\n"),
        _ => Err("No such file or directory".to_owned()),
    };
    render(&load("./mine.toml", &read, &Overrides::default()).expect_err("it is wrong"))
}

const HEADER: &str = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\n";

fn with_header(text: &str) -> String {
    diagnostic(&format!("{HEADER}extends = \"untrusted\"\n{text}"))
}

macro_rules! shown {
    ($name:ident, $rendered:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), $rendered);
        }
    };
}

shown!(unknown_key, with_header("[limits]\nmemroy = \"1G\"\n"));
shown!(
    unknown_key_that_belongs_elsewhere,
    with_header("memory = \"1G\"\n")
);
shown!(unknown_table, with_header("[quotas]\ndisk = \"1G\"\n"));
shown!(
    wrong_type,
    with_header("[limits]\nmemory = 256\npids = \"50\"\n")
);
shown!(wrong_size, with_header("[limits]\nmemory = \"256MB\"\n"));
shown!(
    wrong_word,
    with_header("[[rule]]\nid = \"x\"\non = \"open\"\naction = \"klil\"\n")
);
shown!(
    bad_pattern,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\npath = [\"/etc/shadow\", \"~/.ssh/id_[rd]sa\"]\naction = \"kill\"\n"
    )
);
shown!(
    relative_pattern,
    with_header("[[rule]]\nid = \"x\"\non = \"open\"\npath = \".ssh/id_*\"\naction = \"kill\"\n")
);
shown!(
    path_without_meaning,
    with_header("[[rule]]\nid = \"x\"\non = \"connect\"\npath = \"/etc\"\naction = \"kill\"\n")
);
shown!(
    same_file_of_a_pattern,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\npath = [\"/a\", \"/etc/*\"]\nsame_file = \"required\"\naction = \"kill\"\n"
    )
);
shown!(
    yields_to_nobody,
    with_header("[[rule]]\nid = \"x\"\non = \"open\"\nyields = true\naction = \"allow\"\n")
);
shown!(
    same_file_that_allows,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\npath = \"/a\"\nsame_file = \"optional\"\naction = \"allow\"\n"
    )
);
shown!(
    same_file_of_nothing,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\nsame_file = \"required\"\naction = \"kill\"\n"
    )
);
shown!(
    same_file_with_flags,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\npath = \"/a\"\nsame_file = \"required\"\nflags = \"deleted\"\naction = \"kill\"\n"
    )
);
shown!(
    same_file_of_a_look,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"stat\"\npath = \"/a\"\nsame_file = \"required\"\naction = \"kill\"\n"
    )
);
shown!(
    a_denied_look,
    with_header(
        "[[rule]]\nid = \"x\"\non = [\"open\", \"stat\"]\npath = \"/a\"\naction = \"deny\"\n"
    )
);
shown!(
    flags_without_meaning,
    with_header(
        "[[rule]]\nid = \"x\"\non = [\"open\", \"link\"]\nflags = \"deleted\"\naction = \"kill\"\n"
    )
);
shown!(missing_keys, with_header("[[rule]]\npath = \"/etc/x\"\n"));
shown!(
    rule_twice,
    with_header("[[rule]]\nid = \"mount\"\non = \"mount\"\naction = \"allow\"\n")
);
shown!(
    circle,
    diagnostic(&format!("{HEADER}extends = \"circle.toml\"\n"))
);
shown!(
    missing_base,
    diagnostic(&format!(
        "{HEADER}extends = [\"untrusted\", \"absent.toml\"]\n"
    ))
);
shown!(
    unknown_base,
    diagnostic(&format!("{HEADER}extends = \"pyhton\"\n"))
);
shown!(
    wrong_schema,
    diagnostic("schema = \"turnkey.profile/v2\"\nnaem = \"x\"\n")
);
shown!(missing_schema, diagnostic("[limits]\nmemory = \"1G\"\n"));
shown!(not_toml, with_header("[limits]\nmemory = \"1G\nswap = 0\n"));
shown!(
    wrong_endpoints,
    with_header(
        "[network]\nmode = \"allow\"\nallow = [\n  \"example.org:443\",\n  { to = \"https://example.org\" },\n  { to = \"10.1.2.3/16:80\", wy = \"\" },\n  { why = \"packages\" },\n  { to = \"udp:example.org:53\" },\n  { to = \"udp:53\" },\n]\n"
    )
);
shown!(
    ports_under_another_mode,
    with_header(
        "[network]\nmode = \"none\"\npublish = [\"8080:80\", \"80:0\", \"127.0.0.1:80\"]\n"
    )
);
shown!(
    hosts_under_another_mode,
    with_header(
        "[network]\nmode = \"loopback\"\nallow = [{ to = \"example.org:443\", why = \"packages\" }]\n"
    )
);
shown!(
    decoy_at_home,
    with_header(
        "[filesystem]\ndecoys = [\"~/.ssh/id_ed25519\"]\nworkdir = { mode = \"read-only\" }\n"
    )
);
shown!(
    forbidden_syscall,
    with_header("[syscalls]\nallow = [\"ptrace\", \"@fiel\", \"opne\"]\n")
);
shown!(
    covered_file,
    with_header("[filesystem]\nread = [{ path = \"/etc\", why = \"all of it\" }]\n")
);

#[test]
fn wrong_flags() {
    let flags = [
        ("memory", "lots"),
        ("wall", "1m30s"),
        ("read", "relative/path"),
    ];
    let overrides = Overrides::from_flags(flags).expect("flags");
    let no_files = |_: &str| Err(String::new());
    let error = load("untrusted", &no_files, &overrides).expect_err("the flags are wrong");
    insta::assert_snapshot!("wrong_flags", render(&error));
}

#[test]
fn unknown_profile() {
    let no_files = |_: &str| Err(String::new());
    let error = load("untrustet", &no_files, &Overrides::default()).expect_err("there is none");
    insta::assert_snapshot!("unknown_profile", render(&error));
}

/// A rule on connecting with these further lines.
fn with_peers(lines: &str) -> String {
    with_header(&format!(
        "[[rule]]\nid = \"elsewhere\"\non = [\"connect\", \"send\"]\naction = \"deny\"\n{lines}\n"
    ))
}

shown!(
    network_with_host_bits,
    with_peers("address = [\"10.0.0.0/8\", \"10.1.2.3/16\", \"2001:db8::1/32\"]")
);
shown!(
    no_addresses,
    with_peers(
        "address = [\"example.com\", \"10.0.0.0/33\", \"10.0.0.0/x\", \"::ffff:10.0.0.1\", \"::ffff:10.0.0.0/104\", \"10.0.0.1:80\", \"fe80::1%eth0\", \"10.1\"]"
    )
);
shown!(
    no_ports,
    with_peers("port = [0, 70000, \"8010-8000\", \"https\", \"80-\", true, 443]")
);
shown!(
    address_without_meaning,
    with_header(
        "[[rule]]\nid = \"x\"\non = [\"open\", \"connect\"]\naddress = \"10.0.0.0/8\"\nport = 1\naction = \"deny\"\n"
    )
);
shown!(conditions_that_there_are_not, with_peers("uid = [0]"));
shown!(
    wrong_actors,
    with_peers("exe = [\"python3\", \"/usr/bin/\", 3]\nscript = \"./x.py\"")
);
shown!(no_actors, with_peers("exe = []\nscript = []"));
shown!(
    same_file_of_somebody,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\npath = \"/a\"\nexe = \"/b\"\nsame_file = \"optional\"\naction = \"kill\"\n"
    )
);
shown!(
    truncated_with_a_path,
    with_header(
        "[[rule]]\nid = \"x\"\non = \"open\"\nflags = [\"deleted\", \"truncated\"]\npath = \"/srv/**\"\naction = \"deny\"\n"
    )
);
shown!(empty_addresses, with_peers("address = []\nport = []"));
shown!(
    behaviours_that_there_are_not,
    with_header("[behaviour]\nport-scann = \"kill\"\ndiscovery = \"deny\"\n")
);
shown!(
    findings_that_no_report_has,
    with_header(
        "[[accept]]\nfinding = \"behaviour:discovry\"\nwhy = \"known\"\nuntil = \"2027-12-31\"\n\
         [[accept]]\nfinding = \"credential-fle\"\nwhy = \"known\"\nuntil = \"2027-12-31\"\n\
         [[accept]]\nfinding = \"turnkey:evidence\"\nwhy = \"known\"\nuntil = \"2027-12-31\"\n"
    )
);
shown!(
    acceptance_without_reason_or_end,
    with_header("[[accept]]\nfinding = \"credential-file\"\nwhy = \" \"\nuntil = \"2027-13-01\"\n")
);
