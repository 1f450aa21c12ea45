//! The page of `turnkey serve --check`: the configuration as it holds, and what this host makes of it. A configuration itself: whatever is
//! no part of one is a comment.

use std::fmt::Write as _;
use std::path::Path;

use nix::unistd::{Gid, Group};
use turnkey_policy::quantity::format_size;
use turnkey_policy::{Overrides, Policy};
use turnkey_supervisor::service::RunClaim;

use super::config::{self, ServeConfig};
use crate::cli::USE_SERVICE;
use crate::cmd::doctor::{CheckFinding, CheckState};

/// The check that tells the tier of a run.
const TIER: &str = "monitor-tier";

/// The host, as far as it decides what callers get.
pub struct ServingHost {
    /// The group of the socket, where there is one.
    group: Option<Group>,
    /// True when runs of other users go to the service by themselves.
    is_used: bool,
    /// Bytes of memory.
    memory: u64,
    /// The checks of what a run takes; `None` for who cannot make one.
    findings: Option<Vec<CheckFinding>>,
}

impl ServingHost {
    /// Looks at this host.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn look(
        config: &ServeConfig,
        findings: Option<Vec<CheckFinding>>,
    ) -> anyhow::Result<ServingHost> {
        let total = nix::sys::sysinfo::sysinfo()?.ram_total();
        Ok(ServingHost {
            group: group(&config.group)?,
            is_used: Path::new(USE_SERVICE).exists(),
            memory: total,
            findings,
        })
    }

    /// The names of what is missing, without which no run can be made.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = self.findings.iter().flatten();
        let missing = all.filter(|finding| finding.state == CheckState::Missing);
        missing.map(|finding| finding.check).collect()
    }
}

/// The group of the socket, by its name or its number.
pub fn group(named: &str) -> nix::Result<Option<Group>> {
    if let Some(group) = Group::from_name(named)? {
        return Ok(Some(group));
    }
    let Ok(number) = named.parse().map(Gid::from_raw) else {
        return Ok(None);
    };
    let nameless = Group {
        name: named.to_owned(),
        passwd: std::ffi::CString::default(),
        gid: number,
        mem: Vec::new(),
    };
    Ok(Some(Group::from_gid(number)?.unwrap_or(nameless)))
}

/// The whole page.
pub fn page(config: &ServeConfig, host: &ServingHost) -> anyhow::Result<String> {
    let mut page = configuration(config);
    page.push('\n');
    let none = impossible(config)?.map(|reason| format!("No run can be made: {reason}"));
    let none = none.into_iter().collect();
    for line in [
        callers(config, host),
        at_once(config, host)?,
        none,
        here(host),
    ]
    .concat()
    {
        let line = turnkey_report::escape(line.as_bytes());
        page.push_str(format!("# {line}").trim_end());
        page.push('\n');
    }
    Ok(page)
}

/// The configuration, in the form of its file.
fn configuration(config: &ServeConfig) -> String {
    let list = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        format!("[{}]", names.join(", "))
    };
    let mut page = format!(
        "group = {:?}\nmax_running = {}\nmax_running_per_user = {}\nqueue = {}\nready = {}\nprofiles = {}\nnetworks = {}\nwrite = {}\n\n[limits]\n",
        config.group,
        config.max_running,
        config.max_running_per_user,
        config.queue,
        config.ready,
        list(&config.profiles),
        list(&config.networks),
        config.write,
    );
    let line = |(name, text): (&str, &str)| format!("{name} = {text:?}\n");
    page.extend(config.limits.named().map(line));
    page.push_str("\n[per_user]\n");
    page.extend(config.per_user.named().map(line));
    page
}

/// The callers, and the way of their runs to the service.
fn callers(config: &ServeConfig, host: &ServingHost) -> Vec<String> {
    let name = &config.group;
    let who = match &host.group {
        None => format!(
            "Callers: root alone, for there is no group {name}; fix: groupadd {name}, and usermod -aG {name} USER for each who may"
        ),
        Some(group) if group.mem.is_empty() => format!(
            "Callers: root, and users whose own group is {name}, which has no other members; fix: usermod -aG {name} USER for each who may"
        ),
        Some(group) => format!(
            "Callers: root, the members of {name} ({}), and users whose own group it is",
            group.mem.join(", ")
        ),
    };
    let how = match host.is_used {
        true => format!(
            "By: every `turnkey run` of a user but root, as {USE_SERVICE} exists, unless with --local"
        ),
        false => {
            format!(
                "By: `turnkey run --service`; for every run of a user but root: touch {USE_SERVICE}"
            )
        }
    };
    vec![who, how]
}

/// Runs that go on at once, of one user and of all.
fn at_once(config: &ServeConfig, host: &ServingHost) -> anyhow::Result<Vec<String>> {
    let most = config.sums()?;
    let profile = config.profiles.first().map_or("untrusted", String::as_str);
    let claim = RunClaim::from_policy(&policy_of(profile)?);
    let parts = claim.parts().into_iter().zip(most.parts());
    let fitting = parts.map(|(own, most)| (most.value / own.value.max(1), own.name));
    let (fit, short) = fitting.min().unwrap_or_default();
    let fit = usize::try_from(fit).unwrap_or(usize::MAX);
    let slots = config.max_running_per_user.min(config.max_running);
    let by = match fit < slots {
        true => format!("[per_user] {short}"),
        false => "the slots".to_owned(),
    };
    let claims = claim.parts().map(|part| {
        let shown = config::shown(part.name, part.value);
        format!("{shown} {}", config::words(part.name))
    });
    let of_user = format!(
        "At once: {} runs of one user under `{profile}`, by {by}; each claims {}",
        fit.min(slots),
        claims.join(", ")
    );
    let limits = config.ceilings()?;
    let running = u64::try_from(config.max_running)?;
    let all = limits
        .memory
        .saturating_add(limits.swap)
        .saturating_mul(running);
    let has = format!(
        "{} runs at their ceiling take {} of this host's {} memory",
        config.max_running,
        format_size(all),
        format_size(host.memory >> 20 << 20)
    );
    let fix = match all > host.memory {
        true => "; fix: a smaller max_running or [limits] memory, or the kernel ends some for it",
        false => "",
    };
    Ok(vec![of_user, format!("All slots: {has}{fix}")])
}

/// The reason why no run can be made under a configuration, whatever the host gives, with what helps.
///
/// # Errors
/// When a ceiling is no value of its flag, or a profile is none.
pub fn impossible(config: &ServeConfig) -> anyhow::Result<Option<String>> {
    if config.networks.is_empty() {
        let reason = "`networks` names no mode, and every run has one; fix: networks = [\"none\"]";
        return Ok(Some(reason.to_owned()));
    }
    let most = config.sums()?;
    let all = turnkey_policy::listed();
    let all = all.iter().map(|profile| profile.name);
    let given: Vec<&str> = match config.profiles.is_empty() {
        true => all.collect(),
        false => config.profiles.iter().map(String::as_str).collect(),
    };
    let mut first = None;
    for profile in given {
        let policy = policy_of(profile)?;
        if policy.makes_no_jail() {
            continue;
        }
        let claim = RunClaim::from_policy(&policy);
        let Some(part) = claim.beyond(most) else {
            return Ok(None);
        };
        let wanted = config::shown(part.name, claim.part(part.name));
        first.get_or_insert(format!(
            "`[per_user] {}` is less than one run under `{profile}` claims, {wanted}, and there is no profile that claims less; fix: {} = \"{wanted}\" or more",
            part.name, part.name
        ));
    }
    Ok(first)
}

/// The policy of a profile, as it is without a flag.
fn policy_of(profile: &str) -> anyhow::Result<Policy> {
    let no_files = |path: &str| Err(path.to_owned());
    let policy = turnkey_policy::load(profile, &no_files, &Overrides::default());
    policy.map_err(|error| anyhow::anyhow!("{profile}: {error}"))
}

/// The tier of runs here, and what is less than it could be, each with its fix.
fn here(host: &ServingHost) -> Vec<String> {
    let Some(findings) = &host.findings else {
        return vec![
            "This host: only root can try what it gives; fix: run this as root".to_owned(),
        ];
    };
    let is_told =
        |finding: &&CheckFinding| finding.check == TIER || finding.state != CheckState::Ok;
    let mut lines = Vec::new();
    for finding in findings.iter().filter(is_told) {
        let mut found = finding.found.lines();
        let first = found.next().unwrap_or_default();
        lines.push(format!(
            "{} {}: {first}",
            finding.state.name(),
            finding.check
        ));
        lines.extend(found.map(|line| format!("    {line}")));
        if let Some(fix) = &finding.fix {
            lines.push(format!("    for {}", finding.needed_for));
            let mut text = String::new();
            let _ = write!(text, "    fix: {}", fix.replace('\n', " "));
            lines.push(text);
        }
    }
    lines.push(match host.missing().as_slice() {
        [] => "Every layer of a run is there.".to_owned(),
        missing => format!("No run can be made, for lack of: {}", missing.join(", ")),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(findings: Vec<CheckFinding>) -> ServingHost {
        ServingHost {
            group: None,
            is_used: false,
            memory: 64 << 30,
            findings: Some(findings),
        }
    }

    fn finding(state: CheckState) -> CheckFinding {
        CheckFinding {
            check: "btf",
            needed_for: "the monitor",
            state,
            found: "there is none\nat all".to_owned(),
            source: "/sys/kernel/btf/vmlinux",
            fix: Some("boot another kernel".to_owned()),
        }
    }

    fn told(config: &ServeConfig, host: &ServingHost) -> String {
        page(config, host).unwrap()
    }

    #[test]
    fn what_is_printed_is_a_configuration() {
        let config = ServeConfig::default();
        let page = told(&config, &host(vec![finding(CheckState::Missing)]));
        let again: ServeConfig = toml::from_str(&page).unwrap();
        assert_eq!(again, config, "{page}");
    }

    #[test]
    fn what_is_missing_is_told_with_its_fix() {
        let config = ServeConfig::default();
        let page = told(&config, &host(vec![finding(CheckState::Missing)]));
        let lines = "# missing btf: there is none\n#     at all\n#     for the monitor\n#     fix: boot another kernel\n# No run can be made, for lack of: btf\n";
        assert!(page.ends_with(lines), "{page}");
        let page = told(&config, &host(vec![finding(CheckState::Ok)]));
        assert!(
            page.ends_with("memory\n# Every layer of a run is there.\n"),
            "{page}"
        );
        let nobody = ServingHost {
            findings: None,
            ..host(Vec::new())
        };
        assert!(told(&config, &nobody).ends_with("run this as root\n"));
    }

    #[test]
    fn who_may_call_is_told_or_how_somebody_may() {
        let config = ServeConfig::default();
        let mut host = host(Vec::new());
        let page = told(&config, &host);
        assert!(
            page.contains("root alone") && page.contains("groupadd turnkey"),
            "{page}"
        );
        let mut group = group("4242").unwrap().unwrap();
        host.group = Some(group.clone());
        assert!(told(&config, &host).contains("has no other members"));
        group.mem = ["alice", "bob"].map(str::to_owned).to_vec();
        host.group = Some(group);
        host.is_used = true;
        let page = told(&config, &host);
        assert!(page.contains("turnkey (alice, bob)"), "{page}");
        assert!(page.contains("unless with --local"), "{page}");
    }

    #[test]
    fn a_configuration_under_which_no_run_can_be_made_is_told_with_its_fix() {
        let mut config = ServeConfig::default();
        let host = host(Vec::new());
        assert!(!told(&config, &host).contains("No run can be made"));
        config.networks = Vec::new();
        let page = told(&config, &host);
        assert!(page.contains("No run can be made: `networks`"), "{page}");
        config = ServeConfig::default();
        config.per_user.memory = "16M".to_owned();
        let page = told(&config, &host);
        assert!(
            page.contains("No run can be made: `[per_user] memory` is less than one run"),
            "{page}"
        );
        config.profiles = vec!["untrusted".to_owned()];
        let page = told(&config, &host);
        assert!(page.contains("fix: memory = \"256M\" or more"), "{page}");
        config.per_user.memory = "256M".to_owned();
        assert_eq!(impossible(&config).unwrap(), None);
    }

    #[test]
    fn runs_at_once_are_as_many_as_slots_and_sums_allow() {
        let mut config = ServeConfig::default();
        let mut host = host(Vec::new());
        let page = told(&config, &host);
        assert!(
            page.contains("8 runs of one user under `untrusted`, by the slots"),
            "{page}"
        );
        assert!(
            page.contains("16 runs at their ceiling take 32G of this host's 64G memory\n"),
            "{page}"
        );
        config.per_user.memory = "600M".to_owned();
        host.memory = 24 << 30;
        let page = told(&config, &host);
        assert!(
            page.contains("2 runs of one user under `untrusted`, by [per_user] memory"),
            "{page}"
        );
        assert!(page.contains("fix: a smaller max_running"), "{page}");
    }
}
