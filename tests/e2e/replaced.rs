//! Files of the host that somebody replaces while a jail is made of them, as package managers do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnkey_tests::Run;

/// ldconfig(8) does this to /etc/ld.so.cache.
const BETWEEN: Duration = Duration::from_millis(100);

#[test]
fn a_file_that_is_replaced_again_and_again_keeps_no_run_from_starting() {
    let place = turnkey_tests::scratch();
    turnkey_tests::open_to_all(place.path());
    let (file, next) = (place.path().join("shared"), place.path().join("next"));
    std::fs::write(&file, "whole\n").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::fs::write(&next, "whole\n").unwrap();
                std::fs::rename(&next, &file).unwrap();
                std::thread::sleep(BETWEEN);
            }
        });
        let file = file.display().to_string();
        let run = || {
            let run = Run::new()
                .option("--unmonitored")
                .option(&format!("--read {file}"));
            run.run(&["cat", &file])
        };
        let ran: Vec<_> = std::iter::repeat_with(run).take(4).collect();
        over.store(true, Ordering::Relaxed);
        for ran in ran {
            ran.expect_code(0);
            ran.expect(
                ran.stdout == "whole\n",
                "what it reads is one file, old or new",
            );
        }
    });
}
