//! What the targets share.

mod encode;

use std::sync::LazyLock;

use turnkey_monitor::{Known, Rules};
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Overrides, Policy, Rule, decide, load};

pub use encode::encode;

/// The shipped profile for untrusted programs, without its rules.
pub static BARE: LazyLock<Policy> = LazyLock::new(|| {
    let no_files = |path: &str| Err(format!("{path}: no files here"));
    let policy = load("untrusted", &no_files, &Overrides::default());
    Policy {
        rules: Vec::new(),
        scan: Default::default(),
        behaviours: Default::default(),
        accepted: Vec::new(),
        ..policy.expect("a shipped profile is right")
    }
});

const WAYS: [&[OpenAccess]; 4] = [
    &[],
    &[OpenAccess::Read],
    &[OpenAccess::Write],
    &[OpenAccess::Read, OpenAccess::Write],
];

/// The table of the kernel says of a path what the reference says.
pub fn assert_agrees(table: &Rules, rules: &[Rule], path: &[u8]) {
    let reference = |on, access| {
        let path = Some(path);
        let rule = decide(
            rules,
            &Attempt {
                path,
                access,
                ..Attempt::new(on)
            },
        )?;
        Some((rule, rules[rule].action))
    };
    for access in WAYS {
        assert_eq!(
            table.to(None).open(Known::at(path), access),
            reference(AttemptKind::Open, access)
        );
    }
    assert_eq!(
        table.to(None).exec(Known::at(path)),
        reference(AttemptKind::Exec, &[])
    );
}
