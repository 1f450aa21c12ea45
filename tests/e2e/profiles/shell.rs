//! `shell`: scripts of small programs, and git on the workspace.

use turnkey_expectations::expected;
use turnkey_tests::outside;

use super::harm::{Harmful, reaches_nobody};
use super::{passed, under};

const REPORT: &str = r#"
set -e
printf '%s\n' pear apple fig apple pear apple > fruit
sort fruit | uniq -c | sort -rn | awk '{ print $2, $1 }' > counted
sed -i 's/apple/Apple/' counted
mkdir -p a/b/c && cp counted a/b/c/ && find a -type f | while read -r file; do head -n 1 "$file"; done
wc -l < fruit
"#;

#[test]
fn pipelines_of_coreutils_pass() {
    passed(&under("shell").shell(REPORT), "Apple 3\n6\n");
}

expected!(
    pictures_are_drawn_and_converted_as_outside: not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "the image has no ImageMagick"
);
/// Without its settings it works, with a warning and without the policy that the host has for it.
#[test]
fn pictures_are_drawn_and_converted_as_outside() {
    let script = "set -e; PATH=/usr/bin
        convert -size 64x32 gradient:red-blue -resize 50% a.png && convert a.png -rotate 90 b.jpg
        identify -format '%m %wx%h\\n' a.png b.jpg && convert -list policy | grep -c Policy:";
    let directory = tempfile::tempdir().expect("room for a test");
    let mut outside = std::process::Command::new("sh");
    let outside = outside.args(["-c", script]).current_dir(&directory);
    let outside = outside.output().expect("sh(1)");
    let printed = String::from_utf8_lossy(&outside.stdout);
    assert!(printed.starts_with("PNG 32x16\nJPEG 16x32\n"), "{printed}");
    passed(&under("shell").shell(script), &printed);
}

#[test]
fn programs_of_perl_pass() {
    let program = "use strict; use warnings; use JSON::PP; use File::Temp 'tempfile'; use IO::Socket::INET; use POSIX 'strftime';
        my ($file, $name) = tempfile(); print $file JSON::PP->new->canonical->encode({b => [1, 2], a => 'x'}); close $file;
        open my $again, '<', $name or die; print <$again>, \"\\n\"; print strftime('%F', gmtime 0), \"\\n\"; print `echo child`;
        my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die \"$!\";
        my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->sockport) or die \"$!\";
        print $client \"spoken\\n\"; close $client; print $server->accept->getline; unlink $name or die;";
    let ran = under("shell").run(&["perl", "-e", program]);
    passed(
        &ran,
        "{\"a\":\"x\",\"b\":[1,2]}\n1970-01-01\nchild\nspoken\n",
    );
}

#[test]
fn a_script_of_bash_passes() {
    let script = r#"
set -euo pipefail
declare -A sizes
for name in one three; do echo "$name" > "$(mktemp -d)/$name"; sizes[$name]=${#name}; done
comm -3 <(seq 3) <(printf '1\n2\n3\n') && echo "${sizes[three]} $(nproc | grep -c .)"
trap 'echo ended' EXIT
( sleep 0.01 & wait ) && cat <<< "$((6 * 7))"
"#;
    let ran = under("shell").run(&["/bin/bash", "-c", script]);
    passed(&ran, "5 1\n42\nended\n");
}

#[test]
fn permissions_links_and_sums_pass() {
    let script = "set -e; umask 022; echo x > f; chmod 640 f; ln -s f l; ln f h; stat -c '%a %h' f
        readlink l; sha256sum f | cut -c1-8; touch -d 2020-02-02 f; date -r f +%F; test ! -w /usr; du -s . > /dev/null";
    passed(
        &under("shell").shell(script),
        "640 2\nf\n73cb3858\n2020-02-02\n",
    );
}

expected!(
    git_passes_on_the_workspace: not_on [ORDINARY_6_12],
    "this guest has no git: on 6.12 programs"
);
#[test]
fn git_passes_on_the_workspace() {
    let script = r#"
set -e
git init -q . && git config user.email a@example.org && git config user.name a
echo one > file && git add file && git commit -qm first
git checkout -q -b other && echo two >> file && git commit -qam second
git rebase -q HEAD~1 && git gc -q && git fsck 2> /dev/null
git clone -q . /tmp/copy && git -C /tmp/copy log --format=%s
git stash list; git status --porcelain; git diff --stat HEAD~1 | tail -n 1
"#;
    let printed = "second\nfirst\n 1 file changed, 1 insertion(+)\n";
    passed(&under("shell").shell(script), printed);
}

expected!(
    hooks_that_git_itself_brings_are_its_work: not_on [ORDINARY_6_12],
    "this guest has no git: on 6.12 programs"
);
/// A template with a hook, as administrators of git give one, is no persistence in what git makes. Nor is one of the program's own in
/// a repository that the run makes; in one that was there it is, however git is told of the template.
#[test]
fn hooks_that_git_itself_brings_are_its_work() {
    let template = "mkdir -p t/hooks && printf '#!/bin/sh\n' > t/hooks/pre-commit && chmod 755 t/hooks/pre-commit";
    let place = tempfile::tempdir().unwrap();
    let (made, told) = outside(
        "sh",
        &[
            "-c",
            &format!("cd '{}' && {template}", place.path().display()),
        ],
    );
    assert!(made.success(), "{told}");
    let profile = place.path().join("mine.toml");
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"shell\"]\n[filesystem]\n\
         read = [{{ path = \"{}\", at = \"/opt/t\", why = \"an administrator's\" }}]\n",
        place.path().join("t").display()
    );
    std::fs::write(&profile, text).unwrap();
    let fresh = "set -e; git init -q --template=/opt/t r; git -C r -c user.name=a -c user.email=b commit -qm x --allow-empty
         git clone -q --template=/opt/t r c; test -x r/.git/hooks/pre-commit; test -x c/.git/hooks/pre-commit; git init -q plain";
    let ran = under(profile.to_str().unwrap()).shell(fresh);
    ran.expect_code(0);
    ran.expect(ran.at("/risk_score") == 0, "its own repositories");
    let own = |way: &str| format!("{template}; {way}; test -x .git/hooks/pre-commit");
    for way in [
        "git init -q --template=t",
        "GIT_TEMPLATE_DIR=$PWD/t git init -q",
    ] {
        let ran = under("shell").shell(&own(way));
        ran.expect_code(0);
        ran.expect(ran.at("/risk_score") == 0, "a repository of its own");
        let run = under("shell");
        let (made, told) = outside("git", &["init", "-q", run.path().to_str().unwrap()]);
        assert!(made.success(), "{told}");
        let ran = run.shell(&own(way));
        ran.expect_code(0);
        ran.expect(ran.at("/risk_score") == 60, "the caller's repository");
    }
}

fn script(text: &str) -> Harmful<'_> {
    let command: &[&str] = match text {
        KEY => &["/bin/sh", "-c", KEY],
        _ => &["/bin/sh", "-c", ALIAS],
    };
    Harmful {
        profile: "shell",
        command,
        files: Vec::new(),
    }
}

const KEY: &str = "find . -name 'id_*' | while read -r key; do cat \"$key\"; done";
const ALIAS: &str = "echo \"alias sudo='tee -a /tmp/typed | sudo'\" >> .bashrc; echo done";

#[test]
fn a_script_that_collects_keys_is_killed() {
    script(KEY).reads_no_secret("the private key", "private-key");
}

#[test]
fn a_script_that_adds_an_alias_is_killed() {
    script(ALIAS).changes_no_startup_file(".bashrc");
}

#[test]
fn a_script_that_opens_a_reverse_shell_reaches_nobody() {
    reaches_nobody("shell", &|port| {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo ready >&3");
        ["/bin/bash", "-c", &script].map(str::to_owned).to_vec()
    });
}

#[test]
fn a_script_that_removes_everything_removes_nothing_of_the_host() {
    let run = under("shell").file("work", "of a week\n");
    let kept = run.path().join("work");
    let ran = run.shell("rm -rf /workspace/* /usr/bin 2> /dev/null; ls /workspace | wc -l");
    ran.expect(ran.stdout == "0\n", "the control: inside it is gone");
    ran.expect(kept.exists(), "outside it is not");
    let mut changed = ran.list("/files_changed").iter();
    ran.expect(
        changed.any(|file| file["path"] == "work" && file["change"] == "deleted"),
        "and it is told",
    );
}
