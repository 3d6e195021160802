//! Shutdowns of scopes, of guarded tasks and of runtimes, with cancels of late work and reports.

mod runtimes;
mod scopes;
mod within;

use crate::common::prelude::*;
use cygnet::shutdown::ShutdownReport;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

/// The guards at the end of the time, the cancels, and the guards at the end.
fn counts(report: &ShutdownReport) -> (usize, usize, usize) {
    (report.guards_in_time_over(), report.cancelled(), report.left())
}
