//! swansong: graceful shutdown without a runtime. cygnet's shutdown has its names.

use super::{Table, stops};
use crate::figures::stops::as_swansong;

use ::swansong::{Guard, Swansong};

as_swansong!(Swansong, Guard);

/// The cases that swansong runs.
pub const TABLE: Table = stops::table::<Swansong>();
