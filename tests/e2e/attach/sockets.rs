//! Sockets that no hook on addresses holds.

use turnkey_tests::scratch;

use super::{Attached, Others, OthersGroup};

/// Makes a socket whose packets have the address that the program writes into them.
const RAW: &str = "
import socket, sys
for line in sys.stdin:
    if not line.startswith('go'): break
    try: print('made', socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).fileno() > 0, flush=True)
    except OSError as error: print('refused', error.errno, flush=True)
";

#[test]
fn where_rules_keep_a_group_from_addresses_it_has_no_socket_that_passes_them() {
    let place = scratch();
    let profile = place.path().join("mine.toml");
    let text = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"container\"]\n[[rule]]\nid = \"nobody\"\n\
         on = \"send\"\naddress = \"192.0.2.1\"\naction = \"deny\"\nseverity = \"high\"\nwhy = \"it is tested\"\n";
    std::fs::write(&profile, text).expect("a test can write");
    let profile = profile.display().to_string();
    for (mode, said) in [("enforce", "refused 1"), ("observe", "made True")] {
        let group = OthersGroup::new();
        let options = ["--profile", &profile, "--mode", mode];
        let attached = Attached::to(&["--cgroup", &group.name], &options);
        let mut others = Others::start_with(&group.path, RAW, &[]);
        assert_eq!(others.ask("go"), said, "{mode}");
        others.end();
        attached.end();
    }
}
