//! What a terminal shows while the rounds go on.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the standard error, or nothing if that is not a terminal.
///
/// It draws once a second at most: drawing is time of the processor too.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many measurements.
    #[must_use]
    pub fn new(measurements: u32) -> Progress {
        if !stderr().is_terminal() {
            return Progress::hidden();
        }
        let template = "[{elapsed_precise}, {eta} left] {bar:30} {pos}/{len} {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is constant");
        let bar = ProgressBar::new(measurements.into()).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_secs(1));
        Progress(bar)
    }

    /// A bar that is never seen.
    #[must_use]
    pub fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    /// Says what is measured now.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Counts a measurement.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    /// Takes the bar off the terminal, which then has room for the result.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
