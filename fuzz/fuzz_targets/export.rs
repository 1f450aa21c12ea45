//! Any records of an export, as a service that is not the real one could send them: each is written again as it came, or is none;
//! nothing beside the directory changes, nor what is in it already, and one that breaks off leaves nothing there.
//!
//! The first byte chooses what is done with what is there; two bytes of length stand before each record.
#![no_main]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use turnkey_jailer::export::{ExportDestination, ExportMode};
use turnkey_supervisor::service::export::fuzzing::{ExportAnswer, ExportRecord, write};

/// Records of one input at most: they wait in a socket together, of which each takes a kilobyte beside its own bytes.
const MOST: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let records = records(rest);
    for record in &records {
        is_exact(record);
    }
    let mode = match choice % 3 {
        0 => ExportMode::New,
        1 => ExportMode::Into { replaces: false },
        _ => ExportMode::Into { replaces: true },
    };
    let place = Place::new(mode);
    let open = ExportRecord::Open.encode();
    let all = [&[open.as_slice()], records.as_slice()].concat();
    let destination = ExportDestination::check(&place.to(), mode).expect("it can be written to");
    write(&all, &destination).expect("the connection holds");
    place.is_sound(mode, is_whole(&records));
});

fn is_exact(bytes: &[u8]) {
    if let Some(record) = ExportRecord::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
    match ExportAnswer::decode(bytes) {
        // Numbers that this system has no name for are one.
        None | Some(ExportAnswer::Failed(_)) => {}
        Some(answer) => assert_eq!(answer.encode(), bytes),
    }
}

/// True when they come to an end, and do not break off before it.
fn is_whole(records: &[&[u8]]) -> bool {
    for record in records {
        match ExportRecord::decode(record) {
            Some(ExportRecord::Close(_)) => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

/// A directory that is written to, or not there yet, and a file beside it.
struct Place(PathBuf);

impl Place {
    fn new(mode: ExportMode) -> Place {
        let name = format!("turnkey-fuzz-export-{}", std::process::id());
        let place = Place(std::env::temp_dir().join(name));
        fs::create_dir(&place.0).expect("a directory of its own");
        fs::write(place.0.join("beside"), "untouched").expect("it can be written to");
        if mode != ExportMode::New {
            fs::create_dir(place.to()).expect("it is new");
            fs::write(place.to().join("there"), "untouched").expect("it can be written to");
        }
        place
    }

    fn to(&self) -> PathBuf {
        self.0.join("to")
    }

    fn is_sound(&self, mode: ExportMode, is_whole: bool) {
        let is_other = |name: &String| name != "beside" && name != "to";
        assert!(!names(&self.0).iter().any(is_other), "{:?}", names(&self.0));
        is_untouched(&self.0.join("beside"));
        let into = mode != ExportMode::New;
        if mode == (ExportMode::Into { replaces: false }) || (into && !is_whole) {
            is_untouched(&self.to().join("there"));
        }
        if into && !is_whole {
            assert_eq!(names(&self.to()), ["there"]);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn is_untouched(file: &Path) {
    let metadata = fs::symlink_metadata(file).expect("it is there");
    assert!(metadata.is_file() && metadata.nlink() == 1);
    assert_eq!(fs::read(file).expect("it can be read"), b"untouched");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

/// Removes a directory, whatever its rights and those below have become.
fn remove(directory: &Path) {
    let open = fs::Permissions::from_mode(0o700);
    fs::set_permissions(directory, open).expect("it is ours");
    for entry in fs::read_dir(directory).expect("it is ours").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        } else {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    fs::remove_dir(directory).expect("it is empty");
}

fn records(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (record, behind) = behind.split_at(length);
        rest = behind;
        if records.len() == MOST {
            break;
        }
        records.push(record);
    }
    records
}
