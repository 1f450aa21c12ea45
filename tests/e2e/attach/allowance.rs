//! What a profile allows one program, in a group whose root is not turnkey's.

use turnkey_tests::scratch;

use super::{Attached, Others, OthersGroup, broken};

/// Reads the file that `container` guards, in a mount namespace of its own; `read-only`: where what it maps cannot be
/// written.
const READER: &str = "
import os, subprocess, sys
print('ready', flush=True)
sys.stdin.readline()
how = ['mount --bind /usr /usr', 'mount -o remount,bind,ro /usr'][:2 if sys.argv[1] == 'read-only' else 1]
read = 'exec /usr/bin/python3 -S -E -c \"print(len(open(\\'/etc/shadow\\').read()))\"'
os.execv('/usr/bin/unshare', ['unshare', '-m', 'sh', '-c', ' && '.join(how + [read])])
";

const ALLOWANCE: &str = r#"schema = "turnkey.profile/v1"
name = "reader"
extends = ["container"]

[[rule]]
id = "reader"
on = "open"
path = ["/etc/shadow"]
exe = "/usr/bin/python3*"
action = "allow"
why = "the program that reads it"
"#;

#[test]
fn an_allowance_of_one_program_holds_where_what_it_maps_cannot_be_written() {
    let directory = scratch();
    let profile = directory.path().join("reader.toml");
    std::fs::write(&profile, ALLOWANCE).expect("it can be written");
    let options = ["--profile", profile.to_str().expect("a name")];
    for (place, read) in [("read-only", true), ("writable", false)] {
        let group = OthersGroup::new();
        let mut reader = Others::start_with(&group.path, READER, &[place]);
        assert_eq!(reader.line(), "ready");
        let attached = Attached::to(&["--cgroup", &group.name], &options);
        let said = reader.ask("go");
        assert_eq!(said.parse::<usize>().is_ok(), read, "{place}: {said}");
        reader.end();
        let (_, report, said) = attached.end();
        let guarded = broken(&report).contains(&"credential-file");
        assert_eq!(guarded, !read, "{place}: {said}");
    }
}
