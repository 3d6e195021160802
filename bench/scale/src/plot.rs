//! The efficiencies as a picture (SVG): a panel per kind of workload, a line per workload.

use crate::cases::{Case, Kind};
use crate::run::{Mean, Run, Runs};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;

const WIDTH: u32 = 980;
/// The heights of a panel and of the title.
const PANEL: u32 = 330;
const TITLE: u32 = 34;
/// The width of the legend beside a panel, and the height of its lines.
const LEGEND: u32 = 190;
const LINE: i32 = 19;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

/// Colours that most colour-blind people too can tell apart on white (after Okabe and Ito).
const COLOURS: [RGBColor; 11] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x6A, 0x3D, 0x9A),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x8C, 0x56, 0x4B),
    RGBColor(0xB2, 0x18, 0x2B),
    RGBColor(0x77, 0x77, 0x77),
];

/// A line of a panel.
struct Line {
    name: String,
    /// Whether the cores are in several sockets.
    dashed: bool,
    /// Numbers of cores and efficiencies.
    points: Vec<(f64, f64)>,
}

/// The lines of a panel, the one that ends highest first.
fn lines(runs: &Runs, kind: Kind) -> Vec<Line> {
    let mut cells = BTreeMap::<(Case, u64, usize), BTreeMap<usize, Vec<&Run>>>::new();
    let of_kind = runs.runs.iter().filter(|run| run.spec.case.kind() == kind);
    for run in of_kind.filter(|run| run.figures.is_some()) {
        let spec = &run.spec;
        let row = cells.entry((spec.case, spec.work_ns, spec.sockets)).or_default();
        row.entry(spec.cores).or_default().push(run);
    }
    let line = |((case, work_ns, sockets), cells): ((Case, u64, usize), BTreeMap<_, Vec<&Run>>)| {
        let mut name = case.name();
        if work_ns != case.usual_work() {
            name += &format!(", {work_ns} ns");
        }
        if sockets > 1 {
            name += &format!(", {sockets} sockets");
        }
        let point = |(cores, runs): (usize, Vec<&Run>)| match Mean::of(
            runs.iter().filter_map(|run| run.figures.as_ref()),
        )? {
            Mean::Efficiency(efficiency) => Some((cores as f64, efficiency)),
            Mean::Nanos(_) => None,
        };
        let points = cells.into_iter().filter_map(point).collect();
        Line { name, dashed: sockets > 1, points }
    };
    let mut lines: Vec<_> = cells.into_iter().map(line).collect();
    let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
    lines.sort_by(|a, b| end(b).total_cmp(&end(a)));
    lines
}

/// Draws the picture.
///
/// # Errors
/// The errors of the drawing library.
pub fn svg(runs: &Runs) -> Result<String, String> {
    let panels = [
        (Kind::Tasks, "Tasks"),
        (Kind::Values, "Values that pass from task to task"),
        (Kind::Waits, "Waits, threads outside, and the end of a runtime"),
    ];
    let panels = panels.map(|(kind, title)| (title, lines(runs, kind)));
    let panels: Vec<_> = panels.into_iter().filter(|(_, lines)| !lines.is_empty()).collect();
    let height = |lines: &[Line]| PANEL.max(lines.len() as u32 * LINE as u32 + 60);
    let total = TITLE + panels.iter().map(|(_, lines)| height(lines)).sum::<u32>();
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (WIDTH, total)).into_drawing_area();
    let drawn = || -> Drawn {
        root.fill(&WHITE)?;
        let (top, mut rest) = root.split_vertically(TITLE);
        let title = if runs.modelled {
            "Efficiency on modelled machines, by the number of cores"
        } else {
            "Efficiency on the real machine, by the number of cores"
        };
        top.draw(&Text::new(title, (10, 10), (FONT, 17)))?;
        for (title, lines) in &panels {
            let (area, below) = rest.split_vertically(height(lines));
            rest = below;
            panel(&area, title, lines)?;
        }
        root.present()
    };
    drawn().map_err(|error| format!("cannot draw: {error}"))?;
    drop(root);
    Ok(text)
}

fn panel(area: &Area<'_>, title: &str, lines: &[Line]) -> Drawn {
    let (left, legend) = area.split_horizontally(WIDTH - LEGEND);
    let cores = || lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (low, high) = (cores().fold(f64::MAX, f64::min), cores().fold(2.0, f64::max));
    let mut chart = ChartBuilder::on(&left)
        .caption(title, (FONT, 14))
        .margin_right(12)
        .x_label_area_size(30)
        .y_label_area_size(44)
        .build_cartesian_2d((low.min(1.0)..high).log_scale().base(2.0), 0.0..1.0)?;
    chart
        .configure_mesh()
        .y_labels(6)
        .x_label_formatter(&|cores| format!("{cores}"))
        .y_label_formatter(&|efficiency| format!("{efficiency:.1}"))
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (at, line) in lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points = line.points.iter().copied();
        if line.dashed {
            let style = colour.stroke_width(2);
            chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        }
        chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
        let y = 34 + at as i32 * LINE;
        legend.draw(&PathElement::new([(4, y), (26, y)], colour.stroke_width(2)))?;
        legend.draw(&Circle::new((15, y), 3, colour.filled()))?;
        let end = line.points.last().map_or(0.0, |point| point.1);
        legend.draw(&Text::new(format!("{} {end:.2}", line.name), (32, y - 7), (FONT, 13)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::run;

    #[test]
    fn the_picture_names_each_case_with_its_last_figure() {
        let mut far = run(64, 0.5);
        far.spec.sockets = 2;
        let svg = svg(&Runs::new(vec![run(1, 1.0), run(64, 0.25), run(2, 0.9), far])).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["join 0.25", "join, 2 sockets 0.50", "Tasks"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn there_is_a_picture_of_nothing_too() {
        assert!(svg(&Runs::new(Vec::new())).unwrap().contains("</svg>"));
    }
}
