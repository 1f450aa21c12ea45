//! The date of a world: a while from now, or a moment.

use anyhow::{Context, bail, ensure};
use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

const FORMS: &str = "write a while from now such as \"+40d\" or \"-2h\" (s, m, h, d or w), a day such as \"2027-01-01\", a moment such as \
                     \"2027-01-01T09:30:00Z\", or \"end-of-year\"";
/// The years that a clock of a jail can have.
const YEARS: std::ops::RangeInclusive<i32> = 1971..=2200;
/// Seconds before the end of the year.
const BEFORE_END: i64 = 10;

/// Seconds that the date of a text is ahead of `now`.
///
/// # Errors
/// When the text is no date, or no clock goes so far.
pub fn ahead(text: &str, now: OffsetDateTime) -> anyhow::Result<i64> {
    let moment = match text.strip_prefix(['+', '-']) {
        Some(rest) => {
            let seconds = seconds(rest).with_context(|| FORMS)?;
            let sign = if text.starts_with('-') { -1 } else { 1 };
            now.checked_add(time::Duration::seconds(seconds * sign))
        }
        None => Some(moment(text, now)?),
    };
    let moment = moment.filter(|moment| YEARS.contains(&moment.year()));
    let (first, last) = (YEARS.start(), YEARS.end());
    let Some(moment) = moment else {
        bail!("its year is not between {first} and {last}: choose another date");
    };
    Ok(moment.unix_timestamp() - now.unix_timestamp())
}

fn seconds(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let number: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    (number >= 0).then(|| number.checked_mul(seconds))?
}

fn moment(text: &str, now: OffsetDateTime) -> anyhow::Result<OffsetDateTime> {
    if text == "end-of-year" {
        let begin = Date::from_calendar_date(now.year() + 1, Month::January, 1)?;
        let end = PrimitiveDateTime::new(begin, Time::MIDNIGHT).assume_utc();
        return Ok(end - time::Duration::seconds(BEFORE_END));
    }
    let day = format!("{text}T12:00:00Z");
    let moment = [text, day.as_str()].map(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let moment = moment.into_iter().flatten().next();
    ensure!(moment.is_some(), "{FORMS}");
    moment.context(FORMS)
}

/// The moment so many seconds ahead of `now`, as the table shows it.
pub fn shown(ahead: i64, now: OffsetDateTime) -> String {
    let moment = now + time::Duration::seconds(ahead);
    let (date, clock) = (moment.date(), moment.time());
    format!("{date} {:02}:{:02} UTC", clock.hour(), clock.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn dates_are_whiles_days_and_moments() {
        let now = OffsetDateTime::parse("2026-11-26T21:00:00Z", &Rfc3339).unwrap();
        for (text, expected) in [
            ("+40d", 40 * DAY),
            ("-2h", -7200),
            ("+0s", 0),
            ("+3w", 21 * DAY),
            ("2026-11-27T21:00:00Z", DAY),
            ("2026-11-27T22:00:00+01:00", DAY),
            ("2026-11-27", 15 * 3600),
            ("end-of-year", 35 * DAY + 3 * 3600 - 10),
        ] {
            assert_eq!(ahead(text, now).unwrap(), expected, "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "+",
            "+d",
            "+40",
            "+40y",
            "+-4d",
            "40d",
            "2026-13-01",
            "1969-01-01",
            "+9999999w",
            "+99999999999999999999d",
            "+4\u{e9}",
        ] {
            assert!(ahead(text, now).is_err(), "{text}");
        }
    }

    /// A bomb that waits for a day of the week goes off in one of them.
    #[test]
    fn shipped_dates_are_every_other_day_of_the_week() {
        let shipped: toml::Table = include_str!("shipped.toml").parse().unwrap();
        let now = OffsetDateTime::parse("2026-11-26T21:00:00Z", &Rfc3339).unwrap();
        let dates = shipped
            .values()
            .filter_map(|world| world.get("date")?.as_str());
        let days = dates.filter(|date| date.starts_with('+'));
        let days =
            days.map(|date| (now + time::Duration::seconds(ahead(date, now).unwrap())).weekday());
        let days: std::collections::HashSet<_> = days.collect();
        assert_eq!(days.len(), 6, "{days:?}");
        assert!(!days.contains(&now.weekday()));
    }
}
