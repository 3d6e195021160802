//! The progress bar.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on the standard error. It shows nothing if that is not a terminal, or if no bar
/// is wanted.
///
/// Tasks only count; the bar's own thread draws. So drawing takes neither the small stack of a
/// coroutine nor a worker's time.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar that counts things called `unit`.
    pub(crate) fn new(wanted: bool, unit: &str) -> Progress {
        let template =
            format!("[{{elapsed_precise}}] {{bar:40}} {{human_pos}}/{{human_len}} {unit}");
        Progress::drawn(wanted, 0, &template, Duration::from_millis(100))
    }

    /// A bar for `count` measurements. It is drawn once a second, as drawing takes processor time
    /// too.
    pub(crate) fn of_measurements(count: u32) -> Progress {
        let template = "[{elapsed_precise}, {eta} left] {bar:30} {pos}/{len} {msg}";
        Progress::drawn(true, count.into(), template, Duration::from_secs(1))
    }

    fn drawn(wanted: bool, length: u64, template: &str, tick: Duration) -> Progress {
        if !wanted || !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let style = ProgressStyle::with_template(template).expect("the template is constant");
        let bar = ProgressBar::new(length).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(tick);
        Progress(Some(bar))
    }

    /// A bar that is never shown.
    pub(crate) fn hidden() -> Progress {
        Progress(None)
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
        self.0.iter().for_each(|bar| bar.inc_length(count));
    }

    /// Counts one thing as done.
    pub(crate) fn step(&self) {
        self.0.iter().for_each(|bar| bar.inc(1));
    }

    /// Describes what is being done.
    pub(crate) fn say(&self, what: String) {
        self.0.iter().for_each(|bar| bar.set_message(what.clone()));
    }
}

impl Drop for Progress {
    /// Removes the bar from the terminal to make room for the result.
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
