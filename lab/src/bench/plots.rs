//! Pictures of what was measured, as SVG.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::SegmentedCoord;
use plotters::coord::types::RangedCoordusize;
use plotters::prelude::*;

use super::findings::{FindingsBlock, Plot, digits};
use super::rounds::Results;

const WIDTH: u32 = 860;
const FONT: &str = "sans-serif";

/// Ours, so that one finds it at once.
const OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x4f);
const THEIRS: RGBColor = RGBColor(0x8a, 0x93, 0x9c);

/// A bar for everybody, on a scale where each step is ten times the one before; `factor` turns measurements
/// into the unit of the title.
pub fn bars(
    name: &'static str,
    title: &str,
    results: &Results,
    factor: f64,
) -> Result<FindingsBlock> {
    let all = results.all().filter_map(|(name, _)| {
        let summary = results.summary(name)?;
        Some((
            name.to_owned(),
            [summary.median, summary.low, summary.high].map(|it| it * factor),
        ))
    });
    let bars: Vec<_> = all.collect();
    let mut svg = String::new();
    draw_bars(&mut svg, title, &bars).map_err(|error| anyhow!("cannot draw {name}: {error}"))?;
    Ok(block(name, title, svg))
}

/// Multiples of something, on a scale where each step is ten times the one before: a colour for each place, a
/// group of marks for each kind of work.
pub fn factors(
    name: &'static str,
    title: &str,
    places: &[(String, Vec<(String, f64)>)],
) -> Result<FindingsBlock> {
    let mut svg = String::new();
    draw_factors(&mut svg, title, places)
        .map_err(|error| anyhow!("cannot draw {name}: {error}"))?;
    Ok(block(name, title, svg))
}

fn draw_factors(svg: &mut String, title: &str, places: &[(String, Vec<(String, f64)>)]) -> Drawn {
    let kinds: Vec<&str> = places.first().map_or_else(Vec::new, |(_, row)| {
        row.iter().map(|(kind, _)| &**kind).collect()
    });
    let area = SVGBackend::with_string(svg, (WIDTH, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let values = places
        .iter()
        .flat_map(|(_, row)| row.iter().map(|(_, value)| *value));
    let mut scale = decades(values.chain([1.0, 10.0]));
    // Room for the names of the places.
    scale.end *= 10.0;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 17))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(50)
        .build_cartesian_2d(segments(kinds.len()), scale.log_scale())?;
    let label = |place: &SegmentValue<usize>| match place {
        SegmentValue::CenterOf(index) => kinds.get(*index).unwrap_or(&"").to_string(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(kinds.len() + 1)
        .x_label_formatter(&label)
        .label_style((FONT, 14))
        .draw()?;
    for (index, (place, row)) in places.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let marks = row.iter().enumerate().map(|(column, (_, value))| {
            Circle::new((SegmentValue::CenterOf(column), *value), 5, colour.filled())
        });
        chart
            .draw_series(marks)?
            .label(place.clone())
            .legend(move |(x, y)| Circle::new((x + 8, y), 5, colour.filled()));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    area.present()?;
    Ok(())
}

/// Lines over numbers, such as a time over how many there are.
pub fn lines(
    name: &'static str,
    title: &str,
    below: &str,
    lines: &[(String, Vec<(f64, f64)>)],
) -> Result<FindingsBlock> {
    let mut svg = String::new();
    draw_lines(&mut svg, title, below, lines)
        .map_err(|error| anyhow!("cannot draw {name}: {error}"))?;
    Ok(block(name, title, svg))
}

fn draw_lines(
    svg: &mut String,
    title: &str,
    below: &str,
    lines: &[(String, Vec<(f64, f64)>)],
) -> Drawn {
    let area = SVGBackend::with_string(svg, (WIDTH, 320)).into_drawing_area();
    area.fill(&WHITE)?;
    let all = lines.iter().flat_map(|(_, points)| points);
    let most = |value: fn(&(f64, f64)) -> f64| all.clone().map(value).fold(0.0, f64::max);
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 17))
        .margin(8)
        .margin_right(30)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, 0.0..top * 1.5)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(below)
        .label_style((FONT, 13))
        .draw()?;
    for (index, (what, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series([PathElement::new(points.clone(), colour.stroke_width(2))])?
            .label(what.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        let marks = points
            .iter()
            .map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(marks)?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
    area.present()?;
    Ok(())
}

/// Names what the colours of a chart stand for.
fn legend<'a, Backend, Coordinates>(
    chart: &mut ChartContext<'a, Backend, Coordinates>,
    position: SeriesLabelPosition,
) -> Drawn
where
    Backend: DrawingBackend + 'a,
    Backend::ErrorType: 'static,
    Coordinates: CoordTranslate,
{
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(THEIRS)
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

fn block(name: &'static str, title: &str, svg: String) -> FindingsBlock {
    FindingsBlock::Plot(Plot {
        name,
        shows: title.to_owned(),
        svg: svg + "\n",
    })
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Name, and median with the quarters below and above it.
type Bar = (String, [f64; 3]);

fn draw_bars(svg: &mut String, title: &str, bars: &[Bar]) -> Drawn {
    let height = 70 + 30 * u32::try_from(bars.len())?;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let scale = decades(bars.iter().map(|(_, values)| values[0]));
    let start = scale.start;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, (FONT, 17))
        .margin(8)
        .margin_right(70)
        .x_label_area_size(24)
        .y_label_area_size(250)
        .build_cartesian_2d(scale.log_scale(), segments(bars.len()))?;
    let label = |place: &SegmentValue<usize>| match place {
        SegmentValue::CenterOf(index) => name(bars, *index),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(bars.len() + 1)
        .y_label_formatter(&label)
        .label_style((FONT, 14))
        .draw()?;
    for (row, (name, [median, low, high])) in bars.iter().rev().enumerate() {
        let colour = if name.starts_with("turnkey") {
            OURS
        } else {
            THEIRS
        };
        let [from, middle, to] = [
            SegmentValue::Exact(row),
            SegmentValue::CenterOf(row),
            SegmentValue::Exact(row + 1),
        ];
        let mut bar = Rectangle::new([(start, from), (*median, to)], colour.filled());
        bar.set_margin(4, 4, 0, 0);
        chart.draw_series([bar])?;
        let quarters = PathElement::new([(*low, middle.clone()), (*high, middle.clone())], BLACK);
        chart.draw_series([quarters])?;
        let end = (high.max(*median) * 1.04, middle);
        chart.draw_series([Text::new(digits(*median), end, (FONT, 13))])?;
    }
    area.present()?;
    Ok(())
}

/// The first is on top, while the scale begins at the bottom.
fn name(bars: &[Bar], row: usize) -> String {
    bars.iter()
        .rev()
        .nth(row)
        .map_or_else(String::new, |(name, _)| name.clone())
}

/// So many places, side by side: their last index is part of such a range.
fn segments(count: usize) -> SegmentedCoord<RangedCoordusize> {
    (0..count.saturating_sub(1)).into_segmented()
}

/// From the power of ten below the least to the one above the most.
fn decades(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    10f64.powf(least.log10().floor())..10f64.powf(most.log10().ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_hold_all_values() {
        let scale = decades([0.9, 45.0, 170.0].into_iter());
        assert!((scale.start - 0.1).abs() < 1e-9 && (scale.end - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn marks_and_lines_name_what_they_are_of() {
        let mut svg = String::new();
        let row = vec![("open".to_owned(), 1.1), ("spawn".to_owned(), 40.0)];
        draw_factors(&mut svg, "Multiples", &[("strace -f".to_owned(), row)]).expect("drawn");
        assert!(
            ["open", "spawn", "strace -f"]
                .iter()
                .all(|word| svg.contains(word)),
            "{svg}"
        );
        let mut svg = String::new();
        let line = ("jails".to_owned(), vec![(0.0, 1.0), (500.0, 3.0)]);
        draw_lines(&mut svg, "Start", "living", &[line]).expect("drawn");
        assert!(
            ["jails", "living", "Start"]
                .iter()
                .all(|word| svg.contains(word)),
            "{svg}"
        );
    }

    #[test]
    fn every_name_and_figure_is_in_the_picture() {
        let bars = [
            ("bubblewrap".to_owned(), [8.1, 7.9, 8.3]),
            ("turnkey, warm".to_owned(), [7.31, 7.2, 7.4]),
        ];
        let mut svg = String::new();
        draw_bars(&mut svg, "Start", &bars).expect("it is drawn");
        for word in [
            "<svg",
            "bubblewrap",
            "turnkey, warm",
            "8.10",
            "7.31",
            "Start",
        ] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }
}
