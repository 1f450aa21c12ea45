//! proc_pid_mountinfo(5): the mounts that a process sees, a line each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A mount, from `id parent major:minor root place options … - kind source super-options`.
#[derive(Debug, PartialEq, Eq)]
pub struct MountinfoLine {
    /// The kernel's number of the mount.
    pub id: u64,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// The place where it is mounted, as the process sees it.
    pub place: PathBuf,
    /// Options of the mount.
    pub options: Vec<u8>,
    /// The type of the file system.
    pub kind: String,
    /// The device, or what the file system calls its source.
    pub source: PathBuf,
    /// Options of the file system.
    pub super_options: Vec<u8>,
}

/// The mounts of such a text; a line that is none is left out.
pub fn lines(text: &[u8]) -> impl Iterator<Item = MountinfoLine> {
    text.split(|byte| *byte == b'\n').filter_map(line)
}

fn line(line: &[u8]) -> Option<MountinfoLine> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let path = |field: &[u8]| PathBuf::from(OsStr::from_bytes(&unescaped(field)));
    Some(MountinfoLine {
        id: std::str::from_utf8(fields.first()?).ok()?.parse().ok()?,
        device: device_number(std::str::from_utf8(fields.get(2)?).ok()?)?,
        root: path(fields.get(3)?),
        place: path(fields.get(4)?),
        options: unescaped(fields.get(5)?),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        source: path(fields.get(dash + 2)?),
        super_options: unescaped(fields.get(dash + 3)?),
    })
}

/// `254:0`, also as sysfs(5) writes it.
pub fn device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// True when an option stands in such a list.
pub fn has_option(options: &[u8], wanted: &str) -> bool {
    let mut options = options.split(|byte| *byte == b',');
    options.any(|option| option == wanted.as_bytes())
}

/// Space, tab, newline and backslash are written as `\` and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match byte {
            Some(byte) if *first == b'\\' => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MOUNTS: &[u8] = b"\
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard

30 27 0:40 /x\\134 /srv/a\\040b rw - nfs server:/export rw,vers=4
nonsense
";

    #[test]
    fn lines_are_read_whatever_their_names() {
        let lines: Vec<MountinfoLine> = lines(MOUNTS).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].id, lines[0].device), (27, (254, 1)));
        assert!(has_option(&lines[0].super_options, "discard"));
        assert!(!has_option(&lines[0].options, "discard"));
        assert_eq!(lines[1].place, Path::new("/srv/a b"));
        assert_eq!(lines[1].root, Path::new("/x\\"));
        assert_eq!(lines[1].source, Path::new("server:/export"));
        assert_eq!(unescaped(b"a\\134\\040\\"), b"a\\ \\");
    }
}
