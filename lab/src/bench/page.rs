//! docs/benchmarks.md and its pictures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::findings::{Findings, FindingsBlock};
use super::goals;
use super::machine::BenchMachine;

const HEAD: &str = "# Benchmarks

Written by `cargo lab bench`, which measures everybody side by side: in every round each has its turns, so that what
disturbs the machine disturbs all. Shown are medians with the middle half of the measurements; ratios are medians
of the rounds' ratios, and behind ± stands how far the rounds lie apart, as a standard deviation.

";

/// The things that could not be measured here, whatever the machine.
const LIMITS: &str = "On the tier `tracepoint`. Figures for the tier `lsm` are missing wherever the kernel that was \
measured on has no BPF LSM; those of an emulated CPU would say nothing about time.";

/// The page.
pub fn text(findings: &Findings, machine: &BenchMachine, absent: &[String]) -> String {
    let mut page = format!("{HEAD}On {}.\n\n{LIMITS}\n", machine.shown());
    if !absent.is_empty() {
        page += "\nNot measured beside it:\n\n";
        page.extend(absent.iter().map(|line| format!("- {line}\n")));
    }
    page += "\n## Goals\n\n";
    page += &goals::table(&findings.ratios).markdown();
    page += &format!("\n{}\n", goals::FLOORS);
    for section in &findings.sections {
        page += &format!("\n## {}\n", section.title);
        for block in &section.blocks {
            page += &format!("\n{}", block.markdown());
        }
    }
    page
}

/// Writes the page, and the pictures into a folder beside it.
pub fn write(folder: &Path, page: &str, findings: &Findings) -> Result<()> {
    let pictures = folder.join("benchmarks");
    fs::create_dir_all(&pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
    fs::write(folder.join("benchmarks.md"), page).context("cannot write the page")?;
    let blocks = findings.sections.iter().flat_map(|section| &section.blocks);
    for block in blocks {
        if let FindingsBlock::Plot(plot) = block {
            let path = pictures.join(plot.name).with_extension("svg");
            fs::write(&path, &plot.svg)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Plot, Section};
    use super::*;

    #[test]
    fn the_page_says_who_was_not_there_and_shows_its_pictures() {
        let plot = Plot {
            name: "some",
            shows: "Something".into(),
            svg: "<svg/>\n".into(),
        };
        let section = Section {
            title: "Start",
            blocks: vec![FindingsBlock::Plot(plot)],
        };
        let findings = Findings {
            sections: vec![section],
            ..Findings::default()
        };
        let machine = super::super::machine::here().expect("a machine");
        let page = text(&findings, &machine, &["nsjail: not installed".into()]);
        assert!(page.contains("- nsjail: not installed\n"), "{page}");
        assert!(
            page.contains("\n## Start\n\n![Something](benchmarks/some.svg)\n"),
            "{page}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &page, &findings).expect("written");
        let svg = fs::read_to_string(folder.path().join("benchmarks/some.svg"));
        assert_eq!(svg.expect("a picture"), "<svg/>\n");
        assert_eq!(
            fs::read_to_string(folder.path().join("benchmarks.md")).expect("a page"),
            page
        );
    }
}
