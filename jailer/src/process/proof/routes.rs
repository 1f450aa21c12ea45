//! Proofs of the routes out of the jail's network namespace.

use nix::errno::Errno;
use turnkey_policy::Layer;

use super::{ProofError, ProofExpectation, ProofFacts, held, in_words};
use crate::process::wire::ChildFact;
use turnkey_facts::LayerReport;

impl ProofFacts {
    /// Proves that the jail has the very network that was meant.
    pub(super) fn shared_network(
        &self,
        expected: &ProofExpectation,
    ) -> Result<LayerReport, ProofError> {
        let layer = Layer::NetworkNamespace;
        let fact = ChildFact::NetworkNamespace;
        let inside = self.get(fact);
        let outside = expected.own_namespaces.get(&fact).copied();
        match (inside, outside) {
            (Some(inside), Some(outside)) if inside == outside => Ok(held(
                layer,
                "not requested: the network mode is \"host\"",
                "the host's",
                format!("inode {inside}, as the host's"),
            )),
            _ => Err(ProofError {
                layer,
                expected: "the host's own".into(),
                seen: format!("inode {inside:?} inside, {outside:?} outside"),
            }),
        }
    }

    /// Proves that no route leads out of the network namespace, but for the sockets that wait.
    pub(super) fn routes(
        &self,
        expected: &ProofExpectation,
        report: &mut LayerReport,
    ) -> Result<(), ProofError> {
        let layer = Layer::NetworkNamespace;
        let mut told = report.proof.take().unwrap_or_default();
        if let Some(stranger) = expected.route_probes.denied_probe {
            let refused =
                self.expect_errno(layer, ChildFact::DeniedProbe, &[Errno::ENETUNREACH])?;
            told += &format!("; {stranger}: {refused}");
        }
        if let Some(acquaintance) = expected.route_probes.allowed_probe {
            let seen = self.get(ChildFact::AllowedProbe);
            if seen != Some(0) {
                return Err(ProofError {
                    layer,
                    expected: format!("a route to {acquaintance}"),
                    seen: in_words(seen),
                });
            }
            told += &format!("; {acquaintance} is local");
        }
        if expected.listeners > 0 {
            let sockets = expected.listeners;
            report.effective = format!("its own; {sockets} sockets of turnkey's wait in it");
        }
        report.proof = Some(told);
        Ok(())
    }
}
