//! The page as a picture (SVG): the time or memory of each runtime as a multiple of cygnet's,
//! case by case.

use plotters::prelude::*;
use std::collections::BTreeSet;

use super::cases::{Case, Part};
use super::contenders::workers;
use super::page::Page;
use crate::measure::plot::{Area, Drawn, FONT, WIDTH, svg as picture};

/// Numbers of workers with a panel of their own.
const PANELS: [usize; 2] = [1, 2];
/// Heights of a line of a panel, of the legend above both panels, and of a panel's frame. Then
/// the width of the names.
const LINE: u32 = 18;
const LEGEND: u32 = 70;
const FRAME: u32 = 70;
const NAMES: u32 = 150;
/// Ratios outside this range are drawn at its edge.
const RANGE: (f64, f64) = (0.1, 1000.0);

/// A line of a panel: a case, and the other runtimes with their ratios to cygnet.
struct Line {
    name: String,
    points: Vec<(String, f64)>,
}

/// The lines of a panel: the cases that cygnet and at least one other runtime ran with this
/// number of workers.
fn lines(page: &Page, workers: usize) -> Vec<Line> {
    page.parts().filter_map(|(case, part)| line(page, workers, case, part)).collect()
}

fn line(page: &Page, workers: usize, case: &Case, part: &Part) -> Option<Line> {
    let with = || page.rows_of(case.name).filter(|row| row.workers == workers);
    let ours = with().find(|row| row.runtime == "cygnet")?.figures.get(part.key)?.spread.value;
    let others = with().filter(|row| row.runtime != "cygnet");
    let points: Vec<_> = others
        .filter_map(|row| {
            Some((row.runtime.clone(), row.figures.get(part.key)?.spread.value / ours))
        })
        .filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let name = [case.name, part.label].join(" ");
    (!points.is_empty()).then(|| Line { name: name.trim().to_owned(), points })
}

/// The names of the runtimes in the picture.
fn names<'a>(page: &Page, lines: impl Iterator<Item = &'a Line>) -> Vec<String> {
    let found: BTreeSet<&str> =
        lines.flat_map(|line| &line.points).map(|(name, _)| name.as_str()).collect();
    let names = page.runtimes().into_iter().filter(|name| found.contains(name));
    names.map(str::to_owned).collect()
}

/// Draws the picture.
///
/// # Errors
/// The errors of the drawing library.
pub fn svg(page: &Page) -> anyhow::Result<String> {
    let panels: Vec<(usize, Vec<Line>)> =
        PANELS.iter().map(|&workers| (workers, lines(page, workers))).collect();
    let names = names(page, panels.iter().flat_map(|(_, lines)| lines));
    let heights: Vec<u32> = panels.iter().map(|(_, l)| l.len() as u32 * LINE + FRAME).collect();
    picture(LEGEND + heights.iter().sum::<u32>(), |root| {
        let (top, mut rest) = root.split_vertically(LEGEND);
        legend(&top, &names)?;
        for ((workers, lines), height) in panels.iter().zip(heights) {
            let (area, below) = rest.split_vertically(height);
            rest = below;
            if !lines.is_empty() {
                panel(&area, *workers, lines, &names)?;
            }
        }
        Ok(())
    })
}

/// Colours that most colour-blind people too can tell apart on white (after Okabe and Ito).
const COLOURS: [RGBColor; 11] = [
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x6A, 0x3D, 0x9A),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x8C, 0x56, 0x4B),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xB2, 0x18, 0x2B),
];

/// The colour of a name, which depends on its place in the legend.
fn colour(names: &[String], name: &str) -> RGBColor {
    let at = names.iter().position(|known| known == name).unwrap_or_default();
    COLOURS[at % COLOURS.len()]
}

fn legend(area: &Area<'_>, names: &[String]) -> Drawn {
    let title = "Time, or memory, over that of cygnet (right of the line: cygnet takes less)";
    area.draw(&Text::new(title, (10, 8), (FONT, 16)))?;
    let width = (WIDTH as i32 - 20) / (names.len() as i32).max(1);
    for (at, name) in names.iter().enumerate() {
        let x = 18 + at as i32 * width;
        area.draw(&Circle::new((x, 48), 5, colour(names, name).filled()))?;
        area.draw(&Text::new(name.clone(), (x + 9, 41), (FONT, 13)))?;
    }
    Ok(())
}

fn panel(area: &Area<'_>, count: usize, lines: &[Line], names: &[String]) -> Drawn {
    let ratios = || lines.iter().flat_map(|line| &line.points).map(|(_, ratio)| *ratio);
    let low = ratios().fold(0.5, f64::min).max(RANGE.0) * 0.8;
    let high = ratios().fold(2.0, f64::max).min(RANGE.1) * 1.25;
    let height = lines.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(workers(count), (FONT, 14))
        .margin_right(20)
        .x_label_area_size(30)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((low..high).log_scale(), 0.0..height)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_label_formatter(&|x| format!("{x}"))
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .draw()?;
    chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, height)], BLACK.stroke_width(2))])?;
    for (at, line) in lines.iter().enumerate() {
        let y = height - at as f64 - 0.5;
        let thin = BLACK.mix(0.15);
        chart.draw_series([PathElement::new([(low, y), (high, y)], thin)])?;
        for (name, ratio) in &line.points {
            let at = (ratio.clamp(low, high), y);
            chart.draw_series([Circle::new(at, 5, colour(names, name).mix(0.85).filled())])?;
        }
        let (_, pixel) = chart.backend_coord(&(low, y));
        let (_, first) = area.get_base_pixel();
        area.draw(&Text::new(line.name.clone(), (8, pixel - first - 7), (FONT, 13)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::{page, row};
    use super::*;

    fn some() -> Page {
        page(vec![
            row("fib", "serial", 1, &[30e6]),
            row("fib", "cygnet", 1, &[60e6]),
            row("fib", "cygnet", 2, &[30e6]),
            row("fib", "rayon", 2, &[150e6]),
            row("tree", "a <b> & \"c\"", 2, &[1.0]),
            row("tree", "cygnet", 2, &[3e9]),
            row("queens", "rayon", 2, &[150e6]),
        ])
    }

    /// Returns the names of the elements still open at the end; empty for a well-formed document.
    fn open_elements(svg: &str) -> Vec<String> {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((_, tag)) = rest.split_once('<') {
            let (tag, after) = tag.split_once('>').expect("each tag ends");
            assert!(!tag.contains('<'), "{tag}");
            rest = after;
            let name = tag.split_whitespace().next().expect("each tag has a name");
            if let Some(closed) = name.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(closed));
            } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
                open.push(name.to_owned());
            }
        }
        open
    }

    #[test]
    fn the_picture_is_well_formed_and_names_every_runtime() {
        let svg = svg(&some()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(open_elements(&svg), Vec::<String>::new());
        for name in ["rayon", "serial", "a &lt;b&gt; &amp;", "fib", "tree", "1 worker", "2 workers"]
        {
            assert!(svg.contains(name), "{name}: {svg}");
        }
        assert!(!svg.contains("queens"), "cygnet did not run this case");
    }

    #[test]
    fn an_empty_page_has_a_picture_too() {
        assert_eq!(open_elements(&svg(&page(Vec::new())).unwrap()), Vec::<String>::new());
    }
}
