//! Known paths are known by whole names: a file whose name only contains one is another file.

use super::super::path_classes::{PROBES, PathClasses, SECRETS, STARTUPS, TELLING, Traits};

/// One path for each alternative of a pattern, with letters for its wildcards.
fn examples(pattern: &str) -> Vec<String> {
    let Some(close) = pattern.find('}') else {
        return vec![pattern.replace("**", "home/u").replace('*', "w")];
    };
    let open = pattern[..close].rfind('{').unwrap();
    let (before, after) = (&pattern[..open], &pattern[close + 1..]);
    pattern[open + 1..close]
        .split(',')
        .flat_map(|one| examples(&format!("{before}{one}{after}")))
        .collect()
}

/// True when the last component is a name without a wildcard: any file of that directory is meant otherwise.
fn ends_in_a_name(pattern: &str) -> bool {
    let mut depth = 0_i32;
    let slash = pattern.char_indices().rev().find(|(_, letter)| {
        depth += i32::from(*letter == '}') - i32::from(*letter == '{');
        *letter == '/' && depth == 0
    });
    !pattern[slash.map_or(0, |(at, _)| at)..].contains('*')
}

fn holds(patterns: &[&str], has: impl Fn(Traits) -> bool) -> usize {
    let table = PathClasses::default();
    let mut tried = 0;
    for pattern in patterns.iter().filter(|pattern| ends_in_a_name(pattern)) {
        for path in examples(pattern) {
            let path = format!("/{}", path.trim_start_matches('/'));
            assert!(
                has(table.traits_of(path.as_bytes())),
                "{path}: of {pattern}"
            );
            let (directory, name) = path.rsplit_once('/').unwrap();
            for other in [
                format!("{path}.list"),
                format!("{path}.d"),
                format!("{path}-policy"),
                format!("{directory}/x{name}"),
                format!("{directory}/a.{}", name.trim_start_matches('.')),
                format!("/srv{directory}x/{name}.md"),
                format!("/usr/share/doc/{}.html", name.trim_start_matches('.')),
            ] {
                let traits = table.traits_of(other.as_bytes());
                assert!(!has(traits), "{other}: not meant by {pattern}");
                tried += 1;
            }
        }
    }
    tried
}

#[test]
fn a_name_that_contains_a_known_one_is_another() {
    let mut tried = 0;
    for (kind, patterns) in SECRETS {
        tried += holds(patterns, |traits| traits.secret == Some(kind));
    }
    for (occasion, patterns) in STARTUPS {
        tried += holds(patterns, |traits| traits.startup == Some(occasion));
    }
    tried += holds(TELLING, |traits| traits.tells);
    tried += holds(PROBES, |traits| traits.probes);
    assert!(tried > 300, "the table is looked through: {tried}");
}
