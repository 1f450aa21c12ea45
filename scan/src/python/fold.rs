//! Constants that are computed: what a text comes to without running anything.

use std::rc::Rc;

use ruff_python_ast::Operator;

use crate::codec::Codec;
use crate::decode;
use crate::value::{HOLE, LONGEST, Origins, Value};

/// A text that repeats to more than this fills memory when a loop keeps it, in bytes.
const LARGE: usize = 10_000;

/// Two values with an operator between them.
pub fn binary(left: &Value, operator: Operator, right: &Value) -> Value {
    let both = Value::default().tainted(left).tainted(right);
    if let (Some(left), Some(right)) = (left.number, right.number) {
        return Value {
            number: arithmetic(left, operator, right),
            ..both
        };
    }
    match operator {
        Operator::Add => joined(left, right).tainted(&both),
        Operator::Mult => repeated(left, right).tainted(&both),
        Operator::Mod if left.text.is_some() => formatted(left, right).tainted(&both),
        Operator::Div if is_path(left) => path(left, right).tainted(&both),
        _ => both,
    }
}

fn is_path(value: &Value) -> bool {
    value
        .name
        .as_deref()
        .is_some_and(|name| name.ends_with("Path()"))
}

fn path(left: &Value, right: &Value) -> Value {
    let mut value = Value::text(&join_path(&left.shown(), &right.shown()));
    value.name.clone_from(&left.name);
    value
}

/// As `os.path.join` does.
pub fn join_path(left: &str, right: &str) -> String {
    match (left, right) {
        ("", right) => right.to_owned(),
        (_, right) if right.starts_with('/') => right.to_owned(),
        (left, right) => format!("{}/{right}", left.trim_end_matches('/')),
    }
}

fn arithmetic(left: i64, operator: Operator, right: i64) -> Option<i64> {
    match operator {
        Operator::Add => left.checked_add(right),
        Operator::Sub => left.checked_sub(right),
        Operator::Mult => left.checked_mul(right),
        Operator::Pow => u32::try_from(right)
            .ok()
            .and_then(|right| left.checked_pow(right)),
        Operator::BitXor => Some(left ^ right),
        Operator::FloorDiv => left.checked_div(right),
        Operator::LShift => u32::try_from(right)
            .ok()
            .and_then(|right| left.checked_shl(right)),
        _ => None,
    }
}

/// One after the other; of two lists the elements of both.
fn joined(left: &Value, right: &Value) -> Value {
    if let (Some(left), Some(right)) = (&left.items, &right.items) {
        return Value::list(left.iter().chain(right.iter()).cloned().collect());
    }
    match (left.known(), right.known()) {
        (None, None) => Value::default(),
        _ => Value::text(&format!("{}{}", left.shown(), right.shown())),
    }
}

fn repeated(left: &Value, right: &Value) -> Value {
    let (text, times) = match (left.number, right.number) {
        (None, Some(times)) => (left, times),
        (Some(times), None) => (right, times),
        // So often that nobody knows.
        _ => return Value::default(),
    };
    let times = usize::try_from(times).unwrap_or(0);
    let unit = text.known().map_or(1, str::len);
    let length = unit.saturating_mul(times);
    if text.known().is_none() && text.items.is_none() && text.name.is_none() {
        return Value {
            large: length >= LARGE,
            ..Value::default()
        };
    }
    let short = text
        .known()
        .filter(|_| length <= LONGEST)
        .map(|text| Rc::from(text.repeat(times)));
    Value {
        text: short,
        large: length >= LARGE,
        ..Value::default()
    }
}

/// `"%s" % x`.
fn formatted(format: &Value, values: &Value) -> Value {
    let values = match (&values.items, values.one_of) {
        (Some(items), false) => items.to_vec(),
        _ => vec![values.clone()],
    };
    let mut values = values.into_iter();
    let (mut text, mut chars) = (String::new(), format.known().unwrap_or_default().chars());
    while let Some(char) = chars.next() {
        match char {
            '%' => match chars.next() {
                Some('%') => text.push('%'),
                Some('s' | 'd' | 'i') => text.push_str(&values.next().unwrap_or_default().shown()),
                _ => text.push(HOLE),
            },
            char => text.push(char),
        }
    }
    Value::text(&text)
}

/// `"{}{0}{name}".format(…)`.
pub fn format(format: &str, arguments: &[(Option<String>, Value)]) -> Value {
    let mut places = arguments
        .iter()
        .filter(|(name, _)| name.is_none())
        .map(|(_, value)| value);
    let by_number = |number: usize| arguments.get(number).map(|(_, value)| value);
    let by_name = |name: &str| {
        arguments
            .iter()
            .find(|(own, _)| own.as_deref() == Some(name))
            .map(|(_, value)| value)
    };
    let (mut text, mut rest) = (String::new(), format);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(&before.replace("}}", "}"));
        if let Some(after) = after.strip_prefix('{') {
            text.push('{');
            rest = after;
            continue;
        }
        let Some((field, after)) = after.split_once('}') else {
            break;
        };
        rest = after;
        let name = field.split([':', '!']).next().unwrap_or_default();
        let value = match name.parse() {
            Ok(number) => by_number(number),
            Err(_) if name.is_empty() => places.next(),
            Err(_) => by_name(name),
        };
        text.push_str(&value.map_or_else(|| HOLE.to_string(), Value::shown));
    }
    text.push_str(&rest.replace("}}", "}"));
    Value::text(&text)
}

/// The elements of a list with a text between them. A list of single characters is no way to write what may be read.
pub fn fold_str_join(separator: &str, list: &Value) -> Value {
    let Some(items) = list.items.as_ref().filter(|_| !list.one_of) else {
        return list.derived();
    };
    let texts: Vec<String> = items.iter().map(Value::shown).collect();
    let are_characters = texts.len() >= 4
        && items
            .iter()
            .all(|item| item.exact().is_some_and(|text| text.chars().count() == 1));
    let value = Value::text(&texts.join(separator)).tainted(list);
    if are_characters {
        value.also(Origins::HIDDEN)
    } else {
        value
    }
}

/// `text[start:end:step]`.
pub fn slice(value: &Value, (start, end, step): (Option<i64>, Option<i64>, Option<i64>)) -> Value {
    let Some(text) = value.exact() else {
        return value.derived();
    };
    let chars: Vec<char> = text.chars().collect();
    let step = step.unwrap_or(1);
    if step == 0 {
        return value.derived();
    }
    let length = i64::try_from(chars.len()).unwrap_or(0);
    let place = |at: i64, low: i64, high: i64| {
        if at < 0 {
            at.saturating_add(length).clamp(low, high)
        } else {
            at.clamp(low, high)
        }
    };
    let (mut at, until) = match step > 0 {
        true => (
            start.map_or(0, |at| place(at, 0, length)),
            end.map_or(length, |at| place(at, 0, length)),
        ),
        false => (
            start.map_or(length - 1, |at| place(at, -1, length - 1)),
            end.map_or(-1, |at| place(at, -1, length - 1)),
        ),
    };
    let mut sliced = String::new();
    while (step > 0 && at < until) || (step < 0 && at > until) {
        sliced.extend(usize::try_from(at).ok().and_then(|at| chars.get(at)));
        at = at.saturating_add(step);
    }
    let value = Value::text(&sliced).tainted(value);
    // Nobody writes a text in reverse who wants it read.
    if step < 0 && length > 3 {
        value.also(Origins::HIDDEN)
    } else {
        value
    }
}

/// Data that is decoded: its text where it can be had, and in words how.
pub fn decoded(value: &Value, codec: &Codec, decode: impl Fn(&str) -> Option<Vec<u8>>) -> Value {
    let text = value.exact().and_then(decode).map(decode::as_text);
    if codec.is_common && (text.is_none() || text.as_deref() == value.exact()) {
        return value.clone();
    }
    let mut result = text
        .map_or_else(Value::default, |text| Value::text(&text))
        .tainted(value)
        .also(Origins::DECODED);
    result.decoded = Some(
        value
            .decoded
            .clone()
            .unwrap_or_else(|| codec.words_for(value).into()),
    );
    result
}

/// Numbers as the bytes that they are.
pub fn bytes(items: &[Value]) -> Value {
    let chars: Option<String> = items
        .iter()
        .map(|item| {
            item.number
                .and_then(|number| u8::try_from(number).ok())
                .map(char::from)
        })
        .collect();
    chars.map_or_else(Value::default, |chars| Value::text(&chars))
}

/// The parts of a text, between blanks or another text.
pub fn split(text: &str, by: &Value) -> Value {
    let parts: Vec<Value> = match by.exact().filter(|by| !by.is_empty()) {
        Some(by) => text.split(by).map(Value::text).collect(),
        None => text.split_whitespace().map(Value::text).collect(),
    };
    Value::list(parts)
}
