//! The first line of a script, as the kernel's `binfmt_script` takes it.

use std::ffi::{OsStr, OsString};

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files;

/// Bytes of a file that the kernel looks at, `BINPRM_BUF_SIZE`.
const LOOKED_AT: usize = 256;

/// An interpreter, and the one argument that it is given before the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShebangLine {
    /// The first word, whatever it begins with. When relative, it is looked for from the working directory.
    pub interpreter: PathBuf,
    /// The rest of the line.
    argument: OsString,
}

/// The line of a file; `None` when the kernel would not run it as a script.
pub fn first_line(file: &Path) -> Option<ShebangLine> {
    // Not by its name alone: a FIFO would be waited for.
    let mut start = files::read(file, LOOKED_AT).ok()?;
    // The kernel's buffer is filled up with zeros.
    start.resize(LOOKED_AT, 0);
    parse(&start)
}

fn parse(start: &[u8]) -> Option<ShebangLine> {
    let after = start.strip_prefix(b"#!")?;
    let line = match after.iter().position(|byte| *byte == b'\n') {
        Some(end) => &after[..end],
        // Of a line that is longer than the buffer the interpreter has to end in it, and a name may be cut.
        None => {
            let blanks = after.iter().take_while(|byte| is_blank(**byte)).count();
            after[blanks..].iter().position(|byte| ends(*byte))?;
            &after[..after.len() - 1]
        }
    };
    let line = trimmed(line);
    let end = line.iter().position(|byte| ends(*byte));
    let (interpreter, rest) = line.split_at(end.unwrap_or(line.len()));
    // What follows a zero is not looked at.
    let argument = match rest.first() {
        Some(0) | None => &[],
        Some(_) => trimmed(rest),
    };
    let argument = argument.split(|byte| *byte == 0).next()?;
    (!interpreter.is_empty()).then(|| ShebangLine {
        interpreter: OsStr::from_bytes(interpreter).into(),
        argument: OsStr::from_bytes(argument).to_owned(),
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn ends(byte: u8) -> bool {
    is_blank(byte) || byte == 0
}

fn trimmed(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte));
    let end = line.iter().rposition(|byte| !is_blank(*byte));
    match (start, end) {
        (Some(start), Some(end)) => &line[start..=end],
        _ => &[],
    }
}

impl ShebangLine {
    /// The name that env(1) looks up on the `PATH`, where that is the interpreter.
    pub fn looked_up(&self) -> Option<&OsStr> {
        if self.interpreter.file_name() != Some(OsStr::new("env")) {
            return None;
        }
        let argument = self.argument.as_bytes();
        let split = [&b"-S"[..], b"-vS", b"--split-string="];
        let words = split.iter().find_map(|flag| argument.strip_prefix(*flag));
        let name = match words {
            // Without it the rest of the line is one word.
            None => argument,
            Some(words) => words
                .split(|byte| byte.is_ascii_whitespace())
                .find(|word| {
                    !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'=')
                })?,
        };
        let is_name = !name.is_empty() && !name.contains(&b'/');
        is_name.then(|| OsStr::from_bytes(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Option<(String, String)> {
        let keep = tempfile::tempdir().unwrap();
        let file = keep.path().join("script");
        std::fs::write(&file, text).unwrap();
        let line = first_line(&file)?;
        let argument = line.argument.to_string_lossy().into_owned();
        Some((line.interpreter.display().to_string(), argument))
    }

    #[test]
    fn a_line_is_read_as_the_kernel_reads_it() {
        type Case = (&'static [u8], Option<(&'static str, &'static str)>);
        let cases: [Case; 13] = [
            (b"#!/bin/sh\n", Some(("/bin/sh", ""))),
            (b"#!/bin/sh", Some(("/bin/sh", ""))),
            (b"#! \t/bin/sh  -x  y \t\n", Some(("/bin/sh", "-x  y"))),
            (
                b"#!-x /srv/private/nothing\n",
                Some(("-x", "/srv/private/nothing")),
            ),
            (b"#!a=b /srv/x\n", Some(("a=b", "/srv/x"))),
            (b"#!/bin/sh\r\n", Some(("/bin/sh\r", ""))),
            (b"#!/bin/sh\x0b-x\n", Some(("/bin/sh\x0b-x", ""))),
            (b"#!/bin/sh\0 -x\n", Some(("/bin/sh", ""))),
            (b"#!/bin/sh a\0b\n", Some(("/bin/sh", "a"))),
            (b"#!\n/bin/sh\n", None),
            (b"#! \t \n", None),
            (b"#", None),
            (b"echo\n", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(name, rest)| (name.to_owned(), rest.to_owned()));
            assert_eq!(read(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_name_that_the_buffer_cuts_is_none() {
        let long = |length: usize| [b"#!/".to_vec(), vec![b'a'; length], b" x\n".to_vec()].concat();
        assert_eq!(read(&long(252)).map(|line| line.0.len()), Some(253));
        assert_eq!(read(&long(253)), None);
        assert_eq!(read(&long(2000)), None);
    }

    /// The kernel is asked what it starts, with the line's interpreter made a program that says so.
    #[test]
    fn the_kernel_agrees() {
        let keep = tempfile::tempdir().unwrap();
        let place = keep.path();
        for (line, says) in [
            ("#!-x /srv/private\n", "-x|/srv/private|./script"),
            ("#!-x\t a  b \n", "-x|a  b|./script"),
            ("#!a=b -y\n", "a=b|-y|./script"),
            ("#! -x\0z\n", "-x|./script"),
        ] {
            let name = says.split('|').next().unwrap();
            let _ = std::fs::remove_file(place.join(name));
            std::os::unix::fs::symlink("/bin/echo", place.join(name)).unwrap();
            std::fs::write(place.join("script"), line).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(place.join("script"), mode).unwrap();
            let read = first_line(&place.join("script")).unwrap();
            assert_eq!(read.interpreter, Path::new(name));
            let command = std::process::Command::new("./script")
                .current_dir(place)
                .output();
            let output = String::from_utf8(command.unwrap().stdout).unwrap();
            let expected = says.split('|').skip(1).collect::<Vec<_>>().join(" ");
            assert_eq!(output.trim(), expected, "{line:?}");
        }
    }

    #[test]
    fn env_looks_up_one_name() {
        let asked = |argument: &str| {
            let line = ShebangLine {
                interpreter: "/usr/bin/env".into(),
                argument: argument.into(),
            };
            line.looked_up()
                .map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(asked("python3"), Some("python3".into()));
        assert_eq!(asked("-S A=b -i python3 -x"), Some("python3".into()));
        assert_eq!(asked("-SA=b python3"), Some("python3".into()));
        assert_eq!(
            asked("python3 -x"),
            Some("python3 -x".into()),
            "no such program"
        );
        assert_eq!(asked(""), None);
        assert_eq!(asked("-S /srv/x"), None);
        assert_eq!(asked("../../srv/x"), None);
    }
}
