//! Any text as a profile: a policy whose rules compile to what they mean, or an error that can be
//! shown with its places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use miette::{GraphicalReportHandler, GraphicalTheme};
use turnkey_fuzz::assert_agrees;
use turnkey_monitor::{Tier, compile};
use turnkey_policy::{LoadError, Overrides, Policy, load};

const NAME: &str = "./profile.toml";

fuzz_target!(|text: &str| match read(text) {
    Ok(policy) => {
        assert_eq!(read(text).expect("it was a profile before"), policy);
        assert_limits(&policy);
        // The shipped rules take long to compile, and are others' matter: see `rules`.
        if policy.rules.len() < 8
            && let Ok(table) = compile(&policy, Tier::Lsm)
        {
            let patterns = policy.rules.iter().flat_map(|rule| &rule.path);
            let paths = patterns.map(|pattern| pattern.as_str().as_bytes());
            for path in paths.chain([b"/etc/shadow".as_slice(), b"/", b""]) {
                // A rule on one kind of attempt alone is none for the others.
                assert_agrees(&table, &policy.rules, path);
            }
        }
    }
    Err(error) => {
        assert!(!error.problems().is_empty());
        let mut shown = String::new();
        GraphicalReportHandler::new_themed(GraphicalTheme::none())
            .render_report(&mut shown, &error)
            .expect("an error can be shown");
        assert!(shown.contains("help") || shown.contains(&error.to_string()[..1]));
    }
});

fn read(text: &str) -> Result<Policy, LoadError> {
    let read_file = |path: &str| match path {
        NAME => Ok(text.to_owned()),
        other => Err(format!("{other}: not here")),
    };
    load(NAME, &read_file, &Overrides::default())
}

/// What no profile may ask for.
fn assert_limits(policy: &Policy) {
    assert!(policy.limits.memory > 0 && policy.limits.pids > 0);
    for place in &policy.filesystem.read {
        assert!(place.path.is_absolute(), "{:?}", place.path);
    }
    for place in &policy.filesystem.write {
        assert!(place.path.is_absolute(), "{:?}", place.path);
        assert!(!place.why.is_empty(), "{:?}", place.path);
    }
}
