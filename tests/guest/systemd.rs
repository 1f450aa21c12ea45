//! A host that systemd runs, with control groups of version 2: systemd is started as the first
//! process of a pid namespace, with the groups below one as its whole tree, as in a container.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use turnkey_expectations::expected;
use turnkey_tests::{open_to_all, scratch};

expected!(on[SYSTEMD_6_12]);

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
        install -d -m 700 -o 1000 -g 1000 /run/user/1000
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

/// The same for a manager of a user's.
const USER_UNITS: &[(&str, &str)] = &[
    (
        "dbus.socket",
        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=%t/bus\n",
    ),
    (
        "dbus.service",
        "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nAfter=dbus.socket\n\
         [Service]\nType=notify\nNotifyAccess=main\n\
         ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation\n",
    ),
];

/// What a service sees while it runs a jail: its own group, turnkey's, what its manager knows of
/// it, and how jails end that take too much memory or too many tasks.
const SERVICE: &str = r#"
cut -d: -f3 /proc/self/cgroup > $OUT/service
$TURNKEY run -q $OPTIONS --report $OUT/quiet.json -- sleep 2 &
sleep 1
cut -d: -f3 /proc/$!/cgroup > $OUT/turnkey
systemctl $MANAGER show -p Delegate --value "$(tr / '\n' < $OUT/turnkey | grep -E 'scope|service' | tail -1)" > $OUT/delegate
wait
$TURNKEY run -q $OPTIONS --memory 64M --report $OUT/greedy.json -- python3 -c 'b"x" * (200 << 20)'
$TURNKEY run -q $OPTIONS --pids 8 --on-pids kill --report $OUT/forking.json -- sh -c 'for n in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait'
sleep 1
systemctl $MANAGER list-units --no-legend --plain 'turnkey-*' > $OUT/left
"#;

/// What came of [`SERVICE`].
struct Seen {
    service: String,
    turnkey: String,
    delegate: String,
    left: String,
    quiet: Value,
    greedy: Value,
    forking: Value,
}

/// The units of a host, and where its service leaves what it has seen.
struct Scene {
    units: TempDir,
    out: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene {
            units: scratch(),
            out: scratch(),
        };
        for (name, text) in UNITS {
            fs::write(scene.units.path().join(name), text).unwrap();
        }
        scene
    }

    /// The text of a service that runs [`SERVICE`] and ends its manager with itself.
    fn service(&self, script: &Path, settings: &str, environment: &str) -> String {
        fs::write(script, SERVICE).unwrap();
        format!(
            "[Unit]\nDefaultDependencies=no\nRequires=dbus.service\nAfter=dbus.service\n\
             SuccessAction=exit-force\nFailureAction=exit-force\n\
             [Service]\nType=oneshot\n{settings}\nWorkingDirectory=/tmp\n\
             Environment=PATH=/usr/sbin:/usr/bin OUT={} TURNKEY={} {environment}\nExecStart=/bin/sh {}\n",
            self.out.path().display(),
            turnkey_tests::binary().display(),
            script.display()
        )
    }

    fn boot(self, test: &str) -> Seen {
        fs::write(self.units.path().join("test.service"), test).unwrap();
        let ended = Command::new("/bin/sh")
            .args(["-c", BOOT, "sh"])
            .arg(self.units.path())
            .status();
        let bus = fs::read_to_string("/tmp/dbus").unwrap_or_default();
        println!("systemd ended: {ended:?}; the bus said: {bus}");
        let text = |name: &str| {
            let text = fs::read_to_string(self.out.path().join(name)).unwrap_or_default();
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
            forking: report("forking.json"),
        }
    }
}

/// A service of the system's manager, which runs as root.
fn boot(settings: &str) -> Seen {
    let scene = Scene::new();
    let script = scene.units.path().join("script");
    let service = scene.service(&script, settings, "");
    scene.boot(&service)
}

/// A service of a user's manager. That one is started as user@.service says, but for PAM, which the
/// guest does not have; so the controllers are those that systemd gives to every user.
fn boot_with_user_manager(settings: &str) -> Seen {
    let (scene, units) = (Scene::new(), scratch());
    for (name, text) in USER_UNITS {
        fs::write(units.path().join(name), text).unwrap();
    }
    let environment = "OPTIONS=--unmonitored MANAGER=--user";
    let script = units.path().join("script");
    let service = scene.service(&script, settings, environment);
    fs::write(units.path().join("test.service"), service).unwrap();
    open_to_all(units.path());
    std::os::unix::fs::chown(scene.out.path(), Some(1000), Some(1000)).unwrap();
    let manager = format!(
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit-force\nFailureAction=exit-force\n\
         [Service]\nType=notify\nUser=user\nSlice=user-1000.slice\nDelegate=pids memory cpu\n\
         KillMode=mixed\nOOMScoreAdjust=100\nStandardOutput=file:/tmp/manager\nStandardError=inherit\n\
         Environment=XDG_RUNTIME_DIR=/run/user/1000 SYSTEMD_UNIT_PATH={}: PATH=/usr/sbin:/usr/bin\n\
         ExecStart=/usr/lib/systemd/systemd --user --unit=test.service --log-target=console\n",
        units.path().display()
    );
    let seen = scene.boot(&manager);
    println!("{}", fs::read_to_string("/tmp/manager").unwrap_or_default());
    seen
}

/// The limits hold whichever group it was.
fn assert_limited(seen: &Seen) {
    assert_eq!(seen.quiet["status"], "exited");
    assert_eq!(seen.greedy["status"], "out_of_memory");
    assert_eq!(seen.forking["status"], "limit_exceeded");
    let layers = seen.greedy["enforcement"].as_array().unwrap();
    for name in ["memory", "pids", "cpu"] {
        let layer = layers.iter().find(|layer| layer["layer"] == name);
        let layer = layer.unwrap_or_else(|| panic!("no layer {name}"));
        assert!(layer["degraded"].is_null(), "{layer}");
        assert!(layer["proof"].is_string(), "{layer}");
    }
}

#[test]
fn a_service_gets_a_scope_of_its_own() {
    let seen = boot("");
    assert_eq!(seen.service, "/system.slice/test.service");
    assert!(seen.turnkey.contains("/turnkey-"), "{}", seen.turnkey);
    assert!(seen.turnkey.contains(".scope/"), "{}", seen.turnkey);
    assert_eq!(seen.delegate, "yes");
    assert_eq!(seen.left, "", "systemd has taken the scopes away");
    assert_eq!(seen.quiet["verdict"], "clean");
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

/// Where a user's services are, below the manager that stands in for user@1000.service here.
const OF_THE_USER: &str = "/user.slice/user-1000.slice/test.service/app.slice/";

#[test]
fn a_service_of_a_user_gets_a_scope_from_that_users_manager() {
    let seen = boot_with_user_manager("");
    assert_eq!(seen.service, format!("{OF_THE_USER}test.service"));
    let scope = format!("{OF_THE_USER}turnkey-");
    assert!(seen.turnkey.starts_with(&scope), "{}", seen.turnkey);
    assert!(seen.turnkey.contains(".scope/"), "{}", seen.turnkey);
    assert_eq!(seen.delegate, "yes");
    assert_eq!(seen.left, "", "the manager has taken the scopes away");
    assert_limited(&seen);
}

/// A user's manager leaves no mark on what it delegates, so there is nothing to know it by. A scope is
/// right there, too.
#[test]
fn a_delegated_service_of_a_user_gets_a_scope_all_the_same() {
    let seen = boot_with_user_manager("Delegate=yes");
    assert_eq!(seen.service, format!("{OF_THE_USER}test.service"));
    let scope = format!("{OF_THE_USER}turnkey-");
    assert!(seen.turnkey.starts_with(&scope), "{}", seen.turnkey);
    assert_eq!(seen.delegate, "yes");
    assert_limited(&seen);
}
