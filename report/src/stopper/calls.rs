//! The syscalls that do what events tell of.

use turnkey_facts::NetworkAct;

/// The syscalls behind an act.
pub(super) fn calls(act: NetworkAct) -> &'static [&'static str] {
    match act {
        NetworkAct::Connect => &["connect"],
        NetworkAct::Bind => &["bind"],
        NetworkAct::Listen => &["listen"],
        NetworkAct::Send => &["sendto", "sendmsg", "sendmmsg"],
    }
}
