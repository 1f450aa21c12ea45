//! The plan as a page for people.

use std::io::{self, Write};

use super::landlock::LandlockView;
use super::rules::{KindPrecedence, RulesView};
use super::syscalls::SyscallsView;
use super::tree::TreeRow;
use super::view::PlanView;

/// Characters of a line of names.
const WIDTH: usize = 100;

/// Writes the whole page. Fails only when `out` does.
pub fn write(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    head(view, out)?;
    command(view, out)?;
    namespaces(view, out)?;
    identity(view, out)?;
    groups(view, out)?;
    tree(&view.tree, out)?;
    confinement(view, out)?;
    landlock(view.landlock.as_ref(), out)?;
    rlimits(view, out)?;
    syscalls(&view.syscalls, out)?;
    rules(&view.rules, out)?;
    supervisor(view, out)
}

fn head(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    let profile = &view.profile;
    writeln!(
        out,
        "The plan of a run under the profile {} ({})",
        profile.name, profile.mode
    )?;
    writeln!(out, "{}", profile.description)?;
    writeln!(out, "Nothing was made or changed.")
}

fn command(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    let command = &view.command;
    section("Command", out)?;
    field("arguments", &command.arguments.join(" "), out)?;
    field("starts in", &command.directory, out)?;
    let (first, rest) = ("looked for", "then");
    for (index, candidate) in command.candidates.iter().enumerate() {
        field(if index == 0 { first } else { rest }, candidate, out)?;
    }
    for variable in &command.environment {
        field("environment", variable, out)?;
    }
    Ok(())
}

fn namespaces(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    section("Namespaces", out)?;
    for namespace in &view.namespaces {
        writeln!(out, "  {:<20} {}", namespace.layer, namespace.made)?;
    }
    field("network", view.network.mode, out)?;
    field(
        "loopback",
        match (view.network.mode, view.network.loopback_up) {
            (HOST, _) => "the host's",
            (NONE, true) => "up, and nobody answers on it",
            (_, true) => "up",
            (_, false) => "down",
        },
        out,
    )?;
    if view.network.mode == HOST {
        return shared(view, out);
    }
    for port in &view.network.publish {
        field("published", port, out)?;
    }
    hosts(view, out)
}

const HOST: &str = turnkey_policy::NetworkMode::Host.name();
const NONE: &str = turnkey_policy::NetworkMode::None.name();

fn shared(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    section("In the host's network", out)?;
    for line in [
        "reaches     everybody that the host reaches, its own services included, unless a rule is against it",
        "waits       at ports of the host, where everybody can come who reaches the host",
        "sees        connections and interfaces of the host, in /proc/net",
        "not reached abstract Unix sockets of the host (Landlock), netlink, raw and packet sockets (seccomp)",
    ] {
        writeln!(out, "  {line}")?;
    }
    for closed in &view.network.closed {
        field("not meant", closed, out)?;
    }
    Ok(())
}

fn hosts(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    let network = &view.network;
    if network.allow.is_empty() {
        return Ok(());
    }
    section("Whom it may talk to, over TCP, passed on by turnkey", out)?;
    for host in &network.allow {
        let addresses = match host.addresses.as_slice() {
            [] => String::new(),
            addresses => format!(", now {}", addresses.join(", ")),
        };
        writeln!(out, "  {}{addresses}  — {}", host.to, host.why)?;
    }
    let sockets = network.listeners.len().to_string();
    field("sockets that wait", &sockets, out)?;
    for closed in &network.closed {
        field("not meant", closed, out)?;
    }
    Ok(())
}

fn identity(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    let identity = &view.identity;
    section("Identity", out)?;
    field(
        "user",
        &format!("{}, {} inside", identity.user, identity.id),
        out,
    )?;
    field("on the host", &identity.host_id, out)?;
    field("host name", &identity.hostname, out)?;
    field("capabilities", identity.capabilities, out)?;
    let gains = if identity.no_new_privileges {
        "never: no_new_privs is set"
    } else {
        "possible"
    };
    field("new rights", gains, out)
}

fn groups(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    section("Control groups, in the order they are written", out)?;
    for group in &view.groups {
        let place = match &group.parent {
            Some(parent) => format!("below {parent}"),
            None => "nowhere: no hierarchy of this host has the controller".to_owned(),
        };
        writeln!(
            out,
            "  {:<28} {:<16} {:<7} {place}",
            group.file, group.value, group.controller
        )?;
    }
    match &view.unheld {
        Some(reason) => writeln!(out, "  not held back: {reason}"),
        None => Ok(()),
    }
}

fn tree(rows: &[TreeRow], out: &mut impl Write) -> io::Result<()> {
    section("The jail's root, in the order it is filled", out)?;
    for (number, row) in (1..).zip(rows) {
        let path = match &row.source {
            Some(source) if row.step == "symlink" => format!("{} -> {source}", row.path),
            Some(source) if *source != row.path => format!("{} from {source}", row.path),
            _ => row.path.clone(),
        };
        let mut line = format!("{number:>4}  {:<10} {path:<36}", row.step);
        for attribute in &row.attributes {
            line.push(' ');
            line.push_str(attribute);
        }
        if let Some(size) = row.size {
            line.push_str(&format!(" {size} bytes"));
        }
        if let Some(why) = &row.why {
            line.push_str(&format!("  — {why}"));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn confinement(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    section(
        "What the first process does to itself, each step before the next",
        out,
    )?;
    for (number, step) in (1..).zip(&view.confinement) {
        writeln!(out, "{number:>4}  {step}")?;
    }
    Ok(())
}

fn landlock(landlock: Option<&LandlockView>, out: &mut impl Write) -> io::Result<()> {
    let Some(landlock) = landlock else {
        section("Landlock: this kernel has none", out)?;
        return Ok(());
    };
    section(&format!("Landlock, ABI {}", landlock.abi), out)?;
    names("refused unless granted below", &landlock.handled, out)?;
    names("out of reach", &landlock.scopes, out)?;
    for rule in &landlock.rules {
        let full = rule.rights == landlock.handled;
        let rights = if full {
            "everything".to_owned()
        } else {
            rule.rights.join(", ")
        };
        writeln!(out, "  {:<36} {rights}", rule.path)?;
    }
    Ok(())
}

fn rlimits(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    section("Limits of each process", out)?;
    for limit in &view.rlimits {
        writeln!(
            out,
            "  {:<20} {:<12} {}",
            limit.name, limit.value, limit.why
        )?;
    }
    Ok(())
}

fn syscalls(syscalls: &SyscallsView, out: &mut impl Write) -> io::Result<()> {
    section("System calls", out)?;
    for allowed in &syscalls.allowed {
        let group = allowed.group.unwrap_or("others");
        names(
            &format!("allowed, {group}: {}", allowed.about),
            &allowed.names,
            out,
        )?;
    }
    names("refused with EPERM", &syscalls.refused, out)?;
    names(
        "absent, answered with ENOSYS like any unknown number",
        &syscalls.absent,
        out,
    )?;
    section(
        "Arguments that are refused even where the call is allowed",
        out,
    )?;
    for argument in &syscalls.arguments {
        let calls = argument.syscalls.join(", ");
        writeln!(out, "  {:<15} {calls}: {}", argument.answer, argument.what)?;
    }
    Ok(())
}

fn rules(rules: &RulesView, out: &mut impl Write) -> io::Result<()> {
    section("Rules", out)?;
    for rule in &rules.definitions {
        let written = rule
            .written
            .map(|written| format!(" instead of {written}"))
            .unwrap_or_default();
        let technique = rule
            .technique
            .as_ref()
            .map(|name| format!(", {name}"))
            .unwrap_or_default();
        writeln!(
            out,
            "  {:<5}{written} {} ({}{technique}): {}",
            rule.action, rule.id, rule.severity, rule.why
        )?;
        if rule.yields {
            writeln!(
                out,
                "          it yields to the patterns of all other rules"
            )?;
        }
        if rule.hidden {
            writeln!(
                out,
                "          it speaks only of what the profile does not give"
            )?;
        }
        if rule.present {
            writeln!(
                out,
                "          it speaks, in places of the jail's own, only of what is there when the run begins"
            )?;
        }
        if let Some(needed) = rule.same_file {
            writeln!(
                out,
                "          its paths stand for the files that they name at the start, by whatever name ({needed})"
            )?;
        }
    }
    for kind in &rules.precedence {
        precedence(kind, out)?;
    }
    Ok(())
}

fn precedence(kind: &KindPrecedence, out: &mut impl Write) -> io::Result<()> {
    let access = kind
        .access
        .map(|access| format!(" to {access}"))
        .unwrap_or_default();
    section(
        &format!("On {}{access}: the first that matches decides", kind.on),
        out,
    )?;
    for ranked in &kind.order {
        let pattern = ranked.means();
        writeln!(out, "  {:<5} {pattern:<44} {}", ranked.action, ranked.rule)?;
    }
    Ok(())
}

fn supervisor(view: &PlanView, out: &mut impl Write) -> io::Result<()> {
    let ends = &view.supervisor;
    section("turnkey itself ends the run after", out)?;
    field("wall clock", &format!("{} s", ends.wall_seconds), out)?;
    field(
        "CPU",
        &format!("{} s, of the whole tree", ends.cpu_seconds),
        out,
    )?;
    field("output", &format!("{} bytes", ends.output_bytes), out)?;
    field("lost events", ends.on_loss, out)?;
    if !ends.behaviours.is_empty() {
        field("behaviours", &ends.behaviours.join(", "), out)?;
    }
    if !ends.overlooked.is_empty() {
        section("Behaviours that nobody looks for", out)?;
        writeln!(out, "  {}", ends.overlooked.join(", "))?;
    }
    if !ends.accepted.is_empty() {
        section("Findings that are accepted, and until when", out)?;
    }
    for accepted in &ends.accepted {
        let until = format!("{} until {}", accepted.finding, accepted.until);
        writeln!(out, "  {until:<44} {}", accepted.why)?;
    }
    section("Layers", out)?;
    names(
        "required: without any of these nothing runs, status 125",
        &view.layers.required,
        out,
    )?;
    names(
        "optional: missing ones are told in the report",
        &view.layers.optional,
        out,
    )
}

fn section(title: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{title}")
}

fn field(name: &str, value: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {name:<20} {value}")
}

/// A title and many names, as many on a line as there is room for.
fn names(title: &str, names: &[&str], out: &mut impl Write) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {title} ({})", names.len())?;
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() > WIDTH {
            writeln!(out, "     {line}")?;
            line.clear();
        }
        line.push(' ');
        line.push_str(name);
    }
    writeln!(out, "     {line}")
}
