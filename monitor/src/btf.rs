//! Byte offsets of the running kernel's structure members, from its BTF.
//!
//! The format is `Documentation/bpf/btf.rst`: a header, a table of types, a table of strings. The
//! walk is total: bytes that are no BTF give an error, never a panic.

use std::collections::{HashMap, HashSet};

use turnkey_abi::{ABSENT, OFFSETS, OPTIONAL, Offsets};

/// Errors of looking an offset up in BTF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The bytes are no BTF.
    #[error("the kernel's BTF is malformed at byte {at}")]
    Malformed {
        /// Byte at which reading failed.
        at: usize,
    },
    /// The structure or member is not in this kernel.
    #[error("this kernel has no `{structure}.{member}`")]
    Missing {
        /// The structure's name.
        structure: &'static str,
        /// The member's name.
        member: &'static str,
    },
}

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;
const KIND_LAST: u32 = 19;

const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

/// The offsets of every field that the programs read.
///
/// # Errors
/// When the bytes are no BTF, or the kernel lacks a field.
pub fn offsets(btf: &[u8]) -> Result<Offsets, BtfError> {
    let btf = Btf::parse(btf)?;
    let structures = btf.structures()?;
    let mut words = [0_u32; OFFSETS.len()];
    for (word, (structure, member)) in words.iter_mut().zip(OFFSETS) {
        let named = structures.get(structure).into_iter().flatten();
        let mut found = named.filter_map(|of| btf.locate(*of, member).transpose());
        let optional = OPTIONAL.contains(&(structure, member)).then_some(ABSENT);
        *word = found
            .next()
            .transpose()?
            .or(optional)
            .ok_or(BtfError::Missing { structure, member })?;
    }
    Ok(Offsets::from_words(words))
}

/// Looks each of these functions up in the kernel's BTF: true when it is there.
///
/// # Errors
/// When the bytes are no BTF.
pub fn has_functions(btf: &[u8], names: &[String]) -> Result<Vec<bool>, BtfError> {
    let btf = Btf::parse(btf)?;
    let mut there = HashSet::new();
    for at in &btf.starts {
        let of = btf.type_at(*at)?;
        if of.kind == KIND_FUNC
            && let Some(name) = btf.text(of.name)
        {
            there.insert(name);
        }
    }
    let has = |name: &String| there.contains(name.as_bytes());
    Ok(names.iter().map(has).collect())
}

/// A parsed BTF: where each type lies.
struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Byte offset in `types` of type 1, 2, …
    starts: Vec<usize>,
}

/// One type's header.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    members: usize,
    /// Member offsets carry the size of a bit field in their upper byte.
    has_bit_fields: bool,
    /// The type's size, or the type it refers to.
    size_or_type: u32,
    /// Byte offset at which the type's members begin.
    body: usize,
}

fn word(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let end = at.checked_add(4).ok_or(BtfError::Malformed { at })?;
    let slice = bytes.get(at..end).ok_or(BtfError::Malformed { at })?;
    slice
        .try_into()
        .map(u32::from_ne_bytes)
        .map_err(|_| BtfError::Malformed { at })
}

fn index(bytes: &[u8], at: usize) -> Result<usize, BtfError> {
    usize::try_from(word(bytes, at)?).map_err(|_| BtfError::Malformed { at })
}

impl<'a> Btf<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        const MAGIC: [u8; 2] = 0xeb9f_u16.to_ne_bytes();
        if !bytes.starts_with(&MAGIC) {
            return Err(BtfError::Malformed { at: 0 });
        }
        let header = index(bytes, 4)?;
        let section = |at: usize| -> Result<&'a [u8], BtfError> {
            let start = header.checked_add(index(bytes, at)?);
            let end = start.and_then(|start| start.checked_add(index(bytes, at + 4).ok()?));
            let range = start
                .zip(end)
                .and_then(|(start, end)| bytes.get(start..end));
            range.ok_or(BtfError::Malformed { at })
        };
        let mut btf = Self {
            types: section(8)?,
            strings: section(16)?,
            starts: Vec::new(),
        };
        btf.find_starts()?;
        Ok(btf)
    }

    fn find_starts(&mut self) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.types.len() {
            self.starts.push(at);
            let of = self.type_at(at)?;
            at = of.body + body_bytes(&of, at)?;
        }
        Ok(())
    }

    fn type_at(&self, at: usize) -> Result<Type, BtfError> {
        let info = word(self.types, at + 4)?;
        Ok(Type {
            name: word(self.types, at)?,
            kind: info >> 24 & 0x1f,
            members: usize::try_from(info & 0xffff).unwrap_or(0),
            has_bit_fields: info >> 31 != 0,
            size_or_type: word(self.types, at + 8)?,
            body: at + TYPE_BYTES,
        })
    }

    fn by_id(&self, id: u32) -> Result<Type, BtfError> {
        let at = usize::try_from(id)
            .ok()
            .and_then(|id| self.starts.get(id.checked_sub(1)?));
        self.type_at(*at.ok_or(BtfError::Malformed {
            at: self.types.len(),
        })?)
    }

    fn has_name(&self, at: u32, name: &str) -> bool {
        self.text(at) == Some(name.as_bytes())
    }

    fn text(&self, at: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(usize::try_from(at).ok()?..)?;
        rest.split(|byte| *byte == 0).next()
    }

    /// The structures that are asked for, by name. A kernel may hold two of a name that differ.
    fn structures(&self) -> Result<HashMap<&'static str, Vec<Type>>, BtfError> {
        let wanted: HashMap<&[u8], &'static str> = OFFSETS
            .iter()
            .map(|(structure, _)| (structure.as_bytes(), *structure))
            .collect();
        let mut found: HashMap<&'static str, Vec<Type>> = HashMap::new();
        for at in &self.starts {
            let of = self.type_at(*at)?;
            if of.kind == KIND_STRUCT
                && let Some(name) = self.text(of.name).and_then(|name| wanted.get(name))
            {
                found.entry(name).or_default().push(of);
            }
        }
        Ok(found)
    }

    /// The byte offset of a member, or the size of the structure for an empty name.
    fn locate(&self, of: Type, member: &str) -> Result<Option<u32>, BtfError> {
        if member.is_empty() {
            return Ok(Some(of.size_or_type));
        }
        Ok(self.bit_offset(of, member, 0)?.map(|bits| bits / 8))
    }

    /// Looks through unnamed structures and unions as the C language does.
    fn bit_offset(&self, of: Type, member: &str, depth: u32) -> Result<Option<u32>, BtfError> {
        const DEEPEST: u32 = 16;
        if !matches!(of.kind, KIND_STRUCT | KIND_UNION) || depth > DEEPEST {
            return Ok(None);
        }
        for index in 0..of.members {
            let at = of.body + index * MEMBER_BYTES;
            let (name, id, offset) = (
                word(self.types, at)?,
                word(self.types, at + 4)?,
                word(self.types, at + 8)?,
            );
            let offset = if of.has_bit_fields {
                offset & 0x00ff_ffff
            } else {
                offset
            };
            if self.has_name(name, member) {
                return Ok(Some(offset));
            }
            if self.has_name(name, "")
                && let Some(inner) = self.bit_offset(self.by_id(id)?, member, depth + 1)?
            {
                return Ok(Some(offset.saturating_add(inner)));
            }
        }
        Ok(None)
    }
}

/// Bytes that follow a type's header.
fn body_bytes(of: &Type, at: usize) -> Result<usize, BtfError> {
    match of.kind {
        KIND_INT | KIND_VAR | KIND_DECL_TAG => Ok(4),
        KIND_ARRAY => Ok(12),
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => Ok(of.members * MEMBER_BYTES),
        KIND_ENUM | KIND_FUNC_PROTO => Ok(of.members * 8),
        0 => Err(BtfError::Malformed { at }),
        kind if kind > KIND_LAST => Err(BtfError::Malformed { at }),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A BTF file with these types and strings.
    fn file(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let words = |words: &[u32]| {
            words
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect::<Vec<_>>()
        };
        let type_bytes = words(types);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short");
        let mut file = 0xeb9f_u16.to_ne_bytes().to_vec();
        file.extend([1, 0]);
        file.extend(words(&[
            24,
            0,
            length(&type_bytes),
            length(&type_bytes),
            length(strings),
        ]));
        [file, type_bytes, strings.to_vec()].concat()
    }

    const STRINGS: &[u8] = b"\0qstr\0name\0len\0bits\0";

    /// `struct qstr { union { struct { u32 _; u32 len; }; }; void *name; u64 bits : 3 at bit 131; }`
    fn nested() -> Vec<u8> {
        let (structure, union) = (KIND_STRUCT << 24, KIND_UNION << 24);
        let bit_fields = 1 << 31;
        let types = [
            // 1: an integer
            0,
            KIND_INT << 24,
            4,
            0,
            // 2: struct { u32 _; u32 len; }
            0,
            structure | 2,
            8,
            0,
            1,
            0,
            11,
            1,
            32,
            // 3: union { 2 }
            0,
            union | 1,
            8,
            0,
            2,
            0,
            // 4: struct qstr
            1,
            structure | bit_fields | 3,
            24,
            0,
            3,
            0,
            6,
            1,
            64,
            15,
            1,
            3 << 24 | 131,
        ];
        file(&types, STRINGS)
    }

    fn locate(member: &str) -> Option<u32> {
        let bytes = nested();
        let btf = Btf::parse(&bytes).expect("it is BTF");
        let structures = btf.structures().expect("its types can be read");
        btf.locate(structures["qstr"][0], member)
            .expect("its members can be read")
    }

    #[test]
    fn members_are_found_through_unnamed_ones() {
        assert_eq!(locate("len"), Some(4));
        assert_eq!(locate("name"), Some(8));
        assert_eq!(
            locate("bits"),
            Some(16),
            "without the size of the bit field"
        );
        assert_eq!(locate(""), Some(24), "the size");
        assert_eq!(locate("nam"), None, "a prefix is another name");
    }

    #[test]
    fn a_missing_structure_is_named() {
        let error = offsets(&nested()).expect_err("there is only one structure");
        assert_eq!(
            error,
            BtfError::Missing {
                structure: "task_struct",
                member: "tgid"
            }
        );
        assert_eq!(error.to_string(), "this kernel has no `task_struct.tgid`");
    }

    #[test]
    fn other_bytes_are_no_btf() {
        assert_eq!(offsets(b""), Err(BtfError::Malformed { at: 0 }));
        assert_eq!(offsets(b"\x7fELF"), Err(BtfError::Malformed { at: 0 }));
        let mut cut = nested();
        cut.truncate(60);
        assert!(matches!(offsets(&cut), Err(BtfError::Malformed { .. })));
    }

    #[test]
    fn a_structure_that_holds_itself_ends() {
        // struct qstr { struct qstr; } with an unnamed member of its own type.
        let types = [1, KIND_STRUCT << 24 | 1, 8, 0, 1, 0];
        let bytes = file(&types, STRINGS);
        let btf = Btf::parse(&bytes).expect("it is BTF");
        let structures = btf.structures().expect("its types can be read");
        assert_eq!(btf.locate(structures["qstr"][0], "len"), Ok(None));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in 0_usize..200, byte in any::<u8>(), cut in 0_usize..220) {
            let mut bytes = nested();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut.min(length));
            let _ = offsets(&bytes);
        }
    }
}
