//! Each BPF program names the kernel prototype it relies on, so that a reader can compare its
//! arguments with the kernel's source.

use super::Problem;
use super::tree::File;

/// The attributes of aya-ebpf that make a function a program.
const PROGRAM_KINDS: [&str; 20] = [
    "btf_tracepoint",
    "cgroup_device",
    "cgroup_skb",
    "cgroup_sock",
    "cgroup_sock_addr",
    "cgroup_sockopt",
    "cgroup_sysctl",
    "fentry",
    "fexit",
    "iter",
    "kprobe",
    "kretprobe",
    "lsm",
    "lsm_cgroup",
    "perf_event",
    "raw_tracepoint",
    "sock_ops",
    "tracepoint",
    "uprobe",
    "uretprobe",
];

/// Finds programs without a prototype.
pub fn check(file: &File) -> Vec<Problem> {
    if !file.path.starts_with("monitor-ebpf") || !file.has_extension(&["rs"]) {
        return Vec::new();
    }
    let lines: Vec<_> = file.text.lines().map(str::trim).collect();
    let programs = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| makes_a_program(line));
    programs
        .filter(|(index, _)| !has_prototype(&lines, *index))
        .map(|(index, _)| {
            let message = "above this program stands the kernel prototype it relies on: \
                           `// name(type argument, …)`";
            Problem::new(&file.path, index + 1, message)
        })
        .collect()
}

/// True when the line is one of those attributes.
fn makes_a_program(line: &str) -> bool {
    line.strip_prefix("#[").is_some_and(|attribute| {
        let name = attribute
            .split(|it: char| !it.is_alphanumeric() && it != '_')
            .next();
        name.is_some_and(|name| PROGRAM_KINDS.contains(&name))
    })
}

/// True when comments and attributes around the attribute hold the line.
fn has_prototype(lines: &[&str], index: usize) -> bool {
    let belongs = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    let above = lines[..index].iter().rev().take_while(belongs);
    let below = lines[index..].iter().take_while(belongs);
    above.chain(below).any(|line| is_prototype(line))
}

/// True when the line is a plain comment that holds `name(arguments)`.
fn is_prototype(line: &str) -> bool {
    let Some(comment) = line.strip_prefix("// ") else {
        return false;
    };
    comment.split_once('(').is_some_and(|(name, arguments)| {
        name.ends_with(|it: char| it.is_alphanumeric() || it == '_') && arguments.contains(')')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "monitor-ebpf/src/main.rs";

    #[test]
    fn program_without_prototype_is_found() {
        let other = "// sys_exit(struct pt_regs *regs, long ret)\nfn other() {}\n";
        let program = "/// Sees all().\n// Sees (nearly) all.\n#[lsm]\nfn a() {}";
        let problems = check(&File::new(PATH, &format!("{other}\n{program}")));
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
            assert_eq!(check(&File::new(PATH, &text)), [], "{text}");
        }
    }

    #[test]
    fn other_attributes_and_other_crates_are_no_programs() {
        assert_eq!(
            check(&File::new(
                PATH,
                "#[map]\nstatic A: u8 = 0;\n#[inline(always)]\nfn a() {}"
            )),
            []
        );
        assert_eq!(
            check(&File::new("monitor/src/lib.rs", "#[lsm]\nfn a() {}")),
            []
        );
    }
}
