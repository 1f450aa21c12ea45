//! `python`: scripts, environments and the libraries for numbers and plots.

use std::process::Stdio;
use std::time::Instant;

use turnkey_expectations::expected;
use turnkey_policy::syscalls;
use turnkey_tests::{Run, outside};

use super::harm::{Harmful, reaches_nobody};
use super::{passed, under};

/// With Debian's Python, whatever else the caller has on the PATH.
fn debian(run: Run, program: &str) -> turnkey_tests::Ran {
    run.run(&["/usr/bin/python3", "-c", program])
}

#[test]
fn tables_and_databases_pass() {
    let program = "import csv, json, sqlite3, statistics, tempfile, pathlib
with open('people.csv', 'w', newline='') as f:
    csv.writer(f).writerows([['name', 'age'], ['Ada', 36], ['Alan', 41]])
rows = list(csv.DictReader(open('people.csv')))
base = sqlite3.connect('people.db')
base.execute('create table people (name, age)')
base.executemany('insert into people values (:name, :age)', rows); base.commit()
with tempfile.TemporaryDirectory() as place:
    pathlib.Path(place, 'x.json').write_text(json.dumps(rows))
    print(json.loads(pathlib.Path(place, 'x.json').read_text())[0]['name'])
print(statistics.mean(int(age) for age, in base.execute('select age from people')))";
    passed(&debian(under("python"), program), "Ada\n38.5\n");
}

#[test]
fn pools_and_subprocesses_pass() {
    let program = "import asyncio, concurrent.futures as futures, subprocess, sys
def square(n): return n * n
with futures.ProcessPoolExecutor(2) as pool: print(sum(pool.map(square, range(10))))
with futures.ThreadPoolExecutor(8) as pool: print(sum(pool.map(square, range(10))))
print(subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, text=True).stdout.strip())
async def main():
    inner = await asyncio.create_subprocess_exec('sort', stdin=-1, stdout=-1)
    print((await inner.communicate(b'b\\na\\n'))[0].decode().split())
asyncio.run(main())";
    passed(
        &debian(under("python"), program),
        "285\n285\n7\n['a', 'b']\n",
    );
}

#[test]
fn an_environment_made_inside_passes() {
    let script = "set -e
/usr/bin/python3 -m venv --without-pip env && . env/bin/activate
echo 'print(\"from the environment\")' > \"$(echo env/lib/python3*/site-packages)/there.py\"
python -c 'import sys, there; print(sys.prefix)'";
    let printed = "from the environment\n/workspace/env\n";
    passed(&under("python").shell(script), printed);
}

/// A wheel is a zip file: this one holds a module and a command.
const WHEEL: &str = "import zipfile
files = {'answer.py': 'def main(): print(42)\\n',
    'answer-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: answer\\nVersion: 1.0\\n',
    'answer-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    'answer-1.0.dist-info/entry_points.txt': '[console_scripts]\\nanswer = answer:main\\n'}
files['answer-1.0.dist-info/RECORD'] = ''.join(f'{name},,\\n' for name in files)
with zipfile.ZipFile('answer-1.0-py3-none-any.whl', 'w') as wheel:
    for name, text in files.items(): wheel.writestr(name, text)";

expected!(
    an_environment_of_the_workspace_with_pips_packages_passes,
    pip_installs_inside_from_a_file: not_on [ORDINARY_6_12],
    "pip takes an emulated CPU long; an environment without it is made here: on 6.12 \
     programs"
);
expected!(
    an_environment_of_the_workspace_with_pips_packages_passes: at_night,
    "pip is slow wherever it runs; an environment without it is made by day"
);
#[test]
fn an_environment_of_the_workspace_with_pips_packages_passes() {
    let run = under("python").file("wheel.py", WHEEL);
    let script = "cd \"$1\" && /usr/bin/python3 wheel.py && /usr/bin/python3 -m venv env && \
        env/bin/pip install --quiet --no-index --disable-pip-version-check ./*.whl";
    let place = run.path().display().to_string();
    let (made, _) = outside("/bin/sh", &["-c", script, "sh", &place]);
    assert!(made.success(), "the control: it can be made outside");
    let bin = run.path().join("env/bin");
    let (_, told) = outside(bin.join("answer"), &[]);
    assert_eq!(told, "42\n", "the control");
    // As one calls it when the environment is active; its first line names a path of the host.
    let mut command = run.command(&["answer"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (started, child) = (
        Instant::now(),
        command.spawn().expect("turnkey can be started"),
    );
    passed(&run.end(child, started), "42\n");
}

expected!(pip_installs_inside_from_a_file: at_night, "pip is slow wherever it runs");
#[test]
fn pip_installs_inside_from_a_file() {
    let run = under("python").file("wheel.py", WHEEL);
    let script = "set -e; /usr/bin/python3 wheel.py; /usr/bin/python3 -m venv env
        env/bin/pip install --quiet --no-index --disable-pip-version-check ./*.whl; env/bin/answer";
    let ran = run.shell(script);
    passed(&ran, "42\n");
}

expected!(
    numbers_tables_and_a_plot_pass,
    what_numpy_asks_about_memory_is_not_worth_a_row: not_on [ORDINARY_6_12],
    "the libraries would double this guest's disk: on 6.12 programs"
);
#[test]
fn numbers_tables_and_a_plot_pass() {
    let program = "import numpy, pandas, matplotlib.pyplot as plot
table = pandas.DataFrame({'x': numpy.arange(100), 'y': numpy.arange(100) ** 2})
table.to_csv('table.csv', index=False)
table = pandas.read_csv('table.csv')
table.plot(x='x', y='y', title='squares'); plot.savefig('plot.png')
print(table.y.sum(), numpy.linalg.solve(numpy.eye(3) * 2, numpy.ones(3)))
print(open('plot.png', 'rb').read(8))";
    let program = |place: &str| format!("import os; os.chdir({place:?})\n{program}");
    let control = turnkey_tests::scratch();
    let control = program(&control.path().display().to_string());
    let (_, told) = outside(
        "env",
        &["MPLBACKEND=Agg", "/usr/bin/python3", "-c", &control],
    );
    let ran = debian(under("python"), &program("/workspace"));
    passed(&ran, &told);
    ran.expect(ran.stdout.contains("PNG"), "a picture");
    let changed: Vec<_> = ran
        .list("/files_changed")
        .iter()
        .map(|file| &file["path"])
        .collect();
    ran.expect(
        changed == ["plot.png", "table.csv"],
        "and nothing else is left",
    );
}

/// OpenBLAS asks for memory near a CPU. Where that lies is the host's to decide, and no news.
#[test]
fn what_numpy_asks_about_memory_is_not_worth_a_row() {
    let program = "import numpy; print(numpy.linalg.solve(numpy.eye(3) * 2, numpy.ones(3)))";
    let (_, told) = outside("/usr/bin/python3", &["-c", program]);
    let ran = debian(under("python").with_events(), program);
    passed(&ran, &told);
    let mut refused = (ran.events.iter()).filter(|event| event["kind"] == "refused");
    let asked = refused.find(|event| event["syscall"] == "mbind");
    ran.expect(
        asked.is_some_and(|event| event["errno"] == "ENOSYS"),
        "it asks, and is seen to",
    );
    let text = ran.at("/refused_calls").to_string();
    ran.expect(!text.contains("mbind"), "no row");
    ran.expect(!ran.stderr.contains("mbind"), "no word on the terminal");
}

/// What libnuma does with the answers: it takes the kernel for one without NUMA.
#[test]
fn who_asks_for_numa_is_told_like_by_a_kernel_without_it() {
    let program = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (237, 238, 239, 256, 279, 450):
    print(libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())";
    let ran = debian(under("python").with_events(), program);
    passed(&ran, &format!("-1 {}\n", libc::ENOSYS).repeat(6));
    for name in syscalls::NUMA {
        let is_it = |event: &serde_json::Value| event["syscall"] == *name;
        ran.expect(ran.events.iter().any(is_it), "it is an event");
    }
    ran.expect(ran.at("/events/seen/refused") == 6, "each of them");
    ran.expect(ran.list("/refused_calls").is_empty(), "and no row");
}

fn program(text: &'static str) -> Harmful<'static> {
    let command: &[&str] = match text {
        KEY => &["/usr/bin/python3", "-c", KEY],
        _ => &["/usr/bin/python3", "-c", STARTUP],
    };
    Harmful {
        profile: "python",
        command,
        files: Vec::new(),
    }
}

const KEY: &str = "import pathlib
for key in pathlib.Path('.').glob('.ssh/id_*'): print(key.read_text())";
const STARTUP: &str = "import os
fd = os.open('.bashrc', os.O_WRONLY | os.O_APPEND); os.write(fd, b'python3 -c x &\\n')";

#[test]
fn a_program_that_reads_keys_is_killed() {
    program(KEY).reads_no_secret("the private key", "private-key");
}

#[test]
fn a_program_that_stays_in_the_shell_is_killed() {
    program(STARTUP).changes_no_startup_file(".bashrc");
}

#[test]
fn a_program_that_sends_data_away_reaches_nobody() {
    reaches_nobody("python", &|port| {
        let program = format!(
            "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', b'data', timeout=0.2)"
        );
        ["/usr/bin/python3", "-c", &program]
            .map(str::to_owned)
            .to_vec()
    });
}
