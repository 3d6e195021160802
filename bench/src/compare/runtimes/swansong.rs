//! swansong: graceful shutdown without a runtime, whose names cygnet's have.

use super::{Table, stops};
use crate::figures::stops::as_swansong;

use ::swansong::{Guard, Swansong};

as_swansong!(Swansong, Guard);

/// What it runs.
pub const TABLE: Table = stops::table::<Swansong>();
