//! Programs that decode what goes through them.

use super::command::text_of;
use super::options::Arguments;
use super::walk::Walk;
use crate::decode;
use crate::expand::COMPRESSED;
use crate::value::{Origins, Value};

/// Bytes out of their encoding.
type Decode = fn(&str) -> Option<Vec<u8>>;

/// True when a program that packs is asked for the other way.
pub fn unpacks(words: &[Value]) -> bool {
    Arguments::new(words, &[]).has(&["d", "decompress", "uncompress"])
}

impl Walk<'_> {
    /// Programs that decode what goes through them.
    pub fn decodes(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        let arguments = Arguments::new(words, &[]);
        let all = text_of(words);
        let (how, decode): (&str, Decode) = match name {
            "base64" | "base32" if arguments.has(&["d", "D", "decode"]) => {
                ("base64", decode::base64)
            }
            "openssl" if all.contains("base64") && all.contains("-d") => ("base64", decode::base64),
            "xxd" if arguments.has(&["r"]) => ("hexadecimal digits", decode::hex),
            "gunzip" | "zcat" | "bunzip2" | "xzcat" | "bzcat" | "unxz" | "uudecode" => {
                (COMPRESSED, |_| None)
            }
            "gzip" | "bzip2" | "xz" | "lzma" if unpacks(words) => (COMPRESSED, |_| None),
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
        let bytes = data.exact().map_or(0, str::len);
        let decoded = match how {
            COMPRESSED => self.judge.expanded(&data),
            _ => data.exact().filter(|_| bytes > 0).and_then(decode),
        };
        let text = decoded.map(decode::as_text);
        let mut value = text
            .map_or_else(Value::default, |text| Value::text(&text))
            .tainted(&data)
            .also(Origins::DECODED);
        let words = if bytes == 0 {
            format!("data as {how}")
        } else {
            format!("{bytes} bytes of {how}")
        };
        value.decoded = Some(words.into());
        Some(value)
    }
}
