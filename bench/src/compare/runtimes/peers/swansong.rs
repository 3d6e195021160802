//! swansong: graceful shutdown without a runtime. cygnet's shutdown has its names.

use swansong::{Guard, Swansong};

use crate::figures::stops::{as_swansong, measured};
use crate::measure::harness::Table;

as_swansong!(Swansong, Guard);

/// The cases that swansong runs.
pub const TABLE: Table = measured::table::<Swansong>();
