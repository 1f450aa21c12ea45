//! The answer of the profile's rules about an act, as docs/profile.md has it: by the letters of whole names.

use std::collections::BTreeSet;

use Answer::{Elsewhere, Nothing, Rule};

/// An act on names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Act<'a> {
    /// As events have it: `link`, `rename`, `unlink`, `read`, `write`, `stat`, `chmod`, `attribute`.
    pub access: Vec<&'a str>,
    /// True when a file is opened: its access is all that is asked of it.
    pub is_open: bool,
    /// The names of the object; `None` for one that is not known.
    pub objects: Vec<Option<String>>,
    /// The other name of a link or a rename, if it has one.
    pub new: Option<Option<String>>,
    /// The aim of a symlink, as it is written.
    pub aim: Option<String>,
    /// True when both names change places.
    pub exchanges: bool,
    /// True when it had its effect, or somebody who refuses kept it from that.
    pub is_attempt: bool,
    /// True when it had its effect.
    pub is_done: bool,
    /// True when a directory has another name now; nothing when nobody has looked.
    pub moves: Option<bool>,
    /// True when a symlink may have another name now, by itself or with the directory that it is in.
    pub carries: bool,
    /// True when a directory of its names may be reached through a symlink.
    pub detours: bool,
    /// True when a name of it, as it is written, has a `..` behind another name, which may lead anywhere, or is very long.
    pub steps_back: bool,
    /// True when another process or thread may have closed what was opened.
    pub may_be_gone: bool,
    /// True when it opens in the third way, of which nobody says whether it reads or writes.
    pub is_vague: bool,
}

/// The rules that an act may be told with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// One of these, if there are any.
    pub must: BTreeSet<&'static str>,
    /// Or of these, which let it happen, whatever they do to other acts.
    pub told: BTreeSet<&'static str>,
    /// Or one of these.
    pub may: BTreeSet<&'static str>,
    /// Or any: not all names are known, or the shipped rules speak of them.
    pub is_open: bool,
}

/// The answer of one rule or none of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Nothing,
    Rule(&'static str),
    /// Only who knows the shipped profile can say.
    Elsewhere,
}

/// The place where the rules make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Plain,
    Written,
    Asked,
    Forbidden,
    Inside,
    Shadow,
    Elsewhere,
}

/// Paths that the shipped rules have nothing against, and what is below them.
const PLAIN: [&str; 4] = ["/workspace", "/tmp", "/usr", "/nonexistent"];
/// Of these, where the host's files are not shown: that somebody asks in vain for one may be told.
pub const NOT_SHOWN: [&str; 2] = ["/tmp", "/nonexistent"];

fn place(path: &str) -> Place {
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    match (folder, name.chars().next()) {
        ("/workspace", Some('q')) => Place::Written,
        ("/workspace", Some('s')) => Place::Asked,
        ("/workspace", Some('k')) | ("/workspace/kd", Some(_)) => Place::Forbidden,
        ("/workspace/vault" | "/workspace/made", Some(_)) => Place::Inside,
        ("/workspace/d", Some('y')) => Place::Inside,
        ("/etc", _) if name == "shadow" => Place::Shadow,
        _ if path == "/" => Place::Plain,
        _ if PLAIN.iter().any(|plain| is_below(path, plain)) => Place::Plain,
        _ => Place::Elsewhere,
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn answer(place: Place, access: &str) -> Answer {
    match (place, access) {
        (Place::Written, "write") => Rule("written"),
        (Place::Asked, "stat") => Rule("asked"),
        (Place::Forbidden, "read" | "write" | "link" | "rename" | "unlink") => Rule("forbidden"),
        (Place::Inside, "read" | "write") => Rule("inside"),
        (Place::Shadow, "read" | "write" | "link" | "rename") => Rule("credential-file"),
        (Place::Elsewhere, _) => Elsewhere,
        _ => Nothing,
    }
}

/// The accesses that flags of open(2) ask for: `O_PATH` and the access mode 3 neither read nor write.
pub fn accesses(flags: i32) -> Vec<&'static str> {
    if flags & libc::O_PATH != 0 {
        return Vec::new();
    }
    let mode = flags & libc::O_ACCMODE;
    let reads = matches!(mode, libc::O_RDONLY | libc::O_RDWR);
    let makes = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let writes = matches!(mode, libc::O_WRONLY | libc::O_RDWR) || makes;
    let read = reads.then_some("read");
    read.into_iter().chain(writes.then_some("write")).collect()
}

/// The accesses that somebody loses who takes a file away from its name.
fn away(place: Place) -> Answer {
    match answer(place, "read") {
        Nothing => answer(place, "write"),
        read => read,
    }
}

/// True when every name is answered alike below two directories.
fn are_alike_below(one: &str, other: &str) -> bool {
    // Of the files in it, rules speak of some alone.
    let some = |path| path == "/workspace/d";
    below(one) == below(other) && some(one) == some(other)
}

/// The places below a directory where rules make a difference.
fn below(path: &str) -> Vec<Place> {
    match path {
        "/workspace" => vec![Place::Written, Place::Forbidden, Place::Inside],
        "/workspace/kd" => vec![Place::Forbidden],
        "/workspace/vault" | "/workspace/made" | "/workspace/d" => vec![Place::Inside],
        // All that there is, of which nothing is said.
        "/" => Vec::new(),
        // Services.
        "/usr" => vec![Place::Elsewhere],
        _ if place(path) == Place::Elsewhere => vec![Place::Elsewhere],
        _ => Vec::new(),
    }
}

impl Decided {
    fn add(&mut self, answer: Answer) {
        match answer {
            Nothing => {}
            Rule(rule) => drop(self.must.insert(rule)),
            Elsewhere => self.is_open = true,
        }
    }

    fn add_all(&mut self, answers: impl IntoIterator<Item = Answer>, is_certain: bool) {
        let mut other = Self::default();
        answers.into_iter().for_each(|answer| other.add(answer));
        self.is_open |= other.is_open;
        if is_certain && !other.is_open {
            self.must.extend(other.must);
        } else {
            self.may.extend(other.must);
        }
    }

    /// True when this is one of the rules that it has to be.
    pub fn allows(&self, rule: Option<&str>) -> bool {
        match rule {
            Some(rule) => {
                let all = [&self.must, &self.told, &self.may];
                self.is_open || all.iter().any(|rules| rules.contains(rule))
            }
            None => self.must.is_empty() && self.told.is_empty(),
        }
    }

    /// True when the rules kill for it, whichever of them decides.
    pub fn kills(&self) -> bool {
        let mut all = self.must.iter();
        !self.must.is_empty() && all.any(|rule| !["written", "asked"].contains(rule))
    }
}

/// The answer of the rules.
pub fn decide(act: &Act<'_>) -> Decided {
    let mut decided = Decided::default();
    let of = |name: &Option<String>, access: &str| {
        let known = name.as_ref();
        known.map_or(Elsewhere, |name| answer(place(name), access))
    };
    let names: Vec<&Option<String>> = act.objects.iter().chain(&act.new).collect();
    for name in &names {
        for access in &act.access {
            decided.add(of(name, access));
        }
    }
    let object = act.objects.first().cloned().flatten();
    if act.is_vague {
        decided.may = std::mem::take(&mut decided.must);
    }
    if act.is_open {
        return decided;
    }
    // Behind what is no directory, or is not found, the strictest rule there is answers; a look goes by the text.
    let steps_back = act.steps_back || act.aim.as_deref().is_some_and(steps_back);
    decided.is_open |= steps_back && act.access != ["stat"];
    if act.is_done {
        names
            .iter()
            .for_each(|name| through_root(name.as_deref(), act, &mut decided));
    }
    if act.is_attempt && act.access == ["unlink"] {
        names.iter().for_each(|name| decided.add(of(name, "write")));
    }
    if let Some(new) = &act.new {
        moved(act, object.as_deref(), new.as_deref(), &mut decided);
        if act.exchanges {
            moved(act, new.as_deref(), object.as_deref(), &mut decided);
        }
    }
    if let Some(aim) = &act.aim {
        aimed(object.as_deref(), aim, &mut decided);
    }
    decided
}

/// A name through a link of /proc to the root is the name of the file that it leads to. Who knows that alone, that it leads
/// somewhere, takes the strictest rule there is, whichever that be.
fn through_root(name: Option<&str>, act: &Act<'_>, decided: &mut Decided) {
    let links = ["/proc/self/root", "/proc/thread-self/root"];
    let behind = |name: &str| {
        links
            .iter()
            .find_map(|link| name.strip_prefix(link).map(str::to_owned))
    };
    if let Some(path) = name.and_then(behind).filter(|path| path.starts_with('/')) {
        let answers = act.access.iter().map(|access| answer(place(&path), access));
        answers.for_each(|answer| decided.add(answer));
        decided.is_open = true;
    }
}

/// True for a path with a `..` behind another name, or one so long that nobody walks along it to its end, step by step.
pub fn steps_back(path: &str) -> bool {
    const LONG: usize = 500;
    if path.len() > LONG {
        return true;
    }
    let mut parts = path
        .split('/')
        .skip_while(|part| matches!(*part, "" | "." | ".."));
    parts.any(|part| part == "..")
}

/// A file or a directory that had one name and has another.
fn moved(act: &Act<'_>, old: Option<&str>, new: Option<&str>, decided: &mut Decided) {
    if !act.is_attempt {
        return;
    }
    let (Some(old), Some(new)) = (old, new) else {
        decided.is_open = true;
        return;
    };
    decided.add(answer(place(new), "write"));
    if place(old) != place(new) {
        decided.add(away(place(old)));
    }
    // From another directory a symlink leads elsewhere. Who learns no more than its name takes the strictest rule there is.
    let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let is_apart = act.is_done && folder(old) != folder(new);
    // Behind a directory that may be a symlink nobody finds what was moved.
    let is_found = [old, new].iter().all(|name| is_in_a_sure_folder(name));
    decided.is_open |= is_apart && (act.carries || !is_found);
    decided.is_open |= act.is_done && act.detours && !is_found;
    // What was not renamed may be no directory.
    if act.access == ["rename"] && act.is_done && !are_alike_below(old, new) {
        let lost = below(old).into_iter().map(away);
        let made = below(new).into_iter().map(|it| answer(it, "write"));
        decided.add_all(lost.chain(made), act.moves == Some(true));
    }
}

/// The text that is told of a symlink's aim: of a relative one what it takes from its name, where all that is in a directory
/// is meant; of an absolute one who may read it. Of an empty one nobody says where it leads.
fn aimed(own: Option<&str>, aim: &str, decided: &mut Decided) {
    let is_absolute = aim.starts_with('/');
    let whole = match (is_absolute, own) {
        (true, _) => aim.to_owned(),
        (false, Some(own)) => format!("{own}/../{aim}"),
        (false, None) => return decided.add(Elsewhere),
    };
    // Behind a directory that may be a symlink, a relative one starts from nobody knows where.
    decided.is_open |= !is_absolute && own.is_some_and(|own| !is_in_a_sure_folder(own));
    let path = normal(&whole);
    let ask = |place| {
        if is_absolute {
            answer(place, "read")
        } else {
            away(place)
        }
    };
    // Without hooks, who writes to the file itself through it tells the symlink's name alone: then its making is told.
    if let Rule(rule) = answer(place(&path), "write") {
        decided.may.insert(rule);
    }
    let mut told = Decided::default();
    let is_one = own.is_some_and(|own| place(own) == place(&path));
    if !is_one || place(&path) == Place::Elsewhere {
        told.add(ask(place(&path)));
    }
    // As a rename, where it gives what is in a directory other rules; below its own name, all that is made there.
    let is_alike = own.is_some_and(|own| are_alike_below(own, &path));
    let lost = below(&path).into_iter().map(ask);
    if is_absolute {
        told.add_all(lost, true);
    } else if !is_alike {
        decided.add_all(lost, !aim.is_empty());
    }
    if !is_alike {
        let made = own.map_or_else(Vec::new, below);
        decided.add_all(made.into_iter().map(|it| answer(it, "write")), true);
    }
    decided.is_open |= told.is_open;
    if aim.is_empty() {
        decided.may.extend(told.must);
    } else {
        decided.told.extend(told.must);
    }
}

/// True for a name in a directory that is certainly no symlink.
fn is_in_a_sure_folder(name: &str) -> bool {
    let folder = name.rsplit_once('/').map(|(folder, _)| folder);
    folder.is_none_or(|folder| ["/workspace", "/tmp"].contains(&folder))
}

/// Without `.`, `..` and doubled slashes, by the letters.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let whole: String = parts.iter().map(|part| format!("/{part}")).collect();
    if whole.is_empty() {
        "/".to_owned()
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act<'a>(access: &'a str, object: &str, new: &str) -> Act<'a> {
        Act {
            access: vec![access],
            objects: vec![Some(object.to_owned())],
            new: Some(Some(new.to_owned())).filter(|_| !new.is_empty()),
            is_attempt: true,
            is_done: true,
            ..Act::default()
        }
    }

    #[test]
    fn who_gives_another_name_is_asked_about_both() {
        let of = |access, object, new| decide(&act(access, object, new));
        assert!(of("link", "/workspace/vault/v", "/workspace/x").allows(Some("inside")));
        assert!(of("link", "/workspace/a", "/workspace/d/y").allows(Some("inside")));
        assert!(!of("link", "/workspace/a", "/workspace/x").allows(Some("inside")));
        assert!(!of("rename", "/workspace/k0", "/workspace/x").allows(None));
        assert!(of("rename", "/workspace/q0", "/workspace/q1").allows(Some("written")));
        let of_directory = Act {
            moves: Some(true),
            ..act("rename", "/workspace/vault", "/workspace/x")
        };
        assert_eq!(decide(&of_directory).must, BTreeSet::from(["inside"]));
        let exchange = |is_done| Act {
            is_done,
            exchanges: true,
            moves: Some(is_done),
            ..act("rename", "/workspace/d", "/workspace/vault")
        };
        assert_eq!(decide(&exchange(true)).must, BTreeSet::from(["inside"]));
        assert_eq!(decide(&exchange(false)), Decided::default());
        let of_symlink = Act {
            access: vec!["write"],
            aim: Some("../vault".to_owned()),
            ..act("write", "/workspace/e/x", "")
        };
        assert_eq!(decide(&of_symlink).must, BTreeSet::from(["inside"]));
        let through = of("unlink", "/proc/self/root/workspace/k0", "");
        assert!(through.kills() && through.allows(Some("another")) && !through.allows(None));
        assert!(!of("unlink", "/proc/self/root/workspace/x", "").kills());
    }
}
