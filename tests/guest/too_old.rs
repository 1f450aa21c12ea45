//! A kernel older than the monitor's programs need.

use turnkey_tests::Run;

#[test]
fn a_kernel_that_is_too_old_is_named_and_nothing_runs() {
    let ran = Run::new().shell("echo ran");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(ran.stderr.contains("6.12"), "the kernel it takes");
    ran.expect(
        ran.stderr.lines().count() < 12,
        "a message, not the verifier's log",
    );
}
