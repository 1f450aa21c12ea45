//! Words about a path that a flag names, and that this host does not have.

use std::path::{Path, PathBuf};

use turnkey_policy::HostPath;

use super::PlanError;

/// The endings by which other tools say how a path is mounted.
const OPTIONS: [&str; 8] = [
    "ro",
    "rw",
    "z",
    "Z",
    "cached",
    "delegated",
    "readonly",
    "rslave",
];

/// The error for a path that is not there: a flag's names the flag, a profile's the profile.
pub(super) fn missing(named: &HostPath, writable: bool) -> PlanError {
    let path = named.path.clone();
    if !named.is_of_a_flag() {
        return PlanError::Missing(path);
    }
    let flag = if writable { "--write" } else { "--read" };
    PlanError::MissingGiven {
        fix: fix(&path, flag),
        flag,
        path,
    }
}

fn fix(path: &Path, flag: &str) -> String {
    if let Some(mount) = path.to_str().and_then(Mount::read) {
        return mount.fix(flag);
    }
    let home = path.components().position(|part| part.as_os_str() == "~");
    if let Some(position) = home {
        let below: PathBuf = path.components().skip(position + 1).collect();
        return format!(
            "the shell did not take ~ for your home: write {flag} \"$HOME/{}\"",
            below.display()
        );
    }
    match path.parent() {
        Some(above) if flag == "--write" && above.parent().is_some() => format!(
            "make it before the run, or give the directory that it is to be made in: --write {}",
            above.display()
        ),
        _ => "name one that is there".to_owned(),
    }
}

/// A path as docker, podman and others mount it: `SOURCE:PLACE:OPTIONS`, without the place or the options.
struct Mount<'t> {
    source: &'t str,
    place: Option<&'t str>,
}

impl<'t> Mount<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let (source, rest) = text.split_once(':')?;
        let (first, more) = rest.split_once(':').unwrap_or((rest, ""));
        let is_options = |text: &str| text.split(',').all(|one| OPTIONS.contains(&one));
        let place = match first.starts_with('/') {
            true => Some(first).filter(|place| *place != source),
            false if is_options(first) => None,
            false => return None,
        };
        (more.is_empty() || is_options(more)).then_some(Mount { source, place })
    }

    fn fix(&self, flag: &str) -> String {
        let source = self.source;
        let shows = match flag {
            "--read" => {
                format!("`--read {source}` shows it, `--write {source}` lets it be changed, too")
            }
            _ => format!(
                "`--write {source}` shows it and lets it be changed, `--read {source}` only shows it"
            ),
        };
        let elsewhere = self.place.map(|place| {
            let key = flag.trim_start_matches('-');
            format!("; at another path by a profile: [filesystem] {key} = [{{ path = \"{source}\", at = \"{place}\" }}]")
        });
        format!(
            "the flag takes a path alone, which is at the same path inside: {shows}{}",
            elsewhere.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_other_tools_are_told_in_ones_own_words() {
        let alone = "the flag takes a path alone, which is at the same path inside: \
                     `--read /a` shows it, `--write /a` lets it be changed, too";
        for text in ["/a:ro", "/a:/a", "/a:/a:ro,z"] {
            assert_eq!(fix(Path::new(text), "--read"), alone, "{text}");
        }
        let elsewhere = fix(Path::new("/a:/b:rw"), "--write");
        assert!(
            elsewhere.ends_with(r#"[filesystem] write = [{ path = "/a", at = "/b" }]"#),
            "{elsewhere}"
        );
        for name in ["/a:b", "/a:/b:c", "/a"] {
            assert!(
                !fix(Path::new(name), "--read").contains("takes a path alone"),
                "{name}"
            );
        }
    }

    #[test]
    fn what_cannot_be_there_is_told_by_what_can() {
        assert!(fix(Path::new("/srv/~/data/x"), "--read").ends_with("--read \"$HOME/data/x\""));
        assert!(fix(Path::new("/srv/new"), "--write").ends_with(": --write /srv"));
        assert_eq!(fix(Path::new("/new"), "--write"), "name one that is there");
    }
}
