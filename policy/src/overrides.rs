//! Flags of the command line that override keys of the profile, one to one.

use std::sync::Arc;

use crate::error::{At, Located, Source};

/// What the command line overrides. Every text has the form of the profile's key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--memory SIZE`: `limits.memory`
    pub memory: Option<String>,
    /// `--swap SIZE`: `limits.swap`
    pub swap: Option<String>,
    /// `--cpu PERCENT`: `limits.cpu`
    pub cpu: Option<String>,
    /// `--pids COUNT`: `limits.pids`
    pub pids: Option<String>,
    /// `--wall DURATION`: `limits.wall`
    pub wall: Option<String>,
    /// `--cpu-time DURATION`: `limits.cpu_time`
    pub cpu_time: Option<String>,
    /// `--output SIZE`: `limits.output`
    pub output: Option<String>,
    /// `--file-size SIZE`: `limits.file_size`
    pub file_size: Option<String>,
    /// `--open-files COUNT`: `limits.open_files`
    pub open_files: Option<String>,
    /// `--export-size SIZE`: `limits.export_size`
    pub export_size: Option<String>,
    /// `--root DIR`: `filesystem.root`. Absolute.
    pub root: Option<String>,
    /// `--toolchain WHAT`: `filesystem.toolchain`
    pub toolchain: Option<String>,
    /// `--read PATH`, any number: `filesystem.read`. Absolute: the command resolves relative
    /// ones, as nothing here knows the current directory.
    pub read: Vec<String>,
    /// `--write PATH`, any number: `filesystem.write`. Absolute.
    pub write: Vec<String>,
    /// `--scratch PATH=SIZE`, any number: `filesystem.scratch`
    pub scratch: Vec<String>,
    /// `--workdir-mode MODE`: `filesystem.workdir.mode`
    pub workdir_mode: Option<String>,
    /// `--network MODE`: `network.mode`
    pub network: Option<String>,
    /// `--env NAME`, any number: `env.pass`; `--env NAME=VALUE`: `env.set`
    pub env: Vec<String>,
    /// `--user NAME`: `identity.user`
    pub user: Option<String>,
    /// `--hostname NAME`: `identity.hostname`
    pub hostname: Option<String>,
    /// `--mode MODE`: `enforcement.mode`
    pub mode: Option<String>,
    /// `--on-loss WHAT`: `enforcement.on_loss`
    pub on_loss: Option<String>,
}

/// One flag as given.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) value: Located<String>,
}

impl Overrides {
    /// The flags that were given, located in a text that looks like the command line, so that
    /// errors can point at them the way they point into a profile.
    pub(crate) fn flags(&self) -> (Arc<Source>, Vec<Flag>) {
        let given = self.given();
        let mut text = String::new();
        let mut spans = Vec::new();
        for (name, value) in &given {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
            text.push(' ');
            spans.push(text.len()..text.len() + value.len());
            text.push_str(value);
        }
        let source = Arc::new(Source {
            name: "command line".to_owned(),
            text,
        });
        let flags = given.into_iter().zip(spans).map(|((name, value), span)| {
            let at = At {
                source: Arc::clone(&source),
                span,
            };
            Flag {
                name,
                value: Located {
                    value: value.to_owned(),
                    at,
                },
            }
        });
        let flags = flags.collect();
        (source, flags)
    }

    fn given(&self) -> Vec<(&'static str, &str)> {
        let single = [
            ("--root", &self.root),
            ("--toolchain", &self.toolchain),
            ("--memory", &self.memory),
            ("--swap", &self.swap),
            ("--cpu", &self.cpu),
            ("--pids", &self.pids),
            ("--wall", &self.wall),
            ("--cpu-time", &self.cpu_time),
            ("--output", &self.output),
            ("--file-size", &self.file_size),
            ("--open-files", &self.open_files),
            ("--export-size", &self.export_size),
            ("--workdir-mode", &self.workdir_mode),
            ("--network", &self.network),
            ("--user", &self.user),
            ("--hostname", &self.hostname),
            ("--mode", &self.mode),
            ("--on-loss", &self.on_loss),
        ];
        let repeated = [
            ("--read", &self.read),
            ("--write", &self.write),
            ("--scratch", &self.scratch),
            ("--env", &self.env),
        ];
        let single = single
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let repeated = repeated
            .into_iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name, value.as_str())));
        single.chain(repeated).collect()
    }
}
