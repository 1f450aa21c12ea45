//! The words of programs that change the files they are told of. Most look first whether a file is there, and where there is none they
//! try nothing that the kernel would tell of; what was meant stands in their words alone.

use super::process_state::base_name;

/// Programs that change all that they are told of, and look for it first.
const CHANGE_ALL: &[&[u8]] = &[
    b"chattr", b"chgrp", b"chmod", b"chown", b"mv", b"rm", b"rmdir", b"setfacl", b"unlink",
];
/// Programs that print a file anew, or change it where it lies when an option says so. Their first word is a program of their own.
const EDIT_IN_PLACE: &[&[u8]] = &[b"perl", b"sed"];

/// The absolute paths that a program is told to change.
pub fn told_to_change<'a>(exe: &'a [u8], argv: &'a [Vec<u8>]) -> impl Iterator<Item = &'a [u8]> {
    let called = argv.first().map_or(exe, |name| &name[..]);
    let words = argv.get(1..).unwrap_or_default();
    let operands = operands_of(base_name(called), words);
    operands
        .iter()
        .map(|word| &word[..])
        .filter(|word| word.starts_with(b"/"))
}

fn operands_of<'a>(name: &[u8], words: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
    if CHANGE_ALL.contains(&name) {
        return words;
    }
    if !EDIT_IN_PLACE.contains(&name) || !words.iter().any(|word| is_in_place(word)) {
        return &[];
    }
    // The program is the first word that is no option, or stands behind one that says so.
    let program = words.iter().position(|word| !word.starts_with(b"-"));
    program.map_or(&[], |at| &words[at + 1..])
}

/// True for `-i`, alone or behind letters that take nothing, with an ending for the copy or without, and for `--in-place`.
fn is_in_place(word: &[u8]) -> bool {
    const LETTERS: &[u8] = b"-Eabelnprsuwz";
    let other = word.iter().position(|letter| !LETTERS.contains(letter));
    word.starts_with(b"--in-place")
        || word.starts_with(b"-")
            && !word.starts_with(b"--")
            && other.is_some_and(|at| word[at] == b'i')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_to_be_changed_is_told() {
        let told = |line: &str| {
            let argv: Vec<Vec<u8>> = line
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect();
            let paths: Vec<String> = told_to_change(b"/usr/bin/x", &argv)
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect();
            paths.join(" ")
        };
        for (line, paths) in [
            ("rm -rf /home/ada build", "/home/ada"),
            ("/bin/rm /a /b", "/a /b"),
            ("chmod -R 777 /etc/x", "/etc/x"),
            ("cat /etc/x", ""),
            ("sed -i s/a/b/ /etc/x", "/etc/x"),
            ("sed -n -i.bak /a/d /etc/x", "/etc/x"),
            ("sed --in-place=.b -e /a/d /etc/x", "/etc/x"),
            ("sed /a/d /etc/x", ""),
            ("sed -n /i/p /etc/x", ""),
            ("perl -pi -e s/a/b/ /etc/x", "/etc/x"),
            ("perl -MFile::Find -ne print /etc/x", ""),
        ] {
            assert_eq!(told(line), paths, "{line}");
        }
    }
}
