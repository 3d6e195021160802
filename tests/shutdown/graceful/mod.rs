//! Shutdowns of scopes, of guarded tasks and of runtimes: stop, wait, cancel what is left, wait, report.

mod runtimes;
mod scopes;
mod within;

use std::time::Duration;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
