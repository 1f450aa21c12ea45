//! The words of other tools for what turnkey does: whoever types one is told turnkey's own.

use clap::Command;

/// Flags of others, turnkey's flag for the same with a value that it takes, or none, and the rest of the sentence.
type Row = (&'static [&'static str], Option<&'static str>, &'static str);

/// docker's and podman's, those of timeout(1), bubblewrap, firejail, nsjail, systemd-run and deno, and what people try.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    (&["--timeout", "--time-limit", "--max-time", "--deadline"], Some("--wall 30s"), "ends the run after that time, --cpu-time after that much computing"),
    (&["-m", "--mem", "--mem-limit", "--memory-limit", "--max-memory"], Some("--memory 512M"), "is the limit of memory"),
    (&["--memory-swap"], Some("--swap 512M"), "is the limit of swap, beside --memory"),
    (&["--cpus", "--cpu-quota", "--cpu-shares"], Some("--cpu 200%"), "is the time of two CPUs"),
    (&["--pids-limit", "--max-procs"], Some("--pids 100"), "is the limit of processes and threads"),
    (&["--ulimit", "--rlimit"], Some("--open-files 1024"), "is one of the limits; --file-size, --pids, --memory and --cpu-time are others"),
    (&["-v", "--volume", "--mount", "--bind", "--allow-read", "--ro-bind"], Some("--read /data"), "shows a path of the host at the same path; --write /data lets it be changed, too"),
    (&["--allow-write"], Some("--write /data"), "shows a path of the host and lets it be changed"),
    (&["--tmpfs", "--shm-size"], Some("--scratch /data=64M"), "mounts a tmpfs of that size"),
    (&["-e", "--setenv", "--env-var", "--allow-env"], Some("--env NAME=VALUE"), "sets a variable; --env NAME passes the caller's"),
    (&["--env-file"], Some("--env NAME=VALUE"), "sets a variable, each by a flag of its own; `env.set` of a profile sets many"),
    (&["-w", "--cwd", "--working-dir", "--working-directory"], Some("--chdir DIR"), "starts below the workspace; --workdir DIR takes another directory of the host as workspace"),
    (&["-p", "--port", "--expose"], Some("--publish 8080:80"), "leads from a port of this host's loopback to one of the jail"),
    (&["--net", "--share-net", "--unshare-net", "--network-mode"], Some("--network loopback"), "is one of none, loopback, sinkhole, allow and host; --allow HOST:PORT lets it reach one host"),
    (&["--allow-net", "--allow-host", "--add-host"], Some("--allow example.org:443"), "lets it reach that host"),
    (&["-u", "--uid"], Some("--user jail"), "names the user inside; root is one without privileges"),
    (&["--json", "--format", "-o", "--log", "--log-file"], Some("--report report.json"), "writes what happened as JSON; --report - to standard output"),
    (&["--verbose", "--debug", "--trace"], Some("--events events.jsonl"), "writes each event as it comes"),
    (&["-c", "--config", "--policy"], Some("--profile ./profile.toml"), "names the profile, a shipped one or a file"),
    (&["--image", "--rootfs", "--chroot"], Some("--root /srv/rootfs"), "takes a directory as the jail's root"),
    (&["--read-only", "--readonly"], Some("--workdir-mode read-only"), "lets nothing of the workspace be written; the rest never is"),
    (&["--name"], Some("--keep NAME"), "keeps what the run writes for the next one of that name"),
    (&["--quiet-mode", "--silent"], Some("--quiet"), "leaves the last lines away"),
    (&["--dry-run", "--print"], None, "`turnkey explain` shows what the jail would be"),
    (&["-d", "--detach", "--background"], None, "a run ends with its command: `&` of the shell puts it into the background"),
    (&["--rm", "--init", "--new-session", "--clearenv", "--cap-drop", "--security-opt", "--no-new-privileges", "--unshare-all", "--unshare-pid", "--unshare-user"], None, "every run is like that: leave it out"),
    (&["--privileged", "--cap-add", "--device", "--gpus"], None, "no jail has capabilities, or devices of the host"),
];

/// The flag by which compilers name what they write.
const OUTPUT: Row = (
    &["-o"],
    Some("--out learned.toml"),
    "names the file that is written",
);

/// The tip for a flag that `called` does not have, when what it tells of is to be had there.
pub fn tip(asked: &str, called: &Command) -> Option<String> {
    let has = |name: &str| {
        called
            .get_arguments()
            .any(|one| one.get_long() == Some(name))
    };
    let output = has("out").then_some(&OUTPUT);
    let mut rows = output.into_iter().chain(TABLE);
    let (_, own, rest) = rows.find(|(flags, ..)| flags.contains(&asked))?;
    match own {
        Some(own) => {
            let name = own.split(' ').next()?.trim_start_matches('-');
            has(name).then(|| format!("'{own}' {rest}"))
        }
        // Of runs, which have a working directory.
        None => has("workdir").then(|| (*rest).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::CommandLine;

    #[test]
    fn what_a_command_writes_is_named_by_its_own_flag() {
        let command = CommandLine::command();
        let tip = |of| tip("-o", command.find_subcommand(of).unwrap()).unwrap();
        assert!(tip("learn").contains("'--out learned.toml'"));
        assert!(tip("run").contains("'--report report.json'"));
    }

    #[test]
    fn what_a_tip_says_can_be_typed() {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        let longs: BTreeSet<_> = run
            .get_arguments()
            .filter_map(|one| one.get_long())
            .collect();
        let mut told = BTreeSet::new();
        for (flags, own, rest) in TABLE {
            for asked in *flags {
                assert!(told.insert(asked), "{asked} stands there twice");
                assert!(
                    !longs.contains(asked.trim_start_matches('-')),
                    "{asked} is turnkey's own"
                );
                assert!(tip(asked, run).is_some(), "{asked}");
            }
            let named = rest
                .split([' ', ',', ';'])
                .filter_map(|word| word.strip_prefix("--"));
            named.for_each(|name| assert!(longs.contains(name), "--{name}"));
            let own = own.iter().flat_map(|own| own.split(' '));
            let words = ["turnkey", "run"]
                .into_iter()
                .chain(own)
                .chain(["--", "true"]);
            CommandLine::try_parse_from(words).unwrap();
        }
    }
}
