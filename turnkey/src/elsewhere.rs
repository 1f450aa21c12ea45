//! What a program looked for in vain, and the host has: the most common reason why a harmless
//! program fails in a jail, and one that no layer reports as a refusal.

use std::path::Path;

use crate::report::Report;

/// Paths named at most.
const MOST: usize = 5;
/// Trees that programs probe all the time and do without.
const PROBED: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Notes it in the report of a program that failed. One that succeeded needed nothing.
pub fn note(report: &mut Report) {
    if report.exit_code != Some(0) {
        let paths = missing(report, |path| path.exists());
        report.on_host = paths.into_iter().map(str::to_owned).collect();
    }
}

/// The first few paths, in the order they were tried.
fn missing(report: &Report, on_host: impl Fn(&Path) -> bool) -> Vec<&str> {
    // Below a scratch, such as /tmp, nothing of the host shows either, though the place is granted.
    let hidden = report
        .file_operations
        .iter()
        .filter(|tried| tried.errno.as_deref() == Some("ENOENT"));
    // What had to be escaped is not the path itself any more, and no program's usual business.
    let plain = |path: &&str| path.starts_with('/') && !path.contains(['\\', ' ', '\'', '"']);
    // Nor is one proposed that leads there: it would be refused.
    let on_host = |path: &Path| {
        let real = turnkey_jailer::paths::canonical(path);
        on_host(path) && !real.is_ok_and(|real| turnkey_jailer::plan::is_reserved(&real))
    };
    let wanted = |path: &&str| !PROBED.iter().any(|tree| Path::new(path).starts_with(tree));
    let mut paths: Vec<&str> = Vec::new();
    for path in hidden
        .filter_map(|tried| tried.path.as_deref())
        .filter(plain)
        .filter(wanted)
    {
        if paths.len() < MOST && !paths.contains(&path) && on_host(Path::new(path)) {
            paths.push(path);
        }
    }
    paths
}
