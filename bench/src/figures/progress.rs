//! The progress bar of the rounds.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the standard error. It shows nothing if that is not a terminal.
///
/// It is drawn at most once a second, as drawing takes processor time too.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for `measurements` measurements.
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

    /// A bar that is never shown.
    #[must_use]
    pub fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    /// Describes the current measurement.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Counts a measurement.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    /// Removes the bar from the terminal to make room for the result.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
