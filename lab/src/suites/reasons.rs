//! Failures in a jail that are none outside.

/// The beginning of the suite's name, a part of the test's, and the reason.
pub const REASONS: &[(&str, &str, &str)] = &[
    (
        "CPython test_fcntl",
        "test_fcntl_64_bit",
        "`F_NOTIFY` is refused: docs/profile.md, arguments of system calls",
    ),
    (
        "CPython test_resource",
        "test_fsize_ismax",
        "`--file-size` is a limit of the jail",
    ),
    (
        "CPython test_socket",
        "UDPLITE",
        "a jail makes no UDPLITE sockets",
    ),
];
