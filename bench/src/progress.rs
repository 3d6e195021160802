//! The progress bar.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on the standard error. It shows nothing if that is not a terminal, or if no bar
/// is wanted.
///
/// Tasks only count; the bar's own thread draws. So drawing takes neither the small stack of a
/// coroutine nor a worker's time.
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

    /// A bar that is never shown.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self(None)
    }

    /// Starts over from zero.
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

    /// Removes the bar from the terminal to make room for the result.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
