//! Lines on what a sinkhole took.

use crate::model::{Report, SinkholeConversation};
use crate::text::{quote, shortened};

/// Conversations that are told.
const TOLD: usize = 6;
/// Characters of a request, and of a content.
const SHOWN: usize = 100;
/// The end of a head of HTTP, as the content has it.
const END_OF_HEAD: &str = "\\r\\n\\r\\n";

/// Conversations with the sinkhole, each in a line; those in which a secret was sent come first.
pub fn lines(report: &Report) -> Vec<String> {
    let Some(sinkhole) = &report.sinkhole else {
        return Vec::new();
    };
    let mut all: Vec<_> = sinkhole.conversations.iter().collect();
    all.sort_by_key(|one| one.secrets.is_empty());
    let mut lines: Vec<String> = all.iter().take(TOLD).map(|one| line(one)).collect();
    let more = all.len().saturating_sub(TOLD) as u64 + sinkhole.unlisted;
    if more > 0 {
        let words = match sinkhole.unlisted {
            0 => "--report FILE has them",
            _ => "--report FILE has the first thousand; the sinkhole was full",
        };
        lines.push(format!("the sinkhole took {more} more: {words}"));
    }
    lines
}

fn line(one: &SinkholeConversation) -> String {
    let (peer, asked) = (quote(&one.peer()), shortened(&one.asked(), SHOWN));
    if one.distrusts_certificate {
        return format!(
            "did not trust the sinkhole's certificate for {peer} ({asked}), and sent its greeting alone"
        );
    }
    let bytes = match one.sent_bytes {
        1 => "1 byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    };
    let secrets = match one.secrets.as_slice() {
        [] => String::new(),
        secrets => format!(", in them {}", secrets.join(", ")),
    };
    let content = match content(one) {
        "" => String::new(),
        content => format!(": {}", shortened(content, SHOWN)),
    };
    format!("sent {bytes} to {peer} ({asked}){secrets}{content}")
}

/// The part of the content that a reader looks for: of a request its body.
fn content(one: &SinkholeConversation) -> &str {
    match (&one.request, one.content.split_once(END_OF_HEAD)) {
        (Some(_), Some((_, body))) => body,
        (Some(_), None) => "",
        (None, _) => &one.content,
    }
}
