//! The ways in which data is encoded: one table for every language.

use crate::decode;
use crate::expand::COMPRESSED;
use crate::value::Value;

/// A way of encoding.
#[derive(Debug)]
pub struct Codec {
    /// The words of a finding.
    pub words: &'static str,
    /// The way back.
    pub decoding: Decoding,
    /// True when honest scripts decode so what they are given: a literal counts, and nothing else.
    pub is_common: bool,
    /// The functions of Python that decode it.
    functions: &'static [&'static str],
    /// The names that codecs.decode() has for it.
    names: &'static [&'static str],
}

/// The way back from an encoding.
#[derive(Clone, Copy, Debug)]
pub enum Decoding {
    /// A function that needs no bound: what comes out is at most as long as a literal of so many bytes can make it.
    Plain(fn(&str) -> Option<Vec<u8>>),
    /// Expanding, which is bounded.
    Expanding,
}

const fn codec(
    words: &'static str,
    decode: fn(&str) -> Option<Vec<u8>>,
    functions: &'static [&'static str],
    names: &'static [&'static str],
) -> Codec {
    Codec {
        words,
        decoding: Decoding::Plain(decode),
        is_common: false,
        functions,
        names,
    }
}

const fn common(codec: Codec) -> Codec {
    Codec {
        is_common: true,
        ..codec
    }
}

pub static BASE64: Codec = codec(
    "base64",
    decode::base64,
    &[
        "base64.b64decode",
        "base64.urlsafe_b64decode",
        "base64.standard_b64decode",
        "base64.decodebytes",
        "base64.decodestring",
        "binascii.a2b_base64",
        "pybase64.b64decode",
        "pybase64.standard_b64decode",
        "pybase64.urlsafe_b64decode",
        "email.base64mime.body_decode",
        "email.base64mime.decode",
    ],
    &["base64", "base_64"],
);
pub static BASE32: Codec = codec("base32", decode::base32, &["base64.b32decode"], &[]);
pub static BASE32_HEX: Codec = codec("base32", decode::base32_hex, &["base64.b32hexdecode"], &[]);
pub static BASE85: Codec = codec("base85", decode::base85, &["base64.b85decode"], &[]);
pub static ASCII85: Codec = codec("ascii85", decode::ascii85, &["base64.a85decode"], &[]);
pub static Z85: Codec = codec("base85", decode::z85, &["base64.z85decode"], &[]);
pub static HEX: Codec = codec(
    "hexadecimal digits",
    decode::hex,
    &[
        "bytes.fromhex",
        "bytearray.fromhex",
        "binascii.unhexlify",
        "binascii.a2b_hex",
        "base64.b16decode",
    ],
    &["hex"],
);
pub static ROT13: Codec = codec("rot13", decode::rot13, &[], &["rot13", "rot_13"]);
pub static UU: Codec = codec("uuencoded data", decode::uu, &["binascii.a2b_uu"], &["uu"]);
static QUOTED_PRINTABLE: Codec = common(codec(
    "quoted-printable",
    decode::quoted_printable,
    &[
        "quopri.decodestring",
        "binascii.a2b_qp",
        "email.quoprimime.body_decode",
    ],
    &["quopri", "quoted_printable", "quotedprintable"],
));
static ESCAPES: Codec = common(codec(
    "escapes",
    decode::escapes,
    &[],
    &["unicode_escape", "raw_unicode_escape", "string_escape"],
));
static UTF_7: Codec = codec("UTF-7", decode::utf_7, &[], &["utf_7", "utf7", "u7"]);
static PERCENT: Codec = common(codec(
    "percent encoding",
    decode::percent,
    &[
        "urllib.parse.unquote",
        "urllib.parse.unquote_plus",
        "urllib.parse.unquote_to_bytes",
        "urllib.unquote",
    ],
    &[],
));
static REFERENCES: Codec = common(codec(
    "character references",
    decode::references,
    &["html.unescape"],
    &[],
));
/// Whatever [`expand`](crate::expand::expand) knows.
pub static COMPRESSION: Codec = Codec {
    words: COMPRESSED,
    decoding: Decoding::Expanding,
    is_common: false,
    functions: &[
        "zlib.decompress",
        "zlib.decompressobj().decompress",
        "gzip.decompress",
        "bz2.decompress",
        "bz2.BZ2Decompressor().decompress",
        "lzma.decompress",
        "lzma.LZMADecompressor().decompress",
    ],
    names: &["zlib", "zip", "bz2"],
};

static CODECS: [&Codec; 15] = [
    &BASE64,
    &BASE32,
    &BASE32_HEX,
    &BASE85,
    &ASCII85,
    &Z85,
    &HEX,
    &ROT13,
    &UU,
    &QUOTED_PRINTABLE,
    &ESCAPES,
    &UTF_7,
    &PERCENT,
    &REFERENCES,
    &COMPRESSION,
];

impl Codec {
    /// The words for data that it decodes.
    pub fn words_for(&self, data: &Value) -> String {
        match data.exact().map_or(0, str::len) {
            0 => format!("data as {}", self.words),
            bytes => format!("{bytes} bytes of {}", self.words),
        }
    }

    /// The codec that a function of Python decodes, by its dotted name.
    pub fn of_function(name: &str) -> Option<&'static Codec> {
        let mut codecs = CODECS.into_iter();
        codecs.find(|codec| codec.functions.contains(&name))
    }

    /// The codec of a name in codecs.decode(); `None` of those that only say which bytes a character has.
    pub fn named(name: &str) -> Option<&'static Codec> {
        let plain = name.to_ascii_lowercase().replace(['-', ' '], "_");
        let plain = plain.strip_suffix("_codec").unwrap_or(&plain);
        let mut codecs = CODECS.into_iter();
        codecs.find(|codec| codec.names.contains(&plain))
    }
}
