use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::errno::Errno;
use proptest::prelude::*;
use turnkey_jailer::export::{ExportDestination, ExportMode, FileEnd, FileStamp};

use super::receiver::write;
use super::record::{ExportAnswer, ExportRecord};
use super::*;

fn names() -> impl Strategy<Value = CString> {
    "[a-z]{1,9}".prop_map(|name| CString::new(name).unwrap())
}

fn stamps() -> impl Strategy<Value = FileStamp> {
    (0_u32..0o1000, any::<(i64, i64)>()).prop_map(|(rights, changed)| FileStamp { rights, changed })
}

fn records() -> impl Strategy<Value = ExportRecord> {
    let texts = prop::collection::vec(1_u8..=255, 0..9).prop_map(OsString::from_vec);
    let ends = (any::<i64>(), stamps(), any::<Option<(u64, u64)>>());
    prop_oneof![
        Just(ExportRecord::Open),
        names().prop_map(ExportRecord::Enter),
        (names(), stamps(), any::<bool>())
            .prop_map(|(name, stamp, stays)| ExportRecord::Leave(name, stamp, stays)),
        names().prop_map(ExportRecord::Begin),
        (any::<u64>(), any::<Vec<u8>>()).prop_map(|(at, data)| ExportRecord::Data(at, data)),
        ends.prop_map(|(size, stamp, linked)| {
            ExportRecord::End(FileEnd {
                size,
                stamp,
                linked,
            })
        }),
        names().prop_map(ExportRecord::Remove),
        (any::<(u64, u64)>(), names()).prop_map(|(file, name)| ExportRecord::Link(file, name)),
        (names(), texts, any::<(i64, i64)>())
            .prop_map(|(name, text, changed)| ExportRecord::Symlink(name, text, changed)),
        any::<bool>().prop_map(ExportRecord::Close),
    ]
}

fn answers() -> impl Strategy<Value = ExportAnswer> {
    prop_oneof![
        Just(ExportAnswer::Done),
        Just(ExportAnswer::Unknown),
        prop::sample::select(vec![Errno::ENOSPC, Errno::EACCES]).prop_map(ExportAnswer::Failed),
        any::<[Option<(u64, u64)>; 2]>().prop_map(ExportAnswer::Opened),
        any::<String>().prop_map(ExportAnswer::Refused),
    ]
}

proptest! {
    #[test]
    fn a_record_is_what_was_sent(record in records(), answer in answers()) {
        prop_assert_eq!(ExportRecord::decode(&record.encode()), Some(record));
        prop_assert_eq!(ExportAnswer::decode(&answer.encode()), Some(answer));
    }

    #[test]
    fn any_bytes_are_a_record_or_none(kind in 0_u8..13, rest in prop::collection::vec(0_u8..3, 0..70)) {
        let bytes = [&[kind][..], &rest].concat();
        if let Some(record) = ExportRecord::decode(&bytes) {
            prop_assert_eq!(record.encode(), bytes.clone());
        }
        if let Some(answer) = ExportAnswer::decode(&bytes) && !matches!(answer, ExportAnswer::Failed(_)) {
            prop_assert_eq!(answer.encode(), bytes);
        }
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_no_record() {
    for name in ["..", ".", "", "a/b", "/etc"] {
        let name = CString::new(name).unwrap();
        for record in [
            ExportRecord::Enter(name.clone()),
            ExportRecord::Begin(name.clone()),
            ExportRecord::Remove(name.clone()),
            ExportRecord::Link((1, 2), name.clone()),
            ExportRecord::Symlink(name, "text".into(), (0, 0)),
        ] {
            assert_eq!(ExportRecord::decode(&record.encode()), None, "{record:?}");
        }
    }
}

/// Sends records to who writes to this directory, and breaks off; the last answer.
fn broken_off(place: &Path, mode: ExportMode, records: &[ExportRecord]) -> Option<ExportAnswer> {
    let (own, its) = ExportLine::pair().unwrap();
    let destination = ExportDestination::check(place, mode).unwrap();
    let writer = std::thread::spawn(move || drop(write(&own, &destination)));
    let its = ExportLine::from(its);
    let mut last = None;
    for record in records {
        its.send(&record.encode()).unwrap();
        last = its.receive().unwrap();
    }
    drop(its);
    writer.join().unwrap();
    last.and_then(|bytes| ExportAnswer::decode(&bytes))
}

fn one_file() -> Vec<ExportRecord> {
    let stamp = FileStamp {
        rights: 0o600,
        changed: (1, 0),
    };
    vec![
        ExportRecord::Open,
        ExportRecord::Begin(c"file".into()),
        ExportRecord::Data(0, b"text".to_vec()),
        ExportRecord::End(FileEnd {
            size: 4,
            stamp,
            linked: None,
        }),
    ]
}

#[test]
fn an_export_that_breaks_off_puts_nothing_beside_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("there"), "").unwrap();
    let into = ExportMode::Into { replaces: false };
    let files = || std::fs::read_dir(place.path()).unwrap().count();
    let mut records = one_file();
    let answer = broken_off(place.path(), into, &records);
    assert_eq!((answer, files()), (Some(ExportAnswer::Done), 1));
    records.push(ExportRecord::Close(false));
    let answer = broken_off(place.path(), into, &records);
    assert_eq!(
        (answer, files()),
        (Some(ExportAnswer::Done), 2),
        "the control"
    );
}

#[test]
fn a_directory_that_is_another_one_meanwhile_is_refused_in_words() {
    let above = tempfile::tempdir().unwrap();
    let place = above.path().join("out");
    let (own, its) = ExportLine::pair().unwrap();
    let destination = ExportDestination::check(&place, ExportMode::New).unwrap();
    std::os::unix::fs::symlink("/tmp", &place).unwrap();
    let its = ExportLine::from(its);
    its.send(&ExportRecord::Open.encode()).unwrap();
    write(&own, &destination).unwrap();
    let answer = ExportAnswer::decode(&its.receive().unwrap().unwrap());
    let Some(ExportAnswer::Refused(words)) = answer else {
        panic!("{answer:?}");
    };
    assert!(words.contains("symlink"), "{words}");
}
