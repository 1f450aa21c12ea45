//! Operations that a program numbers and counts itself, held against the events of who watched it: each is told, once.

use std::path::Path;

use serde_json::Value;

/// The beginning of a path that nothing has; its number follows.
pub const NOWHERE: &str = "/turnkey-nowhere-";

/// The lines of a file of events; one that was cut by the end of its writer is left out.
pub fn whole_lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(line).collect()
}

/// The numbers of the operations in these events, in their order. Panics when the events have a gap or a double, or when an
/// operation is told as a repetition of another one.
pub fn numbers(events: &[Value]) -> Vec<u64> {
    if let Some(at) =
        (0..events.len()).find(|at| events[*at]["seq"] != *at || events[*at]["kind"] == "gap")
    {
        let around = &events[at.saturating_sub(2)..events.len().min(at + 3)];
        panic!(
            "of {} lines, line {at} is not the next one: {around:#?}",
            events.len()
        );
    }
    let opens = events.iter().filter(|event| event["kind"] == "open");
    let told = opens.filter_map(|event| {
        let number = event["path"].as_str()?.strip_prefix(NOWHERE)?;
        assert_eq!(event["repeated"].as_u64().unwrap_or(0), 0, "{event}");
        number.parse().ok()
    });
    told.collect()
}

/// Checks that numbers follow one another, whichever the first is.
pub fn expect_each_once(numbers: &[u64]) {
    if let Some(pair) = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        panic!(
            "of {} numbers, {} follows {}",
            numbers.len(),
            pair[1],
            pair[0]
        );
    }
}
