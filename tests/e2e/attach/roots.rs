//! Root directories that watched tasks choose: a rule is about the file, wherever chroot(2) has put its name.

use turnkey_tests::scratch;

use super::{Attached, Others, OthersGroup, broken};

/// Changes its root to the first argument, does the second to `/guarded`, and says what came of it.
const BELOW_ANOTHER_ROOT: &str = "
import os, sys
for line in sys.stdin:
    if line.startswith('go'):
        os.chroot(sys.argv[1])
        if sys.argv[2] == 'cwd':
            os.chdir('/')
        name = 'guarded' if sys.argv[2] == 'cwd' else '/guarded'
        acts = {'read': lambda: open(name).read(), 'cwd': lambda: open(name).read(),
                'unlink': lambda: os.unlink(name), 'chmod': lambda: os.chmod(name, 0o600),
                'link': lambda: os.link(name, '/other'), 'rename': lambda: os.rename(name, '/other')}
        print(acts[sys.argv[2]](), flush=True)
    else:
        break
";

#[test]
fn another_root_directory_takes_no_file_from_its_rule() {
    for act in ["read", "cwd", "unlink", "chmod", "link", "rename"] {
        let place = scratch();
        let root = place.path().display().to_string();
        let guarded = place.path().join("guarded");
        std::fs::write(&guarded, "guarded").unwrap();
        let profile = place.path().join("mine.toml");
        let text = format!(
            "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"container\"]\n[[rule]]\nid = \"guarded\"\n\
             on = [\"open\", \"unlink\", \"chmod\", \"link\", \"rename\"]\npath = [\"{root}/guarded\"]\naction = \"kill\"\n\
             severity = \"high\"\nwhy = \"it is guarded\"\n"
        );
        std::fs::write(&profile, text).unwrap();
        let group = OthersGroup::new();
        let program = |act| Others::start_with(&group.path, BELOW_ANOTHER_ROOT, &[&root, act]);

        let mut control = program("read");
        assert_eq!(control.ask("go"), "guarded", "the control");
        assert_eq!(control.end(), None);
        let profile = profile.to_str().unwrap();
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", profile]);
        let mut others = program(act);
        assert_eq!(others.ask("go"), "", "{act}: it died of it");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{act}");
        let (code, report, said) = attached.end();
        assert_eq!(code, 121, "{act}: {said}");
        assert!(
            broken(&report).contains(&"guarded"),
            "{act}: {}: {said}",
            report["violations"]
        );
    }
}
