//! Packages of Debian, installed into a layer by the user that a jail calls root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use turnkey_expectations::expected;
use turnkey_tests::{Run, outside};

use super::Layer;

expected!(
    not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "the tools of packages are programs as others; the tree that they write to has its own tests"
);

/// A database of packages as Debian leaves it: what only root may use in it is in the way of everybody else.
fn database(place: &Path) -> String {
    let own = place.join("dpkg");
    for directory in ["info", "updates", "triggers", "parts"] {
        fs::create_dir_all(own.join(directory)).expect("a test makes its own files");
    }
    let there = "Package: there\nStatus: install ok installed\nArchitecture: all\nMaintainer: m\nVersion: 2\nDescription: d\n";
    fs::write(own.join("status"), there).expect("a test makes its own files");
    fs::write(own.join("info/format"), "1\n").expect("a test makes its own files");
    fs::write(own.join("info/there.list"), "/.\n").expect("a test makes its own files");
    for lock in ["lock", "lock-frontend", "triggers/Lock"] {
        fs::write(own.join(lock), "held").expect("a test makes its own files");
        fs::set_permissions(own.join(lock), PermissionsExt::from_mode(0o640))
            .expect("a test makes its own files");
    }
    fs::set_permissions(place, PermissionsExt::from_mode(0o755))
        .expect("a test makes its own files");
    own.display().to_string()
}

/// A package with a program, a setting and a script, which needs another one.
fn package(place: &Path) {
    let put = |path: &str, text: &str, mode: u32| {
        let path = place.join("tool").join(path);
        fs::create_dir_all(path.parent().expect("a test makes its own files"))
            .expect("a test makes its own files");
        fs::write(&path, text).expect("a test makes its own files");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode))
            .expect("a test makes its own files");
    };
    let control = "Package: tk-tool\nVersion: 1.0\nArchitecture: all\nMaintainer: m <m@example.org>\nDepends: there (>= 2)\nDescription: d\n";
    put("DEBIAN/control", control, 0o644);
    put("DEBIAN/conffiles", "/etc/tk-tool/set\n", 0o644);
    let script = "#!/bin/sh\nset -e\nid -u > /etc/tk-tool.state\nldconfig\n";
    put("DEBIAN/postinst", script, 0o755);
    put(
        "usr/bin/tk-tool",
        "#!/bin/sh\ncat /etc/tk-tool/set\n",
        0o755,
    );
    put("etc/tk-tool/set", "of the package\n", 0o644);
    let (from, to) = (place.join("tool"), place.join("tool.deb"));
    let [from, to] = [from, to].map(|path| path.display().to_string());
    let (made, told) = outside("dpkg-deb", &["--root-owner-group", "-b", &from, &to]);
    assert!(made.success(), "{told}");
}

/// The package, its program, its settings and the database of packages are there in the next call.
#[test]
fn a_package_of_debian_is_installed_into_a_layer() {
    let layer = Layer::new();
    let host = turnkey_tests::scratch();
    let database = database(host.path());
    package(host.path());
    let deb = host.path().join("tool.deb");
    let run = |run: Run, script: &str| {
        let run = run.option(&format!("--read {database} --read {}", deb.display()));
        let ran = run.shell(&format!(
            "dpkg() {{ command dpkg --admindir={database} \"$@\"; }}; {script}"
        ));
        ran.expect_code(0);
        ran.stdout
    };
    let install = format!(
        "dpkg -i {} >&2; tk-tool; cat /etc/tk-tool.state",
        deb.display()
    );
    assert_eq!(run(layer.tree(), &install), "of the package\n0\n");
    let look = "tk-tool; dpkg -s tk-tool | grep -c 'install ok installed'; dpkg -P tk-tool >&2
        test -e /usr/bin/tk-tool || echo gone; test -e /etc/tk-tool || echo gone";
    assert_eq!(run(layer.tree(), look), "of the package\n1\ngone\ngone\n");
    let held = fs::read_to_string(Path::new(&database).join("lock")).unwrap();
    assert_eq!(held, "held", "the host's own lock is nobody's");
    assert!(!Path::new("/usr/bin/tk-tool").exists(), "nor is its tree");
}
