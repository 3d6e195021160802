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
    Runtime { name: "corosensei", counts: All, tables: &[switches::COROSENSEI] },
    Runtime { name: "generator", counts: All, tables: &[switches::GENERATOR] },
    Runtime { name: "chili", counts: All, tables: &[chili::TABLE] },
    Runtime { name: "rayon", counts: All, tables: rayon::TABLES },
    Runtime { name: "tokio", counts: All, tables: tokio::TABLES },
    Runtime { name: "async-executor", counts: All, tables: &[smol::TABLE] },
    Runtime { name: "may", counts: All, tables: may::TABLES },
    Runtime { name: "swansong", counts: All, tables: &[swansong::TABLE] },
    Runtime { name: "disruptor", counts: Threads, tables: &[disruptor::TABLE] },
    Runtime { name: "parking_lot", counts: Threads, tables: parking_lot::TABLES },
];
