//! The meaning of known paths. One table, so that documentation, detectors and tests speak of the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use turnkey_policy::Glob;

/// Answers that are remembered; a path is looked at again after that many others.
const REMEMBERED: usize = 4096;

/// The properties that a path is known for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Reading it is going after a secret of this kind.
    pub secret: Option<&'static str>,
    /// The way in which what is written there runs later.
    pub startup: Option<&'static str>,
    /// Reading it tells of the machine, its users or its network.
    pub tells: bool,
    /// Reading it tells a jail or a virtual machine from a machine.
    pub probes: bool,
    /// Writing it reaches past every jail; `Reach::Read`: opening it at all does.
    pub outside: Option<Reach>,
    /// Programs load code from it.
    pub library: bool,
    /// True for the socket of an agent that holds secrets for a person.
    pub agent: bool,
    /// True for a list of what a person typed.
    pub history: bool,
    /// True for a setting by which people administer a machine or its services.
    pub administration: bool,
}

/// The access that it takes to reach past a jail with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any open.
    Open,
    /// An open for writing.
    Write,
}

/// Kinds of secrets and where they lie. Public halves of keys are left out in [`secret`].
pub const SECRETS: &[(&str, &[&str])] = &[
    (
        "password hashes",
        &["/etc/{shadow,gshadow}{,-}", "/etc/security/opasswd"],
    ),
    (
        "SSH keys",
        &["**/.ssh/{id_*,identity}", "/etc/ssh/ssh_host_*_key"],
    ),
    (
        "private keys",
        &[
            "**/.gnupg/{private-keys-v1.d/*,secring.gpg}",
            "/etc/ssl/private/*",
        ],
    ),
    ("accounts at Amazon", &["**/.aws/credentials"]),
    (
        "accounts at Microsoft",
        &["**/.azure/{accessTokens.json,msal_token_cache*}"],
    ),
    (
        "accounts at Google",
        &["**/.config/gcloud/{*.db,*.json,legacy_credentials/*/*}"],
    ),
    (
        "clusters and registries",
        &[
            "**/.kube/config",
            "**/.docker/config.json",
            "{/run,/var/run}/secrets/{*,kubernetes.io/serviceaccount/token}",
        ],
    ),
    (
        "code hosts",
        &[
            "**/.git-credentials",
            "**/.config/gh/hosts.yml",
            "**/.netrc",
        ],
    ),
    (
        "package registries",
        &["**/.pypirc", "**/.cargo/credentials{,.toml}"],
    ),
    ("databases", &["**/.pgpass"]),
    (
        "networks",
        &[
            "/etc/NetworkManager/system-connections/*",
            "/etc/{wireguard,wpa_supplicant}/*.conf",
            "/etc/openvpn/**.key",
            "/etc/ipsec.secrets",
            "/etc/ppp/{chap,pap}-secrets",
        ],
    ),
    (
        "vaults",
        &["**/.vault-token", "**/*.kdbx", "**/.password-store/*.gpg"],
    ),
    (
        "browsers",
        &[
            "**/.mozilla/firefox/*/{logins.json,key4.db,cookies.sqlite}",
            "**/.config/{google-chrome,chromium,microsoft-edge}/*/{Login Data,Cookies,Web Data}",
        ],
    ),
    (
        "wallets",
        &[
            "**/.{bitcoin,litecoin,dogecoin}/wallet.dat",
            "**/.ethereum/keystore/*",
            "**/.electrum/wallets/*",
        ],
    ),
    ("histories", &["**/.{bash,zsh,mysql,psql}_history"]),
    ("keyrings", &["**/.local/share/keyrings/*"]),
];

/// Of the same kinds, what is called so in whichever program's directory: as secrets these are read, and no directory holds them alone.
const SECRETS_BY_NAME: &[(&str, &[&str])] = &[
    (
        "browsers",
        &[
            "**/.{mozilla,librewolf,waterfox,thunderbird}/**/{logins.json,key4.db,cookies.sqlite}",
            // Chromium, in whichever browser or application it is.
            "**/.config/**/{Login Data,Cookies,Web Data}",
        ],
    ),
    (
        "messengers",
        &[
            "**/.config/**/Local Storage/leveldb/*",
            "**/.config/Signal/{config.json,sql/*}",
            "**/.local/share/TelegramDesktop/tdata/*",
        ],
    ),
    (
        "wallets",
        &[
            "**/.*/{wallet.dat,keystore/*,wallets/*,wallets/*/wallet.dat}",
            "**/.config/{*/wallets/*,Exodus/**,solana/*.json}",
        ],
    ),
    (
        "keyrings",
        &[
            "**/.local/share/kwalletd/*",
            "**/.kde*/share/apps/kwallet/*",
        ],
    ),
];

/// Sockets of those who hold the secrets of a person and act with them for whoever asks.
const AGENTS: &[&str] = &[
    "{/run,/var/run}/user/*/{keyring/*,gnupg/S.*,gcr/*,ssh-agent*}",
    "/tmp/ssh-*/agent.*",
    "/tmp/keyring-*/*",
    "**/.gnupg/S.*",
];

/// The occasion on which a service runs what a repository tells it to, with that service's secrets.
pub const PIPELINE: &str = "the next run of a pipeline";

const PIPELINES: &[&str] = &[
    "**/.{github,gitea,forgejo}/{workflows,actions}/**",
    "**/.{circleci,buildkite}/*.{yml,yaml}",
    "**/.{gitlab-ci,travis,drone,appveyor,cirrus}.{yml,yaml}",
    "**/{azure,bitbucket}-pipelines.{yml,yaml}",
    "**/{Jenkinsfile,.pre-commit-config.yaml}",
    // Run on the machine of whoever works there: by direnv, by hooks of packages, by agents, when a window is opened.
    "**/{.envrc,.husky/*,.claude/settings.json,.claude/settings.local.json,.vscode/tasks.json,.devcontainer/devcontainer.json}",
];

/// Occasions on which files run later by themselves, and where those are written.
pub const STARTUPS: &[(&str, &[&str])] = &[
    (
        "the start of a shell",
        &[
            "**/.{bashrc,bash_profile,bash_login,bash_logout,profile,zshrc,zshenv,zprofile,zlogin}",
            "**/.config/fish/config.fish",
            "/etc/{profile,bash.bashrc,environment}",
            "/etc/profile.d/*",
        ],
    ),
    (
        "cron",
        &[
            "/etc/{crontab,anacrontab}",
            "/etc/cron.*/*",
            "/var/spool/cron/{*,crontabs/*}",
        ],
    ),
    (
        "the start of the machine or of a session",
        &[
            "{/etc,/lib,/usr/lib,/run}/systemd/{system,user}/*",
            "**/.config/{systemd/user,autostart}/*",
            "/etc/{init.d/*,rc.local}",
        ],
    ),
    (
        "a login",
        &[
            "**/.ssh/{authorized_keys,authorized_keys2,rc}",
            "/etc/{passwd,group,shadow,sudoers}",
            "/etc/sudoers.d/*",
        ],
    ),
    ("a connection of SSH", &["**/.ssh/config"]),
    // Those of editors and of tmux are mostly settings, which scripts write by the way.
    (
        "the start of a debugger or a client",
        &["{/root,/home/*,/workspace}/.{gdbinit,lldbinit,psqlrc,sqliterc,irbrc,pdbrc,Rprofile}"],
    ),
    (
        "the start of a session",
        &[
            "{/root,/home/*,/workspace}/.{xprofile,xinitrc,xsession,xsessionrc,local/share/dbus-1/services/*}",
        ],
    ),
    (PIPELINE, PIPELINES),
    (
        "the start of Python",
        &[
            "**/{site,dist}-packages/*.pth",
            "**/{sitecustomize,usercustomize}.py",
        ],
    ),
    (
        "a command of git",
        &[
            // githooks(5).
            "**/.git/hooks/{pre,post}-{applypatch,auto-gc,checkout,commit,index-change,merge,merge-commit,push,rebase,receive,rewrite,update}",
            "**/.git/hooks/{applypatch-msg,commit-msg,fsmonitor-watchman,prepare-commit-msg,proc-receive,push-to-checkout}",
            "**/.git/hooks/{reference-transaction,sendemail-validate,update}",
            "**/.git/hooks/p4-{changelist,post-changelist,pre-submit,prepare-changelist}",
        ],
    ),
];

/// Files that tell of the machine. Those that the C library or an interpreter opens by itself are not
/// here: accounts, resolver, cpuinfo, meminfo, the process's own files.
pub const TELLING: &[&str] = &[
    "/etc/{issue,issue.net,motd,redhat-release,debian_version,lsb-release,machine-id,hostname,fstab,exports,crontab,sudoers,ssh/sshd_config}",
    "/proc/{version,cmdline,modules,partitions,mounts,uptime,loadavg,interrupts,iomem,devices,swaps}",
    "/proc/{net,*/net}/{tcp,tcp6,udp,udp6,raw,packet,arp,route,fib_trie,dev,unix}",
    "/sys/class/{net,block,dmi/id}/*",
    "/var/log/{auth.log,syslog,messages,secure,wtmp,lastlog,dpkg.log}",
    "/run/utmp",
];

/// Directories whose listing tells of the machine.
pub const TELLING_DIRECTORIES: &[&str] = &[
    "/", "/etc", "/home", "/root", "/boot", "/var", "/var/log", "/var/www", "/opt", "/srv", "/mnt",
    "/media", "/app", "/proc", "/sys", "/dev",
];

/// Files that tell a jail or a virtual machine.
pub const PROBES: &[&str] = &[
    "/.dockerenv",
    "/run/.containerenv",
    "/proc/1/{cgroup,sched,environ,mountinfo}",
    "/sys/class/dmi/id/{product_name,sys_vendor,board_vendor,bios_vendor}",
    "/sys/devices/virtual/dmi/id/{product_name,sys_vendor,board_vendor,bios_vendor}",
    "/sys/hypervisor/{type,uuid}",
    "/proc/{xen,vz,bc,scsi/scsi}",
    "/sys/kernel/{tracing,debug}/*",
    "/sys/kernel/debug/tracing/*",
];

/// Files that reach past a jail when they are written.
const WRITTEN_OUTSIDE: &[&str] = &[
    "/proc/sys/kernel/{core_pattern,modprobe,hotplug}",
    "/proc/sys/fs/binfmt_misc/*",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "**/release_agent",
    "/sys/fs/cgroup/**/cgroup.procs",
];

/// Files that reach past a jail when they are opened.
const OPENED_OUTSIDE: &[&str] = &[
    "/dev/{mem,kmem,port}",
    "/dev/{sd,vd,xvd,nvme,mmcblk,dm-,loop}*",
    "/proc/kcore",
    "/proc/1/{root,cwd,mem}",
    "/proc/1/root/**",
    "{/run,/var/run}/{docker.sock,crio/crio.sock,containerd/containerd.sock,podman/podman.sock}",
    "{/run,/var/run}/{cri-dockerd.sock,buildkit/buildkitd.sock,lxd/*,incus/*,libvirt/*}",
    "/var/{lib,snap}/{lxd,incus}/**/unix.socket",
    // The session of a person, whose manager starts what it is told to.
    "{/run,/var/run}/user/*/{bus,systemd/private,docker.sock,podman/podman.sock}",
];

/// Lists of what a person typed into shells, interpreters and clients, which they write themselves.
const HISTORIES: &[&str] = &["**/.*_history", "**/.local/share/fish/fish_history"];

/// Settings of the machine and its services, which those services and the tools of administrators read. Left out is what libraries
/// open for whoever loads them, such as `my.cnf`, `mime.types` of a web server, settings of udev, libvirt and SELinux, and by what
/// scripts know a system.
const ADMINISTRATION: &[&str] = &[
    "/etc/{fstab,crypttab,exports,inittab,rc.local,sysctl.conf,securetty,login.defs,adduser.conf,deluser.conf,subuid,subgid}",
    "/etc/{crontab,anacrontab,at.allow,at.deny,cron.allow,cron.deny,hosts.allow,hosts.deny,hosts.equiv,ftpusers,aliases}",
    "/etc/{pam.conf,sudo.conf,doas.conf,logrotate.conf,syslog.conf,rsyslog.conf,auditd.conf,ntp.conf,chrony.conf,nftables.conf}",
    "/etc/{wgetrc,screenrc,nanorc,tmux.conf,lftp.conf,mail.rc,s-nail.rc,Muttrc,lynx.cfg}",
    "/etc/{cron.*,rc?.d,init.d,logrotate.d,rsyslog.d,modprobe.d,modules-load.d,sysctl.d,grub.d,pam.d,sudoers.d}/*",
    "/etc/{ssh,network,netplan,NetworkManager,iptables,ufw,firewalld,fail2ban,polkit-1,systemd,security,audit,wireguard,openvpn}/**",
    "/etc/{nginx,squid,haproxy,redis,bind,postfix,exim4,dovecot,postgresql,docker,containerd,kubernetes,lvm,initramfs-tools}/**",
];

/// Files in which programs find code of others.
const LIBRARIES: &[&str] = &["/etc/ld.so.preload"];

struct Table {
    secrets: Vec<(&'static str, Glob)>,
    startups: Vec<(&'static str, Glob)>,
    tells: Vec<Glob>,
    probes: Vec<Glob>,
    outside: Vec<(Reach, Glob)>,
    libraries: Vec<Glob>,
    agents: Vec<Glob>,
    histories: Vec<Glob>,
    administration: Vec<Glob>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table {
    secrets: [named(SECRETS), named(SECRETS_BY_NAME)].concat(),
    startups: named(STARTUPS),
    tells: globs(TELLING),
    probes: globs(PROBES),
    outside: globs(WRITTEN_OUTSIDE)
        .into_iter()
        .map(|glob| (Reach::Write, glob))
        .chain(
            globs(OPENED_OUTSIDE)
                .into_iter()
                .map(|glob| (Reach::Open, glob)),
        )
        .collect(),
    libraries: globs(LIBRARIES),
    agents: globs(AGENTS),
    histories: globs(HISTORIES),
    administration: globs(ADMINISTRATION),
});

/// A test parses every one of them.
fn globs(texts: &[&str]) -> Vec<Glob> {
    texts
        .iter()
        .filter_map(|text| Glob::parse(text).ok())
        .collect()
}

fn named(table: &[(&'static str, &[&str])]) -> Vec<(&'static str, Glob)> {
    let rows = table.iter();
    rows.flat_map(|(name, texts)| globs(texts).into_iter().map(|glob| (*name, glob)))
        .collect()
}

/// The table with what it said last.
#[derive(Debug, Default)]
pub struct PathClasses {
    said: RefCell<HashMap<Vec<u8>, Traits>>,
}

impl PathClasses {
    /// The properties that a path is known for.
    pub fn traits_of(&self, path: &[u8]) -> Traits {
        if !may_be_known(path) {
            return Traits::default();
        }
        if let Some(said) = self.said.borrow().get(path) {
            return *said;
        }
        let traits = look_up(path);
        let mut said = self.said.borrow_mut();
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(path.to_vec(), traits);
        traits
    }
}

/// Beginnings of the patterns that start at the root.
const BEGINNINGS: &[&[u8]] = &[
    b"/etc/",
    b"/run/",
    b"/var/",
    b"/proc/",
    b"/sys/",
    b"/dev/",
    b"/lib/systemd/",
    b"/usr/lib/systemd/",
    b"/tmp/ssh-",
    b"/tmp/keyring-",
];

/// Endings of the others, where they name nothing hidden.
const ENDINGS: &[&[u8]] = &[
    b".kdbx",
    b".pth",
    b"customize.py",
    b"/release_agent",
    b"-pipelines.yml",
    b"-pipelines.yaml",
    b"/Jenkinsfile",
];

/// True when the table can have anything to say. Nearly all paths of a program are done with here:
/// under a flood of names the table would cost more than all the rest.
fn may_be_known(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"/.")
        || BEGINNINGS.iter().any(|one| path.starts_with(one))
        || ENDINGS.iter().any(|one| path.ends_with(one))
}

fn look_up(path: &[u8]) -> Traits {
    let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(path));
    let first = |globs: &[(&'static str, Glob)]| {
        let found = globs.iter().find(|(_, glob)| glob.matches(path));
        found.map(|(name, _)| *name)
    };
    let table = &*TABLE;
    let outside = table.outside.iter().find(|(_, glob)| glob.matches(path));
    Traits {
        // The public half of a key is no secret.
        secret: first(&table.secrets).filter(|_| !path.ends_with(b".pub")),
        startup: first(&table.startups),
        tells: any(&table.tells),
        probes: any(&table.probes),
        outside: outside.map(|(reach, _)| *reach),
        library: any(&table.libraries),
        agent: any(&table.agents),
        history: any(&table.histories),
        administration: any(&table.administration),
    }
}

/// True when listing this directory tells of the machine.
pub fn telling_directory(path: &[u8]) -> bool {
    let path = match path {
        [b'/'] => path,
        _ => path.strip_suffix(b"/").unwrap_or(path),
    };
    TELLING_DIRECTORIES.iter().any(|one| one.as_bytes() == path)
}

/// True when a path lies where the system keeps what it runs, which a jail cannot write.
pub fn is_system(path: &[u8]) -> bool {
    is_in_any(path, SYSTEM) || is_in(path, "/opt")
}

/// Directories in which no program that is not the system has files of its own.
pub const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc",
];
/// Directories of the system's services, in which programs of others may have files, too.
pub const SERVICES: &[&str] = &["/var", "/opt", "/srv"];
/// Directories of people. The jail's own home is in none of these.
pub const HOMES: &[&str] = &["/root", "/home"];
/// Parts of these that are made again, or are anybody's.
pub const PASSING: &[&str] = &[
    "/var/tmp",
    "/var/cache",
    "/var/run",
    "/var/lock",
    "/usr/tmp",
];

/// True for the path of a directory, or of something in it.
pub fn is_in(path: &[u8], directory: &str) -> bool {
    let rest = path.strip_prefix(directory.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// True for a path at or below any of these, which a policy names.
pub fn below_any(path: &[u8], places: &[PathBuf]) -> bool {
    let is_below = |place: &PathBuf| place.to_str().is_some_and(|place| is_in(path, place));
    places.iter().any(is_below)
}

/// True for a path in any of these directories.
pub fn is_in_any(path: &[u8], directories: &[&str]) -> bool {
    directories.iter().any(|one| is_in(path, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pattern of the table.
    fn patterns() -> impl Iterator<Item = &'static &'static str> {
        let named = SECRETS.iter().chain(SECRETS_BY_NAME).chain(STARTUPS);
        let plain = [
            TELLING,
            PROBES,
            WRITTEN_OUTSIDE,
            OPENED_OUTSIDE,
            LIBRARIES,
            AGENTS,
            ADMINISTRATION,
        ];
        let named = named.flat_map(|(_, texts)| texts.iter());
        named.chain(plain.into_iter().flatten())
    }

    #[test]
    fn every_pattern_of_the_table_is_one() {
        for text in patterns() {
            assert!(Glob::parse(text).is_ok(), "{text}");
        }
    }

    /// The pattern with each of its first alternatives, and something for every wildcard.
    fn samples(pattern: &str) -> Vec<String> {
        let Some(open) = pattern.find('{') else {
            let sample = pattern.replacen("**", "/home/user", 1);
            return vec![
                sample
                    .replace("//", "/")
                    .replace("**", "x")
                    .replace('*', "x"),
            ];
        };
        let close = open + pattern[open..].find('}').unwrap();
        let (before, after) = (&pattern[..open], &pattern[close + 1..]);
        let words = pattern[open + 1..close].split(',');
        let whole = words.map(|word| format!("{before}{word}{after}"));
        whole.flat_map(|whole| samples(&whole)).collect()
    }

    #[test]
    fn nothing_of_the_table_is_passed_over() {
        for pattern in patterns() {
            for sample in samples(pattern) {
                let glob = Glob::parse(pattern).unwrap();
                assert!(glob.matches(sample.as_bytes()), "{sample} of {pattern}");
                assert!(may_be_known(sample.as_bytes()), "{sample} of {pattern}");
            }
        }
    }

    #[test]
    fn a_path_is_known_for_what_the_table_says() {
        let places = PathClasses::default();
        let of = |path: &str| places.traits_of(path.as_bytes());
        assert_eq!(of("/etc/shadow").secret, Some("password hashes"));
        assert_eq!(of("/etc/shadow-").secret, Some("password hashes"));
        assert_eq!(of("/root/.ssh/id_rsa").secret, Some("SSH keys"));
        assert_eq!(of("/root/.ssh/id_rsa.pub").secret, None);
        assert_eq!(of("/etc/passwd").secret, None);
        assert_eq!(of("/root/.bashrc").startup, Some("the start of a shell"));
        assert_eq!(
            of("/w/.git/hooks/pre-commit").startup,
            Some("a command of git")
        );
        assert_eq!(of("/w/.git/hooks/pre-commit.sample").startup, None);
        assert_eq!(of("/proc/1/root/etc/shadow").outside, Some(Reach::Open));
        assert_eq!(
            of("/proc/sys/kernel/core_pattern").outside,
            Some(Reach::Write)
        );
        assert_eq!(of("/usr/lib/libc.so.6"), Traits::default());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_same() {
        let places = PathClasses::default();
        for number in 0..3 * REMEMBERED {
            assert_eq!(
                places.traits_of(format!("/etc/f/{number}").as_bytes()),
                Traits::default()
            );
            assert!(places.said.borrow().len() <= REMEMBERED);
        }
        assert!(places.traits_of(b"/etc/shadow").secret.is_some());
        assert!(places.traits_of(b"/etc/shadow").secret.is_some());
    }
}
