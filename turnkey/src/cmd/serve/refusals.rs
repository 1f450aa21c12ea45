//! Refusals of requests, and what each tells.

use turnkey_policy::LoadError;
use turnkey_supervisor::Strictness;
use turnkey_supervisor::service::{Refusal, RefusalCode};

use crate::cli::RunArguments;

/// The way out for what the service does not do.
pub const LOCAL: &str = "run without the service, as root or with --best-effort: --local";

/// A refusal of this kind.
pub fn refusal(code: RefusalCode, message: impl Into<String>, fix: &str) -> Refusal {
    Refusal {
        code,
        message: message.into(),
        fix: fix.to_owned(),
    }
}

/// A request that is none.
pub fn malformed(error: impl std::fmt::Display) -> Refusal {
    refusal(RefusalCode::Malformed, error.to_string(), "")
}

/// A caller, or a run, that is not served.
pub fn forbidden(message: impl Into<String>) -> Refusal {
    refusal(RefusalCode::Forbidden, message, LOCAL)
}

/// A failure of turnkey's own.
pub fn broken(error: &anyhow::Error) -> Refusal {
    let text = turnkey_supervisor::advice::explain(error);
    refusal(RefusalCode::Failed, text, "")
}

/// A configuration that cannot be used. What is wrong there is the administrator's business, and stands in the log.
pub fn unusable() -> Refusal {
    let message = "the configuration of the service cannot be used";
    let fix = "ask its administrator, for whom the service's log says what is wrong";
    refusal(RefusalCode::Failed, message, fix)
}

/// A policy that is none: each mistake with what helps.
pub fn mistaken(error: &LoadError) -> Refusal {
    let each = error.problems().iter().map(|problem| match problem.fix() {
        Some(fix) => format!("{}; fix: {fix}", problem.message()),
        None => problem.message().to_owned(),
    });
    let each: Vec<_> = each.collect();
    let all = each.join("; ");
    malformed(match each.len() {
        1 => all,
        _ => format!("{error}: {all}"),
    })
}

/// The first flag that only a run of the caller's own does.
pub fn unserved(arguments: &RunArguments) -> Option<&'static str> {
    let overrides = arguments.overrides.resolve().ok()?;
    let strict = arguments.strictness.chosen() == Strictness::Whole;
    let leaves = arguments.residence.chosen() == turnkey_supervisor::Residence::Kernel;
    let flags = [
        (arguments.layer.keep.is_some(), "--keep"),
        (arguments.layer.layer.is_some(), "--layer"),
        (!arguments.sinks.to.is_empty(), "--to"),
        (arguments.syscalls, "--syscalls"),
        (arguments.scan, "--scan"),
        (!strict, "--unmonitored or --best-effort"),
        (!leaves, "--leave-nothing"),
        (overrides.texts("publish").next().is_some(), "--publish"),
    ];
    flags
        .into_iter()
        .find_map(|(is_set, flag)| is_set.then_some(flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::Overrides;

    #[test]
    fn every_mistake_is_told_with_its_help() {
        let flags = [("memory", "much"), ("pids", "many")];
        let no_files = |path: &str| Err(path.to_owned());
        let overrides = Overrides::from_flags(flags).unwrap();
        let error = turnkey_policy::load("untrusted", &no_files, &overrides).unwrap_err();
        let told = mistaken(&error);
        assert_eq!(told.code, RefusalCode::Malformed);
        for word in ["2 things are wrong: ", "much", "many"] {
            assert!(told.message.contains(word), "{}", told.message);
        }
        let fixes = told.message.matches("; fix: ").count();
        assert_eq!(fixes, error.problems().len(), "{}", told.message);
    }
}
