//! Acts that the kernel hears little of: what is not there and only looked for, names that a task gives itself, copies of a program.

use turnkey_tests::Run;

use super::{is_named, is_nothing};

/// A shell asks the kernel for no more than whether there is such a file, and executes nothing.
#[test]
fn a_program_that_a_shell_does_not_find_was_to_be_started() {
    let scan = "unicornscan 10.0.0.0/24; echo scanned";
    for shell in ["bash", "sh"] {
        let script = Run::new().file("scan.sh", &format!("({scan})\n"));
        let ran = script.run(&[shell, "scan.sh"]);
        ran.expect(ran.stdout == "scanned\n", "it went on");
        // dash looks and goes on in one process: nothing but its own message tells what it wanted.
        if shell == "bash" {
            is_named(&ran, "port-scan");
        }
        is_named(
            &Run::new().run(&[shell, "-c", "unicornscan 10.0.0.0/24"]),
            "port-scan",
        );
    }
    is_nothing(&Run::new().run(&["bash", "-c", "command -v unicornscan || exit 0"]));
}

#[test]
fn a_name_as_the_kernels_tasks_have_is_defense_impairment() {
    let named = |name: &str| {
        let call = format!(
            "import ctypes, os
ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)
os.mkdir('x')"
        );
        Run::new().python(&call)
    };
    is_named(&named("kworker/0:1"), "defense-impairment");
    is_nothing(&named("worker/0"));
}

/// As many generations as steps, of which each waits for the next.
#[test]
fn a_function_of_a_shell_that_calls_itself_is_no_fork_bomb() {
    let steps =
        "f() { if [ $1 -le 1 ]; then echo 1; else echo $(($1 * $(f $(($1 - 1))))); fi; }; f 20";
    let ran = Run::new().run(&["bash", "-c", steps]);
    ran.expect(ran.stdout == "2432902008176640000\n", "it counted");
    is_nothing(&ran);
}

/// A program that asks first opens nothing of what is not there.
#[test]
fn looking_for_what_applications_keep_is_credential_access() {
    let looks = |places: &str| {
        let program = format!(
            "import os
for place in {places}:
    if os.path.isdir(os.path.expanduser(place)):
        print(os.listdir(place))"
        );
        Run::new().python(&program)
    };
    is_named(
        &looks("'~/.config/discord', '~/.mozilla'"),
        "credential-access",
    );
    is_nothing(&looks(
        "'~/.config/matplotlib', '~/.cache/pip', '~/.netbeans'",
    ));
}
