//! `[network]`, and the hosts that it allows.

use std::net::IpAddr;

use super::declare::{by_kind, entry, key_table};
use crate::address::Subnet;
use crate::endpoint::{Endpoint, EndpointHost};
use crate::keys::words;
use crate::model::NetworkMode;
use crate::publish::{PublishedPort, published};
use crate::{flags, values};

key_table! {
    ["network"] of network;
    /// `[network]`: what the jail may reach.
    #[derive(Clone, Debug, PartialEq, Eq)]
    compared NetworkPolicy, read NetworkKeys;
    mode: one NetworkMode {
        form: Word(words::<NetworkMode>), read: values::word, default: NetworkMode::None, shown: "`none`",
        about: "a network namespace in which the program reaches nobody but itself, one whose loopback is its own as a whole, that and answers of turnkey's own at every address (`sinkhole`), that and the hosts of `allow`, or none: the host's own network",
        wider: Greater,
        flag: "network", value: "MODE", under: "Network", help: "none, loopback (the jail's own), sinkhole (every name and address answers, nothing leaves), allow (hosts by --allow), or host: whatever this host reaches",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "why the program needs the mode `host`",
        wider: AsPart,
    }
    /// Without effect under another mode than [`NetworkMode::Allow`].
    allow: tables AllowedHost {
        form: Entries("{ to = \"example.org:443\", why = \"packages\" }"), read: entry::<AllowedKeys, _>, same: |entry| &entry.to, shown: "`[]`",
        about: "whom the program may talk to over TCP; means the mode `allow`: see [Network](#network)",
        flag: "allow", value: "HOST:PORT", under: "Network",
        help: "Allow TCP, and no UDP, to this host and port, such as example.org:443; implies --network allow",
        apply: flags::allow,
    }
    publish: list PublishedPort {
        form: Texts, read: published, shown: "`[]`",
        about: "TCP ports of the jail that the host's loopback leads to, `\"8000\"` or `\"8080:80\"`, the host's first; means the mode `loopback` where nothing is reached: see [Network](#network)",
        flag: "publish", value: "PORT[:PORT]", under: "Network",
        help: "Lead this port of the host's loopback to the jail's, such as 8080:80; implies --network loopback",
        apply: flags::publish,
    }
}

impl From<NetworkMode> for NetworkPolicy {
    fn from(mode: NetworkMode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

key_table! {
    ["network.allow"] of network;
    /// An entry of `network.allow`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    entry AllowedHost and {
        /// The addresses that a name has been resolved to, by the caller that runs the policy; empty before, and for what is
        /// no name.
        addresses: Vec<IpAddr> = Vec::new(),
    },
    read AllowedKeys;
    to: needed Endpoint {
        form: Text, read: values::endpoint, shown: "",
        about: "`HOST:PORT`: a name, an address or a range such as `10.1.0.0/16`, version 6 in brackets; a port or a range such as `8000-8010`",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "why the program needs it",
    }
}

impl AllowedHost {
    /// The addresses that it means: those of a name, or the one range that is written.
    pub fn nets(&self) -> impl Iterator<Item = Subnet> {
        let written = match &self.to.peer {
            EndpointHost::Net(net) => Some(*net),
            EndpointHost::Name(_) => None,
        };
        let found = self.addresses.iter().copied().map(Subnet::one);
        written.into_iter().chain(found)
    }
}
