//! The namespaces of a jail as data: which there are, and when each is made.

use turnkey_policy::Layer;

/// The moment at which a namespace is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceTiming {
    /// By clone3(2): the jail's first process is born in it.
    AtBirth,
    /// By unshare(2) in the first process, once that is in all its control groups: the root of a
    /// cgroup namespace is the group that its maker is in.
    OnceInItsGroups,
}

/// One namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JailNamespace {
    /// As profiles and reports name it.
    pub layer: Layer,
    /// `CLONE_NEW…`
    pub flag: i32,
    /// The moment at which it is made.
    pub made: NamespaceTiming,
}

const fn born(layer: Layer, flag: i32) -> JailNamespace {
    let made = NamespaceTiming::AtBirth;
    JailNamespace { layer, flag, made }
}

/// The namespaces of a jail; all but the network in each.
pub const ALL: [JailNamespace; 8] = [
    born(Layer::UserNamespace, libc::CLONE_NEWUSER),
    born(Layer::MountNamespace, libc::CLONE_NEWNS),
    born(Layer::PidNamespace, libc::CLONE_NEWPID),
    born(Layer::NetworkNamespace, libc::CLONE_NEWNET),
    born(Layer::IpcNamespace, libc::CLONE_NEWIPC),
    born(Layer::UtsNamespace, libc::CLONE_NEWUTS),
    born(Layer::TimeNamespace, libc::CLONE_NEWTIME),
    JailNamespace {
        layer: Layer::CgroupNamespace,
        flag: libc::CLONE_NEWCGROUP,
        made: NamespaceTiming::OnceInItsGroups,
    },
];

/// The namespaces of a jail, which may share the host's network.
pub fn of_jail(shares_network: bool) -> Vec<JailNamespace> {
    let is_own = |namespace: &&JailNamespace| {
        !(shares_network && namespace.layer == Layer::NetworkNamespace)
    };
    ALL.iter().filter(is_own).copied().collect()
}

/// The flags of those that are made then, for the kernel.
pub(crate) fn flags(namespaces: &[JailNamespace], made: NamespaceTiming) -> i32 {
    let wanted = namespaces.iter().filter(|namespace| namespace.made == made);
    wanted.fold(0, |flags, namespace| flags | namespace.flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flag_is_lost_between_the_two_moments() {
        let all = ALL
            .iter()
            .fold(0, |flags, namespace| flags | namespace.flag);
        let born = flags(&ALL, NamespaceTiming::AtBirth);
        let later = flags(&ALL, NamespaceTiming::OnceInItsGroups);
        assert_eq!(born | later, all);
        assert_eq!(born & later, 0);
        assert_eq!(all.count_ones(), 8);
    }
}
