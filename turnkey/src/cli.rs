//! The command line. Flags of `run` mirror profile keys one to one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use turnkey_supervisor::Strictness;

mod overrides;

pub use overrides::OverrideArguments;

/// Run a program nobody trusts in a jail, watch it from inside the kernel, kill it the moment it
/// breaks the rules, and say exactly what happened.
#[derive(Debug, Parser)]
#[command(name = "turnkey", version, arg_required_else_help = true)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: TurnkeyCommand,
}

/// What turnkey can do.
#[derive(Debug, Subcommand)]
pub enum TurnkeyCommand {
    /// Run a command in a jail, watched.
    #[command(after_help = EXIT_CODES)]
    Run(RunArguments),
    /// List the shipped profiles: what each is for, and what it builds on.
    Profiles(ProfilesArguments),
    /// Look for what is wrong in profiles, and for what is most likely not meant.
    #[command(after_help = CHECK_CODES)]
    Check(CheckArguments),
    /// Run a command in a jail whose rules only speak, and write the profile that would have allowed what
    /// it did.
    #[command(after_help = LEARN_CODES)]
    Learn(LearnArguments),
    /// Render a stored report again: the text of the terminal, or the same for browsers and other programs.
    #[command(after_help = REPORT_CODES)]
    Report(ReportArguments),
    /// Say what a run did, or a profile allows, that another profile does not allow.
    #[command(after_help = DIFF_CODES)]
    Diff(DiffArguments),
    /// Print what a run would do, in order, without doing any of it; or which rule decides on an attempt,
    /// and why.
    Explain(ExplainArguments),
    /// Say what this host can enforce for you, and the fix for what it cannot.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(DoctorArguments),
    /// Make a profile of what another tool is told: a seccomp profile of the OCI, or settings of
    /// sandbox-runtime.
    #[command(after_help = IMPORT_CODES)]
    Import(ImportArguments),
    /// Print the JSON Schema of what turnkey reads and writes, for editors and programs.
    Schema(SchemaArguments),
    /// Load the programs in the kernel once, so that runs start without loading them; or take them
    /// away, or list them.
    #[command(subcommand)]
    Monitor(MonitorCommand),
    /// Print the completions of a shell, for its own directory of them.
    Completions(CompletionsArguments),
    /// Print the manual page, or write one of each command to a directory.
    Man(ManArguments),
    /// Print the version, as --version does.
    Version,
}

const LEARN_CODES: &str = "Exit codes:
  0-119     the command's own status, and the profile is written
  125       turnkey failed, the run was ended before its time, or not all of it was seen: no
            profile is written
  126, 127  command not executable, not found
  128+N     the command died from signal N by itself, and the profile is written";

const REPORT_CODES: &str = "Exit codes:
  0    it was rendered, whatever the verdict in it
  125  the file is no report that this turnkey can read, or the output could not be written";

const DIFF_CODES: &str = "Exit codes:
  0    B does or allows nothing that A does not allow
  1    it does
  125  one of them cannot be used";

const CHECK_CODES: &str = "Exit codes:
  0    nothing was found
  1    every profile can be used, and something should be looked at
  125  a profile cannot be used";

const IMPORT_CODES: &str = "Exit codes:
  0    the profile means what the file meant
  1    a profile was made, and what of the file is not as it was is named
  125  no profile was made";

const DOCTOR_CODES: &str = "Exit codes:
  0    the default profile can be enforced whole by this caller
  1    it cannot; what is missing is named with its fix
  125  turnkey itself failed";

const EXIT_CODES: &str = "Exit codes:
  0-119     the command's own status
  120       evidence was lost and the profile says on_loss = \"fail\"
  121       killed by policy
  122       killed by a resource limit (memory, pids, output, file size)
  124       wall or CPU time limit
  125       turnkey failed, or a required layer could not be enforced, and nothing ran;
            with --best-effort: no jail at all can be made here;
            or the command succeeded and its files could not all be exported
  126, 127  command not executable, not found
  128+N     the command died from signal N by itself

Examples:
  turnkey run python3 untrusted.py                         no network, and what it writes is thrown away
  turnkey run --allow pypi.org:443 -- pip download six     TCP to this host, and to nobody else
  turnkey run --memory 1G --wall 2m --read /data -- ./job  more memory and time, and a directory to read
  turnkey run --export out --export-changes -- ./build.sh  what it wrote, as plain files";

/// `turnkey run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// A shipped profile, as `turnkey profiles` lists them, or a file
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = "untrusted",
        help_heading = "Policy"
    )]
    pub profile: String,
    /// Write the JSON report here; - for standard output, and what the program prints there goes to standard error
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Write every event here, as JSON Lines
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub events: Option<PathBuf>,
    /// Keep the program's output in the report as well
    #[arg(long, help_heading = "Output")]
    pub capture: bool,
    /// Tell in the report which system calls were made; until the end of the run every call on the host
    /// takes a little longer
    #[arg(long, requires = "report", help_heading = "Output")]
    pub syscalls: bool,
    /// Keep credentials in arguments, paths and addresses of the report and the events as they are
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,
    /// Bring the workspace's files out to this new or empty directory when the run is over
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub export: Option<PathBuf>,
    /// Of the workspace's files, export only those that the run added or modified
    #[arg(long, requires = "export", help_heading = "Files")]
    pub export_changes: bool,
    /// No verdict line and no explanation on standard error
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Colours on standard error; by itself, where that is a terminal
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        help_heading = "Output"
    )]
    pub colour: ColourWhen,
    /// The strictness.
    #[command(flatten)]
    pub strictness: StrictnessArguments,
    /// The directory that appears as /workspace, instead of the current one
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub workdir: Option<PathBuf>,
    /// Flags over the profile.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command and its arguments, from the first word that is no option; -- before it is never wrong
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The part of what the profile requires that must be there.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct StrictnessArguments {
    /// Go on with every layer that this host can give, and name each that it cannot, here and in the report; with one
    /// missing the verdict is inconclusive at best
    #[arg(long)]
    pub best_effort: bool,
    /// Do without the monitor, and without whatever else an unprivileged caller cannot have: no
    /// rule acts, and the verdict is inconclusive at best
    #[arg(long, conflicts_with = "best_effort")]
    pub unmonitored: bool,
}

impl StrictnessArguments {
    /// The strictness that was chosen.
    pub fn chosen(self) -> Strictness {
        match self {
            Self {
                unmonitored: true, ..
            } => Strictness::Unmonitored,
            Self {
                best_effort: true, ..
            } => Strictness::BestEffort,
            Self { .. } => Strictness::Whole,
        }
    }
}

/// `turnkey profiles`.
#[derive(Debug, Args)]
pub struct ProfilesArguments {
    /// For programs: one JSON object, schema turnkey.profiles/v1
    #[arg(long)]
    pub json: bool,
}

/// `turnkey learn`.
#[derive(Debug, Args)]
pub struct LearnArguments {
    /// The profile that the new one builds on: a shipped one, as `turnkey profiles` lists them, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "untrusted")]
    pub profile: String,
    /// Write the profile here instead of to learned.toml; - for standard output
    #[arg(long, value_name = "FILE|-")]
    pub out: Option<PathBuf>,
    /// Add to this profile what it does not allow, and leave the rest of it as it is
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub merge: Option<PathBuf>,
    /// Write the JSON report of the run here; - for standard output
    #[arg(long, value_name = "FILE|-")]
    pub report: Option<PathBuf>,
    /// No verdict line and no explanation on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// The directory that appears as /workspace, instead of the current one
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Flags over the profile, which the new one keeps but for limits.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command and its arguments, from the first word that is no option; -- before it is never wrong
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `turnkey report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// What `turnkey run --report FILE` has written; - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// What to make of it
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// Write it here instead of to standard output
    #[arg(long, value_name = "FILE|-")]
    pub out: Option<PathBuf>,
    /// Colours in the text; by itself, where standard output is a terminal
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub colour: ColourWhen,
}

/// When to write in colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColourWhen {
    /// To a terminal, unless `NO_COLOR` is set
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

/// What `turnkey report` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// What `run` said on the terminal
    Text,
    /// The report itself, as this turnkey writes it: turnkey.report/v1
    Json,
    /// One page for a browser, which fetches nothing
    Html,
    /// SARIF 2.1.0, for tools that show results of analyses
    Sarif,
    /// OCSF 1.5.0, a Detection Finding on a line for each finding, for lakes of security events
    Ocsf,
    /// XML as of JUnit, for build servers: a suite for the run, a case for each finding
    Junit,
    /// A profile over that of the run, which allows what it was refused, but for what is critical
    Profile,
}

/// `turnkey diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// A profile, or a stored report, whose run is then what is allowed
    #[arg(value_name = "A")]
    pub a: String,
    /// A stored report of `run` or `learn`, or a profile
    #[arg(value_name = "B")]
    pub b: String,
    /// For programs: one JSON object, schema turnkey.diff/v1
    #[arg(long)]
    pub json: bool,
}

/// `turnkey check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Shipped profiles, as `turnkey profiles` lists them, or files
    #[arg(required = true, value_name = "PROFILE")]
    pub profiles: Vec<String>,
    /// For programs: one JSON object, schema turnkey.check/v1
    #[arg(long)]
    pub json: bool,
}

/// What `turnkey explain` is asked about, instead of the whole plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which rule decides, and why")]
pub struct QuestionArguments {
    /// An attempt on this path, as the kernel writes it: absolute, links followed; or memfd:NAME
    #[arg(long, value_name = "PATH")]
    pub path: Option<OsString>,
    /// The kind of attempt, as in rules: open, exec, connect …; with --path, open if not said
    #[arg(long, value_name = "KIND")]
    pub on: Option<String>,
    /// An attempt on this address and port, such as 10.0.0.1:443 or [2001:db8::1]:443; connect, if --on does not say otherwise
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub address: Option<String>,
    /// How the file is opened: read or write; both if not said
    #[arg(long, value_name = "HOW")]
    pub access: Vec<String>,
    /// The state of the file: memfd, deleted or truncated
    #[arg(long, value_name = "STATE")]
    pub flag: Option<String>,
    /// By the program of this path, as the kernel writes it; who acts is not known, if not said
    #[arg(long, value_name = "PATH")]
    pub exe: Option<OsString>,
    /// By the script that was started by this absolute name, which --exe interprets
    #[arg(long, value_name = "PATH", requires = "exe")]
    pub script: Option<OsString>,
}

/// `turnkey explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A shipped profile, as `turnkey profiles` lists them, or a file
    #[arg(value_name = "PROFILE", default_value = "untrusted")]
    pub profile: String,
    /// For programs: one JSON object, schema turnkey.plan/v1
    #[arg(long)]
    pub json: bool,
    /// The strictness that the run would have.
    #[command(flatten)]
    pub strictness: StrictnessArguments,
    /// The directory that would appear as /workspace, instead of the current one
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// What is asked about, instead of the whole plan.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Flags over the profile.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command that would run; it need not exist
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `turnkey import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// The other tool's file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the profile to this new file, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `turnkey schema`.
#[derive(Debug, Args)]
pub struct SchemaArguments {
    /// What it describes
    #[arg(value_enum, default_value = "profile")]
    pub of: SchemaOf,
}

/// What there is a schema of.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SchemaOf {
    /// Profiles, turnkey.profile/v1
    Profile,
    /// Reports, turnkey.report/v1
    Report,
}

/// `turnkey completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Whose completions
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `turnkey man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write turnkey.1, turnkey-run.1 and so on here, in a directory that is there
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `turnkey doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// For programs: one JSON object, schema turnkey.doctor/v1
    #[arg(long)]
    pub json: bool,
}

/// `turnkey monitor`.
#[derive(Debug, Subcommand)]
pub enum MonitorCommand {
    /// Load them for every run, until the next boot or `unload`.
    Load,
    /// What is loaded, and the jails it watches; exit code 1 when this turnkey's programs are not.
    Status(StatusArguments),
    /// Take them away. Jails that they watch stay watched.
    Unload(UnloadArguments),
}

/// `turnkey monitor status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// For programs: one JSON object, schema turnkey.monitor/v1
    #[arg(long)]
    pub json: bool,
}

/// `turnkey monitor unload`.
#[derive(Debug, Args)]
pub struct UnloadArguments {
    /// Those of every version, not only of this turnkey
    #[arg(long)]
    pub all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn relative_paths_are_made_absolute() {
        let arguments =
            CommandLine::try_parse_from(["turnkey", "run", "--read", "data", "--", "true"])
                .unwrap();
        let TurnkeyCommand::Run(run) = arguments.command else {
            panic!("`run` is run")
        };
        let expected = std::env::current_dir().unwrap().join("data");
        assert_eq!(
            run.overrides.resolve().unwrap().read,
            [expected.to_string_lossy()]
        );
    }

    #[test]
    fn everything_behind_two_dashes_is_the_command() {
        let line = [
            "turnkey", "run", "--memory", "1G", "--", "ls", "--memory", "-l",
        ];
        let TurnkeyCommand::Run(run) = CommandLine::try_parse_from(line).unwrap().command else {
            panic!("`run` is run")
        };
        assert_eq!(run.command, ["ls", "--memory", "-l"]);
    }

    #[test]
    fn the_command_begins_at_the_first_word_that_is_no_option() {
        for (line, command) in [
            ("turnkey run true", "true"),
            ("turnkey run --memory 1G true -x", "true -x"),
            (
                "turnkey run -q true --report r -- x",
                "true --report r -- x",
            ),
            ("turnkey run true --help", "true --help"),
        ] {
            let words = line.split(' ');
            let TurnkeyCommand::Run(run) = CommandLine::try_parse_from(words).unwrap().command
            else {
                panic!("`run` is run")
            };
            assert_eq!(run.command.join(" ".as_ref()), command, "{line}");
            assert_eq!(run.report, None, "{line}");
        }
    }

    #[test]
    fn the_flags_of_run_are_grouped_and_examples_stand_at_the_end() {
        let mut command = CommandLine::command();
        let help = command
            .find_subcommand_mut("run")
            .unwrap()
            .render_help()
            .to_string();
        for group in ["Policy:", "Output:", "Files:", "Network:", "Limits:"] {
            assert!(help.lines().any(|line| line == group), "{group}\n{help}");
        }
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        assert_eq!(examples.trim_end().lines().count(), 4);
    }

    #[test]
    fn a_command_is_required() {
        assert!(CommandLine::try_parse_from(["turnkey", "run"]).is_err());
    }
}
