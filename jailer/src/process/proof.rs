//! Judges what the child saw from inside: a layer counts only when its effect was seen.
//!
//! Pure: texts and numbers in, reports or the first failed proof out.

mod routes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use nix::errno::Errno;
use turnkey_policy::Layer;

use crate::filter::SeccompFilters;
use crate::landlock::HandledAccess;
use crate::process::wire::{ChildFact, ProcText};
use turnkey_facts::LayerReport;

/// The facts that the child handed out.
#[derive(Clone, Debug, Default)]
pub struct ProofFacts {
    facts: BTreeMap<ChildFact, u64>,
    status: Vec<u8>,
    limits: Vec<u8>,
    mounts: Vec<u8>,
}

/// Addresses by which the routes of the network namespace are proved.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteProbes {
    /// An address that must have no route.
    pub denied_probe: Option<IpAddr>,
    /// An address that must have a route.
    pub allowed_probe: Option<IpAddr>,
}

/// The expectation of the supervisor, against which the facts are held.
#[derive(Clone, Debug)]
pub struct ProofExpectation {
    /// Inodes of the supervisor's own namespaces.
    pub own_namespaces: BTreeMap<ChildFact, u64>,
    /// The ruleset in words, when there is one.
    pub landlock: Option<String>,
    /// The jail's user outside, in words.
    pub user: &'static str,
    /// The user's and group's number inside.
    pub inside_id: u32,
    /// True when the jail's root takes writes.
    pub is_writable: bool,
    /// True when the jail shares the host's network on purpose.
    pub shares_network: bool,
    /// The accesses that Landlock handles.
    pub handled: Option<HandledAccess>,
    /// The addresses that must have no route, and those that must have one.
    pub route_probes: RouteProbes,
    /// The number of sockets that wait in the network namespace.
    pub listeners: usize,
    /// The number of supplementary groups that the caller could not drop.
    pub kept_supplementary_gids: usize,
    /// Names the syscall filter allows.
    pub syscalls: usize,
    /// Filters that the supervisor itself runs under, as in a container, and the jail with it.
    pub filters_around: u32,
    /// As `/proc/self/limits` names them, with the value.
    pub rlimits: Vec<(&'static str, u64)>,
    /// The paths that must be covered where they exist.
    pub masks: Vec<PathBuf>,
}

/// A layer that was set up and did not show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the layer {} was set up but did not hold: expected {expected}, saw {seen}", layer.name())]
pub struct ProofError {
    /// The layer.
    pub layer: Layer,
    /// The sight that would have proved it.
    pub expected: String,
    /// The sight instead.
    pub seen: String,
}

impl ProofFacts {
    /// Takes in a number.
    pub fn fact(&mut self, fact: ChildFact, value: u64) {
        self.facts.insert(fact, value);
    }

    /// Takes in the next piece of a file.
    pub fn append_text(&mut self, text: ProcText, piece: &[u8]) {
        match text {
            ProcText::Status => &mut self.status,
            ProcText::Limits => &mut self.limits,
            ProcText::Mounts => &mut self.mounts,
        }
        .extend_from_slice(piece);
    }

    /// A number, if it was told.
    pub fn get(&self, fact: ChildFact) -> Option<u64> {
        self.facts.get(&fact).copied()
    }

    /// Judges all layers that are proved from inside.
    pub fn verify(&self, expected: &ProofExpectation) -> Result<Vec<LayerReport>, ProofError> {
        let mut reports = self.namespaces(expected)?;
        reports.push(self.root(expected)?);
        reports.push(self.capabilities(expected)?);
        reports.push(self.no_new_privileges()?);
        reports.push(self.seccomp(expected)?);
        reports.extend(self.landlock(expected)?);
        reports.push(self.rlimits(expected)?);
        Ok(reports)
    }

    fn namespaces(&self, expected: &ProofExpectation) -> Result<Vec<LayerReport>, ProofError> {
        const LAYERS: [(Layer, ChildFact); 8] = [
            (Layer::UserNamespace, ChildFact::UserNamespace),
            (Layer::MountNamespace, ChildFact::MountNamespace),
            (Layer::PidNamespace, ChildFact::PidNamespace),
            (Layer::NetworkNamespace, ChildFact::NetworkNamespace),
            (Layer::IpcNamespace, ChildFact::IpcNamespace),
            (Layer::UtsNamespace, ChildFact::UtsNamespace),
            (Layer::CgroupNamespace, ChildFact::CgroupNamespace),
            (Layer::TimeNamespace, ChildFact::TimeNamespace),
        ];
        let judge = |(layer, fact)| {
            if layer == Layer::NetworkNamespace && expected.shares_network {
                return self.shared_network(expected);
            }
            let mut report = self.namespace(layer, fact, expected)?;
            if layer == Layer::UserNamespace {
                report.effective = format!("its own; its user is {} outside", expected.user);
            }
            if layer == Layer::NetworkNamespace {
                self.routes(expected, &mut report)?;
            }
            Ok(report)
        };
        LAYERS.into_iter().map(judge).collect()
    }

    fn namespace(
        &self,
        layer: Layer,
        fact: ChildFact,
        expected: &ProofExpectation,
    ) -> Result<LayerReport, ProofError> {
        let inside = self.get(fact);
        let outside = expected.own_namespaces.get(&fact).copied();
        match (inside, outside) {
            (Some(inside), Some(outside)) if inside != outside => Ok(held(
                layer,
                "its own",
                "its own",
                format!("inode {inside}, the host's is {outside}"),
            )),
            _ => Err(ProofError {
                layer,
                expected: "a namespace other than the host's".into(),
                seen: format!("inode {inside:?} inside, {outside:?} outside"),
            }),
        }
    }

    fn root(&self, expected: &ProofExpectation) -> Result<LayerReport, ProofError> {
        let layer = Layer::Root;
        let masked = self.masked(expected)?;
        if expected.is_writable {
            return self.writable_root(masked);
        }
        let refused = self.expect_errno(
            layer,
            ChildFact::WriteToRoot,
            &[Errno::EROFS, Errno::EACCES],
        )?;
        let mounts = String::from_utf8_lossy(&self.mounts);
        let id = mounted_at_root(&mounts, ("ro", "tmpfs"))?;
        let proof = format!(
            "/ is mount {id}, tmpfs, read-only; mkdir in it: {refused}; {} mounts in all, \
             {masked} of them over parts of /proc",
            mounts.lines().count()
        );
        Ok(held(
            layer,
            "a tree of its own",
            "an own tmpfs, read-only",
            proof,
        ))
    }

    /// A root that takes writes has no refusal to show: it is the jail's own overlay.
    fn writable_root(&self, masked: u64) -> Result<LayerReport, ProofError> {
        let mounts = String::from_utf8_lossy(&self.mounts);
        let id = mounted_at_root(&mounts, ("rw", "overlay"))?;
        let proof = format!(
            "/ is mount {id}, an overlay over a tmpfs; {} mounts in all, {masked} of them over parts of /proc",
            mounts.lines().count()
        );
        Ok(held(
            Layer::Root,
            "a tree of its own",
            "an own tmpfs, whose writes are thrown away",
            proof,
        ))
    }

    /// The number of covered parts of /proc, which are all that must be.
    fn masked(&self, expected: &ProofExpectation) -> Result<u64, ProofError> {
        let open = match self.get(ChildFact::Unmasked) {
            Some(0) => return Ok(self.get(ChildFact::Masked).unwrap_or(0)),
            Some(number) => usize::try_from(number - 1).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let path = expected.masks.get(open);
        Err(ProofError {
            layer: Layer::Root,
            expected: "the dangerous parts of /proc covered".into(),
            seen: path.map_or("nothing".into(), |path| {
                format!("the kernel's own {}", path.display())
            }),
        })
    }

    fn capabilities(&self, expected: &ProofExpectation) -> Result<LayerReport, ProofError> {
        let layer = Layer::Capabilities;
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            self.expect_status(layer, set, "0000000000000000")?;
        }
        let id = expected.inside_id;
        self.expect_status(layer, "Uid", &format!("{id}\t{id}\t{id}\t{id}"))?;
        self.expect_status(layer, "Gid", &format!("{id}\t{id}\t{id}\t{id}"))?;
        let proof = "CapInh, CapPrm, CapEff, CapBnd and CapAmb are 0";
        let mut report = held(layer, "none", "none in any set", proof.into());
        if expected.kept_supplementary_gids > 0 {
            report.degraded = Some(kept_supplementary_gids(expected.kept_supplementary_gids));
        } else if self.status_line("Groups") != id.to_string() {
            // The caller's own group may stand in the list once more.
            self.expect_status(layer, "Groups", "")?;
            report.proof = Some(format!("{proof}; no supplementary groups"));
        }
        Ok(report)
    }

    fn no_new_privileges(&self) -> Result<LayerReport, ProofError> {
        self.expect_status(Layer::NoNewPrivileges, "NoNewPrivs", "1")?;
        Ok(held(
            Layer::NoNewPrivileges,
            "on",
            "on",
            "NoNewPrivs: 1".into(),
        ))
    }

    fn seccomp(&self, expected: &ProofExpectation) -> Result<LayerReport, ProofError> {
        let layer = Layer::Seccomp;
        self.expect_status(layer, "Seccomp", "2")?;
        let filters = SeccompFilters::COUNT.saturating_add(expected.filters_around);
        self.expect_status(layer, "Seccomp_filters", &filters.to_string())?;
        let unknown = self.expect_errno(layer, ChildFact::UnknownSyscall, &[Errno::ENOSYS])?;
        let unshare = self.expect_errno(layer, ChildFact::Unshare, &[Errno::EPERM])?;
        let requested = format!("{} syscalls allowed", expected.syscalls);
        let proof = format!(
            "Seccomp: 2, {filters} filters; an unknown syscall: {unknown}; unshare: {unshare}"
        );
        Ok(held(layer, &requested, &requested, proof))
    }

    fn landlock(&self, expected: &ProofExpectation) -> Result<Option<LayerReport>, ProofError> {
        let (Some(effective), Some(handled)) = (&expected.landlock, expected.handled) else {
            return Ok(None);
        };
        let mut proofs = vec![self.refused_since(
            "the open of a file outside the rules",
            (ChildFact::OpenBeforeLandlock, ChildFact::OpenAfterLandlock),
            Errno::EACCES,
        )?];
        if handled.scopes != 0 {
            proofs.push(self.refused_since(
                "the connect to an abstract socket from before",
                (
                    ChildFact::ConnectBeforeLandlock,
                    ChildFact::ConnectAfterLandlock,
                ),
                Errno::EPERM,
            )?);
        }
        if handled.tcp {
            proofs.push(self.refused_since(
                "the bind of a TCP port",
                (ChildFact::BindBeforeLandlock, ChildFact::BindAfterLandlock),
                Errno::EACCES,
            )?);
        }
        let proof = format!("before and after it: {}", proofs.join("; "));
        Ok(Some(held(Layer::Landlock, effective, effective, proof)))
    }

    /// An act that went through before Landlock and was refused after it, with this error.
    fn refused_since(
        &self,
        act: &str,
        (before, after): (ChildFact, ChildFact),
        errno: Errno,
    ) -> Result<String, ProofError> {
        let layer = Layer::Landlock;
        let first = self.get(before);
        if first != Some(0) {
            return Err(ProofError {
                layer,
                expected: format!("{act} to go through before the rules"),
                seen: in_words(first),
            });
        }
        let refused = self.expect_errno(layer, after, &[errno])?;
        Ok(format!("{act} went through, then {refused}"))
    }

    fn rlimits(&self, expected: &ProofExpectation) -> Result<LayerReport, ProofError> {
        let text = String::from_utf8_lossy(&self.limits);
        for (name, value) in &expected.rlimits {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let seen: Vec<&str> = line
                .unwrap_or_default()
                .split_whitespace()
                .take(2)
                .collect();
            let wanted = value.to_string();
            if seen != [wanted.as_str(), wanted.as_str()] {
                return Err(ProofError {
                    layer: Layer::Rlimits,
                    expected: format!("{name} {wanted}"),
                    seen: seen.join(" "),
                });
            }
        }
        let list: Vec<String> = expected
            .rlimits
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let words = list.join(", ");
        Ok(held(
            Layer::Rlimits,
            &words,
            &words,
            "read back from /proc/self/limits".into(),
        ))
    }

    /// The value of a line of /proc/self/status.
    fn status_line(&self, key: &str) -> String {
        let text = String::from_utf8_lossy(&self.status);
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.map_or("nothing", str::trim).to_owned()
    }

    fn expect_status(&self, layer: Layer, key: &str, expected: &str) -> Result<(), ProofError> {
        let seen = self.status_line(key);
        if seen == expected {
            return Ok(());
        }
        Err(ProofError {
            layer,
            expected: format!("{key}: {expected}"),
            seen: format!("{key}: {seen}"),
        })
    }

    fn expect_errno(
        &self,
        layer: Layer,
        fact: ChildFact,
        expected: &[Errno],
    ) -> Result<Errno, ProofError> {
        let seen = self.get(fact);
        let matching = expected
            .iter()
            .find(|errno| seen == Some(u64::from((**errno as i32).unsigned_abs())));
        matching.copied().ok_or_else(|| ProofError {
            layer,
            expected: format!("{expected:?}"),
            seen: in_words(seen),
        })
    }
}

/// The limitation of a caller in several groups without privileges.
pub fn kept_supplementary_gids(count: usize) -> String {
    format!(
        "the caller's {count} supplementary groups stay: without privileges the kernel lets nobody leave a group; \
         give the caller a range in /etc/subuid and /etc/subgid and install newuidmap (Debian: uidmap), or start turnkey in no other group"
    )
}

fn in_words(errno: Option<u64>) -> String {
    match errno {
        None => "nothing".into(),
        Some(0) => "success".into(),
        Some(number) => i32::try_from(number).map_or("nonsense".into(), |number| {
            Errno::from_raw(number).to_string()
        }),
    }
}

fn held(layer: Layer, requested: &str, effective: &str, proof: String) -> LayerReport {
    LayerReport {
        layer,
        requested: requested.to_owned(),
        effective: effective.to_owned(),
        proof: Some(proof),
        degraded: None,
    }
}

/// The number of the mount at the jail's root, which must be of this kind and bear this option.
fn mounted_at_root<'m>(
    mounts: &'m str,
    (access, kind): (&str, &str),
) -> Result<&'m str, ProofError> {
    let mut lines = mounts.lines();
    let root = lines.find(|line| line.split(' ').nth(4) == Some("/"));
    let is_ours = |line: &&str| {
        let options = line.split(' ').nth(5).unwrap_or_default();
        let has = |wanted| options.split(',').any(|option| option == wanted);
        let is_kind = line.contains(&format!(" - {kind} "));
        has(access) && has("nosuid") && has("nodev") && is_kind
    };
    let found = root.filter(is_ours).ok_or_else(|| ProofError {
        layer: Layer::Root,
        expected: format!("one {kind} at /, {access}, of the jail's own"),
        seen: root.unwrap_or("no mount at /").to_owned(),
    })?;
    Ok(found.split(' ').next().unwrap_or_default())
}

#[cfg(test)]
mod tests;
