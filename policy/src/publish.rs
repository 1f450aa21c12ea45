//! Ports of a jail that the host's loopback leads to.

use std::fmt;

use crate::values::ValueError;

/// A port of the jail, and the port of the host's loopback that leads to it. Over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublishedPort {
    /// The host's; 0 for one that the kernel chooses.
    pub host: u16,
    /// The jail's; never 0.
    pub inside: u16,
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.inside)
    }
}

/// Reads `PORT` or `HOST-PORT:PORT`.
pub(crate) fn published(text: &str) -> Result<PublishedPort, ValueError> {
    const FORM: &str =
        "write PORT, or HOST-PORT:PORT such as 8080:80; with 0:80 the kernel chooses the host's";
    let (host, inside) = text.split_once(':').unwrap_or((text, text));
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| is_number)
    };
    match (number(host), number(inside)) {
        (Some(host), Some(inside @ 1..)) => Ok(PublishedPort { host, inside }),
        (Some(_), Some(0)) => Err(ValueError::new(
            "a server of the jail waits at no port 0",
            FORM,
        )),
        _ => Err(ValueError::new(
            format!("{text:?} is no port, and no pair of ports"),
            match of_docker(text) {
                Some(port) => format!("write {port}: it is TCP, on the host's loopback alone"),
                None => FORM.to_owned(),
            },
        )),
    }
}

/// The ports of docker's `127.0.0.1:8080:80/tcp`, which says what always holds here.
fn of_docker(text: &str) -> Option<PublishedPort> {
    let ports = text.strip_suffix("/tcp").unwrap_or(text);
    let of_loopback = ["127.0.0.1:", "localhost:"];
    let rest = of_loopback.iter().find_map(|host| ports.strip_prefix(host));
    let ports = rest.unwrap_or(ports);
    (ports != text).then(|| published(ports).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_docker_says_besides_is_left_out() {
        for theirs in ["8080:80/tcp", "127.0.0.1:8080:80", "localhost:8080:80/tcp"] {
            let wrong = published(theirs).unwrap_err();
            assert!(wrong.help.starts_with("write 8080:80: "), "{theirs}");
        }
        for other in ["8080:80/udp", "0.0.0.0:8080:80"] {
            let wrong = published(other).unwrap_err();
            assert!(wrong.help.starts_with("write PORT"), "{other}");
        }
    }

    #[test]
    fn a_port_is_the_same_on_both_sides_unless_two_are_given() {
        let read = |text| published(text).map(|port| (port.host, port.inside)).ok();
        assert_eq!(read("8000"), Some((8000, 8000)));
        assert_eq!(read("8080:80"), Some((8080, 80)));
        assert_eq!(read("0:80"), Some((0, 80)));
        for wrong in [
            "",
            "0",
            "80:0",
            ":80",
            "80:",
            "+80",
            "127.0.0.1:80",
            "1:2:3",
            "65536",
            "80/udp",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
