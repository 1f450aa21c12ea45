//! The server's part in protocols of lines: enough for a client to go on and send what it came for.

use std::net::{IpAddr, SocketAddr};

use turnkey_facts::SinkholeProtocol as Protocol;

/// Bytes of a line at most; longer ones are answered as they are.
const LONGEST: usize = 8 << 10;
/// The line for a client that waits, at a port that no protocol is known for.
pub const GREETING: &[u8] = b"220 ready\r\n";
/// The port at which the data of FTP is taken: any port is.
const DATA_PORT: u16 = 20000;

/// The server's state.
#[derive(Debug)]
pub struct Dialogue {
    /// The protocol.
    pub protocol: Protocol,
    to: SocketAddr,
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    /// A mail is being sent, which ends with a line of one dot.
    in_mail: bool,
}

impl Dialogue {
    /// The protocol in which a server at this address speaks first; at some ports when TLS is taken off, and not before.
    pub fn at(to: SocketAddr, has_tls: bool) -> Option<Dialogue> {
        let protocol = match (to.port(), has_tls) {
            (21, _) => Protocol::Ftp,
            (22, _) => Protocol::Ssh,
            (25 | 587 | 2525, _) | (465, true) => Protocol::Smtp,
            (110, _) | (995, true) => Protocol::Pop3,
            (143, _) | (993, true) => Protocol::Imap,
            _ => return None,
        };
        Some(Self::of(protocol, to))
    }

    /// The protocol that a client speaks of itself, by its first bytes; `None` for one of which nothing is known.
    pub fn of_first(bytes: &[u8], to: SocketAddr) -> Option<Dialogue> {
        let first = |word: &[u8]| bytes.get(..word.len()) == Some(word);
        let protocol = match bytes {
            [b'*', b'0'..=b'9', ..] => Protocol::Redis,
            _ if first(b"PING") => Protocol::Redis,
            _ if first(b"SSH-") => Protocol::Ssh,
            _ if first(b"EHLO ") || first(b"HELO ") => Protocol::Smtp,
            _ => return None,
        };
        Some(Self::of(protocol, to))
    }

    fn of(protocol: Protocol, to: SocketAddr) -> Dialogue {
        Dialogue {
            protocol,
            to,
            line: Vec::new(),
            in_mail: false,
        }
    }

    /// The words with which the server begins.
    pub fn banner(&self) -> &'static [u8] {
        match self.protocol {
            Protocol::Ftp => b"220 FTP server ready\r\n",
            Protocol::Ssh => b"SSH-2.0-OpenSSH_9.6\r\n",
            Protocol::Smtp => b"220 mail ESMTP ready\r\n",
            Protocol::Pop3 => b"+OK ready\r\n",
            Protocol::Imap => b"* OK IMAP4rev1 ready\r\n",
            _ => b"",
        }
    }

    /// The answer to what has come.
    pub fn answer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' || self.line.len() >= LONGEST {
                let line = std::mem::take(&mut self.line);
                answer.extend(self.line(line.trim_ascii()));
            }
        }
        answer
    }

    fn line(&mut self, line: &[u8]) -> Vec<u8> {
        let mut words = line.split(|byte| *byte == b' ');
        let word = words.next().unwrap_or_default().to_ascii_uppercase();
        match self.protocol {
            Protocol::Smtp => self.mail(line, &word).to_vec(),
            Protocol::Ftp => self.file_transfer(&word),
            Protocol::Pop3 => b"+OK\r\n".to_vec(),
            Protocol::Imap => [&tag(line), b" OK done\r\n".as_slice()].concat(),
            Protocol::Redis if line.eq_ignore_ascii_case(b"PING") => b"+PONG\r\n".to_vec(),
            // A command is an array, which begins so; its parts have lines of their own.
            Protocol::Redis if line.first() == Some(&b'*') => b"+OK\r\n".to_vec(),
            _ => Vec::new(),
        }
    }

    fn mail(&mut self, line: &[u8], word: &[u8]) -> &'static [u8] {
        if self.in_mail {
            self.in_mail = line != b".";
            return if self.in_mail { b"" } else { b"250 OK\r\n" };
        }
        match word {
            b"EHLO" => b"250-mail\r\n250-AUTH PLAIN LOGIN\r\n250 SIZE 10485760\r\n",
            b"AUTH" => b"235 OK\r\n",
            b"DATA" => {
                self.in_mail = true;
                b"354 go on\r\n"
            }
            b"QUIT" => b"221 bye\r\n",
            b"STARTTLS" => b"502 not here\r\n",
            _ => b"250 OK\r\n",
        }
    }

    fn file_transfer(&self, word: &[u8]) -> Vec<u8> {
        let port = DATA_PORT;
        let text = match word {
            b"USER" => "331 password please".to_owned(),
            b"PASS" => "230 welcome".to_owned(),
            b"SYST" => "215 UNIX Type: L8".to_owned(),
            b"PWD" => "257 \"/\"".to_owned(),
            b"CWD" | b"MKD" | b"RMD" | b"DELE" => "250 OK".to_owned(),
            b"EPSV" => format!("229 extended passive (|||{port}|)"),
            b"PASV" => match self.to.ip().to_canonical() {
                IpAddr::V4(address) => {
                    let [a, b, c, d] = address.octets();
                    let (high, low) = (port >> 8, port & 0xff);
                    format!("227 passive ({a},{b},{c},{d},{high},{low})")
                }
                IpAddr::V6(_) => "522 use EPSV".to_owned(),
            },
            b"STOR" | b"APPE" | b"RETR" | b"LIST" | b"NLST" => "150 go on\r\n226 done".to_owned(),
            b"QUIT" => "221 bye".to_owned(),
            _ => "200 OK".to_owned(),
        };
        format!("{text}\r\n").into_bytes()
    }
}

/// The first word of a line of IMAP, which its answer begins with.
fn tag(line: &[u8]) -> Vec<u8> {
    line.split(|byte| *byte == b' ')
        .next()
        .unwrap_or_default()
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(port: u16, said: &[&str]) -> Vec<String> {
        let to = SocketAddr::new([198, 18, 0, 2].into(), port);
        let mut server = Dialogue::at(to, false).expect("a server that speaks first");
        let answers = said.iter().map(|said| server.answer(said.as_bytes()));
        let answers = answers.map(|answer| String::from_utf8(answer).expect("text"));
        answers.collect()
    }

    #[test]
    fn a_mail_is_taken_whole_however_it_is_cut() {
        let answers = spoken(
            25,
            &[
                "EHLO me\r",
                "\nMAIL FROM:<a@b>\r\n",
                "DATA\r\n",
                "DATA\r\n.x\r\n",
                ".\r\nQUIT\r\n",
            ],
        );
        assert_eq!(answers[0], "");
        assert!(answers[1].starts_with("250-mail") && answers[1].ends_with("250 OK\r\n"));
        assert_eq!(answers[2..], ["354 go on\r\n", "", "250 OK\r\n221 bye\r\n"]);
    }

    #[test]
    fn files_are_taken_at_an_address_of_the_same_host() {
        let answers = spoken(21, &["USER me\r\n", "PASS x\r\n", "PASV\r\n", "STOR f\r\n"]);
        assert_eq!(answers[2], "227 passive (198,18,0,2,78,32)\r\n");
        assert!(answers[3].contains("226"));
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let to = SocketAddr::new([198, 18, 0, 2].into(), 25);
        let mut server = Dialogue::at(to, false).expect("it speaks first");
        server.answer(&vec![b'x'; 3 * LONGEST + 7]);
        assert_eq!(server.line.len(), 7);
    }

    #[test]
    fn the_commands_of_a_store_are_counted_by_their_begin() {
        let to = SocketAddr::new([198, 18, 0, 2].into(), 6379);
        let said = b"*2\r\n$4\r\nAUTH\r\n$3\r\nabc\r\nPING\r\n";
        let mut server = Dialogue::of_first(said, to).expect("it is known");
        assert_eq!(server.answer(said), b"+OK\r\n+PONG\r\n");
        assert!(Dialogue::of_first(b"\x00\x01", to).is_none());
    }
}
