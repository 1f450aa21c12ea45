//! Failures in a jail that are none outside.

/// The beginning of the suite's name, a part of the test's, and the reason.
pub const REASONS: &[(&str, &str, &str)] = &[
    (
        "CPython test_compileall",
        "HardlinkDedupTests",
        "an import writes no compiled module: `PYTHONDONTWRITEBYTECODE` of the profile `python`",
    ),
    (
        "CPython test_fcntl",
        "test_fcntl_64_bit",
        "`F_NOTIFY` is refused: docs/profile.md, arguments of system calls",
    ),
    (
        "CPython test_ftplib",
        "test_abort",
        "`MSG_OOB` is refused: docs/profile.md, arguments of system calls",
    ),
    ("CPython test_import", "ImportTests.test_import", READ_ONLY),
    ("CPython test_import", "PycacheTests", READ_ONLY),
    ("CPython test_importlib", "ThreadedImportTests", READ_ONLY),
    (
        "CPython test_pickle",
        "test_unpickle_module_race",
        READ_ONLY,
    ),
    (
        "CPython test_resource",
        "test_fsize_ismax",
        "`--file-size` is a limit of the jail",
    ),
    ("CPython test_runpy", "RunModuleTestCase", READ_ONLY),
];

const READ_ONLY: &str = "it deletes a compiled module that is not there beside the library, which the jail has read-only: on such a \
                         mount the kernel answers `EROFS` before it looks, and the suite expects `ENOENT`";
