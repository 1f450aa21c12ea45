//! The header of an example: the comment at its top, one `key: value` per line.
//!
//! ```text
//! # tries: read /etc/shadow                       what it does, for people
//! # must: die before a byte of the file arrives   what has to happen, for people
//! # profile: strict                               default: untrusted
//! # args: --memory 256M                           further flags of `turnkey run`
//! # run: python3 {file} {port}                    default by the file's ending
//! # stdin: a line of text                         default: nothing
//! # expect: exit=121 status=killed_by_policy      what is checked; may come more than once
//! # control: exit=0 stdout-has=root:              the same for a run without the jail, or
//! # control: skipped, it would harm the machine   why there is none
//! ```
//!
//! The words in braces are filled in by the stage: see [`super::stage::Stage::fill`].

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::expectation::{Expectation, words};

/// The words of a program about itself.
#[derive(Debug)]
pub struct Header {
    /// The source.
    pub file: PathBuf,
    /// The program's attempt, for people.
    pub tries: String,
    /// The event that has to happen, for people.
    pub must: String,
    /// The profile it runs under.
    pub profile: String,
    /// Further flags of `turnkey run`.
    pub flags: Vec<String>,
    /// Program and arguments, with words in braces.
    pub command: Vec<String>,
    /// The program's standard input, if it reads any.
    pub stdin: Option<String>,
    /// The expectation that the run in the jail is held against.
    pub expected: Expectation,
    /// The expectation that the run without it is held against.
    pub control: Control,
}

/// Whether and how a program runs without the jail.
#[derive(Debug)]
pub enum Control {
    /// The header does not speak of it: a harmless program.
    None,
    /// The program is not run, for this reason.
    Skipped(String),
    /// The program is run, and this must be seen.
    Expect(Expectation),
}

/// The ways in which the sources of a language are commented and run.
struct ExampleLanguage {
    ending: &'static str,
    comment: &'static str,
    command: &'static [&'static str],
}

const LANGUAGES: [ExampleLanguage; 3] = [
    ExampleLanguage {
        ending: "py",
        comment: "#",
        command: &["python3", "{file}"],
    },
    ExampleLanguage {
        ending: "sh",
        comment: "#",
        command: &["sh", "{file}"],
    },
    ExampleLanguage {
        ending: "c",
        comment: "//",
        command: &["./{stem}"],
    },
];

impl Header {
    /// Reads the header of `file`.
    pub fn load(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(file, &text).with_context(|| format!("in the header of {}", file.display()))
    }

    /// The header in `text`, whose language is known by the ending of `file`.
    pub fn parse(file: &Path, text: &str) -> Result<Self> {
        let ending = file.extension().unwrap_or_default();
        let language = LANGUAGES
            .iter()
            .find(|it| ending == it.ending)
            .context("the file ends in none of .py, .sh, .c")?;
        let lines = HeaderLines::parse(language.comment, text)?;
        let default_command = || language.command.iter().map(ToString::to_string).collect();
        Ok(Self {
            file: file.to_owned(),
            tries: lines.one("tries")?.context("`tries` is missing")?,
            must: lines.one("must")?.context("`must` is missing")?,
            profile: lines.one("profile")?.unwrap_or_else(|| "untrusted".into()),
            flags: words(&lines.one("args")?.unwrap_or_default())?,
            command: match lines.one("run")? {
                Some(command) => words(&command)?,
                None => default_command(),
            },
            stdin: lines.one("stdin")?,
            expected: Expectation::in_the_jail(&lines.joined("expect"))?,
            control: control(&lines.joined("control"))?,
        })
    }

    /// The last two parts of the path, such as `hostile/daemon.py`.
    pub fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or_default();
        Path::new(self.kind()).join(name).display().to_string()
    }

    /// Whether it is one of those that attack.
    pub fn is_hostile(&self) -> bool {
        self.kind() == "hostile"
    }

    fn kind(&self) -> &str {
        let folder = self.file.parent().and_then(Path::file_name);
        folder.and_then(|name| name.to_str()).unwrap_or_default()
    }
}

fn control(text: &str) -> Result<Control> {
    if text.is_empty() {
        return Ok(Control::None);
    }
    match text.strip_prefix("skipped") {
        Some(rest) => {
            let reason = rest
                .strip_prefix(", ")
                .context("`skipped` needs a reason")?;
            Ok(Control::Skipped(reason.to_owned()))
        }
        None => Ok(Control::Expect(Expectation::outside(text)?)),
    }
}

/// The lines of a header, as key and value.
struct HeaderLines(Vec<(String, String)>);

impl HeaderLines {
    const KEYS: [&str; 8] = [
        "tries", "must", "profile", "args", "run", "stdin", "expect", "control",
    ];

    /// The comment lines at the top of `text`, after the `#!` line.
    fn parse(comment: &str, text: &str) -> Result<Self> {
        let header = text
            .lines()
            .skip_while(|line| line.starts_with("#!"))
            .map_while(|line| line.strip_prefix(comment)?.strip_prefix(' '));
        let lines = header
            .map(|line| {
                let (key, value) = line
                    .split_once(": ")
                    .with_context(|| format!("`{line}` is not `key: value`"))?;
                ensure!(Self::KEYS.contains(&key), "unknown key `{key}`");
                Ok((key.to_owned(), value.trim().to_owned()))
            })
            .collect::<Result<_>>()?;
        Ok(Self(lines))
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let wanted = self.0.iter().filter(move |(name, _)| name == key);
        wanted.map(|(_, value)| value.as_str())
    }

    /// The value of a key that may stand once.
    fn one(&self, key: &str) -> Result<Option<String>> {
        let mut values = self.all(key);
        let first = values.next().map(str::to_owned);
        if values.next().is_some() {
            bail!("`{key}` stands more than once");
        }
        Ok(first)
    }

    /// The values of a key that may stand more than once.
    fn joined(&self, key: &str) -> String {
        self.all(key).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header> {
        Header::parse(Path::new("/examples/hostile/x.py"), text)
    }

    #[test]
    fn whole_header_is_read() {
        let header = parse(
            "#!/usr/bin/env python3\n# tries: a thing\n# must: fail\n# profile: strict\n\
             # args: --wall 2s\n# run: python3 {file} \"two words\"\n# stdin: line\n\
             # expect: exit=1\n# expect: status=exited\n# control: exit=0\n\n# not: header\n",
        )
        .expect("it reads");
        assert_eq!(header.name(), "hostile/x.py");
        assert!(header.is_hostile());
        assert_eq!(header.tries, "a thing");
        assert_eq!(header.profile, "strict");
        assert_eq!(header.flags, ["--wall", "2s"]);
        assert_eq!(header.command, ["python3", "{file}", "two words"]);
        assert_eq!(header.stdin.as_deref(), Some("line"));
        assert_eq!(header.expected.summary(), "1 exited");
        assert!(matches!(header.control, Control::Expect(_)));
    }

    #[test]
    fn defaults_follow_the_language() {
        let text = "// tries: a\n// must: b\n// expect: exit=0\nint main;\n";
        let header = Header::parse(Path::new("examples/harmless/x.c"), text).expect("it reads");
        assert_eq!(header.command, ["./{stem}"]);
        assert_eq!(header.profile, "untrusted");
        assert!(!header.is_hostile());
        assert!(matches!(header.control, Control::None));
    }

    #[test]
    fn skipped_control_needs_a_reason() {
        let text = "# tries: a\n# must: b\n# expect: exit=0\n# control: skipped";
        assert!(parse(text).is_err());
        let header = parse(&format!("{text}, it is loud\n")).expect("it reads");
        assert!(matches!(header.control, Control::Skipped(reason) if reason == "it is loud"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for wrong in [
            "# tries: a\n# must: b\n# expects: exit=0\n",
            "# tries: a\n# must: b\n# prose in the header\n# expect: exit=0\n",
            "# tries: a\n# tries: b\n# must: b\n# expect: exit=0\n",
            "# tries: a\n# expect: exit=0\n",
            "# tries: a\n# must: b\n",
            "# tries: a\n# must: b\n# expect: exit=0 exti=0\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
