//! swansong: graceful shutdown without a runtime. cygnet's shutdown has its names.

use swansong::{Guard, Swansong};

use crate::compare::prelude::*;
use crate::figures::stops::{as_swansong, measured};

as_swansong!(Swansong, Guard);

/// The cases that swansong runs.
pub const TABLE: Table = measured::table::<Swansong>();
