//! Conversations of a program with a sinkhole, which answers in the place of everybody and lets nothing out.

use std::net::SocketAddr;

/// All that a sinkhole took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkholeTraffic {
    /// The conversations that are kept, in the order in which they began.
    pub conversations: Vec<Conversation>,
    /// Conversations beyond those: taken and answered, or ended at once where there were too many, and not kept.
    pub unlisted: u64,
    /// Questions of resolvers that were answered.
    pub questions: u64,
    /// The contents of the decoys that the jail held, each with their path.
    pub decoys: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One connection, one request of it that is whole by itself, or the datagrams of one socket to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The address that the program asked for.
    pub to: SocketAddr,
    /// The number of the program's socket, as events of it have it; 0 where the kernel did not tell.
    pub socket: u32,
    /// True for datagrams.
    pub datagrams: bool,
    /// The name that led to the address, or that the program called its peer in the conversation.
    pub name: Option<String>,
    /// The protocol that was spoken, as far as it was recognised.
    pub protocol: SinkholeProtocol,
    /// The request in its own words, such as `POST /upload`.
    pub request: Option<Vec<u8>>,
    /// Bytes that the program sent, without encryption where that was taken off.
    pub sent: u64,
    /// The first bytes of those.
    pub kept: Vec<u8>,
    /// The program did not trust the certificate that it was shown: what is kept is its greeting.
    pub distrusts: bool,
    /// The sinkhole ended it, because it was too long.
    pub cut: bool,
    /// The time of its begin, `CLOCK_BOOTTIME` in nanoseconds.
    pub began_ns: u64,
}

/// Declares the protocols: the variant, and the word for people.
macro_rules! protocols {
    ($($variant:ident $word:literal,)+) => {
        /// A protocol that a sinkhole recognises.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SinkholeProtocol {
            $(#[doc = $word] $variant,)+
        }

        impl SinkholeProtocol {
            /// The word for people.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

protocols! {
    Tcp "TCP",
    Udp "UDP",
    Dns "DNS",
    Http "HTTP",
    Https "HTTPS",
    Tls "TLS",
    Ssh "SSH",
    Smtp "SMTP",
    Ftp "FTP",
    Pop3 "POP3",
    Imap "IMAP",
    Redis "Redis",
    Ntp "NTP",
}
