//! Words on what a program that failed lacked, beside files of the host: a place to write in, programs and variables of the caller's.

use crate::model::{LeftProgram, LeftVariable, Report};
use crate::text::quote;

/// The size of a directory that is proposed.
pub const SIZE: &str = "16M";

/// Each in a line.
pub fn lines(report: &Report) -> impl Iterator<Item = String> {
    let places = report.on_host_to_write.as_slice();
    places_to_write(places)
        .into_iter()
        .chain(report.repository_left.as_deref().map(repository))
        .chain(report.programs_left.iter().map(program))
        .chain(variables(&report.variables_left))
}

fn places_to_write(places: &[String]) -> Option<String> {
    let flags = places
        .iter()
        .map(|place| format!("--scratch {}", quote(&format!("{place}={SIZE}"))));
    let flags: Vec<String> = flags.collect();
    let (does, gives) = match places.len() {
        0 => return None,
        1 => ("does not exist in the jail, but does", "gives an empty one"),
        _ => ("do not exist in the jail, but do", "gives empty ones"),
    };
    Some(format!(
        "{}, to be written in, {does} on this host: {} {gives}",
        places.join(", "),
        flags.join(" ")
    ))
}

fn repository(root: &str) -> String {
    format!(
        "the workspace is a part of the repository {root}, which is not in the jail: --workdir-root git brings it"
    )
}

fn program(left: &LeftProgram) -> String {
    let read = left.read.iter();
    let read: Vec<String> = read.map(|path| format!("--read {}", quote(path))).collect();
    format!(
        "{} is on your PATH, and not on the jail's: {} --env {} bring it in",
        left.name,
        read.join(" "),
        quote(&format!("PATH={}", left.search))
    )
}

fn variables(left: &[LeftVariable]) -> Option<String> {
    let names: Vec<&str> = left.iter().map(|one| one.name.as_str()).collect();
    let (it, passes) = match left.len() {
        0 => return None,
        1 => ("it", "passes it"),
        _ => ("them", "passes them"),
    };
    Some(format!(
        "{} of your environment did not pass; a program that talks to others may go by {it}: {} {passes}",
        names.join(", "),
        flags(left).join(" ")
    ))
}

/// Each flag once.
fn flags(left: &[LeftVariable]) -> Vec<String> {
    let mut flags = Vec::new();
    for one in left {
        let read = one
            .read
            .iter()
            .map(|path| format!("--read {}", quote(path)));
        let allow = one
            .allow
            .iter()
            .map(|host| format!("--allow {}", quote(host)));
        let pass = format!("--env {}", one.name);
        for flag in [pass].into_iter().chain(read).chain(allow) {
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_stands_there_once() {
        let left = |name: &str| LeftVariable {
            name: name.to_owned(),
            read: Some("/opt/a b.pem".to_owned()),
            allow: None,
        };
        assert_eq!(
            variables(&[left("SSL_CERT_FILE"), left("PIP_CERT")]).unwrap(),
            "SSL_CERT_FILE, PIP_CERT of your environment did not pass; a program that talks to others may go by them: \
             --env SSL_CERT_FILE --read '/opt/a b.pem' --env PIP_CERT passes them"
        );
        assert_eq!(variables(&[]), None);
    }

    #[test]
    fn a_program_is_brought_in_with_its_installations() {
        let left = LeftProgram {
            name: "uv".to_owned(),
            read: vec!["/opt/venv".to_owned(), "/opt/a b".to_owned()],
            search: "/opt/venv/bin:/usr/bin".to_owned(),
        };
        assert_eq!(
            program(&left),
            "uv is on your PATH, and not on the jail's: --read /opt/venv --read '/opt/a b' \
             --env PATH=/opt/venv/bin:/usr/bin bring it in"
        );
    }

    #[test]
    fn a_place_to_write_in_is_proposed_empty() {
        assert_eq!(
            places_to_write(&["/var/lock".to_owned()]).unwrap(),
            "/var/lock, to be written in, does not exist in the jail, but does on this host: \
             --scratch /var/lock=16M gives an empty one"
        );
        assert_eq!(places_to_write(&[]), None);
    }
}
