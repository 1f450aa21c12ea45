//! The command line. Flags of `run` mirror profile keys one to one.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use turnkey_supervisor::{RunDirectory, Strictness};

mod attach;
mod attest;
mod audit;
mod export;
mod foreign;
mod gate;
mod layers;
mod learn;
mod live;
mod monitor;
mod moved;
mod overrides;
mod report;
mod scan;
mod serve;
mod sinks;
pub mod suggestion;
mod terminal;
mod worlds;

pub use attach::{AttachArguments, AttachTarget, OciHookArguments, OciRuntimeArguments};
pub use attest::{AttestArguments, VerifyArguments};
pub use audit::{AuditArguments, AuditProbeArguments};
pub use export::ExportArguments;
pub use gate::GateArguments;
pub use layers::{LayerArguments, LayersArguments, LayersCommand};
pub use learn::LearnArguments;
pub use live::{EventsArguments, FilterKey, LineFilter, TopArguments};
pub use monitor::{MonitorCommand, ResidenceArguments, StatusArguments, UnloadArguments};
pub use moved::{MapArgument, Moved};
pub use overrides::OverrideArguments;
pub use report::{ReportArguments, ReportFormat};
pub use scan::ScanArguments;
#[cfg(feature = "scan")]
pub use scan::ScanLanguage;
pub use serve::{ServeArguments, ServeRunArguments, ServiceArguments, USE_SERVICE};
pub use sinks::SinkArguments;
pub use terminal::TerminalArguments;
pub use worlds::WorldsArguments;

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
    /// Watch a control group that others fill: a container, a service, a runner's job. Rules act as in a jail, and nothing
    /// else of a jail is made.
    #[command(after_help = attach::EXIT_CODES)]
    Attach(AttachArguments),
    /// The process that `attach --required` starts, and that stays behind.
    #[command(hide = true)]
    AttachGuard,
    /// List the live runs and attachments of this host with their usage and findings; root sees all of them, a user sees
    /// their own.
    Top(TopArguments),
    /// Print the events and findings of live runs and attachments as JSON Lines; root sees all of them, a user sees their own.
    #[command(after_help = live::EVENTS_HELP)]
    Events(EventsArguments),
    /// Make runs for callers without privileges, who ask by `turnkey run --service`.
    #[command(after_help = serve::SERVE_HELP)]
    Serve(ServeArguments),
    /// The process of one run of a service.
    #[command(hide = true)]
    ServeRun(ServeRunArguments),
    /// Attach to a container before its program starts: a createRuntime hook for runc, crun, podman and CRI-O, which call it. A
    /// container that cannot be watched is not started.
    OciHook(OciHookArguments),
    /// Wrap runc or crun for a container engine: add the hook of `oci-hook` to each container, and pass each command on to
    /// the real runtime.
    OciRuntime(OciRuntimeArguments),
    /// List the shipped profiles: what each is for, and what it builds on.
    Profiles(ProfilesArguments),
    /// Check profiles for errors and likely mistakes.
    #[command(after_help = CHECK_CODES)]
    Check(CheckArguments),
    /// Run a command in a jail whose rules only log, and write the profile that would have allowed what
    /// it did.
    #[command(after_help = learn::LEARN_CODES)]
    Learn(LearnArguments),
    /// Look at Python and shell scripts without running them: what they would do, where, how grave it is, and a command
    /// that runs them in a fitting jail.
    #[command(after_help = scan::EXIT_CODES)]
    Scan(ScanArguments),
    /// Render a stored report: as the text of the terminal, or in a format for browsers and other programs.
    #[command(after_help = report::EXIT_CODES)]
    Report(ReportArguments),
    /// List what a run did, or a profile allows, that another profile does not allow.
    #[command(after_help = DIFF_CODES)]
    Diff(DiffArguments),
    /// Run a command in several worlds, with other dates, names, settings and networks, and tell what it does otherwise.
    #[command(after_help = worlds::WORLDS_HELP)]
    Worlds(WorldsArguments),
    /// Judge what a model has written between two commits: scan it, run tests in the jail, compare behaviour with the base.
    #[command(after_help = gate::EXIT_CODES)]
    Gate(GateArguments),
    /// Sign what a report says of a run, for what came of it: an in-toto statement in a DSSE envelope.
    #[command(after_help = attest::ATTEST_CODES)]
    Attest(AttestArguments),
    /// Verify the signature of an attestation, and that it says what is wanted before a deployment.
    #[command(after_help = attest::VERIFY_CODES)]
    Verify(VerifyArguments),
    /// Print the plan of a run, in order, without running it; or the rule that decides on an attempt,
    /// and why.
    Explain(ExplainArguments),
    /// Test what this host can enforce for this caller, and name the fix for the rest.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(DoctorArguments),
    /// Measure a sandbox from inside, turnkey's own or another: what a program in it can run, reach, learn and leave behind.
    #[command(after_help = audit::AUDIT_HELP)]
    Audit(AuditArguments),
    /// The probe that `audit` runs in a sandbox.
    #[command(hide = true)]
    AuditProbe(AuditProbeArguments),
    /// Convert the settings of another tool to a profile: an OCI seccomp profile, or settings of
    /// sandbox-runtime.
    #[command(after_help = IMPORT_CODES)]
    Import(ImportArguments),
    /// Print the JSON Schema of profiles or reports, for editors and programs.
    Schema(SchemaArguments),
    /// Load the eBPF programs once, so that runs start without loading them; or unload or list them.
    #[command(subcommand)]
    Monitor(MonitorCommand),
    /// List the layers that runs with --keep have made, or remove some.
    Layers(LayersArguments),
    /// Print completions for a shell.
    Completions(CompletionsArguments),
    /// Print the manual page, or write a page for each command to a directory.
    Man(ManArguments),
    /// Print the version, as --version does.
    Version,
}

const DIFF_CODES: &str = "Exit codes:
  0    B does or allows nothing that A does not allow
  1    B does or allows more
  125  A or B is invalid or cannot be read";

const CHECK_CODES: &str = "Exit codes:
  0    no findings
  1    every profile is valid, and at least one has findings
  125  a profile is invalid";

const IMPORT_CODES: &str = "Exit codes:
  0    the profile is equivalent to the file
  1    a profile was made; the differences from the file are listed
  125  no profile was made";

const DOCTOR_CODES: &str = "Exit codes:
  0    this caller can enforce the whole default profile
  1    a layer is missing; each one is named with its fix
  125  turnkey itself failed";

const EXIT_CODES: &str = "Exit codes:
  0-119     the command's own status
  120       evidence was lost and the profile says on_loss = \"fail\"
  121       killed by policy
  122       killed by a resource limit (memory, pids, output, file size)
  124       wall or CPU time limit
  125       turnkey failed, or a required layer could not be enforced, and nothing ran;
            with --best-effort: no jail can be made here;
            or the command succeeded and its files could not all be exported;
            or a file such as that of --report could not be written at the end of a run that is no
            120 or 121, which stay
  126, 127  command not executable, not found
  128+N     the command died from signal N by itself

Examples:
  turnkey run python3 untrusted.py                         no network; its writes are discarded
  turnkey run --allow pypi.org:443 -- pip download six     TCP to this host only
  turnkey run --memory 1G --wall 2m --read /data -- ./job  more memory and time, and a directory to read
  turnkey run --export out --export-changes -- ./build.sh  keep the files that it wrote";

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
    /// Write the JSON report to this file; -: to standard output, and the program's output to standard error
    #[arg(long, value_name = "FILE|-", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Write every event to this file, as JSON Lines
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub events: Option<PathBuf>,
    /// Receivers of alerts.
    #[command(flatten)]
    pub sinks: SinkArguments,
    /// Scan the script that the command names before the run; its findings are printed and are in the report, and decide
    /// nothing
    #[arg(long, help_heading = "Output")]
    pub scan: bool,
    /// Keep the program's output in the report as well
    #[arg(long, help_heading = "Output")]
    pub capture: bool,
    /// Report the set of system calls that were made; slows every system call of the host until the end
    /// of the run
    #[arg(long, requires = "report", help_heading = "Output")]
    pub syscalls: bool,
    /// Do not redact credentials in arguments, paths and addresses of the report and the events
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,
    /// The export of the workspace.
    #[command(flatten)]
    pub export: ExportArguments,
    /// No verdict line and no explanation on standard error
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Colour on standard error
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        help_heading = "Output"
    )]
    pub colour: ColourWhen,
    /// Whether the program gets a terminal.
    #[command(flatten)]
    pub terminal: TerminalArguments,
    /// The accepted layers.
    #[command(flatten)]
    pub strictness: StrictnessArguments,
    /// End with the thread that started turnkey: nothing lives on, and no report is written then
    #[arg(long, help_heading = "Limits")]
    pub die_with_parent: bool,
    /// The residence of the monitor's programs.
    #[command(flatten)]
    pub residence: ResidenceArguments,
    /// The choice between the service and this process.
    #[command(flatten)]
    pub service: ServiceArguments,
    /// The layer that outlives the run.
    #[command(flatten)]
    pub layer: LayerArguments,
    /// The directory that the program works in.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// Flags over the profile.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command and its arguments, from the first word that is no option; -- before it is optional
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The directory that the program works in.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Files")]
pub struct DirectoryArguments {
    /// The directory that appears as /workspace, instead of the current one
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// The directory below /workspace that the program starts in
    #[arg(long, value_name = "DIR")]
    pub chdir: Option<PathBuf>,
    /// Make the repository around the current directory the workspace, and start the program in the current directory
    #[arg(long, value_name = "KIND", value_enum, conflicts_with_all = ["workdir", "chdir"])]
    pub workdir_root: Option<WorkdirRoot>,
}

/// The mark of the directory around the current one that becomes the workspace.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WorkdirRoot {
    /// The working tree of git: the nearest directory with a .git
    Git,
}

impl DirectoryArguments {
    /// The directory that was chosen.
    ///
    /// # Errors
    /// Where no repository is around the current directory.
    pub fn chosen(&self) -> anyhow::Result<RunDirectory> {
        match self.workdir_root {
            Some(WorkdirRoot::Git) => RunDirectory::around(Path::new("."), ".git"),
            None => Ok(RunDirectory {
                workdir: self.workdir.clone(),
                start: self.chdir.clone(),
                ..RunDirectory::default()
            }),
        }
    }
}

/// The part of what the profile requires that must be there.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct StrictnessArguments {
    /// Run with every layer that this host has; missing ones are named on the terminal and in the report, and the
    /// verdict is inconclusive at best
    #[arg(long)]
    pub best_effort: bool,
    /// Run without the monitor, and without other layers that need privileges which the caller lacks: no
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

/// `turnkey diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// A profile, or a stored report, which allows what its run did
    #[arg(value_name = "A")]
    pub a: String,
    /// A stored report of `run` or `learn`, or a profile
    #[arg(value_name = "B")]
    pub b: String,
    /// A directory or a name of A's that is another one in B, such as /opt/app-1.2=/opt/app-1.3; `auto` finds them
    #[arg(long, value_name = "FROM=TO")]
    pub map: Vec<MapArgument>,
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
    /// An attempt on this path, as the kernel resolves it: absolute, links followed; or memfd:NAME
    #[arg(long, value_name = "PATH")]
    pub path: Option<OsString>,
    /// The kind of attempt, as in rules: open, exec, connect …; by default open, with --path
    #[arg(long, value_name = "KIND")]
    pub on: Option<String>,
    /// An attempt on this address and port, such as 10.0.0.1:443 or [2001:db8::1]:443; by default connect
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub address: Option<String>,
    /// Accesses of the open: read or write; by default both
    #[arg(long, value_name = "HOW")]
    pub access: Vec<String>,
    /// The state of the file: memfd, deleted or truncated
    #[arg(long, value_name = "STATE")]
    pub flag: Option<String>,
    /// The path of the acting program, as the kernel resolves it; by default unknown
    #[arg(long, value_name = "PATH")]
    pub exe: Option<OsString>,
    /// The absolute name of the acting script, which --exe interprets
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
    /// The directory that the program works in.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// What is asked about, instead of the whole plan.
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Flags over the profile.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command of the run; it need not exist
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `turnkey import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// The settings file of the other tool
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the profile to this new file, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `turnkey schema`.
#[derive(Debug, Args)]
pub struct SchemaArguments {
    /// The object of the schema
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
    /// Answers of commands of `scan --with`, turnkey.scan-findings/v1
    ScanFindings,
    /// Results of `gate --json`, turnkey.gate/v1
    Gate,
    /// Pages of `audit --json`, turnkey.audit/v1
    Audit,
}

/// `turnkey completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `turnkey man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write turnkey.1, turnkey-run.1 and so on to this existing directory
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
        let overrides = run.overrides.resolve().unwrap();
        let read: Vec<&str> = overrides.texts("read").collect();
        assert_eq!(read, [expected.to_string_lossy()]);
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
            let line_of = CommandLine::try_parse_from(line.split(' '));
            let TurnkeyCommand::Run(run) = line_of.unwrap().command else {
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
