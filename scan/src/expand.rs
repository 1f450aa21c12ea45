//! Compressed data, expanded as far as a look needs: what is larger is not kept, and what grows without measure is told.

use std::io::Read;

use bzip2_rs::DecoderReader;
use lzma_rust2::{LzmaReader, XzReader};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::bounded::LARGEST;

/// The words for what is compressed, in whichever format.
pub const COMPRESSED: &str = "compressed data";

/// Data that grows more often than this, and to more than is looked at, is made to fill memory: texts grow less than twentyfold.
const BOMB: usize = 100;
/// The memory that a dictionary may take, in KiB: that of everything but the two highest levels of xz.
const DICTIONARY: u32 = 40 << 10;

/// The outcome of expanding.
#[derive(Debug, PartialEq, Eq)]
pub enum Expanded {
    /// All of it.
    Whole(Vec<u8>),
    /// Data that grow without measure.
    Bomb,
    /// Data larger than what is looked at, or in none of the formats.
    Unknown,
}

/// Expands what zlib, gzip, bzip2, xz or lzma has compressed: each is known by its first bytes, whichever function is called.
pub fn expand(data: &[u8]) -> Expanded {
    let mut rest = data;
    let expanded = match data {
        [0x1f, 0x8b, 8, flags, ..] => gzip(&mut rest, *flags),
        [b'B', b'Z', b'h', ..] => read(DecoderReader::new(&mut rest)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            read(XzReader::new_mem_limit(&mut rest, true, DICTIONARY))
        }
        [0x5d, 0, 0, ..] => {
            let reader = LzmaReader::new_mem_limit(&mut rest, DICTIONARY, None);
            reader.ok().and_then(read)
        }
        _ => inflated(&mut rest, TINFL_FLAG_PARSE_ZLIB_HEADER).or_else(|| {
            rest = data;
            inflated(&mut rest, 0)
        }),
    };
    let taken = data.len() - rest.len();
    match expanded {
        None => Expanded::Unknown,
        Some(whole) if whole.len() <= LARGEST => Expanded::Whole(whole),
        Some(_) if taken < LARGEST / BOMB => Expanded::Bomb,
        Some(_) => Expanded::Unknown,
    }
}

/// At most one byte more than is looked at.
fn read(reader: impl Read) -> Option<Vec<u8>> {
    let most = u64::try_from(LARGEST + 1).unwrap_or(u64::MAX);
    let mut expanded = Vec::new();
    reader.take(most).read_to_end(&mut expanded).ok()?;
    Some(expanded)
}

fn gzip(data: &mut &[u8], flags: u8) -> Option<Vec<u8>> {
    *data = behind_gzip_head(data, flags)?;
    inflated(data, 0)
}

fn inflated(data: &mut &[u8], flags: u32) -> Option<Vec<u8>> {
    let mut state = DecompressorOxide::new();
    let mut expanded = Vec::new();
    let mut at = 0;
    let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    loop {
        let room = (expanded.len() * 2).clamp(4096, LARGEST + 1);
        expanded.resize(room, 0);
        let (status, read, written) = decompress(&mut state, data, &mut expanded, at, flags);
        *data = &data[read..];
        at += written;
        match status {
            TINFLStatus::HasMoreOutput if at <= LARGEST => {}
            TINFLStatus::HasMoreOutput | TINFLStatus::Done => break,
            _ => return None,
        }
    }
    expanded.truncate(at);
    Some(expanded)
}

/// The data behind the head of a gzip member, RFC 1952, section 2.3.
fn behind_gzip_head(data: &[u8], flags: u8) -> Option<&[u8]> {
    const FIXED: usize = 10;
    let has = |bit: u8| flags & 1 << bit != 0;
    let mut rest = data.get(FIXED..)?;
    if has(2) {
        let (length, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    // The name of the file, and a comment.
    for _ in [3, 4].into_iter().filter(|bit| has(*bit)) {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = &rest[end + 1..];
    }
    rest.get(if has(1) { 2 } else { 0 }..)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn expand_base64(base64: &str) -> Expanded {
        expand(&STANDARD.decode(base64).unwrap())
    }

    const SAMPLES: &[(&str, &str)] = &[
        ("zlib", "eJzLzC3ILypRyC/myi/WK64sLknN1VDPTFHX5AIAg0EI0w=="),
        ("deflate", "y8wtyC8qUcgv5sov1iuuLC5JzdVQz0xR1+QCAA=="),
        (
            "gzip",
            "H4sIAAAAAAACA8vMLcgvKlHIL+bKL9YrriwuSc3VUM9MUdfkAgAM4BSnGgAAAA==",
        ),
        (
            "gzip with a name",
            "H4sICAAAAAAC/3gucHkAy8wtyC8qUcgv5sov1iuuLC5JzdVQz0xR1+QCAAzgFKcaAAAA",
        ),
        (
            "bzip2",
            "QlpoOTFBWSZTWblUJPcAAAXRgAAQQOEGItwgIAAig9Q9R6nohTAATQODtHK1goNAusxPqfF3JFOFCQuVQk9w",
        ),
        (
            "xz",
            "/Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQAZaW1wb3J0IG9zCm9zLnN5c3RlbSgnaWQnKQoAAAC/uB2kxOvxbgABMhogGJQwH7bzfQEAAAAABFla",
        ),
        (
            "lzma",
            "XQAAgAD//////////wA0m0pnuFI8c+00V7hdggUY1ZAaipJaNYkaP00HHkyf/yHAAAA=",
        ),
    ];

    /// Four mebibytes of zeros.
    const BOMBS: &[(&str, &str)] = &[
        (
            "bzip2",
            "QlpoOTFBWSZTWVYC4ogAICBIAMAAAAQACCAAMMwFKaYCAbECAeLuSKcKEgrAXFEA",
        ),
        (
            "xz",
            "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj//8RAWxdAABv/f//o7f/Rz5IFXI5YVG4kijmo4YH+e7kHoLTL8U6PAFLsX7JiopNL6MN2X+m44wjEVPgWRjFdYrid/i2lH8MasDedElk4ulcU7IE2PdEDKtfDW1G6eXDdoi3llestk3haR1v+0uIEGxCy4g/XACP0E6vJiiUcR89jyThcJ6nI1/sKMuF0ZWYin4qkfIndfcZwAaYTZj92K/VkA/EJVP49ZE2MQWlsO5vwXBNRwzRkRGqrWAdus6xJxhcWYbpZlJYvul2rFnk5VsFCPnH2q38+1IrdM0eWyBC+d1TPfgpZAk7gMsqbN+1O/DEvS5fqg8+S2ZCkBMO/xCT+HF4WfgLzf+VKEYPqfx83vuaMC5WwI+F84OBwGXEJVP49ZE2MQWlsO5vwXBNRwzRkRGqrWAdus6xJxhcWYbpZlJYvul2rFnk5VsFCPnH2q38+1IrdM0eWyBC+d1TPfgpZAk7gMsqbN+1O/DEvEgn5lif/xABKwDsc1On/b6ufDEan7eNMW5wnqcjX+woy4XRlZiKfiqR8id19xnABphNmP3Yr9WQD8QlU/j1kTYxBaWw7m/BcE1HDNGREaqtYB26zrEnGFxZhulmUli+6XasWeTlWwUI+cfarfz7Uit0zR5bIEL53VM9+ClkCTuAyyps37U78MS9Ll+qDz5LZkKQEw7/EJP4cXhZ+AvN/5UoRg+p/Hze+5owLlbAj4Xzg4HAZcQlU/j1kTYxBaWw7m/BcE1HDNGREaqtYB26zrEnGFxZhulmUli+6XasWeTlWwUI+cfarfz7Uit0zR5bIEL53VM9+ClkCTuAyyps37U78MS9Ll+qDz5LZkKQEw7/EJP4cXhZ+AvN/5UoRg+p/Hze+5owLlbAj4Xzg4HAZcQlUQ8/soAB3AAFAEHqpi0AAGtsRXzSCWHbAAHEBYCAgALTUy1YscRn+wIAAAAABFla",
        ),
        (
            "lzma",
            "XQAAgAD//////////wAAb/3//6O3/0c+SBVyOWFRuJIo5qOGB/nu5B6C0y/FOjwBS7F+yYqKTS+jDdl/puOMIxFT4FkYxXWK4nf4tpR/DGrA3nRJZOLpXFOyBNj3RAyrXw1tRunlw3aIt5ZXrLZN4Wkdb/tLiBBsQsuIP1wAj9BOryYolHEfPY8k4XCepyNf7CjLhdGVmIp+KpHyJ3X3GcAGmE2Y/div1ZAPxCVT+PWRNjEFpbDub8FwTUcM0ZERqq1gHbrOsScYXFmG6WZSWL7pdqxZ5OVbBQj5x9qt/PtSK3TNHlsgQvndUz34KWQJO4DLKmzftTvwxL0uX6oPPktmQpATDv8Qk/hxeFn4C83/lShGD6n8fN77mjAuVsCPhfODgcBlxCVT+PWRNjEFpbDub8FwTUcM0ZERqq1gHbrOsScYXFmG6WZSWL7pdqxZ5OVbBQj5x9qt/PtSK3TNHlsgQvndUz34KWQJO4DLKmzftTvwxL0uX6oPPktmQpATDv8Qk/hxeFn4C83/lShGD6n8fN77mjAuVsCPhfODgcBlxCVT+PWRNjEFpbDub8FwTUcM0ZERqq1gHbrOsScYXFmG6WZSWL7pdqxZ5OVbBQj5x9qt/PtSK3TNHlsgQvndUz34KWQJO4DLKmzftTvwxL0uX6oPPktmQpATDv8Qk/hxeFn4C83/lShGD6n8fN77mjAuVsCPhfODgcBlxCVT+PWRNjEFpbDub8FwTUcM0ZERqq1gHbrOsScYXFmG6WZSWL7pdqxZ5OVbBQj5x9qt/PtSK3TNHlsgQvndUz34KWQJO4DLKmzftTvwxL0uX6oPPktmQpATDv8Qk/hxeFn4C83/lShGD6n8fN77mjAuVsCPhfODgcBlxCVT+PWRNCYMw/bz//98SAAA",
        ),
    ];

    #[test]
    fn each_format_is_known_by_its_first_bytes() {
        for (format, sample) in SAMPLES {
            let whole = Expanded::Whole(b"import os\nos.system('id')\n".to_vec());
            assert_eq!(expand_base64(sample), whole, "{format}");
        }
    }

    #[test]
    fn a_bomb_is_known_and_takes_no_memory() {
        for (format, bomb) in BOMBS {
            assert_eq!(expand_base64(bomb), Expanded::Bomb, "{format}");
        }
        let zeros = vec![0; 64 << 20];
        let bomb = miniz_oxide::deflate::compress_to_vec_zlib(&zeros, 9);
        assert!(bomb.len() > LARGEST / BOMB, "a large one is one, too");
        assert_eq!(expand(&bomb), Expanded::Bomb);
        // What nothing can be saved on is none, however large it is.
        let noise = (0..=1_u32 << 20).flat_map(|at| {
            at.wrapping_mul(2_654_435_761)
                .to_be_bytes()
                .into_iter()
                .take(1)
        });
        let noise: Vec<u8> = noise.collect();
        assert!(noise.len() > LARGEST);
        let large = miniz_oxide::deflate::compress_to_vec_zlib(&noise, 1);
        assert_eq!(expand(&large), Expanded::Unknown);
    }

    #[test]
    fn what_is_broken_anywhere_is_unknown_or_something_and_no_panic() {
        for (_, sample) in SAMPLES {
            let whole = STANDARD.decode(sample).unwrap();
            for end in 0..whole.len() {
                expand(&whole[..end]);
                let mut changed = whole.clone();
                changed[end] ^= 0x55;
                expand(&changed);
            }
        }
        assert_eq!(expand(b""), Expanded::Unknown);
    }
}
