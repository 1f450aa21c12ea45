//! The server's part in protocols of lines: enough for a client to go on and send what it came for.

use std::net::{IpAddr, SocketAddr};

use turnkey_facts::SinkholeProtocol as Protocol;

/// Bytes of a line at most; longer ones are answered as they are.
const LONGEST: usize = 8 << 10;
/// The line for a client that waits, at a port that no protocol is known for.
pub const GREETING: &[u8] = b"220 ready\r\n";
/// The port at which the data of FTP is taken: any port is. Who says nothing there waits for a file, which is empty.
pub const DATA_PORT: u16 = 20000;

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
    /// The tag of a command of IMAP that goes on behind this line, and the bytes of the literal that are to come.
    held: Option<(Vec<u8>, usize)>,
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
        Some(Self::with_protocol(protocol, to))
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
        Some(Self::with_protocol(protocol, to))
    }

    fn with_protocol(protocol: Protocol, to: SocketAddr) -> Dialogue {
        Dialogue {
            protocol,
            to,
            line: Vec::new(),
            in_mail: false,
            held: None,
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
            if let Some((_, left @ 1..)) = &mut self.held {
                *left -= 1;
                continue;
            }
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
            Protocol::Pop3 => mailbox(&word, words.next().is_some()).to_vec(),
            Protocol::Imap => self.mailboxes(line),
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

    /// IMAP, RFC 9051: an account that lets everybody in and is empty.
    fn mailboxes(&mut self, line: &[u8]) -> Vec<u8> {
        let mut words = line
            .split(|byte| *byte == b' ')
            .map(<[u8]>::to_ascii_uppercase);
        let (own, command) = (tag(line), words.nth(1).unwrap_or_default());
        let (tag, untagged): (_, &[u8]) = match self.held.take() {
            Some((tag, _)) => (tag, b""),
            None => (
                own,
                match command.as_slice() {
                    b"CAPABILITY" => b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n",
                    b"SELECT" | b"EXAMINE" => b"* FLAGS (\\Seen)\r\n* 0 EXISTS\r\n* 0 RECENT\r\n",
                    b"LIST" => b"* LIST () \"/\" INBOX\r\n",
                    b"SEARCH" => b"* SEARCH\r\n",
                    b"LOGOUT" => b"* BYE\r\n",
                    _ => b"",
                },
            ),
        };
        let (length, waits) = literal(line);
        if length.is_some() || command == b"AUTHENTICATE" {
            self.held = Some((tag, length.unwrap_or_default()));
            return if waits {
                b"+ go on\r\n".to_vec()
            } else {
                Vec::new()
            };
        }
        [untagged, &tag, b" OK done\r\n"].concat()
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

/// POP3, RFC 1939, of a mailbox in which there is nothing: some answers have several lines.
fn mailbox(word: &[u8], has_operand: bool) -> &'static [u8] {
    match word {
        b"STAT" => b"+OK 0 0\r\n",
        b"CAPA" => b"+OK\r\nUSER\r\n.\r\n",
        b"RETR" | b"TOP" => b"-ERR no such message\r\n",
        b"LIST" | b"UIDL" if has_operand => b"-ERR no such message\r\n",
        b"LIST" | b"UIDL" => b"+OK\r\n.\r\n",
        _ => b"+OK\r\n",
    }
}

/// The length of the literal that follows a line of IMAP, and whether the client waits for a word before it.
fn literal(line: &[u8]) -> (Option<usize>, bool) {
    let inside = line
        .strip_suffix(b"}")
        .and_then(|rest| rest.rsplit(|byte| *byte == b'{').next());
    let text = inside
        .and_then(|inside| std::str::from_utf8(inside).ok())
        .unwrap_or_default();
    let length = text.trim_end_matches('+').parse().ok();
    (length, !text.ends_with('+'))
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
    fn mailboxes_are_there_and_empty() {
        let answers = spoken(110, &["USER me\r\n", "STAT\r\n", "LIST\r\n", "LIST 1\r\n"]);
        assert_eq!(
            answers,
            [
                "+OK\r\n",
                "+OK 0 0\r\n",
                "+OK\r\n.\r\n",
                "-ERR no such message\r\n"
            ]
        );
        let answers = spoken(
            143,
            &[
                "A1 CAPABILITY\r\n",
                "A2 AUTHENTICATE PLAIN\r\n",
                "AGEAYg==\r\n",
                "A3 select inbox\r\n",
                "A4 APPEND inbox {11}\r\n",
                "A9 x\r\nplan",
                "s\r\n",
                "A5 APPEND inbox {2+}\r\nhi\r\n",
            ],
        );
        assert!(
            answers[0].starts_with("* CAPABILITY IMAP4rev1")
                && answers[0].ends_with("A1 OK done\r\n")
        );
        assert_eq!(answers[1..3], ["+ go on\r\n", "A2 OK done\r\n"]);
        assert!(answers[3].contains("* 0 EXISTS") && answers[3].ends_with("A3 OK done\r\n"));
        assert_eq!(
            answers[4..],
            ["+ go on\r\n", "", "A4 OK done\r\n", "A5 OK done\r\n"]
        );
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
