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
    ["network"];
    /// `[network]`: what the jail may reach.
    #[derive(Clone, Debug, PartialEq, Eq)]
    compared NetworkPolicy, read NetworkKeys;
    mode: one NetworkMode {
        form: Word(words::<NetworkMode>), read: values::word, default: NetworkMode::None, shown: "`none`",
        about: "`none`: a network namespace without a route; only sockets of the jail's own that listen on its loopback are reached\n\
            `loopback`: the same, and rules without address or port do not cover its loopback\n\
            `sinkhole`: as `loopback`, and turnkey itself answers at every other address\n\
            `allow`: as `loopback`, and the hosts of `allow` are reached over TCP\n\
            `host`: no network namespace, but the host's own network",
        wider: Greater,
        flag: "network", value: "MODE", under: "Network", help: "none; loopback: the jail's own; sinkhole: turnkey answers at every name and address, nothing leaves; allow: hosts by --allow; host: the host's own network",
    }
    why: one String {
        form: Text, read: values::text, default: String::new(), shown: "`\"\"`",
        about: "why the program needs the mode `host`",
        wider: AsPart,
    }
    /// Without effect under another mode than [`NetworkMode::Allow`].
    allow: tables AllowedHost {
        form: Entries("{ to = \"example.org:443\", why = \"packages\" }"), read: entry::<AllowedKeys, _>, same: |entry| &entry.to, shown: "`[]`",
        about: "hosts that the program may connect to over TCP; implies the mode `allow`: see [Network](#network)",
        flag: "allow", value: "HOST:PORT", under: "Network",
        help: "Allow TCP, and no UDP, to this host and port, such as example.org:443; implies --network allow",
        apply: flags::allow,
    }
    publish: list PublishedPort {
        form: Texts, read: published, shown: "`[]`",
        about: "TCP ports of the jail that turnkey forwards from the host's loopback, `\"8000\"` or `\"8080:80\"`, the host's first; implies the mode `loopback` instead of `none`: see [Network](#network)",
        flag: "publish", value: "PORT[:PORT]", under: "Network",
        help: "Forward this TCP port of the host's loopback to a port of the jail, such as 8080:80; implies --network loopback",
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
    ["network.allow"];
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
