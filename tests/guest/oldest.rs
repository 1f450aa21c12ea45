//! The oldest kernel that turnkey is tried on.

use turnkey_expectations::expected;
use turnkey_tests::Run;

expected!(on[OLDEST_6_1]);

#[test]
fn the_default_profile_runs_and_the_report_says_what_the_kernel_is_too_old_for() {
    let ran = Run::new().shell("echo ran");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "it ran");
    let layers = ran.list("/enforcement");
    let degraded = layers.iter().filter(|layer| !layer["degraded"].is_null());
    ran.expect(degraded.count() == 0, "every layer is there");
    let landlock = layers.iter().find(|layer| layer["layer"] == "landlock");
    let effective = landlock.and_then(|layer| layer["effective"].as_str());
    ran.expect(
        effective.is_some_and(|text| text.contains("too old for truncate")),
        "what Landlock cannot refuse here is told",
    );
}
