//! The runtimes: which cases each one runs, and how.
//!
//! Each file has a table of cases. The work is written for each runtime as its own documentation
//! would write it: with forks if it has forks, with tasks if it has tasks, and with its own
//! waits.

mod busy;
pub mod cygnet;
pub mod rings;
mod serial;
pub mod stops;
mod threads;

#[cfg(feature = "peers")]
pub mod chili;
#[cfg(feature = "peers")]
mod disruptor;
#[cfg(feature = "peers")]
mod futures;
#[cfg(feature = "peers")]
mod may;
#[cfg(feature = "peers")]
mod parking_lot;
#[cfg(feature = "peers")]
pub mod rayon;
#[cfg(feature = "peers")]
mod smol;
#[cfg(feature = "peers")]
mod swansong;
#[cfg(feature = "peers")]
mod switches;
#[cfg(feature = "peers")]
mod tokio;

use super::cases::Case;
use super::measure::{Measured, Setting};

/// Measures a case in this process.
pub type Run = fn(&Setting) -> anyhow::Result<Measured>;

/// The cases of a runtime, by name.
pub type Table = &'static [(&'static str, Run)];

/// A runtime that runs cases.
#[derive(Debug)]
pub struct Runtime {
    /// Its name in the table of results.
    pub name: &'static str,
    /// The numbers of workers with which it is measured.
    pub counts: Counts,
    /// The cases that it runs.
    pub table: Table,
    /// The tables of the cases in which every core is busy.
    pub busy: &'static [Table],
}

/// The numbers of workers with which a runtime is measured.
#[derive(Clone, Copy, Debug)]
pub enum Counts {
    /// The numbers of the case.
    All,
    /// One, as there are no workers.
    One,
    /// As many threads as the work has parts, on all processors. They are compared with two
    /// workers, or with fewer if the case has fewer. If the work has parts for each worker, the
    /// numbers of the case.
    Threads,
}

/// All runtimes, in the order of the tables.
pub const RUNTIMES: &[Runtime] = &[
    Runtime { name: "serial", counts: Counts::One, table: serial::TABLE, busy: &[] },
    Runtime { name: "cygnet", counts: Counts::All, table: cygnet::TABLE, busy: cygnet::BUSY },
    #[cfg(feature = "peers")]
    Runtime { name: "corosensei", counts: Counts::All, table: switches::COROSENSEI, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "generator", counts: Counts::All, table: switches::GENERATOR, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "chili", counts: Counts::All, table: chili::TABLE, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "rayon", counts: Counts::All, table: rayon::TABLE, busy: rayon::BUSY },
    #[cfg(feature = "peers")]
    Runtime { name: "tokio", counts: Counts::All, table: tokio::TABLE, busy: tokio::BUSY },
    #[cfg(feature = "peers")]
    Runtime { name: "async-executor", counts: Counts::All, table: smol::TABLE, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "may", counts: Counts::All, table: may::TABLE, busy: may::BUSY },
    #[cfg(feature = "peers")]
    Runtime { name: "swansong", counts: Counts::All, table: swansong::TABLE, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "disruptor", counts: Counts::Threads, table: disruptor::TABLE, busy: &[] },
    #[cfg(feature = "peers")]
    Runtime { name: "parking_lot", counts: Counts::Threads, table: &[], busy: parking_lot::BUSY },
    Runtime {
        name: "threads",
        counts: Counts::Threads,
        table: threads::TABLE,
        busy: threads::BUSY,
    },
];

/// Finds the runtime of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Runtime> {
    RUNTIMES.iter().find(|runtime| runtime.name == name)
}

impl Runtime {
    /// The function that measures a case, if the runtime runs it.
    #[must_use]
    pub fn run(&self, case: &str) -> Option<Run> {
        self.entries().find(|(name, _)| *name == case).map(|(_, run)| run)
    }

    /// Returns all cases that the runtime runs.
    fn entries(&self) -> impl Iterator<Item = (&'static str, Run)> {
        self.table.iter().chain(self.busy.iter().copied().flatten()).copied()
    }

    /// The numbers of workers with which it is measured in a case.
    #[must_use]
    pub fn workers(&self, case: &Case) -> Vec<usize> {
        match self.counts {
            Counts::All => case.workers.to_vec(),
            Counts::One => vec![1],
            Counts::Threads if case.has_parts_for_each_worker => case.workers.to_vec(),
            Counts::Threads => {
                case.workers.iter().copied().filter(|&n| n <= 2).max().into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{CASES, find as find_case};
    use super::super::measure::moment;
    use super::*;

    #[test]
    fn every_entry_is_a_case_and_every_case_is_run_by_cygnet() {
        for runtime in RUNTIMES {
            for (name, _) in runtime.entries() {
                let case = find_case(name).unwrap_or_else(|| panic!("{name} is no case"));
                assert!(!runtime.workers(case).is_empty());
            }
        }
        let cygnet = find("cygnet").unwrap();
        assert!(CASES.iter().all(|case| cygnet.run(case.name).is_some()));
    }

    #[test]
    fn threads_stand_among_two_workers_unless_the_work_has_parts_for_each_worker() {
        let threads = find("threads").unwrap();
        let workers = |case| threads.workers(find_case(case).unwrap());
        assert_eq!(workers("join-1ms"), [2]);
        assert_eq!(workers("pipeline-500"), [2]);
        assert_eq!(workers("many-senders"), [1, 2, 4]);
    }

    /// Measures each case in this process, for a moment.
    #[test]
    fn every_case_has_the_right_result_on_every_runtime() {
        for runtime in RUNTIMES {
            for (name, run) in runtime.entries() {
                let case = find_case(name).unwrap();
                for workers in runtime.workers(case) {
                    let pair = format!("{name} on {} with {workers}", runtime.name);
                    let measured = run(&moment(workers)).unwrap_or_else(|e| panic!("{pair}: {e}"));
                    for part in case.parts {
                        assert!(measured.values.contains_key(part.key), "{pair}: {measured:?}");
                    }
                    if let Some(expected) = case.expected(true) {
                        assert_eq!(measured.checksum, Some(expected), "{pair}");
                    }
                }
            }
        }
    }
}
