//! The ids of this process's user namespace: all of the host's, or a caller's own.
//!
//! user_namespaces(7). A caller without privileges gets one id in a namespace of its own; so does
//! root inside a container that was given few. A jail's user is then no number of its own but the
//! caller, whose files need no translation either.

pub(crate) mod ceilings;
pub(crate) mod chroot;
pub mod container;
pub(crate) mod identity;
pub(crate) mod idmap;
pub mod rootless;
pub mod served;
pub(crate) mod subordinate;
pub mod userns;

use crate::kernel_file;

/// The ids that a jail's user can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceIds {
    /// Every id is there, those that only jails have included.
    All,
    /// The caller's.
    Own(CallerIds),
}

/// A caller in a user namespace with few ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerIds {
    /// As this namespace names the caller.
    pub user: u32,
    /// The caller's group.
    pub group: u32,
    /// The caller is root one namespace further out, and so would be the jail's user.
    pub root_outside: bool,
    /// Ids that nobody has, for jails to whom nothing of the caller's has to belong.
    pub spare: Option<SpareIds>,
    /// True when setgroups(2) is allowed here.
    pub drops_supplementary_gids: bool,
    /// Supplementary groups that setgroups(2) cannot leave here.
    pub kept_supplementary_gids: Vec<u32>,
}

impl NamespaceIds {
    /// Looks at this process.
    pub fn probe() -> NamespaceIds {
        let read = |name| kernel_file::read(format!("/proc/self/{name}")).unwrap_or_default();
        let (users, groups) = (parse(&read("uid_map")), parse(&read("gid_map")));
        if idmap::range_is_within(&users) && idmap::range_is_within(&groups) {
            return NamespaceIds::All;
        }
        let (user, group) = (
            nix::unistd::geteuid().as_raw(),
            nix::unistd::getegid().as_raw(),
        );
        let bound = read("setgroups").trim() == "deny";
        let others = nix::unistd::getgroups()
            .unwrap_or_default()
            .into_iter()
            .map(nix::unistd::Gid::as_raw);
        NamespaceIds::Own(CallerIds {
            user,
            group,
            root_outside: outside(&users, user) == Some(0),
            spare: SpareIds::find(&users, &groups),
            drops_supplementary_gids: !bound,
            kept_supplementary_gids: others.filter(|other| bound && *other != group).collect(),
        })
    }
}

impl NamespaceIds {
    /// True when the caller's supplementary groups can be dropped.
    pub(crate) fn can_drop_supplementary_gids(&self) -> bool {
        match self {
            NamespaceIds::All => true,
            NamespaceIds::Own(own) => own.drops_supplementary_gids,
        }
    }
}

/// A range of ids, as this namespace names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareIds {
    last_user: u32,
    last_group: u32,
    count: u32,
}

impl SpareIds {
    /// The upper half of what the namespace has besides its caller: what is given to accounts
    /// in there counts from below.
    fn find(users: &[Extent], groups: &[Extent]) -> Option<SpareIds> {
        let last = |map: &[Extent]| {
            let (first, _, count) = map.iter().copied().max_by_key(|(_, _, count)| *count)?;
            let last = u32::try_from(first.checked_add(count)?.checked_sub(1)?).ok()?;
            Some((last, u32::try_from(count).ok()? / 2))
        };
        let ((last_user, users), (last_group, groups)) = (last(users)?, last(groups)?);
        let count = users.min(groups);
        (count > 0).then_some(SpareIds {
            last_user,
            last_group,
            count,
        })
    }

    /// The user and the group of a jail; jails with different numbers differ as long as there are
    /// ids enough.
    pub(crate) fn pick(self, number: u32) -> (u32, u32) {
        let offset = number % self.count;
        (self.last_user - offset, self.last_group - offset)
    }
}

/// One line of a map: first id inside, first id outside, count.
pub(crate) type Extent = (u64, u64, u64);

fn parse(map: &str) -> Vec<Extent> {
    let line = |line: &str| {
        let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    };
    map.lines().filter_map(line).collect()
}

/// The id that `id` is one namespace further out.
fn outside(map: &[Extent], id: u32) -> Option<u64> {
    let id = u64::from(id);
    map.iter().find_map(|(inside, outside, count)| {
        let offset = id.checked_sub(*inside)?;
        (offset < *count).then(|| outside + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespace_has_all_ids() {
        assert!(idmap::range_is_within(&parse(
            "         0          0 4294967295\n"
        )));
    }

    #[test]
    fn a_namespace_of_few_ids_does_not_have_those_of_jails() {
        assert!(!idmap::range_is_within(&parse(
            "0 1000 1\n1 100000 65536\n"
        )));
        assert!(!idmap::range_is_within(&parse("")));
    }

    #[test]
    fn spare_ids_are_neither_the_callers_nor_those_of_accounts() {
        let many = parse("0 1000 1\n1 100000 65536\n");
        let spare = SpareIds::find(&many, &many).unwrap();
        assert_eq!(spare.pick(0), (65_536, 65_536));
        assert_eq!(spare.pick(32_767), (32_769, 32_769));
        assert_eq!(spare.pick(32_768), spare.pick(0));
        let one = parse("0 1000 1\n");
        assert_eq!(SpareIds::find(&one, &many), None);
        assert_eq!(SpareIds::find(&[], &[]), None);
    }

    #[test]
    fn root_further_out_is_recognised() {
        let map = parse("0 1000 1\n1 100000 65536\n");
        assert_eq!(outside(&map, 0), Some(1000));
        assert_eq!(outside(&map, 5), Some(100_004));
        assert_eq!(outside(&map, 70_000), None);
        assert_eq!(outside(&parse("0 0 1\n"), 0), Some(0));
    }
}
