//! Takes the debugging information out of an object.
//!
//! The compiler has to emit it, because the linker makes the types of the kernel, the BTF, out of
//! it. After that nobody reads it: neither the kernel nor the loader, which would still have to
//! walk four fifths of the file, at each start of a run.

use anyhow::{Context, Result};
use object::build::elf::{Builder, Section, SectionData};
use object::elf;

/// The object without its DWARF sections.
pub fn without_sections(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("the object is no ELF file")?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    // The symbols that stood for those sections.
    builder.delete_orphans();
    name_sections_apart(&mut builder);
    let mut stripped = Vec::new();
    builder
        .write(&mut stripped)
        .context("cannot write the object again")?;
    Ok(stripped)
}

/// LLVM keeps the names of sections and of symbols in one table, the writer in two.
fn name_sections_apart(builder: &mut Builder<'_>) {
    let is_table = |section: &Section<'_>| matches!(section.data, SectionData::SectionString);
    if builder.sections.iter().any(is_table) {
        return;
    }
    let table = builder.sections.add();
    table.name = b".shstrtab".as_slice().into();
    table.sh_type = elf::SHT_STRTAB;
    table.data = SectionData::SectionString;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(names: &[&'static str]) -> Vec<u8> {
        let mut builder = Builder::new(object::Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_BPF;
        for name in names {
            let section = builder.sections.add();
            section.name = (*name).into();
            section.sh_type = elf::SHT_PROGBITS;
            section.data = SectionData::Data(name.as_bytes().into());
        }
        name_sections_apart(&mut builder);
        let mut bytes = Vec::new();
        builder.write(&mut bytes).expect("an object");
        bytes
    }

    fn names(object: &[u8]) -> Vec<String> {
        let builder = Builder::read(object).expect("an object");
        let names = builder
            .sections
            .iter()
            .map(|section| section.name.to_string());
        names.filter(|name| name != ".shstrtab").collect()
    }

    #[test]
    fn debugging_goes_and_code_and_types_stay() {
        let before = object(&["tp_btf/sys_enter", ".debug_info", ".BTF", ".rel.debug_info"]);
        let after = without_sections(&before).expect("stripped");
        assert_eq!(names(&after), ["tp_btf/sys_enter", ".BTF"]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(without_sections(b"\x7fELF and then nothing").is_err());
    }
}
