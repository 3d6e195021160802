//! A picture (SVG) of the samples: memory and counters over time.

use plotters::prelude::*;

use super::sample::{
    BLOCKING, COROUTINES, DESCRIPTORS, HEAP, MAPPINGS, RESIDENT, RETIRING, STACKS, Sample, THREADS,
    TIMERS,
};
use crate::measure::plot::{Area, Drawn, FONT, svg as picture};

const PANEL: u32 = 210;
/// Longer series are thinned out to this many points, as more would be invisible.
const MOST_POINTS: usize = 1500;

/// A line of a panel.
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    width: u32,
}

/// A panel: its title, and its lines.
struct Panel(&'static str, Vec<Line>);

const GREY: RGBColor = RGBColor(0xB0, 0xB0, 0xB0);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const ORANGE: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const PURPLE: RGBColor = RGBColor(0x6A, 0x3D, 0x9A);

fn line(
    samples: &[Sample],
    name: &'static str,
    (at_rest, series, unit): (bool, usize, f64),
    colour: RGBColor,
) -> Line {
    let of_a_sort = samples.iter().filter(|sample| sample.at_rest == at_rest);
    let points: Vec<_> = of_a_sort
        .map(|sample| (sample.minutes, sample.values[series] / unit))
        .filter(|point| point.1.is_finite())
        .collect();
    Line { name, points: thinned(points), colour, width: if at_rest { 2 } else { 1 } }
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    points.into_iter().step_by(step).collect()
}

/// Programs per second, between samples some seconds apart.
fn rate(samples: &[Sample]) -> Line {
    let step = (samples.len() / 200).max(4);
    let looked_at: Vec<&Sample> = samples.iter().step_by(step).collect();
    let points = looked_at.windows(2).filter_map(|pair| {
        let seconds = (pair[1].minutes - pair[0].minutes) * 60.0;
        let programs = pair[1].programs as f64 - pair[0].programs as f64;
        (seconds > 0.0).then(|| (pair[1].minutes, programs / seconds))
    });
    Line { name: "programs per second", points: points.collect(), colour: BLUE, width: 1 }
}

fn panels(samples: &[Sample]) -> Vec<Panel> {
    const MIB: f64 = 1_048_576.0;
    let line = |name, what, colour| line(samples, name, what, colour);
    vec![
        Panel(
            "Memory, MiB",
            vec![
                line("resident, while programs run", (false, RESIDENT, MIB), GREY),
                line("resident, at rest", (true, RESIDENT, MIB), BLUE),
                line("heap in use, at rest", (true, HEAP, MIB), ORANGE),
            ],
        ),
        Panel(
            "The process",
            vec![
                line("mappings, at rest", (true, MAPPINGS, 1.0), BLUE),
                line("threads, while programs run", (false, THREADS, 1.0), GREY),
                line("threads, at rest", (true, THREADS, 1.0), GREEN),
                line("open descriptors, at rest", (true, DESCRIPTORS, 1.0), ORANGE),
            ],
        ),
        Panel(
            "Stacks",
            vec![
                line("while programs run", (false, STACKS, 1.0), GREY),
                line("live coroutines", (false, COROUTINES, 1.0), GREEN),
                line("of the lasting runtime, at rest", (true, STACKS, 1.0), BLUE),
            ],
        ),
        Panel(
            "Other counters, while programs run",
            vec![
                line("retire backlog", (false, RETIRING, 1.0), PURPLE),
                line("timers", (false, TIMERS, 1.0), ORANGE),
                line("blocking threads", (false, BLOCKING, 1.0), GREEN),
            ],
        ),
        Panel("Programs per second", vec![rate(samples)]),
    ]
}

/// Draws the picture.
///
/// # Errors
/// The errors of the drawing library.
pub(crate) fn svg(samples: &[Sample]) -> anyhow::Result<String> {
    let panels = panels(samples);
    let minutes = samples.last().map_or(1.0, |last| last.minutes.max(1e-3));
    picture(PANEL * panels.len() as u32, |root| {
        let areas = root.split_evenly((panels.len(), 1));
        areas.iter().zip(&panels).try_for_each(|(area, panel)| draw(area, panel, minutes))
    })
}

fn draw(area: &Area<'_>, Panel(title, lines): &Panel, minutes: f64) -> Drawn {
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let top = highest.fold(1.0, f64::max) * 1.1;
    area.draw(&Text::new(*title, (64, 6), (FONT, 15)))?;
    let mut x = 64 + title.len() as i32 * 8 + 24;
    for line in lines {
        if lines.len() > 1 {
            area.draw(&Rectangle::new([(x, 11), (x + 16, 15)], line.colour.filled()))?;
            area.draw(&Text::new(line.name, (x + 21, 7), (FONT, 12)))?;
            x += 21 + line.name.len() as i32 * 6 + 16;
        }
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(28)
        .margin_right(20)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..minutes, 0.0..top)?;
    chart
        .configure_mesh()
        .x_labels(10)
        .y_labels(5)
        .label_style((FONT, 12))
        .x_label_formatter(&|minutes| format!("{} min", short(*minutes)))
        .y_label_formatter(&|value| short(*value))
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(WHITE)
        .draw()?;
    for line in lines {
        let style = line.colour.stroke_width(line.width);
        if line.points.len() > 1 {
            chart.draw_series([PathElement::new(line.points.clone(), style)])?;
        }
    }
    Ok(())
}

/// Formats a number without superfluous digits.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::some;
    use super::*;

    #[test]
    fn the_picture_names_its_lines_and_is_complete() {
        let svg = svg(some(3000, 1e4).all()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for name in ["Memory, MiB", "heap in use, at rest", "Programs per second", "timers"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.matches("<polyline").count() >= 14);
    }

    #[test]
    fn a_run_without_samples_has_a_picture_too() {
        assert!(svg(&[]).unwrap().contains("</svg>"));
    }

    /// Two threads take samples. The later sample may have the earlier count.
    #[test]
    fn a_count_of_programs_that_falls_is_drawn() {
        let mut samples = some(3000, 1e4).all().to_vec();
        samples.iter_mut().skip(1).step_by(2).for_each(|sample| sample.programs = 0);
        samples
            .iter_mut()
            .step_by(4)
            .for_each(|sample| sample.programs = 3000 - sample.programs / 10);
        assert!(svg(&samples).unwrap().contains("</svg>"));
    }

    #[test]
    fn numbers_have_no_superfluous_digits() {
        assert_eq!([short(0.25), short(10.0), short(100.5)], ["0.25", "10", "100.5"]);
    }
}
