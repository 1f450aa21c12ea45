//! Decoding: records become events, anything else becomes an error.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use proptest::prelude::*;
use turnkey_abi::{Record, act, action, flag, kind, syscalls::on};
use turnkey_facts::{Address, Decision, File, Kind, NetworkAct, Raw};
use turnkey_monitor::{DecodeError, decode};
use turnkey_policy::{AttemptKind, RuleAction};

/// The bytes of a record and its texts, as the kernel's side writes them.
fn bytes(record: &Record, raw: &[u8], path: &[u8], argv: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| u16::try_from(text.len()).expect("short");
    let record = Record {
        raw_len: length(raw),
        path_len: length(path),
        argv_len: length(argv),
        ..*record
    };
    [&record.to_bytes()[..], raw, path, argv].concat()
}

fn kind_of(record: &Record, raw: &[u8], path: &[u8], argv: &[u8]) -> Kind {
    decode(&bytes(record, raw, path, argv))
        .expect("it is a record")
        .kind
}

#[test]
fn every_field_lands_in_its_place() {
    let record = Record {
        seq: 1,
        time_ns: 2,
        last_ns: 12,
        repeated: 11,
        start_ns: 3,
        inode: 4,
        args: [0; 3],
        pid: 5,
        tid: 6,
        jail_pid: 7,
        uid: 8,
        parent_pid: 9,
        errno: 0,
        dev: 10,
        detail: 0o101,
        kind: kind::OPEN,
        rule: 3,
        action: action::KILL,
        flags: flag::FILE | flag::UNLINKED | flag::ACTOR_UNKNOWN | flag::FILE_UNKNOWN,
        comm: *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ..Record::ZERO
    };
    let event = decode(&bytes(&record, b"../x", b"/a/x", b"")).expect("it is a record");
    assert_eq!((event.seq, event.time_ns), (1, 2));
    assert_eq!((event.last_ns, event.repeated), (12, 11));
    let task = &event.task;
    assert_eq!(
        (task.pid, task.tid, task.jail_pid, task.uid, task.parent_pid),
        (5, 6, 7, 8, 9)
    );
    assert_eq!((task.start_ns, task.comm.as_slice()), (3, b"sh".as_slice()));
    assert_eq!(
        event.decision,
        Some(Decision {
            rule: 2,
            action: RuleAction::Kill,
            actor_unknown: true,
            file_unknown: true,
        })
    );
    let file = File {
        path: b"/a/x".to_vec(),
        truncated: false,
        unlinked: true,
        dev: 10,
        inode: 4,
    };
    let raw = Raw {
        base: None,
        bytes: b"../x".to_vec(),
        truncated: false,
        unreadable: false,
    };
    assert_eq!(
        event.kind,
        Kind::Open {
            file: Some(file),
            raw,
            flags: 0o101,
            by_handle: false,
            errno: 0
        }
    );
}

#[test]
fn a_failed_open_has_no_file() {
    let record = Record {
        kind: kind::OPEN,
        errno: 13,
        flags: flag::RAW_UNREADABLE,
        ..Record::ZERO
    };
    let Kind::Open {
        file, raw, errno, ..
    } = kind_of(&record, b"", b"", b"")
    else {
        panic!("no open")
    };
    assert_eq!((file, errno, raw.unreadable), (None, 13, true));
}

#[test]
fn arguments_are_split_at_zeros_and_empty_ones_stay() {
    let record = Record {
        kind: kind::EXEC,
        flags: flag::FILE,
        ..Record::ZERO
    };
    let Kind::Exec { argv, raw, .. } = kind_of(&record, b"/bin/sh", b"/bin/sh", b"sh\0\0-c\0")
    else {
        panic!("no exec")
    };
    assert_eq!(argv, [b"sh".to_vec(), b"".to_vec(), b"-c".to_vec()]);
    assert_eq!(raw, None, "the name is the path");
    let Kind::Exec { argv, raw, .. } = kind_of(&record, b"./x", b"/bin/sh", b"") else {
        panic!("no exec")
    };
    assert_eq!((argv, raw), (Vec::<Vec<u8>>::new(), Some(b"./x".to_vec())));
}

#[test]
fn the_name_of_what_is_executed_anew_is_its_parents() {
    let record = Record {
        kind: kind::EXEC,
        flags: flag::FILE,
        args: [
            u64::from_ne_bytes(*b"runc:[0:"),
            u64::from_ne_bytes(*b"PARENT]\0"),
            0,
        ],
        ..Record::ZERO
    };
    let anew = |record| match kind_of(&record, b"", b"/runc", b"") {
        Kind::Exec { anew, .. } => anew,
        _ => panic!("no exec"),
    };
    assert_eq!(anew(record), None, "it is another program");
    let flags = record.flags | flag::ANEW;
    assert_eq!(
        anew(Record { flags, ..record }),
        Some(b"runc:[0:PARENT]".to_vec())
    );
}

fn address_of(bytes: &[u8]) -> Address {
    let record = Record {
        kind: kind::NETWORK,
        what: act::CONNECT,
        ..Record::ZERO
    };
    let Kind::Network {
        act: NetworkAct::Connect,
        address,
        ..
    } = kind_of(&record, bytes, b"", b"")
    else {
        panic!("no connect")
    };
    address
}

#[test]
fn socket_addresses_of_every_family() {
    let v4 = [2, 0, 0x1f, 0x90, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        address_of(&v4),
        Address::Inet(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 8080)))
    );
    let mut v6 = vec![10, 0, 0, 53, 0, 0, 0, 7];
    v6.extend(Ipv6Addr::LOCALHOST.octets());
    v6.extend(3_u32.to_ne_bytes());
    let expected = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 53, 7, 3);
    assert_eq!(address_of(&v6), Address::Inet(SocketAddr::V6(expected)));
    assert_eq!(
        address_of(b"\x01\0/run/x\0junk"),
        Address::UnixPath(b"/run/x".to_vec())
    );
    assert_eq!(
        address_of(b"\x01\0\0name"),
        Address::UnixAbstract(b"name".to_vec())
    );
    assert_eq!(address_of(b"\x01\0"), Address::UnixPath(Vec::new()));
    assert_eq!(
        address_of(b"\x10\0\x01\x02"),
        Address::Other {
            family: 16,
            bytes: vec![1, 2]
        }
    );
    // Too short for its family: told as it is.
    assert_eq!(
        address_of(b"\x02\0\x01"),
        Address::Other {
            family: 2,
            bytes: vec![1]
        }
    );
    assert_eq!(
        address_of(b"\0\0"),
        Address::Other {
            family: 0,
            bytes: vec![]
        }
    );
    assert_eq!(address_of(b""), Address::Unreadable);
}

#[test]
fn every_rule_kind_survives_the_wire() {
    for (code, expected) in [
        (on::PTRACE, AttemptKind::Ptrace),
        (on::NAMESPACE, AttemptKind::Namespace),
        (on::IO_URING, AttemptKind::IoUring),
    ] {
        let record = Record {
            kind: kind::REFUSED,
            what: u16::from(code),
            detail: 101,
            errno: 1,
            args: [1, 2, 3],
            ..Record::ZERO
        };
        let refused = Kind::Refused {
            nr: 101,
            on: Some(expected),
            args: [1, 2, 3],
            errno: 1,
        };
        assert_eq!(kind_of(&record, b"", b"", b""), refused);
    }
}

#[test]
fn a_look_is_told_with_its_path_and_no_other_record_is_one() {
    let record = Record {
        kind: kind::LOOK,
        what: u16::from(on::STAT),
        flags: flag::BASE,
        errno: 2,
        ..Record::ZERO
    };
    let looked = Kind::Change {
        on: AttemptKind::Stat,
        object: Raw {
            base: Some(b"/root".to_vec()),
            bytes: b".bashrc".to_vec(),
            truncated: false,
            unreadable: false,
        },
        new: None,
        resolved: false,
        call: turnkey_facts::NamingCall::default(),
        errno: 2,
    };
    assert_eq!(kind_of(&record, b"", b".bashrc", b"/root"), looked);
    for (kind, what) in [(kind::LOOK, on::CHMOD), (kind::CHANGE, on::STAT)] {
        let what = u16::from(what);
        let record = Record {
            kind,
            what,
            ..record
        };
        let error = decode(&bytes(&record, b"", b"/x", b"")).expect_err("it means nothing");
        let field = "rule kind";
        let value = what.into();
        assert_eq!(error, DecodeError::Code { field, value });
    }
}

#[test]
fn unknown_codes_are_errors() {
    let unknown =
        |record: Record| decode(&bytes(&record, b"", b"", b"")).expect_err("it means nothing");
    let code = |field, value| DecodeError::Code { field, value };
    assert_eq!(
        unknown(Record {
            kind: 99,
            ..Record::ZERO
        }),
        code("kind", 99)
    );
    assert_eq!(
        unknown(Record {
            kind: kind::EXIT,
            rule: 1,
            action: 9,
            ..Record::ZERO
        }),
        code("action", 9)
    );
    assert_eq!(
        unknown(Record {
            kind: kind::NETWORK,
            what: 99,
            ..Record::ZERO
        }),
        code("act", 99)
    );
    assert_eq!(
        unknown(Record {
            kind: kind::REFUSED,
            what: 99,
            ..Record::ZERO
        }),
        code("rule kind", 99)
    );
    let huge = Record {
        kind: kind::FORK,
        args: [1 << 32, 0, 0],
        ..Record::ZERO
    };
    assert_eq!(unknown(huge), code("process id", 1 << 32));
}

#[test]
fn a_cut_record_is_an_error_at_every_length() {
    let record = Record {
        kind: kind::EXIT,
        ..Record::ZERO
    };
    let whole = bytes(&record, b"abc", b"de", b"f");
    for length in 0..whole.len() {
        let error = decode(&whole[..length]).expect_err("something is missing");
        assert!(
            matches!(error, DecodeError::Short { expected, actual } if expected > actual && actual == length)
        );
    }
    assert!(decode(&whole).is_ok());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_text_panics(
        kind in 0_u16..12, what in 0_u16..20, flags in any::<u16>(), rule in 0_u16..3, action in 0_u16..6,
        raw in prop::collection::vec(any::<u8>(), 0..64),
        path in prop::collection::vec(any::<u8>(), 0..64),
        argv in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let record = Record { kind, what, flags, rule, action, ..Record::ZERO };
        let _ = decode(&bytes(&record, &raw, &path, &argv));
    }
}

/// Another thread wrote to its name between the two looks.
#[test]
fn where_a_symlink_leads_is_told_whatever_its_name_is_by_now() {
    let record = Record {
        kind: kind::CHANGE,
        what: on::OPEN.into(),
        ..Record::ZERO
    };
    let aim = |raw: &[u8], name: &[u8]| match kind_of(&record, raw, name, b"") {
        Kind::Change { new, .. } => new.expect("it is known"),
        other => panic!("{other:?}"),
    };
    assert_eq!(aim(b"rb/../aim", b"rb"), b"aim");
    assert_eq!(aim(b"rb/../aim", b"ra"), b"aim");
    assert_eq!(aim(b"/ab/../aim", b"new"), b"/ab/../aim");
    // Its name is gone, and the aim is told where there is but one that it can be.
    let gone = Record {
        flags: flag::OBJECT_UNREADABLE,
        ..record
    };
    let aim = |raw: &[u8]| match kind_of(&gone, raw, b"", b"") {
        Kind::Change { new, .. } => new,
        other => panic!("{other:?}"),
    };
    assert_eq!(aim(b"rb/../.").as_deref(), Some(&b"."[..]));
    assert_eq!(aim(b"/etc/hosts").as_deref(), Some(&b"/etc/hosts"[..]));
    assert_eq!(aim(b"rb/../../aim"), None);
    assert_eq!(aim(b"/w/rb/../aim"), None);
    assert_eq!(aim(b"a/../b/../aim"), None);
    // A call that fails for its name had none to stand there.
    let faulted = Record { errno: 14, ..gone };
    let Kind::Change { new, .. } = kind_of(&faulted, b"e/../vault", b"", b"") else {
        panic!("a change");
    };
    assert_eq!(new.as_deref(), Some(&b"e/../vault"[..]));
}
