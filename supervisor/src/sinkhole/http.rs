//! HTTP/1.1 as far as a client needs it to go on (RFC 9112): heads, bodies and plausible answers.

/// The methods that a request can begin with.
const METHODS: [&[u8]; 9] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
];

/// Bytes of a head at most.
pub const LONGEST_HEAD: usize = 64 << 10;

/// True when this can be the begin of a request.
pub fn is_request(bytes: &[u8]) -> bool {
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// Such as `POST`.
    pub method: String,
    /// Such as `/upload`.
    pub target: String,
    /// The name of the host, without its port.
    pub host: Option<String>,
    /// The body behind it.
    pub body: Body,
    /// Another request can follow.
    pub goes_on: bool,
    /// The client waits for a word before it sends the body.
    pub waits: bool,
    accepts: String,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    /// Pieces, each with its length.
    Chunked,
}

impl Head {
    /// Reads a head, and the number of its bytes; `None` when its end has not come.
    pub fn read(bytes: &[u8]) -> Option<(Head, usize)> {
        let end = end_of_head(bytes)?;
        let text = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (method, target, version) = (next(), next(), next());
        let is_newer = version == "HTTP/1.1";
        let mut head = Head {
            method,
            target,
            host: None,
            body: Body::Length(0),
            goes_on: is_newer,
            waits: false,
            accepts: String::new(),
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            head.field(&name.to_ascii_lowercase(), value.trim());
        }
        Some((head, end))
    }

    fn field(&mut self, name: &str, value: &str) {
        let says = |word: &str| value.to_ascii_lowercase().contains(word);
        match name {
            "host" => self.host = Some(host(value)),
            "content-length" if self.body != Body::Chunked => {
                self.body = Body::Length(value.parse().unwrap_or(0));
            }
            "transfer-encoding" if says("chunked") => self.body = Body::Chunked,
            "connection" if says("close") => self.goes_on = false,
            "connection" if says("keep-alive") => self.goes_on = true,
            "expect" => self.waits = says("100-continue"),
            "accept" => self.accepts = value.to_ascii_lowercase(),
            _ => {}
        }
    }

    /// The host that a proxy was asked to connect to.
    pub fn proxied(&self) -> Option<String> {
        (self.method == "CONNECT").then(|| host(&self.target))
    }

    /// The answer.
    pub fn answer(&self) -> Vec<u8> {
        let connection = if self.goes_on { "keep-alive" } else { "close" };
        if self.method == "CONNECT" {
            return b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
        }
        if self.method == "OPTIONS" {
            let allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
            return format!(
                "HTTP/1.1 204 No Content\r\nAllow: {allowed}\r\nConnection: {connection}\r\n\r\n"
            )
            .into_bytes();
        }
        let (kind, body) = self.content();
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            body.len()
        );
        let body = if self.method == "HEAD" { "" } else { body };
        [head.as_bytes(), body.as_bytes()].concat()
    }

    /// The type of what is answered, and a small example of it.
    fn content(&self) -> Content {
        let path = self.target.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending {
            "json" => ("application/json", "{}\n"),
            "html" | "htm" => HTML,
            "js" => ("text/javascript", "\n"),
            "css" => ("text/css", "\n"),
            "txt" | "sh" | "py" | "ps1" | "csv" => ("text/plain", "\n"),
            "xml" => XML,
            "zip" | "gz" | "bin" | "exe" | "png" | "jpg" => ("application/octet-stream", ""),
            _ => self.accepted(),
        }
    }

    /// The type that the client names first. Browsers name HTML, and whoever takes everything is mostly a program that reads JSON.
    fn accepted(&self) -> Content {
        let types = [
            ("html", HTML),
            ("json", JSON),
            ("xml", XML),
            ("text/plain", PLAIN),
        ];
        let named = types
            .into_iter()
            .filter_map(|(name, content)| Some((self.accepts.find(name)?, content)));
        named
            .min_by_key(|(at, _)| *at)
            .map_or(JSON, |(_, content)| content)
    }
}

/// The type of an answer, and its body.
type Content = (&'static str, &'static str);

const HTML: Content = (
    "text/html; charset=utf-8",
    "<!doctype html><html><head><title>OK</title></head><body>OK</body></html>\n",
);
const JSON: Content = ("application/json", "{\"status\":\"ok\"}\n");
const XML: Content = ("application/xml", "<?xml version=\"1.0\"?><ok/>\n");
const PLAIN: Content = ("text/plain", "OK\n");

/// A name or address without its port.
fn host(text: &str) -> String {
    let named = match text.strip_prefix('[') {
        Some(six) => six.split(']').next(),
        None => text.rsplit_once(':').map(|(name, _)| name).or(Some(text)),
    };
    named.unwrap_or_default().to_ascii_lowercase()
}

/// The number of bytes up to the first empty line, with it.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[at..at + length];
        at += length + 1;
        if line.trim_ascii().is_empty() && at > 2 {
            return Some(at);
        }
    }
    None
}

/// The reader of a body in pieces (RFC 9112, section 7.1).
#[derive(Debug, Default)]
pub struct Chunks {
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    /// Bytes of the piece that are to come.
    left: u64,
    /// The last piece has come, and the lines behind it have not.
    is_last: bool,
}

/// The error of bytes that are no body in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInPieces;

/// Bytes of the line before a piece at most.
const LONGEST_LINE: usize = 256;

impl Chunks {
    /// Takes bytes of the body and gives those that are its own; the number that was taken is less when it ends there. An error is no
    /// body in pieces.
    pub fn take(&mut self, bytes: &[u8], into: &mut Vec<u8>) -> Result<Option<usize>, NotInPieces> {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                let piece = &bytes[at..bytes.len().min(at.saturating_add(left))];
                into.extend_from_slice(piece);
                at += piece.len();
                self.left -= piece.len() as u64;
                continue;
            }
            let byte = bytes[at];
            at += 1;
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > LONGEST_LINE {
                    return Err(NotInPieces);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.trim_ascii();
            if self.is_last {
                // Behind the last piece there can be more fields of the head.
                if line.is_empty() {
                    return Ok(Some(at));
                }
                continue;
            }
            if line.is_empty() {
                // The end of the piece before.
                continue;
            }
            let text = std::str::from_utf8(line).map_err(|_| NotInPieces)?;
            let size = text.split(';').next().unwrap_or_default().trim();
            self.left = u64::from_str_radix(size, 16).map_err(|_| NotInPieces)?;
            self.is_last = self.left == 0;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        let (head, end) = Head::read(text.as_bytes()).expect("it is whole");
        assert_eq!(end, text.len());
        head
    }

    #[test]
    fn a_head_says_what_follows() {
        let post = head(
            "POST /upload?x=1 HTTP/1.1\r\nHost: Evil.Example:8443\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n",
        );
        assert_eq!(
            (post.method.as_str(), post.target.as_str()),
            ("POST", "/upload?x=1")
        );
        assert_eq!(post.host.as_deref(), Some("evil.example"));
        assert!(post.waits && post.goes_on);
        assert_eq!(post.body, Body::Length(12));
        let old = head("GET / HTTP/1.0\n\n");
        assert!(!old.goes_on && old.body == Body::Length(0));
        let both = head(
            "PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
        );
        assert_eq!((both.body, both.goes_on), (Body::Chunked, false));
        assert_eq!(
            head("CONNECT [2001:db8::7]:443 HTTP/1.1\r\n\r\n")
                .proxied()
                .as_deref(),
            Some("2001:db8::7")
        );
        assert_eq!(Head::read(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
    }

    #[test]
    fn an_answer_is_of_the_type_that_was_asked_for() {
        let kind = |text: &str| {
            let answer = String::from_utf8(head(text).answer()).expect("text");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let kind = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Type: "));
            (kind.unwrap_or_default().to_owned(), body.to_owned())
        };
        assert_eq!(
            kind("GET /a.json HTTP/1.1\r\n\r\n"),
            ("application/json".into(), "{}\n".into())
        );
        assert_eq!(kind("POST /x HTTP/1.1\r\n\r\n").0, "application/json");
        for (accept, expected) in [
            ("*/*", "application/json"),
            ("application/json, text/plain, */*", "application/json"),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                HTML.0,
            ),
            ("Application/XML", "application/xml"),
            ("text/plain", "text/plain"),
        ] {
            let told = kind(&format!(
                "GET /?a.html HTTP/1.1\r\nAccept: {accept}\r\n\r\n"
            ));
            assert_eq!(told.0, expected, "{accept}");
        }
        assert_eq!(
            kind("GET /a.html HTTP/1.1\r\nAccept: */*\r\n\r\n").0,
            HTML.0
        );
        assert_eq!(kind("GET / HTTP/1.1\r\n\r\n").1, "{\"status\":\"ok\"}\n");
        assert_eq!(kind("HEAD / HTTP/1.1\r\n\r\n").1, "");
        assert!(
            head("OPTIONS * HTTP/1.1\r\n\r\n")
                .answer()
                .starts_with(b"HTTP/1.1 204")
        );
    }

    #[test]
    fn a_body_in_pieces_is_put_together_wherever_it_is_cut() {
        let whole =
            b"4\r\nWiki\r\n6;x=y\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\nGET ";
        for cut in 0..whole.len() {
            let (mut chunks, mut body) = (Chunks::default(), Vec::new());
            let first = chunks.take(&whole[..cut], &mut body).expect("pieces");
            let end = match first {
                Some(end) => end,
                None => {
                    cut + chunks
                        .take(&whole[cut..], &mut body)
                        .expect("pieces")
                        .expect("its end")
                }
            };
            assert_eq!(body, b"Wikipedia in \r\n\r\nchunks.", "{cut}");
            assert_eq!(&whole[end..], b"GET ", "{cut}");
        }
        assert!(
            Chunks::default()
                .take(b"hello\r\n", &mut Vec::new())
                .is_err()
        );
        assert!(
            Chunks::default()
                .take(&[b'1'; 300], &mut Vec::new())
                .is_err()
        );
    }

    #[test]
    fn a_request_begins_with_a_method() {
        assert!(is_request(b"PATCH /x"));
        assert!(!is_request(b"GETAWAY") && !is_request(b"\x16\x03\x01"));
    }
}
