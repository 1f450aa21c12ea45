//! The files that tell the program who and where it is. Made up for every jail; nothing of the
//! host's accounts shows.

use std::net::IpAddr;
use std::path::Path;

use turnkey_policy::{JailIdentity, WORKSPACE};

/// The settings of the C library's name services, nsswitch.conf(5). A profile may give the host's.
pub const NAME_SERVICES: &str = "/etc/nsswitch.conf";

/// /etc/passwd, /etc/group, /etc/hosts with the names that are `known`, and /etc/hostname; /etc/nsswitch.conf, in which
/// `services` find addresses.
pub fn account_files(
    identity: &JailIdentity,
    known: &[(IpAddr, String)],
    services: Option<&str>,
) -> [(&'static str, Vec<u8>); 5] {
    let (user, host) = (&identity.user, &identity.hostname);
    let id = identity.id();
    let (roots, roots_group) = match id {
        0 => ("", ""),
        _ => ("root:x:0:0:root:/:/usr/sbin/nologin\n", "root:x:0:\n"),
    };
    let passwd = format!(
        "{roots}{user}:x:{id}:{id}:{user}:{WORKSPACE}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    );
    let group = format!("{roots_group}{user}:x:{id}:\nnogroup:x:65534:\n");
    let mut hosts = format!("127.0.0.1 localhost {host}\n::1 localhost {host}\n");
    for (address, name) in known {
        hosts += &format!("{address} {name}\n");
    }
    // Nobody has a password. Perl asks for it whenever it looks up a user, and would open the decoy. DNS knows of none; a list
    // of no services at all makes glibc 2.36 call through memory that it has freed.
    let services = format!(
        "passwd: files\ngroup: files\nshadow: dns\ngshadow: dns\nhosts: {}\n",
        services.unwrap_or("files dns")
    );
    [
        ("/etc/passwd", passwd.into_bytes()),
        ("/etc/group", group.into_bytes()),
        ("/etc/hosts", hosts.into_bytes()),
        ("/etc/hostname", format!("{host}\n").into_bytes()),
        (NAME_SERVICES, services.into_bytes()),
    ]
}

/// The content of a decoy: plausible at a glance, worth nothing, and recognisable when it turns up.
pub fn decoy(path: &Path) -> Vec<u8> {
    let name = path.file_name().unwrap_or_default();
    if name == "shadow" || name == "gshadow" {
        return b"root:!*:19500:0:99999:7:::\ndecoy:!*:19500:0:99999:7:::\n".to_vec();
    }
    b"decoy: this file was planted by turnkey and opens nothing\n".to_vec()
}
