//! The runtimes and libraries beside which cygnet is measured.

pub mod chili;
mod disruptor;
mod futures;
mod may;
mod parking_lot;
pub mod rayon;
mod smol;
mod swansong;
mod switches;
mod tokio;

use super::Counts::{All, Threads};
use super::Runtime;

/// All peers, in the order of the tables.
#[rustfmt::skip]
pub(super) const RUNTIMES: &[Runtime] = &[
    Runtime { name: "corosensei", counts: All, table: switches::COROSENSEI },
    Runtime { name: "generator", counts: All, table: switches::GENERATOR },
    Runtime { name: "chili", counts: All, table: chili::TABLE },
    Runtime { name: "rayon", counts: All, table: rayon::TABLE },
    Runtime { name: "tokio", counts: All, table: tokio::TABLE },
    Runtime { name: "async-executor", counts: All, table: smol::TABLE },
    Runtime { name: "may", counts: All, table: may::TABLE },
    Runtime { name: "swansong", counts: All, table: swansong::TABLE },
    Runtime { name: "disruptor", counts: Threads, table: disruptor::TABLE },
    Runtime { name: "parking_lot", counts: Threads, table: parking_lot::TABLE },
];
