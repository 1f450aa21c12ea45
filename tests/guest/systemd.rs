//! A host that systemd runs, with control groups of version 2: systemd is started as the first
//! process of a pid namespace, with the groups below one as its whole tree, as in a container.

use std::fs;
use std::process::Command;

use serde_json::Value;
use turnkey_tests::scratch;

/// Boots systemd on the units of `$1`, until one of them ends it. Only what is below it is in its group:
/// one with processes of its own has no limited children.
const BOOT: &str = r#"
set -e
mkdir -p /sys/fs/cgroup/booted
echo "+memory +pids +cpu +io" > /sys/fs/cgroup/cgroup.subtree_control
exec unshare --pid --fork --mount --propagation private sh -c '
    echo 0 > /sys/fs/cgroup/booted/cgroup.procs
    exec unshare --cgroup sh -c "
        mount -t proc proc /proc
        mount -t tmpfs tmpfs /run
        umount /sys/fs/cgroup
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        mkdir -p /run/systemd/system /run/dbus
        cp $1/* /run/systemd/system/
        exec env -i container=other PATH=/usr/sbin:/usr/bin /usr/lib/systemd/systemd --system \
            --unit=test.service --log-target=console --show-status=no"
' sh "$1"
"#;

/// Enough of a bus to talk to systemd.
const UNITS: &[(&str, &str)] = &[
    (
        "dbus.socket",
        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
    ),
    (
        "dbus.service",
        "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nAfter=dbus.socket\n\
         FailureAction=exit-force\n\
         [Service]\nStandardError=file:/tmp/dbus\nType=notify\nNotifyAccess=main\n\
         ExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile --systemd-activation\n",
    ),
];

/// What a service of systemd's sees while it runs a jail: its own group, turnkey's, what systemd knows
/// of it, and how a jail ends that takes too much memory.
const SERVICE: &str = r#"
cut -d: -f3 /proc/self/cgroup > $OUT/service
$TURNKEY run -q --report $OUT/quiet.json -- sleep 2 &
sleep 1
cut -d: -f3 /proc/$!/cgroup > $OUT/turnkey
systemctl show -p Delegate --value "$(tr / '\n' < $OUT/turnkey | grep -E 'scope|service' | head -1)" > $OUT/delegate
wait
$TURNKEY run -q --memory 64M --report $OUT/greedy.json -- python3 -c 'b"x" * (200 << 20)'
sleep 1
systemctl list-units --no-legend --plain 'turnkey-*' > $OUT/left
"#;

/// What came of [`SERVICE`].
struct Seen {
    service: String,
    turnkey: String,
    delegate: String,
    left: String,
    quiet: Value,
    greedy: Value,
}

fn boot(settings: &str) -> Seen {
    let (units, out) = (scratch(), scratch());
    for (name, text) in UNITS {
        fs::write(units.path().join(name), text).unwrap();
    }
    let script = units.path().join("script");
    fs::write(&script, SERVICE).unwrap();
    let service = format!(
        "[Unit]\nDefaultDependencies=no\nRequires=dbus.service\nAfter=dbus.service\n\
         SuccessAction=exit-force\nFailureAction=exit-force\n\
         [Service]\nType=oneshot\n{settings}\nWorkingDirectory=/tmp\n\
         Environment=PATH=/usr/sbin:/usr/bin OUT={} TURNKEY={}\nExecStart=/bin/sh {}\n",
        out.path().display(),
        turnkey_tests::binary().display(),
        script.display()
    );
    fs::write(units.path().join("test.service"), service).unwrap();
    let ended = Command::new("/bin/sh")
        .args(["-c", BOOT, "sh"])
        .arg(units.path())
        .status();
    let bus = fs::read_to_string("/tmp/dbus").unwrap_or_default();
    println!("systemd ended: {ended:?}; the bus said: {bus}");
    let text = |name: &str| {
        let text = fs::read_to_string(out.path().join(name)).unwrap_or_default();
        println!("{name}: {text}");
        text.trim().to_owned()
    };
    let report = |name: &str| serde_json::from_str(&text(name)).unwrap_or_default();
    Seen {
        service: text("service"),
        turnkey: text("turnkey"),
        delegate: text("delegate"),
        left: text("left"),
        quiet: report("quiet.json"),
        greedy: report("greedy.json"),
    }
}

/// The limits hold whichever group it was.
fn assert_limited(seen: &Seen) {
    assert_eq!(seen.quiet["verdict"], "clean");
    assert_eq!(seen.greedy["status"], "out_of_memory");
    let layers = seen.greedy["enforcement"].as_array().unwrap();
    let memory = layers
        .iter()
        .find(|layer| layer["layer"] == "memory")
        .unwrap();
    assert!(memory["degraded"].is_null(), "{memory}");
}

#[test]
fn a_service_gets_a_scope_of_its_own() {
    let seen = boot("");
    assert_eq!(seen.service, "/system.slice/test.service");
    assert!(seen.turnkey.contains("/turnkey-"), "{}", seen.turnkey);
    assert!(seen.turnkey.contains(".scope/"), "{}", seen.turnkey);
    assert_eq!(seen.delegate, "yes");
    assert_eq!(seen.left, "", "systemd has taken the scopes away");
    assert_limited(&seen);
}

#[test]
fn a_delegated_service_keeps_its_group() {
    let seen = boot("Delegate=yes");
    assert!(
        seen.turnkey.starts_with("/system.slice/test.service"),
        "{}",
        seen.turnkey
    );
    assert_eq!(seen.delegate, "yes");
    assert_eq!(seen.quiet["verdict"], "clean");
}
