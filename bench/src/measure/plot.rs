//! Pictures (SVG).

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

/// The width of a picture.
pub(crate) const WIDTH: u32 = 980;
/// The font of a picture.
pub(crate) const FONT: &str = "sans-serif";

/// A part of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing.
pub(crate) type Drawn =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

/// Fails early if the file cannot be written.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn check(file: &Path) -> anyhow::Result<()> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).with_context(|| format!("cannot write {}", file.display()))
}

/// Draws a picture of this height.
///
/// # Errors
/// The errors of the drawing library.
pub(crate) fn svg(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> anyhow::Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    let drawn = root.fill(&WHITE).and_then(|()| draw(&root)).and_then(|()| root.present());
    drawn.map_err(|error| anyhow!("cannot draw: {error}"))?;
    drop(root);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_file_is_found_beforehand() {
        let error = check(Path::new("/nonexistent/plot.svg")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write /nonexistent/plot.svg"));
    }
}
