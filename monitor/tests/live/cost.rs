//! Costs of each program to the kernel's verifier, against a budget.
//!
//! The verifier gives up after a million instructions, and what it takes differs between kernels.
//! A budget of a fraction of that keeps a change from walking up to the edge unseen.

use turnkey_expectations::expected;
use turnkey_monitor::{Monitor, Tier, compile};

use super::harness::{OBJECT, chain, interrupts_tracepoints_here, policy, tier};

expected!(on BY_TIER);

/// Instructions that the verifier may look at, by program: about two and a half times
/// what 6.18 needs. Raise one with a reason.
const BUDGET: &[(&str, u32)] = &[
    // A descriptor that is executed is asked about by its path and by itself, and memory that is made
    // executable is looked up.
    ("sys_enter", 35_000),
    // What happens at the end of each kind of call is a function that is looked at once. 6.18 needs 46000.
    ("sys_exit", 120_000),
    ("perf_sys_enter", 35_000),
    ("perf_sys_exit", 120_000),
    // The kernel keeps 15 characters: these are two programs each.
    // An exec is decided on by two paths, and settles who acts by two more.
    ("perf_sched_proc", 60_000),
    ("sched_process_e", 60_000),
    ("sched_process_f", 10_000),
    ("signal_generate", 2_000),
    // An unspecified address is asked about as several, and whether the jail itself listens there. The list of addresses is walked
    // without branches; 6.1 needs 55800 and 47300 for connects, 33700 at most for the others, 6.18 15200 and less.
    ("connect4", 120_000),
    ("connect6", 120_000),
    ("bind4", 80_000),
    ("bind6", 80_000),
    ("sendmsg4", 80_000),
    ("sendmsg6", 80_000),
    ("sock_create", 100),
    // 6.1's verifier sees less often that it was somewhere before, and needs 20000 to 33000.
    ("lsm_file_open", 70_000),
    ("lsm_file_receiv", 70_000),
    ("lsm_bprm_check_", 40_000),
    // Asks about an address, as those of the control group do: 7.2 needs 20500.
    ("lsm_socket_list", 50_000),
];

/// As many for any hook of BPF LSM.
const HOOK_BUDGET: u32 = 20_000;

/// The programs of this process, by name: instructions that the verifier looked at.
fn verified() -> Vec<(String, u32)> {
    let ours = program_ids();
    let all = aya::programs::loaded_programs().filter_map(Result::ok);
    let ours = all.filter(|program| ours.contains(&program.id()));
    ours.map(|program| {
        let name = program.name_as_str().expect("it is text").to_owned();
        (
            name,
            program
                .verified_instruction_count()
                .expect("the kernel counts"),
        )
    })
    .collect()
}

/// The ids of the programs that this process holds.
fn program_ids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").expect("it can be listed");
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let id = |text: String| {
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        id.and_then(|id| id.trim().parse().ok())
    };
    texts
        .filter(|text| text.contains("verified_insns:"))
        .filter_map(id)
        .collect()
}

/// Of a hook without a budget of its own.
fn hook_budget(name: &str) -> Option<u32> {
    // They resolve two paths, and ask several things of each: 6.1 needs 58400 for a rename, and 43700 for a list.
    let is_change = ["lsm_path_", "lsm_inode_", "lsm_file_trunca", "entry_"]
        .iter()
        .any(|begin| name.starts_with(begin));
    let changes = is_change.then_some(6 * HOOK_BUDGET);
    changes.or(name.starts_with("lsm_").then_some(HOOK_BUDGET))
}

#[test]
fn every_program_is_within_its_budget() {
    let rules = compile(&policy(""), tier()).expect("the policy compiles");
    let monitor = Monitor::open(OBJECT, rules).unwrap_or_else(|error| panic!("{}", chain(&error)));
    let verified = verified();
    drop(monitor);
    let mut over = Vec::new();
    for (name, count) in &verified {
        let budget = BUDGET.iter().find(|(known, _)| known == name);
        let budget = budget.map(|(_, most)| *most);
        let budget = budget.or(hook_budget(name));
        eprintln!("{name:20} {count:7} of {budget:?}");
        if budget.is_none_or(|most| *count > most) {
            over.push((name, count));
        }
    }
    assert!(over.is_empty(), "over budget, or without one: {over:?}");
    let has = |name: &str| verified.iter().any(|(known, _)| known == name);
    // Those of the other tier are there only on it, and a call has one program.
    let by_perf = interrupts_tracepoints_here();
    let is_here = |name: &str| match name {
        "sys_enter" | "sys_exit" => !by_perf,
        _ if name.starts_with("perf_") => by_perf,
        _ => tier() == Tier::Lsm || !name.starts_with("lsm_"),
    };
    let without: Vec<_> = BUDGET
        .iter()
        .filter(|(name, _)| is_here(name) && !has(name))
        .collect();
    assert!(
        without.is_empty(),
        "in the budget and not in the object: {without:?}"
    );
}
