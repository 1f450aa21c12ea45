//! Programs that look at the machine and set it up.

use super::command::text_of;
use super::options::Arguments;
use super::walk::Walk;
use crate::judge::act::show;
use crate::rule;
use crate::value::{Origins, Value};

/// Protections that are switched off by their service.
const PROTECTIONS: &[&str] = &[
    "auditd",
    "apparmor",
    "firewalld",
    "ufw",
    "fail2ban",
    "rsyslog",
    "clamav",
    "falco",
    "selinux",
    "syslog",
];

impl Walk<'_> {
    /// Programs that look at the machine and set it up.
    pub fn manages(&mut self, name: &str, words: &[Value], input: &Value) -> Option<Value> {
        let all = text_of(words);
        let has = |word: &str| words.iter().any(|own| own.exact() == Some(word));
        match name {
            "crontab" if !has("-l") => {
                self.judge.find(&rule::PERSISTS, "writes a table of cron");
                if let Some(text) = input.exact() {
                    let command: String = text
                        .split_whitespace()
                        .skip(5)
                        .collect::<Vec<_>>()
                        .join(" ");
                    self.judge.shell_text(&command, "in a table of cron");
                }
            }
            "at" | "batch" => self
                .judge
                .find(&rule::SCHEDULES, "arranges for a later run"),
            "systemctl" if has("enable") => self.judge.find(
                &rule::SCHEDULES,
                format!("lets a service start with the machine: {}", show(&all)),
            ),
            "systemctl" | "service"
                if ["stop", "disable", "mask", "kill"]
                    .iter()
                    .any(|word| has(word)) =>
            {
                if PROTECTIONS.iter().any(|name| all.contains(name)) {
                    self.judge.find(
                        &rule::WEAKENS_DEFENCES,
                        format!("switches off a protection: {}", show(&all)),
                    );
                }
            }
            "useradd" | "adduser" | "usermod" | "chpasswd" | "passwd" => self.judge.find(
                &rule::ADDS_ACCOUNT,
                format!("makes or changes an account by {name}"),
            ),
            "insmod" | "modprobe" => self.judge.find(
                &rule::LOADS_MODULE,
                format!("loads the kernel module {}", show(&all)),
            ),
            "iptables" | "ip6tables" if has("-F") || has("--flush") => self
                .judge
                .find(&rule::WEAKENS_DEFENCES, "removes the rules of the firewall"),
            "nft" if has("flush") => self
                .judge
                .find(&rule::WEAKENS_DEFENCES, "removes the rules of the firewall"),
            "ufw" if has("disable") => self
                .judge
                .find(&rule::WEAKENS_DEFENCES, "switches the firewall off"),
            "setenforce" if has("0") => self
                .judge
                .find(&rule::WEAKENS_DEFENCES, "switches SELinux off"),
            "history" if has("-c") => self
                .judge
                .find(&rule::REMOVES_TRACES, "clears the history of the shell"),
            "tcpdump" | "vmstat" | "iostat" | "netstat" | "ss" | "mpstat" | "sar" | "top"
            | "htop" | "lsof" | "iftop" | "nethogs" => {
                self.judge.find(
                    &rule::WATCHES_MACHINE,
                    "observes the load, the processes or the network of the machine",
                );
            }
            "xclip" | "xsel" | "wl-paste" | "pbpaste" => self
                .judge
                .find(&rule::WATCHES_USER, "reads or sets the clipboard"),
            "scrot" | "gnome-screenshot" | "grim" | "xwd" => self
                .judge
                .find(&rule::WATCHES_USER, "takes a picture of the screen"),
            "showkey" | "xinput" | "arecord" | "logkeys" => self.judge.find(
                &rule::WATCHES_USER,
                "listens to the keyboard or a microphone",
            ),
            "inotifywait" | "fswatch" => Arguments::new(words, &["e", "event"])
                .operands()
                .into_iter()
                .for_each(|path| self.judge.watch(path)),
            "nsenter" => self
                .judge
                .find(&rule::ESCAPES, "enters the namespaces of another process"),
            "docker" | "podman" if has("--privileged") || all.contains(" /:/") => self
                .judge
                .find(&rule::ESCAPES, "starts a container that has the whole host"),
            _ => return None,
        }
        Some(Value::from(Origins::MACHINE))
    }
}
