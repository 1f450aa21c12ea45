//! Programs that decode what goes through them.

use super::command::text_of;
use super::options::Arguments;
use super::walk::Walk;
use crate::codec::{self, Codec, Decoding};
use crate::decode;
use crate::value::{Origins, Value};

/// True when a program that packs is asked for the other way.
pub fn unpacks(words: &[Value]) -> bool {
    Arguments::new(words, &[]).has(&["d", "decompress", "uncompress"])
}

impl Walk<'_> {
    /// Programs that decode what goes through them.
    pub fn decodes(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        let arguments = Arguments::new(words, &[]);
        let all = text_of(words);
        let codec = match name {
            "base64" | "base32" | "basenc" if arguments.has(&["d", "D", "decode"]) => {
                coreutils(name, &arguments)
            }
            "openssl" if all.contains("base64") && all.contains("-d") => &codec::BASE64,
            "xxd" if arguments.has(&["r"]) => &codec::HEX,
            "uudecode" if arguments.has(&["m"]) => &codec::BASE64,
            "uudecode" => &codec::UU,
            "gunzip" | "zcat" | "bunzip2" | "xzcat" | "bzcat" | "unxz" => &codec::COMPRESSION,
            "gzip" | "bzip2" | "xz" | "lzma" if unpacks(words) => &codec::COMPRESSION,
            "openssl" if all.starts_with("enc ") && !all.contains("-d") => {
                self.judge.encrypt();
                return Some(input.derived());
            }
            "gpg" if arguments.has(&["c", "symmetric", "encrypt", "e"]) => {
                self.judge.encrypt();
                return Some(input.derived());
            }
            _ => return None,
        };
        let mut data = input.clone();
        for file in arguments
            .operands()
            .into_iter()
            .filter(|_| name != "openssl")
        {
            if file.origins.any(Origins::PROGRAM) {
                data = data.tainted(file);
                continue;
            }
            self.judge.read(file);
            data = data.tainted(&self.judge.content(file));
        }
        let decoded = match codec.decoding {
            Decoding::Expanding => self.judge.expanded(&data),
            Decoding::Plain(decode) => data
                .exact()
                .filter(|text| !text.is_empty())
                .and_then(decode),
        };
        Some(result(&data, codec, decoded))
    }
}

/// The output of a program that decodes.
pub fn result(data: &Value, codec: &Codec, decoded: Option<Vec<u8>>) -> Value {
    let text = decoded.map(decode::as_text);
    let mut value = text
        .map_or_else(Value::default, |text| Value::text(&text))
        .tainted(data)
        .also(Origins::DECODED);
    value.decoded = Some(codec.words_for(data).into());
    value
}

/// The codec of base64(1), base32(1) and basenc(1).
fn coreutils(name: &str, arguments: &Arguments) -> &'static Codec {
    match name {
        "base64" => &codec::BASE64,
        "base32" => &codec::BASE32,
        _ if arguments.has(&["base32"]) => &codec::BASE32,
        _ if arguments.has(&["base32hex"]) => &codec::BASE32_HEX,
        _ if arguments.has(&["base16"]) => &codec::HEX,
        _ if arguments.has(&["z85"]) => &codec::Z85,
        _ => &codec::BASE64,
    }
}

/// The text that echo(1) or printf(1) makes of `\x41` and `\101`; `None` where it has few letters that are written so.
pub fn written_in_numbers(name: &str, text: &str) -> Option<String> {
    let is_number = |part: &str| part.starts_with(['x', '0', '1', '2', '3']);
    let numbers = text.split('\\').skip(1).filter(|part| is_number(part));
    if numbers.count() < 3 {
        return None;
    }
    // Only echo(1) has three digits behind the zero.
    let text = if name == "echo" {
        text.replace("\\0", "\\")
    } else {
        text.to_owned()
    };
    decode::escapes(&text).map(decode::as_text)
}
