//! Keys of a profile, all that are declared, changed one by one: `diff` names the one.

use turnkey_policy::KEYS;
use turnkey_policy::keys::ValueForm;

use super::*;

/// A key, a profile, and one that allows more by this key alone.
const CHANGES: &[(&str, &str, &str)] = &[
    (
        "filesystem.root",
        "",
        "[filesystem]\nroot = \"/srv/root\"\n",
    ),
    (
        "filesystem.root_mode",
        "",
        "[filesystem]\nroot_mode = \"overlay\"\n",
    ),
    (
        "filesystem.toolchain",
        "",
        "[filesystem]\ntoolchain = \"command\"\n",
    ),
    (
        "filesystem.proc",
        "[filesystem]\nproc = \"processes\"\n",
        "",
    ),
    (
        "filesystem.read",
        "",
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.read.path",
        "[filesystem]\nread = [{ path = \"/srv/data/a\", at = \"/data\", why = \"data\" }]\n",
        "[filesystem]\nread = [{ path = \"/srv/data\", at = \"/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.read.at",
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"data\" }]\n",
        "[filesystem]\nread = [{ path = \"/srv/data\", at = \"/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.read.optional",
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"data\" }]\n",
        "[filesystem]\nread = [{ path = \"/srv/data\", optional = true, why = \"data\" }]\n",
    ),
    (
        "filesystem.read.list",
        "[filesystem]\nread = [{ path = \"/srv/data\", list = false, why = \"data\" }]\n",
        "[filesystem]\nread = [{ path = \"/srv/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.write",
        "",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.write.path",
        "[filesystem]\nwrite = [{ path = \"/srv/data/a\", at = \"/data\", why = \"data\" }]\n",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", at = \"/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.write.at",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", why = \"data\" }]\n",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", at = \"/data\", why = \"data\" }]\n",
    ),
    (
        "filesystem.write.optional",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", why = \"data\" }]\n",
        "[filesystem]\nwrite = [{ path = \"/srv/data\", optional = true, why = \"data\" }]\n",
    ),
    (
        "filesystem.scratch",
        "",
        "[filesystem]\nscratch = [{ path = \"/scratch\", size = \"1M\", why = \"x\" }]\n",
    ),
    (
        "filesystem.scratch.path",
        "[filesystem]\nscratch = [{ path = \"/scratch/a\", size = \"1M\", why = \"x\" }]\n",
        "[filesystem]\nscratch = [{ path = \"/scratch\", size = \"1M\", why = \"x\" }]\n",
    ),
    (
        "filesystem.scratch.size",
        "[filesystem]\nscratch = [{ path = \"/scratch\", size = \"1M\", why = \"x\" }]\n",
        "[filesystem]\nscratch = [{ path = \"/scratch\", size = \"2M\", why = \"x\" }]\n",
    ),
    (
        "filesystem.workdir.mode",
        "[filesystem.workdir]\nmode = \"read-only\"\n",
        "[filesystem.workdir]\nmode = \"overlay\"\n",
    ),
    (
        "filesystem.workdir.mode",
        "[filesystem.workdir]\nmode = \"none\"\n",
        "",
    ),
    (
        "filesystem.workdir.at",
        "",
        "[filesystem.workdir]\nat = \"host\"\n",
    ),
    (
        "filesystem.own_path",
        "[filesystem]\nown_path = \"never\"\n",
        "",
    ),
    (
        "filesystem.own_path",
        "",
        "[filesystem]\nown_path = \"always\"\n",
    ),
    (
        "filesystem.decoys",
        "[filesystem]\ndecoys = [\"~/.aws/more\"]\n",
        "",
    ),
    ("network.mode", "", "[network]\nmode = \"loopback\"\n"),
    (
        "network.mode",
        "[network]\nmode = \"loopback\"\n",
        "[network]\nmode = \"sinkhole\"\n",
    ),
    (
        "network.mode",
        "[network]\nmode = \"sinkhole\"\n",
        "[network]\nmode = \"host\"\nwhy = \"x\"\n",
    ),
    (
        "network.allow",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"a.example.org:443\", why = \"x\" }]\n",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"a.example.org:443\", why = \"x\" }, { to = \"b.example.org:443\", why = \"x\" }]\n",
    ),
    (
        "network.allow.to",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"10.0.0.0/16:443\", why = \"x\" }]\n",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"10.0.0.0/15:443\", why = \"x\" }]\n",
    ),
    (
        "network.allow.to",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"10.0.0.0/16:443\", why = \"x\" }]\n",
        "[network]\nmode = \"allow\"\nallow = [{ to = \"10.0.0.0/16:443-444\", why = \"x\" }]\n",
    ),
    (
        "network.publish",
        "[network]\nmode = \"loopback\"\n",
        "[network]\nmode = \"loopback\"\npublish = [\"8080:80\"]\n",
    ),
    ("limits.memory", "", "[limits]\nmemory = \"1G\"\n"),
    ("limits.swap", "", "[limits]\nswap = \"1M\"\n"),
    ("limits.cpu", "", "[limits]\ncpu = \"200%\"\n"),
    ("limits.pids", "", "[limits]\npids = 1000\n"),
    ("limits.on_pids", "[limits]\non_pids = \"kill\"\n", ""),
    ("limits.on_memory", "[limits]\non_memory = \"kill\"\n", ""),
    ("limits.wall", "", "[limits]\nwall = \"1h\"\n"),
    ("limits.cpu_time", "", "[limits]\ncpu_time = \"1h\"\n"),
    ("limits.output", "", "[limits]\noutput = \"1G\"\n"),
    ("limits.io_read", "[limits]\nio_read = \"1M\"\n", ""),
    (
        "limits.io_write",
        "[limits]\nio_write = \"1M\"\n",
        "[limits]\nio_write = \"2M\"\n",
    ),
    ("limits.disk", "", "[limits]\ndisk = \"2G\"\n"),
    ("limits.file_size", "", "[limits]\nfile_size = \"2G\"\n"),
    ("limits.open_files", "", "[limits]\nopen_files = 1000\n"),
    (
        "limits.export_files",
        "",
        "[limits]\nexport_files = 20000\n",
    ),
    ("limits.export_size", "", "[limits]\nexport_size = \"2G\"\n"),
    ("identity.user", "", "[identity]\nuser = \"root\"\n"),
    (
        "identity.hostname",
        "",
        "[identity]\nhostname = \"other\"\n",
    ),
    ("env.pass", "", "[env]\npass = [\"TOKEN\"]\n"),
    (
        "env.pass",
        "[env]\nset = { TOKEN = \"none\" }\n",
        "[env]\npass = [\"TOKEN\"]\n",
    ),
    ("env.set", "", "[env]\nset = { TOKEN = \"none\" }\n"),
    (
        "env.set",
        "[env]\nset = { TOKEN = \"none\" }\n",
        "[env]\nset = { TOKEN = \"some\" }\n",
    ),
    (
        "syscalls.allow",
        "[syscalls]\ninherit = false\nallow = [\"@core\", \"@file-open\"]\n",
        "",
    ),
    (
        "enforcement.required",
        "",
        "[enforcement]\nrequired = [\"seccomp\"]\n",
    ),
    (
        "enforcement.on_loss",
        "[enforcement]\non_loss = \"kill\"\n",
        "[enforcement]\non_loss = \"fail\"\n",
    ),
    (
        "enforcement.on_loss",
        "[enforcement]\non_loss = \"fail\"\n",
        "[enforcement]\non_loss = \"mark\"\n",
    ),
    (
        "enforcement.mode",
        "",
        "[enforcement]\nmode = \"observe\"\n",
    ),
    (
        "scan.allowed_imports",
        "[scan]\nallowed_imports = [\"json\"]\n",
        "[scan]\nallowed_imports = [\"json\", \"os\"]\n",
    ),
    (
        "scan.allowed_imports",
        "[scan]\nallowed_imports = [\"json\"]\n",
        "",
    ),
    ("accept", "", ACCEPTED),
    (
        "accept.finding",
        ACCEPTED,
        "[[accept]]\nfinding = \"turnkey:disk\"\nwhy = \"x\"\nuntil = \"2999-01-01\"\n",
    ),
    (
        "accept.until",
        ACCEPTED,
        "[[accept]]\nfinding = \"turnkey:limit\"\nwhy = \"x\"\nuntil = \"2999-01-02\"\n",
    ),
];

const ACCEPTED: &str =
    "[[accept]]\nfinding = \"turnkey:limit\"\nwhy = \"x\"\nuntil = \"2999-01-01\"\n";

/// A key of rules, what a rule says without it, what one that is otherwise the same says to stop less, and what both say.
const RULE_CHANGES: &[(&str, &str, &str, &str)] = &[
    ("rule", "path = \"/srv/x\"", "path = \"/srv/y\"", ON_FILES),
    (
        "rule.on",
        "on = [\"open\", \"exec\"]",
        "on = \"open\"",
        "path = \"/srv/x\"\naction = \"kill\"",
    ),
    (
        "rule.path",
        "path = \"/srv/**\"",
        "path = \"/srv/*\"",
        ON_FILES,
    ),
    (
        "rule.access",
        "access = [\"read\", \"write\"]",
        "access = \"read\"",
        ON_SRV,
    ),
    (
        "rule.address",
        "address = \"10.0.0.0/8\"",
        "address = [\"10.0.0.0/9\", \"10.128.0.0/10\"]",
        ON_PEERS,
    ),
    (
        "rule.address",
        "address = \"fd00::/8\"",
        "address = \"fd00::/9\"",
        ON_PEERS,
    ),
    (
        "rule.port",
        "port = \"1000-2000\"",
        "port = [\"1000-1499\", \"1501-2000\"]",
        ON_PEERS,
    ),
    (
        "rule.flags",
        "flags = [\"memfd\", \"deleted\"]",
        "flags = \"memfd\"",
        ON_FILES,
    ),
    (
        "rule.action",
        "action = \"kill\"",
        "action = \"log\"",
        "on = \"open\"\nflags = \"truncated\"",
    ),
    (
        "rule.same_file",
        "same_file = \"required\"",
        "same_file = \"optional\"",
        ON_SRV,
    ),
    (
        "rule.same_file",
        "same_file = \"optional\"",
        "same_file = \"no\"",
        ON_SRV,
    ),
    ("rule.yields", "yields = false", "yields = true", YIELDING),
    ("rule.hidden", "hidden = false", "hidden = true", ON_SRV),
    (
        "rule.present",
        "present = false",
        "present = true",
        "on = \"open\"\npath = \"/tmp/x\"\naction = \"kill\"",
    ),
    (
        "rule.exe",
        "exe = \"/usr/bin/**\"",
        "exe = \"/usr/bin/cat\"",
        ON_SRV,
    ),
    ("rule.script", "", "script = \"/workspace/run\"", ON_SRV),
    (
        "rule.action",
        "action = \"kill\"",
        "action = \"deny\"",
        "on = \"open\"\npath = \"/srv/x\"",
    ),
    (
        "rule.action",
        "action = \"deny\"",
        "action = \"log\"",
        "on = \"open\"\npath = \"/srv/x\"",
    ),
    (
        "rule.severity",
        "severity = \"high\"",
        "severity = \"low\"",
        ON_SRV,
    ),
];

const ON_FILES: &str = "on = \"open\"\naction = \"kill\"";
const ON_SRV: &str = "on = \"open\"\npath = \"/srv/x\"\naction = \"kill\"";
const ON_PEERS: &str = "on = \"connect\"\naction = \"kill\"";
/// With another rule that a rule which yields does not stand against.
const YIELDING: &str = "on = \"open\"\npath = \"/srv/x*\"\naction = \"kill\"\n\
                        [[rule]]\nid = \"other\"\non = \"open\"\npath = \"/srv/*\"\naction = \"allow\"\nwhy = \"x\"";

/// A key that `diff` leaves out, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("schema", "all profiles that can be read have the same"),
    ("name", "names a profile and changes nothing of a run"),
    ("description", "is for people"),
    ("extends", "is compared by what the profiles below say"),
    (
        "filesystem.inherit",
        "is compared by what is left of the profiles below",
    ),
    (
        "syscalls.inherit",
        "is compared by what is left of the profiles below",
    ),
    ("network.why", "is for people"),
    ("network.allow.why", "is for people"),
    ("filesystem.read.why", "is for people"),
    ("filesystem.write.why", "is for people"),
    ("filesystem.scratch.why", "is for people"),
    ("accept.why", "is for people"),
    ("rule.why", "is for people"),
    (
        "rule.id",
        "names a rule; what is accepted by it is in `accept`",
    ),
    ("rule.replaces", "is compared by the rules that are left"),
    ("rule.technique", "is told in reports and decides nothing"),
];

/// The changes of all keys, as two profiles each.
fn changes() -> Vec<(String, String, String)> {
    let own = |text: &&str| (*text).to_owned();
    let plain = CHANGES.iter();
    let plain = plain.map(|(key, below, above)| (own(key), own(below), own(above)));
    let rule =
        |said: &str, both: &str| format!("[[rule]]\nid = \"mine\"\nwhy = \"x\"\n{said}\n{both}\n");
    let rules = RULE_CHANGES.iter();
    let rules =
        rules.map(|(key, below, above, both)| (own(key), rule(below, both), rule(above, both)));
    let behaviours = KEYS.iter().filter(|key| key.table == "behaviour");
    let behaviours = behaviours.flat_map(|key| {
        let said = |word| format!("[behaviour]\n{} = \"{word}\"\n", key.name);
        [("kill", "log"), ("log", "off")]
            .map(|(below, above)| (key.path(), said(below), said(above)))
    });
    plain.chain(rules).chain(behaviours).collect()
}

/// A profile above one without rules.
fn profile(text: &str) -> DiffSubject {
    let read = |path: &str| {
        let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\n";
        Ok(match path {
            "./mine.toml" => format!("{head}extends = [\"./below.toml\"]\n{text}"),
            _ => format!("{head}[syscalls]\nallow = [\"@basic\", \"@file\"]\n"),
        })
    };
    let policy = turnkey_policy::load("./mine.toml", &read, &Overrides::default());
    DiffSubject::Profile(Box::new(
        policy.unwrap_or_else(|error| panic!("{error}: {text}")),
    ))
}

/// True for an entry by a key, or by the list of whose entries it is a key.
fn is_by(entry: &NewEntry, key: &str) -> bool {
    let table = key.rsplit_once('.').map_or("", |(table, _)| table);
    entry.key == key || !table.is_empty() && entry.key == table
}

/// Keys of which another value, place or entry is no smaller one: told both ways.
const OTHER: &[&str] = &[
    "accept.finding",
    "env.set",
    "filesystem.read.at",
    "filesystem.read.path",
    "filesystem.workdir.at",
    "filesystem.write.at",
    "filesystem.write.path",
    "identity.hostname",
    "identity.user",
    "rule",
];

#[test]
fn each_key_that_is_changed_is_named() {
    for (key, below, above) in changes() {
        let (below, above) = (profile(&below), profile(&above));
        let named = |a, b| new(a, b).iter().any(|entry| is_by(entry, &key));
        assert!(named(&below, &above), "{key}: {:#?}", told(&below, &above));
        let is_narrower = !OTHER.contains(&key.as_str());
        let back = told(&above, &below);
        assert!(!(is_narrower && named(&above, &below)), "{key}: {back:#?}");
    }
}

#[test]
fn each_key_that_is_declared_is_changed_or_left_out_for_a_reason() {
    let changed: BTreeSet<String> = changes().into_iter().map(|(key, ..)| key).collect();
    for key in KEYS {
        let path = key.path();
        let is_left_out = LEFT_OUT.iter().any(|(left, _)| *left == path);
        // Of a table each key is here.
        if matches!(key.form, ValueForm::Table) {
            assert!(!is_left_out && !changed.contains(&path), "{path}");
            continue;
        }
        assert!(is_left_out != changed.contains(&path), "{path}");
    }
    for (path, _) in LEFT_OUT {
        assert!(KEYS.iter().any(|key| key.path() == *path), "{path}");
    }
}
