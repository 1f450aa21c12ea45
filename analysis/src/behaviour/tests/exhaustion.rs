//! Limits that a run reaches, and programs that go on making copies of themselves.

use super::*;

#[test]
fn a_limit_that_was_reached_is_exhaustion_and_refused_tasks_are_a_fork_bomb() {
    let end = End {
        reached: vec!["memory: used 256 MiB of 256 MiB".to_owned()],
        bombed: Some("tasks: 200 refused beyond 64".to_owned()),
        ..End::default()
    };
    let found = Story::new().ended(&end);
    let behaviours: Vec<_> = found.iter().map(|found| found.behaviour).collect();
    assert_eq!(behaviours, [Behaviour::Exhaustion, Behaviour::ForkBomb]);
    assert_eq!(found[0].steps[0].what, b"memory: used 256 MiB of 256 MiB");
    assert_eq!(Story::new().ended(&End::default()), []);
}

/// A tree in which each copy makes two, and waits for them or goes; the first is a copy of a program.
#[test]
fn copies_that_have_copies_in_many_places_at_once_are_a_fork_bomb() {
    let grown = |copies: u32, waits: bool| {
        let mut story = Story::new();
        story
            .exec(P, "/usr/bin/bash", &["bash", "x.sh"])
            .fork(P, P + 1);
        story.fork(P + 1, 900);
        if !waits {
            story.ends(P);
        }
        for one in 1..=copies {
            let copy = P + one;
            story.fork(copy, P + 2 * one).fork(copy, P + 2 * one + 1);
        }
        let found = story.ended(&End::default());
        found.first().map(|found| found.behaviour)
    };
    assert_eq!(grown(32, true), Some(Behaviour::ForkBomb));
    // Work that is halved four times.
    assert_eq!(grown(31, true), None);
    assert_eq!(grown(4, false), Some(Behaviour::ForkBomb));
    // A daemon, its workers and their pools.
    assert_eq!(grown(3, false), None);
    // Another program that ends is none that they are copies of.
    let mut story = Story::new();
    story
        .exec(P, "/usr/bin/bash", &["bash", "x.sh"])
        .fork(P, P + 1);
    story
        .fork(P + 1, 900)
        .fork(P + 1, 901)
        .fork(900, 902)
        .fork(900, 903);
    story
        .fork(901, 904)
        .fork(901, 905)
        .exec(905, "/usr/bin/wc", &["wc"])
        .ends(905);
    story.fork(901, 906).fork(902, 907).fork(902, 908);
    assert_eq!(story.ended(&End::default()), []);
    // One of the two is gone before the next comes: a loop of a daemon.
    let mut story = Story::new();
    story
        .exec(P, "/usr/bin/bash", &["bash", "x.sh"])
        .fork(P, P + 1)
        .ends(P);
    for one in 0..20 {
        let (first, second) = (100 + 2 * one, 101 + 2 * one);
        story.fork(P + 1, first).fork(first, second + 100);
        story.ends(second + 100).ends(first);
    }
    assert_eq!(story.ended(&End::default()), []);
}

/// As many as the limit lets be, each of which forks: nobody needs to go on once it is refused.
#[test]
fn generation_after_generation_until_no_task_is_left_is_a_fork_bomb() {
    let end = End {
        refused_tasks: Some("tasks: 40 refused beyond 50".to_owned()),
        ..End::default()
    };
    let grown = |generations: u32, end: &End| {
        let mut story = Story::new();
        for one in 0..generations {
            story.fork(P + one, P + one + 1);
        }
        let found = story.ended(end);
        found
            .iter()
            .map(|found| found.behaviour)
            .collect::<Vec<_>>()
    };
    assert_eq!(grown(6, &end), [Behaviour::ForkBomb]);
    assert_eq!(grown(5, &end), []);
    assert_eq!(grown(9, &End::default()), []);
    // A function of a shell that calls itself, and reads what it says.
    assert_eq!(grown(40, &End::default()), []);
    // Shells of a start script, one in the other, which are gone when a pool of workers meets the limit.
    let mut story = Story::new();
    for _ in 0..9 {
        for one in 0..4 {
            story.fork(P + one, P + one + 1);
        }
        for one in (1..=4).rev() {
            story.ends(P + one);
        }
    }
    for one in 0..60 {
        story.fork(P, P + 100 + one);
    }
    assert_eq!(story.ended(&end), []);
    // A program that is started is no generation of the one before.
    let mut story = Story::new();
    for one in 0..9 {
        story
            .fork(P + one, P + one + 1)
            .exec(P + one + 1, "/usr/bin/make", &["make"]);
    }
    assert_eq!(story.ended(&end), []);
}
