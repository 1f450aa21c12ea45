//! Each BPF program names the kernel prototype it relies on, so that a reader can compare its
//! arguments with the kernel's source.

use anyhow::Result;
use regex_lite::Regex;

use super::TidyProblem;
use super::tree::TextFile;

/// Comments and attributes that stand together.
const BLOCK: &str = r"(?m)(?:^[ \t]*(?://|#\[).*\n)+";

/// The attributes of aya-ebpf that make a function a program.
const PROGRAM: &str = r"(?mx) ^[\x20\t]* \#\[ (?: btf_tracepoint | cgroup_(?:device|skb|sock|sock_addr|sockopt|sysctl)
    | f(?:entry|exit) | iter | k(?:ret)?probe | lsm(?:_cgroup)? | perf_event | raw_tracepoint | sock_ops | tracepoint
    | u(?:ret)?probe ) \b";

/// A plain comment that holds `name(arguments)`.
const PROTOTYPE: &str = r"(?m)^[ \t]*// [^(\n]*\w\([^\n]*\)";

/// Finds programs without a prototype.
pub fn check(files: &[TextFile]) -> Result<Vec<TidyProblem>> {
    let (block, program) = (Regex::new(BLOCK)?, Regex::new(PROGRAM)?);
    let prototype = Regex::new(PROTOTYPE)?;
    let mut problems = Vec::new();
    for file in files {
        if !file.path.starts_with("monitor-ebpf") || !file.has_extension(&["rs"]) {
            continue;
        }
        for around in block.find_iter(&file.text) {
            let found = program.find(around.as_str());
            if let Some(found) = found.filter(|_| !prototype.is_match(around.as_str())) {
                let before = &file.text[..around.start() + found.end()];
                let line = before.matches('\n').count() + 1;
                problems.push(TidyProblem::new(&file.path, line, MISSING));
            }
        }
    }
    Ok(problems)
}

const MISSING: &str =
    "beside this attribute stands the kernel prototype it relies on: `// name(type argument, …)`";

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<TidyProblem> {
        check(&[TextFile::new(path, text)]).expect("patterns")
    }

    const PATH: &str = "monitor-ebpf/src/main.rs";

    #[test]
    fn program_without_prototype_is_found() {
        let other = "// sys_exit(struct pt_regs *regs, long ret)\nfn other() {}\n";
        let program = "/// Sees all().\n// Sees (nearly) all.\n#[lsm]\nfn a() {}";
        let problems = problems(PATH, &format!("{other}\n{program}"));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 6);
    }

    #[test]
    fn prototype_above_or_below_the_attribute_counts() {
        let line = "// sys_enter(struct pt_regs *regs, long id)";
        for text in [
            format!("{line}\n#[btf_tracepoint(function = \"sys_enter\")]\nfn a() {{}}"),
            format!("#[cgroup_sock_addr(connect4)]\n{line}: said by the kernel\nfn a() {{}}"),
        ] {
            assert_eq!(problems(PATH, &text), [], "{text}");
        }
    }

    #[test]
    fn other_attributes_and_other_crates_are_no_programs() {
        let text = "#[map]\nstatic A: u8 = 0;\n#[inline(always)]\nfn a() {}";
        assert_eq!(problems(PATH, text), []);
        assert_eq!(problems("monitor/src/lib.rs", "#[lsm]\nfn a() {}"), []);
    }
}
