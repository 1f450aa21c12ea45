//! The content that a program sent to a sinkhole: recognised, shortened, and without secrets.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use turnkey_facts::{Conversation, SinkholeTraffic};
use turnkey_policy::AttemptKind;

use super::aggregate::Observations;
use super::clock::Clock;
use super::model::{NetworkAttempt, Process, Program, Sinkhole, SinkholeConversation};
use super::redact;
use super::speakers::canonical;
use super::text::{escape, shortened};

/// Characters of a content that are shown.
const SHOWN: usize = 2048;
/// Characters of a request.
const REQUEST: usize = 200;
/// Characters of a run that can be a secret in another coding.
const LEAST_ENCODED: usize = 24;
/// Characters of a line of such a run where it has several.
const LEAST_LINE: usize = 48;
/// Base64 without its padding, whatever the last bits are.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, UNPADDED);
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, UNPADDED);
const UNPADDED: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone)
    .with_decode_allow_trailing_bits(true);
/// Bytes of a line of a decoy that is none of everybody's.
const LEAST_OF_DECOY: usize = 16;

/// The traffic as the report has it; `redacts` where secrets are not to be shown.
pub fn told(
    traffic: &SinkholeTraffic,
    observed: &Observations,
    (clock, redacts): (&Clock, bool),
) -> Sinkhole {
    let conversations = traffic.conversations.iter();
    let row = |one: &Conversation| row(one, traffic, observed, (clock, redacts));
    Sinkhole {
        conversations: conversations.map(row).collect(),
        unlisted: traffic.unlisted,
        questions: traffic.questions,
    }
}

/// Each conversation in which a secret left, in words.
pub fn sent_secrets(sinkhole: &Sinkhole) -> Vec<String> {
    let conversations = sinkhole.conversations.iter();
    let with_secrets = conversations.filter(|one| !one.secrets.is_empty());
    let words = |one: &SinkholeConversation| {
        format!(
            "sent {} to {} ({})",
            one.secrets.join(", "),
            one.peer(),
            one.asked()
        )
    };
    with_secrets.map(words).collect()
}

fn row(
    conversation: &Conversation,
    traffic: &SinkholeTraffic,
    observed: &Observations,
    (clock, redacts): (&Clock, bool),
) -> SinkholeConversation {
    let found = RedactedContent::in_content(&conversation.kept, &traffic.decoys);
    let text = match redacts {
        true => found.redacted,
        false => escape(&conversation.kept),
    };
    let content = shortened(&text, SHOWN);
    let is_whole =
        content.len() == text.len() && conversation.kept.len() as u64 == conversation.sent;
    let speakers = &observed.speakers;
    let exec_ids = speakers.on(conversation.socket, conversation.to).to_vec();
    let programs = match exec_ids.is_empty() {
        true => candidates(conversation, &observed.network_attempts),
        false => programs_of(&exec_ids, &observed.processes),
    };
    let text = |bytes: &Vec<u8>| {
        let text = escape(bytes);
        let text = if redacts {
            redact::text(&text).into_owned()
        } else {
            text
        };
        shortened(&text, REQUEST)
    };
    SinkholeConversation {
        time: clock.date(conversation.began_ns),
        address: conversation.to.to_string(),
        name: conversation
            .name
            .as_ref()
            .map(|name| escape(name.as_bytes())),
        protocol: conversation.protocol.word().to_owned(),
        request: conversation.request.as_ref().map(text),
        sent_bytes: conversation.sent,
        content,
        content_truncated: !is_whole,
        secrets: found.secrets,
        distrusts_certificate: conversation.distrusts,
        cut: conversation.cut,
        exec_ids,
        programs,
    }
}

/// The programs of these rows, each once.
fn programs_of(exec_ids: &[u32], processes: &[Process]) -> Vec<Program> {
    let is_meant = |row: &&Process| exec_ids.contains(&row.exec_id);
    let program = |row: &Process| {
        let exe = row.exe.as_ref().filter(|exe| !exe.truncated)?;
        Some(Program {
            exe: exe.path.clone(),
            script: row.script.clone(),
        })
    };
    distinct(processes.iter().filter(is_meant).filter_map(program))
}

/// The programs that spoke to the address of a conversation.
fn candidates(conversation: &Conversation, attempts: &[NetworkAttempt]) -> Vec<Program> {
    let is_meant = |row: &&NetworkAttempt| {
        let address = row.address.parse().ok().map(canonical);
        matches!(row.act, AttemptKind::Connect | AttemptKind::Send)
            && row.name.is_none()
            && address == Some(conversation.to)
    };
    let rows = attempts.iter().filter(is_meant);
    distinct(rows.flat_map(|row| row.programs.iter().cloned()))
}

fn distinct(programs: impl Iterator<Item = Program>) -> Vec<Program> {
    let mut different = Vec::new();
    for program in programs {
        if !different.contains(&program) {
            different.push(program);
        }
    }
    different
}

/// The secrets of a content, and the content as text without them.
struct RedactedContent {
    secrets: Vec<String>,
    redacted: String,
}

impl RedactedContent {
    fn in_content(content: &[u8], decoys: &[(Vec<u8>, Vec<u8>)]) -> RedactedContent {
        let mut secrets = Vec::new();
        let mut note = |secret: String| {
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        };
        // What is encoded first: its place in the content is known as long as nothing has been taken out.
        let (mut rest, mut shown) = (0, String::new());
        let mut plain = Vec::new();
        for run in encoded(content) {
            let inside = encoded_secrets(&content[run.begin..run.end], decoys);
            if inside.is_empty() {
                continue;
            }
            let names = inside.join(", ");
            plain.push(&content[rest..run.begin]);
            shown += &redacted(&content[rest..run.begin]);
            shown += &format!("[redacted: {names}, encoded]");
            inside.into_iter().for_each(&mut note);
            rest = run.end;
        }
        plain.push(&content[rest..]);
        shown += &redacted(&content[rest..]);
        plain
            .iter()
            .flat_map(|part| secrets_of(part, decoys))
            .for_each(&mut note);
        // Of a form the values can be cut by their coding anywhere; it is shown whole or not at all.
        let form = match content.contains(&b'%') {
            true => secrets_of(&percent_decoded(content), decoys),
            false => Vec::new(),
        };
        let is_hidden = form.iter().any(|secret| !secrets.contains(secret));
        if is_hidden {
            shown = format!("[redacted: {}, encoded]", form.join(", "));
            for secret in form {
                if !secrets.contains(&secret) {
                    secrets.push(secret);
                }
            }
        }
        RedactedContent {
            secrets,
            redacted: shown,
        }
    }
}

fn redacted(content: &[u8]) -> String {
    redact::text(&escape(content)).into_owned()
}

/// The secrets in these bytes as they are, each in words.
fn secrets_of(content: &[u8], decoys: &[(Vec<u8>, Vec<u8>)]) -> Vec<String> {
    let mut secrets: Vec<String> = Vec::new();
    let named: Vec<String> = decoys
        .iter()
        .filter(|(_, decoy)| has_line_of(content, decoy))
        .map(|(path, _)| escape(path))
        .collect();
    if !named.is_empty() {
        secrets.push(format!("the decoy {}", named.join(" or ")));
    }
    // As it is redacted: in one line.
    let text = escape(content);
    secrets.extend(
        redact::kinds(&text)
            .into_iter()
            .map(|kind| format!("a credential ({kind})")),
    );
    secrets
}

/// True when a line of the decoy stands in the content. Those that are short could be anybody's.
fn has_line_of(content: &[u8], decoy: &[u8]) -> bool {
    let lines = decoy.split(|byte| *byte == b'\n');
    let mut telling = lines.filter(|line| line.len() >= LEAST_OF_DECOY);
    telling.any(|line| content.windows(line.len()).any(|window| window == line))
}

/// A run of characters of base64 or hexadecimal digits in a content.
#[derive(Clone, Copy)]
struct EncodedRun {
    begin: usize,
    end: usize,
}

/// The runs that can be something in another coding, in their order. Lines of one length are one run.
fn encoded(content: &[u8]) -> Vec<EncodedRun> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let mut runs: Vec<EncodedRun> = Vec::new();
    let (mut at, mut line) = (0, 0);
    while at < content.len() {
        let length = content[at..]
            .iter()
            .take_while(|byte| is_part(byte))
            .count();
        let (begin, end) = (at, at + length);
        at = end + 1;
        let goes_on = |last: &&mut EncodedRun| {
            let between = &content[last.end..begin];
            line >= LEAST_LINE && matches!(between, b"\n" | b"\r\n")
        };
        if length == 0 {
            continue;
        }
        if let Some(last) = runs.last_mut().filter(goes_on) {
            last.end = end;
            line = if length == line { line } else { 0 };
        } else if length >= LEAST_ENCODED {
            runs.push(EncodedRun { begin, end });
            line = length;
        }
    }
    runs
}

/// The secrets in what a run stands for. Where its coding begins is not known: what is before it can look like a part of it.
fn encoded_secrets(run: &[u8], decoys: &[(Vec<u8>, Vec<u8>)]) -> Vec<String> {
    let run: Vec<u8> = run
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let starts = (0..4).filter_map(|start| run.get(start..)?.into());
    let base64 = starts.filter_map(base64_decoded);
    let decoded = base64.chain(hex_decoded(&run));
    let mut secrets = Vec::new();
    for secret in decoded.flat_map(|decoded| secrets_of(&decoded, decoys)) {
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
    secrets
}

/// Digits as far as there are any: a word can follow on the next line.
fn hex_decoded(run: &[u8]) -> Option<Vec<u8>> {
    let digits = run.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let run = &run[..digits.count()];
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    run.chunks_exact(2).map(pair).collect()
}

fn base64_decoded(run: &[u8]) -> Option<Vec<u8>> {
    // A byte takes more than one character: the last characters can stand for none that is whole.
    let whole = &run[..run.len() / 4 * 4];
    let behind = match run.len() % 4 {
        0 | 1 => &[],
        _ => &run[whole.len()..],
    };
    let decode = |part: &[u8]| {
        let standard = LENIENT.decode(part).ok();
        standard.or_else(|| LENIENT_URL.decode(part).ok())
    };
    let mut decoded = decode(whole)?;
    decoded.extend(decode(behind).unwrap_or_default());
    Some(decoded)
}

/// The bytes behind the coding of forms.
fn percent_decoded(content: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                rest = &behind[2..];
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(*byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

    fn found(content: &str) -> RedactedContent {
        let decoy = b"decoy: this file opens nothing at all\n".to_vec();
        RedactedContent::in_content(content.as_bytes(), &[(b"/x/credentials".to_vec(), decoy)])
    }

    #[test]
    fn a_secret_is_told_and_not_shown_however_it_is_written() {
        use base64::engine::general_purpose::STANDARD;
        let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let encodings = [
            TOKEN.to_owned(),
            STANDARD.encode(TOKEN),
            STANDARD.encode(format!(":{TOKEN}")),
            STANDARD.encode(format!("x={TOKEN}\n")),
            hex,
            percent,
        ];
        for encoded in encodings {
            let found = found(&format!("POST /x\r\n\r\nbefore {encoded}\nbehind"));
            assert_eq!(found.secrets, ["a credential (github-token)"], "{encoded}");
            assert!(!found.redacted.contains(&encoded), "{}", found.redacted);
            assert!(found.redacted.contains("[redacted: "), "{}", found.redacted);
        }
    }

    #[test]
    fn lines_of_one_length_are_one_coding() {
        use base64::engine::general_purpose::STANDARD;
        let whole = STANDARD.encode(format!("{} {TOKEN} and more of it", "x".repeat(40)));
        for end in ["\n", "\r\n"] {
            let (first, second) = whole.split_at(76);
            let found = found(&format!("a word\n{first}{end}{second}{end}end"));
            assert_eq!(found.secrets, ["a credential (github-token)"]);
            assert!(
                found.redacted.starts_with("a word\\n[redacted: "),
                "{}",
                found.redacted
            );
            assert!(!found.redacted.contains(second), "{}", found.redacted);
        }
    }

    #[test]
    fn a_decoy_is_known_by_a_line_of_it() {
        use base64::engine::general_purpose::STANDARD;
        let line = "decoy: this file opens nothing at all";
        for content in [line.to_owned(), STANDARD.encode(format!("{line}\n"))] {
            let found = found(&format!("data={content}"));
            assert_eq!(found.secrets, ["the decoy /x/credentials"], "{content}");
        }
        assert!(found("decoy: this file").secrets.is_empty());
    }

    #[test]
    fn what_is_no_secret_is_shown_as_it_is() {
        let found =
            found("GET /?a=b%20c HTTP/1.1\r\nX: 0123456789012345678901234567890123456789\r\n");
        assert!(found.secrets.is_empty());
        assert!(found.redacted.contains("a=b%20c"), "{}", found.redacted);
    }

    #[test]
    fn what_has_a_secret_at_the_bound_of_what_is_shown_does_not_show_it() {
        let content = format!("{}{TOKEN}", " ".repeat(SHOWN - 20));
        let redacted = shortened(&found(&content).redacted, SHOWN);
        assert!(!redacted.contains("ghp_"));
    }
}
