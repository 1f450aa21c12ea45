//! Texts that were made to keep the reader busy, to fill memory, or to deceive who reads the errors.

use std::time::Duration;

use miette::{GraphicalReportHandler, GraphicalTheme};
use turnkey_policy::{LARGEST_PROFILE, LoadError, Overrides, load};

const HEADER: &str =
    "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";

/// The error, and that it came at once.
fn refused(text: &str) -> (LoadError, String) {
    let started = worked();
    let read = |_: &str| Ok(text.to_owned());
    let error = load("./mine.toml", &read, &Overrides::default()).expect_err("it is refused");
    let mut told = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .render_report(&mut told, &error)
        .expect("writing to a String");
    // An unoptimised reader: what it guards against took minutes.
    let took = worked() - started;
    assert!(took < Duration::from_secs(20), "{took:?}");
    (error, told)
}

/// CPU time of this thread, in proc_pid_schedstat(5): a busy machine makes everybody wait, and nobody work more.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs is mounted");
    let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number of nanoseconds"))
}

/// As many of them as a profile may hold.
fn filled(piece: impl Fn(usize) -> String) -> String {
    let mut text = HEADER.to_owned();
    for number in 0.. {
        let piece = piece(number);
        if text.len() + piece.len() > LARGEST_PROFILE {
            break;
        }
        text.push_str(&piece);
    }
    text
}

#[test]
fn of_very_many_problems_the_first_are_told_and_all_are_counted() {
    let wrong = [
        filled(|number| format!("k{number} = 1\n")),
        filled(|_| "[[rule]]\nid = \"r\"\non = \"opn\"\naction = \"kll\"\n".to_owned()),
        filled(|number| {
            format!(
                "[[rule]]\nid = \"r{number}\"\non = \"open\"\npath = \"x\"\naction = \"kill\"\n"
            )
        }),
    ];
    for text in wrong {
        let pieces = text.matches(if text.contains("[[rule]]") {
            "[[rule]]"
        } else {
            "= 1"
        });
        let pieces = pieces.count();
        let (error, told) = refused(&text);
        assert_eq!(error.problems().len(), 51);
        let last = error
            .problems()
            .last()
            .expect("there are some")
            .message()
            .to_owned();
        let more: usize = last
            .split(' ')
            .next()
            .and_then(|more| more.parse().ok())
            .expect("a count");
        assert!(more + 50 >= pieces, "{more} and 50 of {pieces}");
        assert!(told.len() < 100_000, "{}", told.len());
    }
}

#[test]
fn very_many_rules_are_refused_or_taken_but_never_waited_for() {
    let rules = filled(|number| {
        format!(
            "[[rule]]\nid = \"r{number}\"\non = \"open\"\npath = \"/srv/{number}/**/x\"\naction = \"kill\"\n"
        )
    });
    let started = worked();
    let read = |_: &str| Ok(rules.clone());
    let _ = load("./mine.toml", &read, &Overrides::default());
    let took = worked() - started;
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    let nested = format!(
        "{HEADER}x = {}{}\n",
        "[\n".repeat(200_000),
        "]\n".repeat(200_000)
    );
    let pattern = format!("/{}b{}", "{a,".repeat(1_500), "}".repeat(1_500));
    let pattern = format!(
        "{HEADER}[[rule]]\nid = \"r\"\non = \"open\"\npath = \"{pattern}\"\naction = \"kill\"\n"
    );
    let large = format!("{HEADER}#{}\n", "x".repeat(10_000_000));
    for (text, part) in [
        (nested, "recurse"),
        (pattern, "4096 bytes"),
        (large, "larger than 1 MiB"),
    ] {
        let (_, told) = refused(&text);
        assert!(
            told.contains(part),
            "{part}: {}",
            &told[..told.len().min(1000)]
        );
    }
}

#[test]
fn no_text_of_a_profile_steers_a_terminal() {
    let texts = [
        format!("{HEADER}\"\\u001b[2Jx\\ny\" = 1\n"),
        format!("{HEADER}[limits]\nmemory = \"\\u001b]0;title\\u0007\"\n"),
        format!("{HEADER}x = \"\u{1b}[2J\n"),
        format!("{HEADER}# \u{202e}\u{9b}2J\nx = 1\n"),
        format!("{HEADER}extends = \"\\u001b[2J\"\n"),
        "schema = \"\\u001b[2J\"\n".to_owned(),
    ];
    for text in texts {
        let (_, told) = refused(&text);
        let steering = told
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(steering, None, "{told:?}");
    }
}

/// The library that draws diagnostics pads lines to their width, and panics past some 65535 columns.
#[test]
fn j73_a_long_line_is_refused_and_drawn() {
    for text in [
        "[".repeat(100_000),
        format!("{} = 1", "a".repeat(70_000)),
        format!("{HEADER}name{} = 1", "\t".repeat(70_000)),
        format!("{HEADER}description = \"{}\"", "字".repeat(30_000)),
    ] {
        let (error, told) = refused(&text);
        assert!(
            error.problems()[0].message().contains("is longer than"),
            "{error}"
        );
        assert!(told.len() < 2_000, "{} bytes are told", told.len());
    }
}

#[test]
fn profiles_do_not_build_on_each_other_without_end() {
    let read = |path: &str| {
        let number: u32 = path
            .trim_end_matches(".toml")
            .parse()
            .map_err(|_| "no number".to_owned())?;
        Ok(format!(
            "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = \"{}.toml\"\n",
            number + 1
        ))
    };
    let error = load("0.toml", &read, &Overrides::default()).expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        "more than 64 profiles, or 16 on top of each other"
    );
}
