//! Plans for hosts that do not exist, without root and without touching anything.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnkey_policy::{HostPath, Layer, Overrides, masks};

use super::*;
use crate::groups::hierarchy::{CgroupHierarchies, Controller, ControllerHome};
use crate::host::PathFact;
use crate::host::storage::{BlockDevice, HostStorage, MountedStorage, StorageBacking};
use crate::process::rlimits::HardLimits;

mod elsewhere;
mod writable;

fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let no_files = |path: &str| Err(format!("{path}: no files here"));
    let mut policy = turnkey_policy::load("untrusted", &no_files, &Overrides::default()).unwrap();
    policy.filesystem.read = vec![readable("/usr"), readable("/bin")];
    change(&mut policy);
    policy
}

fn readable(path: &str) -> HostPath {
    HostPath {
        path: path.into(),
        at: None,
        optional: false,
        list: true,
        why: "a test".into(),
    }
}

fn symlink(text: &str, leads_to: &str) -> PathFact {
    PathFact::Symlink {
        text: text.into(),
        leads_to: Some(leads_to.into()),
    }
}

/// A host with a merged /usr.
fn host(more: &[(&str, PathFact)]) -> Host {
    let known = [
        ("/usr", PathFact::Directory),
        ("/usr/bin", PathFact::Directory),
        ("/bin", symlink("usr/bin", "/usr/bin")),
    ];
    let paths: BTreeMap<_, _> = known
        .iter()
        .chain(more)
        .map(|(path, fact)| (PathBuf::from(path), fact.clone()))
        .collect();
    Host {
        paths,
        root: None,
        ids: crate::ids::NamespaceIds::All,
        landlock_abi: 6,
        hierarchies: CgroupHierarchies::probe().unwrap(),
        storage: crate::host::storage::HostStorage::default(),
        addresses: Vec::new(),
        names: crate::host::NameResolution::default(),
        hard_limits: HardLimits::default(),
        ceilings: Vec::new(),
        last_capability: 40,
        cpus: 8,
    }
}

#[test]
fn the_hosts_network_is_not_entered_without_what_keeps_its_abstract_sockets_apart() {
    let policy = policy(|policy| policy.network.mode = turnkey_policy::NetworkMode::Host);
    for abi in 0..6 {
        let old = Host {
            landlock_abi: abi,
            ..host(&[])
        };
        let refused = plan(&policy, &old).err();
        assert_eq!(refused, Some(PlanError::AbstractSockets), "{abi}");
    }
    let plan = plan(&policy, &host(&[])).unwrap();
    assert_eq!(plan.namespaces.len(), 7);
    assert!(!plan.has_loopback() && plan.reach.denied_probe.is_none());
    assert!(
        !plan.unwatched().landlock.unwrap().tcp,
        "there is TCP to use"
    );
}

fn command(arguments: &[&str]) -> JailCommand {
    JailCommand {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: vec![
            ("LANG".into(), "C.UTF-8".into()),
            ("SECRET".into(), "x".into()),
            ("HOME".into(), "/root".into()),
        ],
        workdir: "/home/user/project".into(),
        ..JailCommand::default()
    }
}

fn plan(policy: &Policy, host: &Host) -> Result<Plan, PlanError> {
    Plan::new(policy, host, command(&["true"]))
}

fn binds(plan: &Plan) -> Vec<(&Path, bool)> {
    plan.rootfs
        .iter()
        .filter_map(|step| match step {
            RootfsStep::Bind { path, writable, .. } => Some((path.as_path(), *writable)),
            _ => None,
        })
        .collect()
}

#[test]
fn what_a_symlink_leads_to_is_not_mounted_twice() {
    let plan = plan(&policy(|_| {}), &host(&[])).unwrap();
    assert_eq!(binds(&plan), [(Path::new("/usr"), false)]);
    assert!(plan.rootfs.contains(&RootfsStep::Symlink {
        path: "/bin".into(),
        text: "usr/bin".into()
    }));
}

#[test]
fn what_a_symlink_leads_to_elsewhere_comes_with_it() {
    let policy = policy(|policy| policy.filesystem.read.push(readable("/opt/tool")));
    let host = host(&[
        ("/opt/tool", symlink("../srv/tool-1.0", "/srv/tool-1.0")),
        ("/srv/tool-1.0", PathFact::Directory),
    ]);
    let plan = plan(&policy, &host).unwrap();
    assert_eq!(
        binds(&plan),
        [
            (Path::new("/usr"), false),
            (Path::new("/srv/tool-1.0"), false)
        ]
    );
}

#[test]
fn a_directory_inside_another_is_there_with_it_unless_it_is_writable() {
    let policy = policy(|policy| {
        policy.filesystem.read.push(readable("/usr/share/data"));
        policy.filesystem.write.push(readable("/usr/share/output"));
    });
    let host = host(&[
        ("/usr/share/data", PathFact::Directory),
        ("/usr/share/output", PathFact::Directory),
    ]);
    let plan = plan(&policy, &host).unwrap();
    assert_eq!(
        binds(&plan),
        [
            (Path::new("/usr"), false),
            (Path::new("/usr/share/output"), true)
        ]
    );
}

#[test]
fn a_place_is_made_before_something_is_mounted_on_it() {
    let policy = policy(|policy| policy.filesystem.read.push(readable("/srv/a/file")));
    let plan = plan(&policy, &host(&[("/srv/a/file", PathFact::File)])).unwrap();
    let at = |wanted: &RootfsStep| plan.rootfs.iter().position(|step| step == wanted);
    let parent = at(&RootfsStep::Directory("/srv/a".into())).unwrap();
    let place = at(&RootfsStep::File {
        path: "/srv/a/file".into(),
        content: Vec::new(),
    })
    .unwrap();
    let mount = plan.rootfs.iter().position(
        |step| matches!(step, RootfsStep::Bind { path, .. } if path == Path::new("/srv/a/file")),
    );
    assert!(parent < place && place < mount.unwrap());
}

#[test]
fn a_missing_path_fails_unless_it_is_optional() {
    let missing = policy(|policy| policy.filesystem.read.push(readable("/opt/none")));
    assert_eq!(
        plan(&missing, &host(&[])).unwrap_err(),
        PlanError::Missing("/opt/none".into())
    );
    let optional = policy(|policy| {
        policy.filesystem.read.push(HostPath {
            optional: true,
            ..readable("/opt/none")
        });
    });
    assert_eq!(binds(&plan(&optional, &host(&[])).unwrap()).len(), 1);
}

#[test]
fn a_scratch_does_not_hide_what_lies_in_it() {
    let policy = policy(|policy| policy.filesystem.read.push(readable("/tmp/data")));
    let plan = plan(&policy, &host(&[("/tmp/data", PathFact::Directory)])).unwrap();
    let at = |wanted: &dyn Fn(&RootfsStep) -> bool| plan.rootfs.iter().position(wanted).unwrap();
    let scratch =
        at(&|step| matches!(step, RootfsStep::Tmpfs { path, .. } if path == Path::new("/tmp")));
    let place = at(&|step| *step == RootfsStep::Directory("/tmp/data".into()));
    let bind =
        at(&|step| matches!(step, RootfsStep::Bind { path, .. } if path == Path::new("/tmp/data")));
    assert!(scratch < place && place < bind);
}

#[test]
fn doors_are_not_files() {
    let policy = policy(|policy| policy.filesystem.read.push(readable("/srv/docker.sock")));
    let host = host(&[("/srv/docker.sock", PathFact::Special)]);
    assert_eq!(
        plan(&policy, &host).unwrap_err(),
        PlanError::Special("/srv/docker.sock".into())
    );
}

#[test]
fn what_turnkey_makes_cannot_come_from_the_host() {
    for path in [
        "/",
        "/proc",
        "/proc/sys",
        "/dev/mem",
        "/sys",
        "/run/docker.sock",
        "/etc",
        "/etc/passwd",
        "/workspace/x",
    ] {
        let policy = policy(|policy| policy.filesystem.read.push(readable(path)));
        let host = host(&[(path, PathFact::Directory)]);
        assert_eq!(
            plan(&policy, &host).unwrap_err(),
            PlanError::Reserved(path.into()),
            "{path}"
        );
    }
}

#[test]
fn a_decoy_cannot_lie_in_a_host_directory() {
    let policy = policy(|policy| policy.filesystem.decoys.push("/usr/share/secret".into()));
    assert_eq!(
        plan(&policy, &host(&[])).unwrap_err(),
        PlanError::CoveredDecoy("/usr/share/secret".into())
    );
}

#[test]
fn a_system_directory_is_no_workspace() {
    for directory in ["/", "/etc", "/etc/ssh", "/proc/1", "/run/user/0"] {
        let command = JailCommand {
            workdir: directory.into(),
            ..command(&["true"])
        };
        let planned = Plan::new(&policy(|_| {}), &host(&[]), command);
        assert_eq!(
            planned.unwrap_err(),
            PlanError::SystemWorkdir(directory.into())
        );
    }
}

#[test]
fn only_what_the_policy_names_is_in_the_environment() {
    let plan = plan(&policy(|_| {}), &host(&[])).unwrap();
    let has = |variable: &str| {
        plan.environment
            .iter()
            .any(|given| given == OsStr::new(variable))
    };
    assert!(has("LANG=C.UTF-8"));
    assert!(has("HOME=/workspace"), "what the policy sets wins");
    assert!(
        !plan
            .environment
            .iter()
            .any(|given| given.as_bytes().starts_with(b"SECRET="))
    );
}

#[test]
fn a_program_is_looked_up_as_execvp_would() {
    let candidates = |argument: &str| {
        let planned = Plan::new(&policy(|_| {}), &host(&[]), command(&[argument])).unwrap();
        planned.candidates
    };
    assert!(candidates("python3").contains(&PathBuf::from("/usr/bin/python3")));
    assert_eq!(candidates("./run"), [PathBuf::from("/workspace/run")]);
    assert_eq!(
        candidates("tools/run"),
        [PathBuf::from("/workspace/tools/run")]
    );
    assert_eq!(candidates("/bin/true"), [PathBuf::from("/bin/true")]);
}

#[test]
fn an_empty_command_is_refused() {
    let planned = Plan::new(&policy(|_| {}), &host(&[]), command(&[""]));
    assert_eq!(planned.unwrap_err(), PlanError::EmptyCommand);
}

#[test]
fn every_mount_has_its_landlock_grant_and_the_probe_has_none() {
    let plan = plan(&policy(|_| {}), &host(&[])).unwrap();
    let place = |path: &str| {
        plan.grants
            .iter()
            .find(|grant| grant.path == Path::new(path))
            .map(|grant| grant.place)
    };
    assert_eq!(place("/"), Some(PathUse::List));
    assert_eq!(place("/usr"), Some(PathUse::ReadExecute));
    assert_eq!(place("/proc"), Some(PathUse::Read));
    assert_eq!(place("/tmp"), Some(PathUse::Full));
    assert_eq!(place(WORKSPACE), Some(PathUse::Full));
    assert_eq!(place(PROBE), None);
}

/// A root that has a place for data, and traps where turnkey's own things go.
/// What Landlock grants at a path.
fn grants_at(plan: &Plan, path: &str) -> Vec<PathUse> {
    let all = plan.grants.iter();
    let at = all.filter(|grant| grant.path == Path::new(path));
    at.map(|grant| grant.place).collect()
}

#[test]
fn what_is_given_by_name_is_not_listed_nor_is_the_root_over_it() {
    let by_name = |path: &str| HostPath {
        list: false,
        ..readable(path)
    };
    let host = host(&[("/usr/bin/tools", PathFact::Directory)]);
    let policy = policy(|policy| {
        policy.filesystem.read = vec![by_name("/usr"), by_name("/bin"), readable("/usr/bin/tools")];
    });
    let plan = plan(&policy, &host).unwrap();
    assert_eq!(binds(&plan), [(Path::new("/usr"), false)]);
    assert_eq!(grants_at(&plan, "/usr"), [PathUse::ByName]);
    assert_eq!(grants_at(&plan, "/usr/bin"), []);
    assert_eq!(grants_at(&plan, "/usr/bin/tools"), [PathUse::ReadExecute]);
    assert_eq!(grants_at(&plan, "/"), [], "a right on it is one on /usr");

    let listed = super::Plan::new(&self::policy(|_| {}), &host, command(&["true"])).unwrap();
    assert_eq!(grants_at(&listed, "/"), [PathUse::List]);
    assert_eq!(grants_at(&listed, "/usr"), [PathUse::ReadExecute]);
}

#[test]
fn what_lies_in_a_list_of_the_jails_own_cannot_be_kept_from_it() {
    let by_name = |path: &str| HostPath {
        list: false,
        ..readable(path)
    };
    for (path, above) in [("/etc/ssl", "/etc"), ("/tmp/data", "/tmp")] {
        let policy = policy(|policy| policy.filesystem.read = vec![by_name(path)]);
        let host = host(&[(path, PathFact::Directory)]);
        let (path, above) = (path.into(), above.into());
        assert_eq!(
            plan(&policy, &host).unwrap_err(),
            PlanError::Listed { path, above }
        );
    }
    // What is given whole is given with all that is in it.
    let policy = policy(|policy| {
        policy.filesystem.read = vec![by_name("/usr/bin"), readable("/usr")];
    });
    let plan = plan(&policy, &host(&[])).unwrap();
    assert_eq!(grants_at(&plan, "/usr"), [PathUse::ReadExecute]);
    assert_eq!(grants_at(&plan, "/usr/bin"), []);
}

#[test]
fn a_proc_of_processes_alone_has_nothing_to_cover() {
    let processes = policy(|policy| policy.filesystem.proc = ProcView::Processes);
    let masks = |policy| plan(policy, &host(&[])).unwrap().masks().count();
    assert_eq!(masks(&processes), 0);
    assert_eq!(
        masks(&policy(|_| {})),
        masks::FILES.len() + masks::DIRECTORIES.len()
    );
}

fn with_root(policy: &mut Policy) {
    policy.filesystem.root = Some("/srv/rootfs".into());
    policy.filesystem.read.clear();
}

fn host_with_root(entries: &[(&str, PathFact)], places: &[(&str, PathFact)]) -> Host {
    let map = |pairs: &[(&str, PathFact)]| {
        let owned = pairs.iter();
        owned
            .map(|(path, fact)| (PathBuf::from(path), fact.clone()))
            .collect()
    };
    let mut host = host(&[("/srv/data", PathFact::Directory)]);
    host.root = Some(crate::rootfs::root::RootFacts {
        entries: map(entries),
        places: map(places),
    });
    host
}

#[test]
fn a_root_of_its_own_comes_in_entry_by_entry_and_never_turnkey_s_places() {
    let link = |text: &str| PathFact::Symlink {
        text: text.into(),
        leads_to: None,
    };
    let entries = [
        ("/usr", PathFact::Directory),
        ("/bin", link("usr/bin")),
        ("/init", PathFact::File),
        ("/dev", link("/victim")),
        ("/proc", PathFact::Directory),
        ("/sys", link("/victim")),
        ("/tmp", PathFact::Directory),
        ("/run", PathFact::Directory),
        ("/door", PathFact::Special),
        ("/.turnkey-probe", PathFact::File),
        ("/etc/passwd", link("/victim")),
        ("/etc/shadow", PathFact::File),
        ("/etc/ssl", PathFact::Directory),
    ];
    let plan = plan(&policy(with_root), &host_with_root(&entries, &[])).unwrap();
    let of_root: Vec<_> = plan
        .rootfs
        .iter()
        .filter_map(|step| match step {
            RootfsStep::RootEntry { path, .. } => path.to_str(),
            RootfsStep::Symlink { path, .. } if !path.starts_with("/dev") => path.to_str(),
            _ => None,
        })
        .collect();
    assert_eq!(of_root, ["/bin", "/etc/ssl", "/init", "/usr"]);
}

#[test]
fn a_path_of_the_host_needs_a_place_in_the_root() {
    let policy = policy(|policy| {
        with_root(policy);
        policy.filesystem.read.push(readable("/srv/data"));
    });
    let entries = [("/srv", PathFact::Directory)];
    let planned = |places: &[(&str, PathFact)]| plan(&policy, &host_with_root(&entries, places));
    let refused = planned(&[]).unwrap_err();
    assert!(matches!(refused, PlanError::NoPlace { .. }), "{refused}");
    assert!(planned(&[("/srv/data", PathFact::File)]).is_err());
    let placed = planned(&[("/srv/data", PathFact::Directory)]).unwrap();
    assert_eq!(binds(&placed), [(Path::new("/srv/data"), false)]);
}

#[test]
fn a_symlink_of_somebody_else_is_no_path() {
    let policy = policy(|policy| policy.filesystem.read.push(readable("/shared/data")));
    let host = host(&[("/shared/data", PathFact::Foreign)]);
    assert_eq!(
        plan(&policy, &host).unwrap_err(),
        PlanError::Foreign("/shared/data".into())
    );
}

#[test]
fn a_path_that_was_exchanged_between_two_looks_is_refused() {
    let policy = policy(|policy| policy.filesystem.write = vec![readable("/turned")]);
    // First a symlink, then the directory that it leads to: the same name.
    let host = host(&[("/turned", symlink("/elsewhere", "/turned"))]);
    assert_eq!(
        plan(&policy, &host).unwrap_err(),
        PlanError::Changed("/turned".into())
    );
}

/// A disk at /, a network file system at /mnt, memory at /tmp.
fn stored(home: ControllerHome) -> Host {
    let disk = |minor| BlockDevice { major: 8, minor };
    let mounted = |place: &str, kind: &str, backing| MountedStorage {
        place: place.into(),
        kind: kind.into(),
        backing,
    };
    let mounts = vec![
        mounted("/", "ext4", StorageBacking::Disks([disk(0)].into())),
        mounted("/home", "vfat", StorageBacking::Disks([disk(16)].into())),
        mounted("/mnt", "nfs", StorageBacking::OutOfReach),
        mounted("/tmp", "tmpfs", StorageBacking::Memory),
    ];
    let homes = Controller::ALL.map(|controller| (controller, home.clone()));
    Host {
        hierarchies: CgroupHierarchies::new("/sys/fs/cgroup".into(), homes.to_vec()),
        storage: HostStorage {
            mounts,
            canonical: BTreeMap::new(),
        },
        ..host(&[
            ("/mnt", PathFact::Directory),
            ("/home/out", PathFact::Directory),
        ])
    }
}

fn of_io(plan: &Plan) -> Vec<(&'static str, &str)> {
    let limits = plan.group_limits.iter();
    let limits = limits.filter(|limit| limit.controller == Controller::Io);
    limits
        .map(|limit| (limit.file, limit.value.as_str()))
        .collect()
}

#[test]
fn nothing_is_limited_on_disks_unless_asked_for() {
    let plan = plan(&policy(|_| ()), &stored(ControllerHome::Unified)).unwrap();
    assert_eq!(plan.io, None);
    assert_eq!(of_io(&plan), []);
    assert!(!plan.missing().iter().any(|(layer, _)| *layer == Layer::Io));
}

#[test]
fn every_disk_behind_the_tree_has_its_limit() {
    let policy = policy(|policy| {
        policy.limits.io_read = Some(10 << 20);
        policy.limits.io_write = Some(1 << 20);
    });
    let on_v2 = plan(&policy, &stored(ControllerHome::Unified)).unwrap();
    let both = "rbps=10485760 wbps=1048576";
    assert_eq!(
        of_io(&on_v2),
        [
            ("io.max", format!("8:0 {both}").as_str()),
            ("io.max", format!("8:16 {both}").as_str())
        ],
        "/usr, and the working directory"
    );
    let on_v1 = plan(&policy, &stored(ControllerHome::Legacy("/blkio".into()))).unwrap();
    assert_eq!(
        of_io(&on_v1)[..2],
        [
            ("blkio.throttle.read_bps_device", "8:0 10485760"),
            ("blkio.throttle.write_bps_device", "8:0 1048576")
        ]
    );
    // Nothing of the host can be written, so no write can be missed.
    assert_eq!(on_v1.io.unwrap().degraded(), None);
}

#[test]
fn what_is_not_held_back_is_said() {
    let with = |change: fn(&mut Policy), home: ControllerHome| {
        let policy = policy(|policy| {
            policy.limits.io_write = Some(1 << 20);
            change(policy);
        });
        plan(&policy, &stored(home)).unwrap()
    };
    let writable = |policy: &mut Policy| policy.filesystem.write = vec![readable("/home/out")];
    let told = |plan: &Plan| plan.io.as_ref().unwrap().degraded().unwrap_or_default();
    let on_v1 = with(writable, ControllerHome::Legacy("/blkio".into()));
    assert!(told(&on_v1).contains("version 1"), "{}", told(&on_v1));
    let on_v2 = with(writable, ControllerHome::Unified);
    assert!(told(&on_v2).contains("vfat"), "{}", told(&on_v2));
    assert_eq!(on_v2.missing(), []);

    let server = with(
        |policy| policy.filesystem.read.push(readable("/mnt")),
        ControllerHome::Unified,
    );
    assert!(told(&server).contains("nfs at /mnt"), "{}", told(&server));
    let (layer, reason) = server.missing().remove(0);
    assert_eq!(layer, Layer::Io);
    assert!(reason.contains("keep it out of the jail"), "{reason}");
}

#[test]
fn a_host_without_the_controller_misses_the_layer_when_asked_for() {
    let limited = policy(|policy| policy.limits.io_read = Some(1 << 20));
    let without = Host {
        hierarchies: CgroupHierarchies::new(
            "/sys/fs/cgroup".into(),
            Controller::ALWAYS
                .map(|it| (it, ControllerHome::Unified))
                .to_vec(),
        ),
        ..stored(ControllerHome::Unified)
    };
    let (layer, reason) = plan(&limited, &without).unwrap().missing().remove(0);
    assert_eq!(layer, Layer::Io);
    assert!(reason.contains("CONFIG_BLK_DEV_THROTTLING"), "{reason}");
}
