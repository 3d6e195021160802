//! The progress bar.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the standard error, or nothing if that is not a terminal or nobody wants to see it.
///
/// Tasks only count: the bar's own thread draws, so that no drawing happens on the small stack of a
/// coroutine or in the time of a worker.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar that counts things called `unit`.
    pub(crate) fn new(wanted: bool, unit: &str) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let template =
            format!("[{{elapsed_precise}}] {{bar:40}} {{human_pos}}/{{human_len}} {unit}");
        let style = ProgressStyle::with_template(&template).expect("the template is constant");
        let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(Some(bar))
    }

    /// A bar that is never seen.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self(None)
    }

    /// Starts again at nothing.
    pub(crate) fn restart(&self) {
        if let Some(bar) = &self.0 {
            bar.set_length(0);
            bar.reset();
        }
    }

    /// Announces `count` more things to do.
    pub(crate) fn expect(&self, count: u64) {
        if let Some(bar) = &self.0 {
            bar.inc_length(count);
        }
    }

    /// Counts one thing as done.
    pub(crate) fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Takes the bar off the terminal, which then has room for the result.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
