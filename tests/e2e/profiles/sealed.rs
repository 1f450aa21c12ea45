//! `sealed`: code that only computes passes, and every look at more is told and in vain.

use serde_json::Value;
use turnkey_tests::Ran;

use super::{passed, told, under};

const MODULES: &str = "
import importlib, sys
elsewhere = {'antigravity', 'this', 'turtle', 'turtledemo', 'idlelib', 'tkinter', '_tkinter'}
for name in sorted(sys.stdlib_module_names - elsewhere):
    try: importlib.import_module(name)
    except ImportError as error: assert name in str(error), error
print('imported')";

#[test]
fn the_standard_library_of_python_is_imported_without_a_finding() {
    passed(&under("sealed").python(MODULES), "imported\n");
}

const WORK: &str = "
import asyncio, concurrent.futures, datetime, getpass, glob, hashlib, json, locale, mimetypes
import multiprocessing, os, pathlib, platform, sqlite3, ssl, subprocess, tempfile, uuid
with concurrent.futures.ThreadPoolExecutor() as some: print(sum(some.map(abs, range(-4, 0))))
with multiprocessing.get_context('fork').Pool(2) as some: print(some.map(abs, [-1, -2]))
print(subprocess.run(['echo', 'said'], capture_output=True).stdout, getpass.getuser())
folder = tempfile.mkdtemp()
pathlib.Path(folder, 'x').write_text('y')
print(len(glob.glob(folder + '/*')), os.listdir('.'), os.path.expanduser('~'))
os.cpu_count(); os.path.realpath('x'); platform.system(); uuid.uuid4(); ssl.create_default_context
locale.setlocale(locale.LC_ALL, ''); mimetypes.guess_type('a.html'); asyncio.run(asyncio.sleep(0))
print(sqlite3.connect(':memory:').execute('select 1').fetchone(), hashlib.md5(b'').hexdigest()[:4])";

#[test]
fn a_program_that_computes_passes() {
    let printed = "10\n[1, 2]\nb'said\\n' jail\n1 ['given'] /workspace\n(1,) d41d\n";
    passed(&under("sealed").file("given", "").python(WORK), printed);
}

const PIPELINE: &str = r#"
set -e
printf 'b\na\n' > x; sort x | uniq -c | awk '{ print $2 }' | tr a-z A-Z; ls; ls -l . > /dev/null
sed s/a/c/ x | grep -c c; find . -name 'x'; mkdir d; cp x d; mv d e; rm -r e; wc -l < x; date +%Y > /dev/null
tar cf /tmp/t x; gzip /tmp/t; md5sum < x | cut -c 1-4; head -n 1 x | rev; seq 3 | paste -sd+; stat -c %s x
for i in *; do test -f "$i"; done; [ ! -e none ]; command -v cat; dd if=x of=y 2> /dev/null; diff x y
"#;

#[test]
fn a_pipeline_of_small_programs_passes() {
    let printed = "A\nB\nx\n1\n./x\n2\nd6b4\nb\n1+2+3\n4\n/usr/bin/cat\n";
    passed(&under("sealed").shell(PIPELINE), printed);
}

/// Each with what shows that it had its effect under a profile that shows the machine, and the rule that
/// tells of it.
const LOOKS: [(&str, &str, &str); 7] = [
    ("ls /usr/bin", "env", "system-directory"),
    ("echo /usr/lib/*", "/usr/lib/", "system-directory"),
    ("ls -d /usr/share/libc-bin", "libc-bin", "elsewhere"),
    (
        "test -e /usr/share/libc-bin && echo there",
        "there",
        "elsewhere",
    ),
    ("cat /proc/meminfo", "MemTotal", "host-kernel"),
    ("cat /proc/version", "Linux", "host-kernel"),
    ("cat /proc/filesystems", "tmpfs", "usual-file"),
];

fn look(profile: &str, command: &str) -> Ran {
    under(profile).shell(&format!("{command}; true"))
}

#[test]
fn a_look_at_more_has_its_effect_elsewhere_and_is_in_vain_and_told_here() {
    for (command, effect, rule) in LOOKS {
        let shown = look("untrusted", command);
        shown.expect(shown.stdout.contains(effect), "the control: it is shown");
        let ran = look("sealed", command);
        ran.expect(!seen(&ran, effect), "nothing is shown");
        if rule == "usual-file" {
            ran.expect(ran.at("/risk_score") == 0, "every start asks for it");
        } else {
            told(&ran, rule);
            ran.expect(
                ran.at("/risk_score").as_u64() > Some(50),
                "an attack by its score",
            );
        }
    }
}

/// A pattern of the shell's that matches nothing is printed as it is.
fn seen(ran: &Ran, effect: &str) -> bool {
    let lines = ran.stdout.lines();
    lines
        .filter(|line| !line.ends_with('*'))
        .any(|line| line.contains(effect))
}

#[test]
fn who_reads_the_accounts_is_told_and_who_prints_a_name_is_not() {
    let accounts = |ran: &Ran| -> Vec<Value> {
        let all = ran.list("/findings").iter().cloned();
        all.filter(|one| one["id"] == "behaviour:account-discovery")
            .collect()
    };
    let reads = look("sealed", "cat /etc/passwd");
    reads.expect(accounts(&reads).len() == 1, "told");
    reads.expect(
        !reads.stdout.contains("root:x:0:0:root:/root"),
        "the host's are not there",
    );
    let prints = look("sealed", "ls -l /tmp; id -un; stat -c %U .");
    prints.expect(prints.stdout.contains("jail"), "the name is known");
    prints.expect(accounts(&prints).is_empty(), "and no finding");
    prints.expect(prints.at("/verdict") == "clean", "clean");
}

#[test]
fn what_an_installed_program_looks_for_by_itself_is_no_finding() {
    let git = under("sealed")
        .shell("git init -q x && cd x && git commit -q --allow-empty -m y && git clone -q . ../y");
    git.expect(git.violations().is_empty(), "git looks for its own");
    let told = git.list("/file_operations").iter();
    let mut places = told.filter_map(|one| one["path"].as_str());
    let is_there = places.any(|path| path.starts_with("/etc/"));
    git.expect(is_there, "the control: it looked, and that is told");
    // Whoever leads it there asks by itself.
    for command in [
        "cat /etc/mailname",
        "cd /etc; cat mailname",
        "python3 -c 'open(\"/etc/mailname\")'",
    ] {
        let ran = under("sealed").shell(command);
        let mut rules = ran.violations().iter().map(|one| &one["rule"]);
        ran.expect(rules.any(|rule| rule == "elsewhere"), command);
    }
}
