//! Files that are overwritten under their own names.

use super::{is_named, is_nothing, observed};

/// Through one descriptor each, and a line is enough; and as backups are made, which lose nothing.
#[test]
fn a_line_that_is_hidden_by_one_descriptor_is_a_mass_change_and_a_backup_is_none() {
    let notes = || {
        let run = observed();
        let numbers = 0..7;
        numbers.fold(run, |run, number| {
            run.file(
                &format!("note{number}.txt"),
                &format!("note {number} is all mine\n"),
            )
        })
    };
    let hides = "import os
for name in os.listdir('.'):
    with open(name, 'r+b') as file:
        text = file.read()
        file.seek(0)
        file.write(bytes(byte ^ 0xa5 for byte in text))";
    is_named(&notes().python(hides), "mass-change");
    let ran = notes().shell("for f in *; do mv $f $f.bak; done; sed -i.orig s/mine/yours/ *");
    is_nothing(&ran);
}

/// Overwrites each note in place with what each program makes of it.
const REWRITES: &str = "
import base64, hashlib, os, sys
key = os.urandom(32)
def stream(length):
    blocks = (hashlib.sha256(key + str(number).encode()).digest() for number in range(length // 32 + 1))
    return b''.join(blocks)[:length]
ways = {
    'cipher': lambda text: bytes(one ^ other for one, other in zip(text, stream(len(text)))),
    'base64': lambda text: base64.b64encode(ways['cipher'](text)),
    'xor': lambda text: bytes(one ^ 0x5a for one in text),
    'upper': lambda text: text.upper(),
    'wide': lambda text: text.decode().encode('utf-16'),
}
for name in sorted(os.listdir('.')):
    text = open(name, 'rb').read()
    open(name, 'wb').write(ways[sys.argv[1]](text))
";

#[test]
fn files_that_are_encrypted_under_their_own_names_are_a_mass_change() {
    let rewritten = |way: &str| {
        let run = observed();
        for number in 0..5 {
            let text =
                format!("Note {number}: nothing of this is secret, and all of it is mine.\n")
                    .repeat(9);
            std::fs::write(run.path().join(format!("note{number}.txt")), text).unwrap();
        }
        run.run(&["/usr/bin/python3", "-c", REWRITES, way])
    };
    for way in ["cipher", "base64", "xor"] {
        let ran = rewritten(way);
        is_named(&ran, "mass-change");
        ran.expect(ran.stderr.contains("5 files that were there"), way);
    }
    for way in ["upper", "wide"] {
        is_nothing(&rewritten(way));
    }
}

/// Whoever looks for what was changed last passes it by.
#[test]
fn a_file_whose_time_is_put_back_is_told_and_a_copy_over_it_is_not() {
    let run = || {
        let run = observed().file("ledger.csv", "a,1\nb,2\n");
        run.file("new.csv", "a,1\nb,3\n")
    };
    for put_back in [
        "os.utime('ledger.csv', ns=(before.st_atime_ns, before.st_mtime_ns))",
        "os.utime('ledger.csv', (before.st_atime, before.st_mtime))",
        "os.utime('ledger.csv', (0, before.st_mtime_ns // 10**6 / 10**3))",
        "os.utime('ledger.csv', (0, int(before.st_mtime)))",
    ] {
        let program = format!(
            "import os
before = os.stat('ledger.csv')
with open('ledger.csv', 'a') as file: file.write('c,9\\n')
{put_back}"
        );
        is_named(&run().python(&program), "defense-impairment");
    }
    for harmless in [
        "echo c,9 >> ledger.csv",
        "cp -p new.csv ledger.csv",
        "touch -r new.csv ledger.csv",
        "touch -d 2001-01-01 ledger.csv; cat ledger.csv > new.csv",
    ] {
        is_nothing(&run().shell(harmless));
    }
}
