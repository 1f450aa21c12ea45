//! Variables of the caller's by which programs talk to others: certificates that they are to trust, and proxies. A jail passes none of them by
//! itself, and a program that talks to an allowed host may fail for that, in words of its own about certificates or connections.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnkey_policy::{NetworkMode, Policy};
use turnkey_report::{LeftVariable, Report, escape};

use crate::environment::CallerEnvironment;
use crate::missing_hint::has_failed_by_itself;

/// Variables told at most.
const MOST: usize = 6;

/// A file or a directory of certificates: of OpenSSL, Python's requests, Node.js, pip, curl, git, cargo, npm and AWS.
const CERTIFICATES: [&str; 11] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
    "AWS_CA_BUNDLE",
];
/// The address of a proxy.
const PROXIES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Notes those that a program which failed, and talked to somebody else, did not have.
pub fn note(report: &mut Report, policy: &Policy, caller: &CallerEnvironment) {
    let mode = policy.network.mode;
    let talks = matches!(mode, NetworkMode::Allow | NetworkMode::Host);
    if !talks || report.network_attempts.is_empty() || !has_failed_by_itself(report) {
        return;
    }
    let named = CERTIFICATES.iter().filter(|_| was_answered(report, mode));
    let certificates = named.filter_map(|name| {
        let value = value(name, policy, caller)?;
        certificates(name, value, policy)
    });
    let proxies = PROXIES.iter().filter_map(|name| {
        let value = value(name, policy, caller)?;
        proxy(name, value.to_str()?, mode)
    });
    report.variables_left = certificates.chain(proxies).take(MOST).collect();
}

/// True when somebody may have shown a certificate: where turnkey passes on what hosts answer, somebody has answered.
fn was_answered(report: &Report, mode: NetworkMode) -> bool {
    let mut passed = report
        .network_attempts
        .iter()
        .filter_map(|row| row.passed.as_ref());
    mode == NetworkMode::Host || passed.any(|passed| passed.received_bytes > 0)
}

/// The caller's value of a variable that the program does not have.
fn value<'c>(name: &str, policy: &Policy, caller: &'c CallerEnvironment) -> Option<&'c OsStr> {
    let environment = &policy.environment;
    let mut passed = environment.pass.iter();
    let has = environment.set.contains_key(name) || passed.any(|one| one == name);
    caller.get(name).filter(|value| !has && !value.is_empty())
}

fn certificates(name: &str, value: &OsStr, policy: &Policy) -> Option<LeftVariable> {
    let path = Path::new(value);
    let plain = path.is_absolute() && path.exists() && !turnkey_policy::is_too_much_to_show(path);
    let read = (!policy.filesystem.shows(path)).then(|| escape(value.as_bytes()));
    plain.then(|| LeftVariable {
        name: name.to_owned(),
        read,
        allow: None,
    })
}

/// With `http://user:password@proxy.example:3128/`, `proxy.example:3128`.
fn proxy(name: &str, value: &str, mode: NetworkMode) -> Option<LeftVariable> {
    let (_, rest) = value.split_once("://").unwrap_or(("http", value));
    let authority = rest.split('/').next()?;
    let host = authority.rsplit('@').next()?;
    let has_port = host.rsplit_once(':').is_some_and(|(name, port)| {
        !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    has_port.then(|| LeftVariable {
        name: name.to_owned(),
        read: None,
        allow: (mode == NetworkMode::Allow).then(|| escape(host.as_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_without_its_password() {
        let allow = |value| proxy("HTTPS_PROXY", value, NetworkMode::Allow).map(|one| one.allow);
        let named = Some(Some("proxy.example:3128".to_owned()));
        assert_eq!(allow("http://user:secret@proxy.example:3128/"), named);
        assert_eq!(allow("proxy.example:3128"), named);
        for none in ["", "http://", "http://proxy.example", "http://:3128", "x:0"] {
            assert_eq!(allow(none), None, "{none}");
        }
    }
}
