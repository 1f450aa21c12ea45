//! Names that their owner exchanges while the service makes a run of what they stand for.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use turnkey_tests::{Run, SERVED, Service, hand_over, open_to_all, scratch};

/// The number of another user.
const OTHER: u32 = 4343;
const SECRET: &str = "of nobody but its owner";
const OWN: &str = "of the caller";

/// Exchanges two pairs of names in its directory for ever, by the caller's hand.
const EXCHANGER: &str = "import ctypes
rename = ctypes.CDLL(None).renameat2
print('there', flush=True)
while True:
    for one, other in ((b'own', b'link'), (b'mine', b'theirs')): rename(-100, one, -100, other, 2)";

struct Exchanger(Child);

impl Exchanger {
    fn start(place: &Path) -> Exchanger {
        let mut command = Command::new("python3");
        command.args(["-c", EXCHANGER]).current_dir(place);
        command.uid(SERVED).gid(SERVED).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 is there");
        let mut first = [0; 6];
        let output = child.stdout.as_mut().expect("it is a pipe");
        std::io::Read::read_exact(output, &mut first).expect("it says that it is there");
        Exchanger(child)
    }
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of the caller's, in which `own` and `mine` are its directories too, `link` leads to a closed one of another user's, and
/// `theirs` is a closed one.
fn scene(closed: &Path) -> tempfile::TempDir {
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    for name in ["own", "mine", "theirs"] {
        fs::create_dir(at(name)).expect("a test makes its own files");
        fs::write(at(name).join("file"), OWN).expect("a test makes its own files");
    }
    hand_over(place.path(), SERVED);
    for theirs in [at("theirs"), closed.to_owned()] {
        fs::write(theirs.join("file"), SECRET).expect("a test makes its own files");
        hand_over(&theirs, OTHER);
        fs::set_permissions(theirs.join("file"), PermissionsExt::from_mode(0o644))
            .expect("a test makes its own files");
        fs::set_permissions(&theirs, PermissionsExt::from_mode(0o700))
            .expect("a test makes its own files");
    }
    symlink(closed, at("link")).expect("a test makes its own files");
    std::os::unix::fs::lchown(at("link"), Some(SERVED), Some(SERVED))
        .expect("a test makes its own files");
    open_to_all(place.path());
    place
}

/// The secrets that root is shown when it looks whose a directory is, and then opens that by its name.
fn naive(directory: &Path) -> bool {
    (0..200_000).any(|_| {
        let looked = fs::symlink_metadata(directory);
        let is_own = looked.is_ok_and(|it| it.is_dir() && it.uid() == SERVED);
        let read = is_own.then(|| fs::read_to_string(directory.join("file")));
        read.is_some_and(|read| read.is_ok_and(|text| text == SECRET))
    })
}

#[test]
fn a_workspace_that_is_exchanged_is_the_caller_s_or_none() {
    let service = Service::start("");
    let closed = scratch();
    let place = scene(closed.path());
    let _exchanger = Exchanger::start(place.path());
    let [own, mine] = ["own", "mine"].map(|name| place.path().join(name));
    assert!(
        naive(&own) && naive(&mine),
        "the control: who looks and then opens loses"
    );
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..2 {
        for directory in [&own, &mine] {
            let run = Run::new().option("--quiet").served_at(&service.directory());
            let run = run.option(&format!("--workdir {}", directory.display()));
            let told = run.run(&["cat", "file"]);
            told.expect(!told.stdout.contains(SECRET), "nobody else's");
            match told.code {
                0 => ran += 1,
                _ => refused += 1,
            }
            told.expect(told.code == 125 || told.stdout == OWN, "its own, or none");
        }
    }
    turnkey_tests::measured(&format!("{ran} ran, {refused} were refused"));
}
