//! Behaviours that need somebody to talk to.

use turnkey_policy::Behaviour;

use super::{P, is_silent, names};
use crate::behaviour::fixture::{Story, policy};

#[test]
fn a_shell_on_a_connection_is_a_reverse_shell() {
    let expected = Behaviour::ReverseShell;
    names(
        |story| {
            story.connects(P, "203.0.113.9:4444");
            story.exec(P, "/usr/bin/bash", &["bash", "-i"]);
        },
        expected,
    );
    names(
        |story| {
            story.exec(P, "/usr/bin/python3.11", &["python3", "x.py"]);
            story.connects(P, "203.0.113.9:4444").fork(P, 11);
            story.exec(11, "/usr/bin/dash", &["/bin/sh"]);
        },
        expected,
    );
    // Over a connection in the jail itself, and from the end that waits.
    names(
        |story| {
            story.serves(P).connects(11, "127.0.0.1:4444");
            story.exec(11, "/usr/bin/dash", &["/bin/sh", "-i"]);
        },
        expected,
    );
    names(
        |story| {
            story.listens(P, "127.0.0.1:4444").fork(P, 11);
            story.exec(11, "/usr/bin/dash", &["/bin/sh"]);
        },
        expected,
    );
}

#[test]
fn a_shell_beside_a_program_on_a_connection_is_one_too() {
    let expected = Behaviour::ReverseShell;
    // nc HOST PORT < fifo | sh > fifo, whichever end comes first.
    names(
        |story| {
            story.exec(11, "/usr/bin/nc.openbsd", &["nc", "203.0.113.9", "4444"]);
            story.exec(12, "/usr/bin/dash", &["sh"]);
            story.connects(11, "203.0.113.9:4444");
        },
        expected,
    );
    names(
        |story| {
            story.exec(11, "/usr/bin/nc.openbsd", &["nc", "203.0.113.9", "4444"]);
            story.connects(11, "203.0.113.9:4444");
            story.exec(12, "/usr/bin/bash", &["bash", "-i"]);
        },
        expected,
    );
}

#[test]
fn a_shell_after_a_program_on_a_connection_or_for_a_script_is_none() {
    // It has ended, or it was started long before.
    is_silent(|story| {
        story.exec(11, "/usr/bin/nc.openbsd", &["nc", "203.0.113.9", "80"]);
        story.connects(11, "203.0.113.9:80").ends(11);
        story.exec(12, "/usr/bin/dash", &["sh"]);
    });
    is_silent(|story| {
        story.exec(11, "/usr/bin/node", &["node", "server.js"]);
        story.connects(11, "203.0.113.9:80").wait(3);
        story.exec(12, "/usr/bin/dash", &["sh"]);
    });
    // A server has the shell do something.
    is_silent(|story| {
        story.listens(P, "127.0.0.1:8000").fork(P, 11);
        story.exec(11, "/usr/bin/dash", &["/bin/sh", "-c", "ls"]);
    });
    is_silent(|story| {
        story.exec(11, "/usr/bin/node", &["node", "server.js"]);
        story.connects(11, "203.0.113.9:80");
        story.exec(12, "/usr/bin/dash", &["sh", "test.sh"]);
    });
}

#[test]
fn a_shell_with_a_command_after_a_fetch_is_none() {
    is_silent(|story| {
        story.connects(P, "203.0.113.9:443").fork(P, 11).fork(P, 12);
        story.exec(11, "/usr/bin/dash", &["/bin/sh", "-c", "ls"]);
        story.exec(12, "/usr/bin/bash", &["bash", "build.sh"]);
    });
    is_silent(|story| {
        story.exec(P, "/usr/bin/bash", &["bash", "-i"]);
    });
}

#[test]
fn what_came_over_the_network_and_runs_is_download_and_execute() {
    let expected = Behaviour::DownloadExecute;
    names(
        |story| {
            story.exec(P, "/usr/bin/curl", &["curl", "-o", "x", "http://h/x"]);
            story
                .connects(P, "203.0.113.9:80")
                .writes(P, "/workspace/x");
            story.exec(11, "/workspace/x", &["./x"]);
        },
        expected,
    );
    // Renamed on the way, and given to an interpreter.
    names(
        |story| {
            story.connects(P, "203.0.113.9:80").writes(P, "/tmp/x.part");
            story.renames(P, "/tmp/x.part", "/tmp/x.py");
            story.exec(11, "/usr/bin/python3.11", &["python3", "/tmp/x.py"]);
        },
        expected,
    );
    // curl … | sh
    names(
        |story| {
            story.exec(11, "/usr/bin/dash", &["sh"]);
            story.exec(12, "/usr/bin/curl", &["curl", "http://h/x"]);
        },
        expected,
    );
}

/// A shell opens what its program writes to, and wget(1) too, before anybody is asked.
#[test]
fn the_output_of_a_fetcher_is_opened_before_it_speaks() {
    let found = |fetcher: &str| {
        let mut story = Story::new();
        story.writes(P, "/workspace/x");
        story.exec(P, fetcher, &[fetcher, "http://h/x"]);
        story.connects(P, "203.0.113.9:80");
        story.exec(11, "/usr/bin/dash", &["sh", "x"]);
        story.found()
    };
    let expected = [(Behaviour::DownloadExecute, 1)];
    assert_eq!(found("/usr/bin/curl"), expected);
    assert_eq!(found("/usr/bin/wget"), expected);
    // Another program asks for something else than its own output.
    assert_eq!(found("/usr/bin/sum"), []);
}

#[test]
fn a_compiler_that_writes_what_runs_next_downloads_nothing() {
    // Who speaks to itself, or to nobody, has fetched nothing.
    is_silent(|story| {
        story
            .serves(P)
            .connects(P, "127.0.0.1:8080")
            .knocks(P, "203.0.113.9:80");
        story.writes(P, "/workspace/tool");
        story.exec(11, "/workspace/tool", &["./tool"]);
    });
    is_silent(|story| {
        story
            .exec(P, "/usr/bin/ld", &["ld"])
            .writes(P, "/workspace/a.out");
        story.exec(11, "/workspace/a.out", &["./a.out"]);
    });
    is_silent(|story| {
        story.exec(
            P,
            "/usr/bin/curl",
            &["curl", "-o", "page.html", "http://h/"],
        );
        story
            .connects(P, "203.0.113.9:80")
            .writes(P, "/workspace/page.html");
        story.reads(11, "/workspace/page.html");
        story.exec(12, "/usr/bin/dash", &["sh", "-c", "wc -l page.html"]);
    });
}

/// An installer fetches what the caller had it ask a registry for; a compiler works on its arguments.
#[test]
fn what_an_installer_of_packages_fetches_is_built_and_run() {
    let source = "/workspace/.cargo/registry/src/index/itoa-1.0.0/src/lib.rs";
    is_silent(|story| {
        story.exec(P, "/usr/bin/cargo", &["cargo", "build"]);
        story.connects(P, "203.0.113.9:443").writes(P, source);
        story.fork(P, 11);
        story.exec(11, "/usr/bin/rustc", &["rustc", source]);
        story.writes(11, "/workspace/target/debug/app");
        story.exec(12, "/workspace/target/debug/app", &["app"]);
    });
    let fetched_by = |argv: &[&str], story: &mut super::Story| {
        let tool = "/workspace/node_modules/.bin/jest";
        story.exec(P, "/usr/bin/node", argv);
        story.connects(P, "203.0.113.9:443").writes(P, tool);
        story.exec(11, "/usr/bin/node", &["node", tool]);
    };
    is_silent(|story| fetched_by(&["node", "/usr/bin/npm", "ci"], story));
    let expected = Behaviour::DownloadExecute;
    names(
        |story| fetched_by(&["npm", "/workspace/get.js", "npm"], story),
        expected,
    );
    names(
        |story| fetched_by(&["node", "/workspace/get.js", "npm"], story),
        expected,
    );
    // The dynamic loader runs what it is given.
    names(
        |story| {
            story
                .connects(P, "203.0.113.9:443")
                .writes(P, "/workspace/x");
            let loader = "/lib64/ld-linux-x86-64.so.2";
            story.exec(11, loader, &["ld.so", "/workspace/x"]);
        },
        expected,
    );
}

#[test]
fn a_shell_that_tells_its_version_waits_for_nothing_to_be_fetched() {
    is_silent(|story| {
        story.exec(11, "/usr/bin/bash", &["bash", "--version"]);
        story.exec(12, "/usr/bin/curl", &["curl", "--version"]);
    });
}

#[test]
fn many_ports_or_many_hosts_at_once_are_a_scan() {
    let expected = Behaviour::PortScan;
    names(
        |story| {
            for port in 20..30 {
                story.connects(P, &format!("127.0.0.1:{port}"));
            }
        },
        expected,
    );
    names(
        |story| {
            for host in 1..=10 {
                story.connects(P, &format!("192.168.1.{host}:22"));
            }
        },
        expected,
    );
}

#[test]
fn trying_again_few_ports_and_public_hosts_are_no_scan() {
    is_silent(|story| {
        for _ in 0..100 {
            story.connects(P, "127.0.0.1:5432");
        }
        for port in 8000..8009 {
            story.connects(P, &format!("127.0.0.2:{port}"));
        }
    });
    is_silent(|story| {
        for host in 1..100 {
            story.connects(P, &format!("203.0.113.{host}:443"));
        }
    });
    is_silent(|story| {
        for port in 20..40 {
            story.connects(P, &format!("127.0.0.1:{port}")).wait(3);
        }
    });
}

#[test]
fn a_secret_that_was_read_before_the_network_is_exfiltration() {
    names(
        |story| {
            story.reads(P, "/root/.aws/credentials");
            story.connects(11, "203.0.113.9:443");
        },
        Behaviour::Exfiltration,
    );
    // A listener of the host was meant, who is out of reach.
    names(
        |story| {
            story.reads(P, "/root/.ssh/id_rsa");
            story.connects(P, "127.0.0.1:5758");
        },
        Behaviour::Exfiltration,
    );
}

#[test]
fn who_looks_a_name_up_on_the_hosts_network_has_sent_nothing() {
    let found = |network: &str, address: &str| {
        let mut story = Story::under(&policy(network));
        story.reads(P, "/etc/shadow").connects(P, address);
        let found = story.found();
        found
            .iter()
            .any(|(behaviour, _)| *behaviour == Behaviour::Exfiltration)
    };
    let host = "[network]\nmode = \"host\"\nwhy = \"it is a service\"\n";
    assert!(!found(host, "192.0.2.53:53"));
    assert!(found(host, "192.0.2.53:443"));
    assert!(
        found("", "192.0.2.53:53"),
        "nobody is asked in a jail without"
    );
}

#[test]
fn a_secret_that_was_not_there_cannot_leave() {
    is_silent(|story| {
        story.wants(P, "/root/.netrc", 0);
        story.connects(P, "203.0.113.9:443");
    });
    is_silent(|story| {
        story.connects(P, "203.0.113.9:443");
        story.reads(P, "/root/.ssh/id_rsa");
    });
    is_silent(|story| {
        story.serves(P).reads(P, "/root/.netrc");
        story.connects(P, "127.0.0.1:8080");
    });
}

/// A program's own notes for its next start, and what a server does before it waits at any address.
#[test]
fn what_is_nobodys_secret_or_goes_nowhere_is_not_taken_out() {
    is_silent(|story| {
        story.wants(P, "/workspace/.netrc", 0o1101);
        story.writes(P, "/workspace/.netrc");
        story.reads(P, "/workspace/.netrc");
        story.connects(P, "203.0.113.9:443");
    });
    is_silent(|story| {
        story.reads(P, "/root/.netrc").orders_any_address(P);
    });
}

#[test]
fn long_names_below_one_domain_are_a_tunnel() {
    let expected = Behaviour::DnsTunnel;
    names(
        |story| {
            for number in 0..10 {
                story.asks(
                    P,
                    &format!("{number}4d5a90000300000004000000ffff.example.org"),
                );
            }
        },
        expected,
    );
    names(
        |story| {
            let data = "a".repeat(60);
            for number in 0..3 {
                story.asks(P, &format!("{number}{data}.{data}.example.org"));
            }
        },
        expected,
    );
}

#[test]
fn many_short_names_and_one_long_are_no_tunnel() {
    is_silent(|story| {
        for number in 0..100 {
            story.asks(P, &format!("host{number}.example.org"));
        }
        for _ in 0..50 {
            story.asks(
                P,
                "d111111abcdef8.very-long-name-of-a-content-network.example.net",
            );
        }
    });
}
