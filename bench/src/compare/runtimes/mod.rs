//! The runtimes: which cases each one runs, and how.
//!
//! Each file has tables of cases. The work is written for each runtime as its own documentation
//! would write it: with forks if it has forks, with tasks if it has tasks, and with its own
//! waits.

pub mod cygnet;
#[cfg(feature = "peers")]
pub mod peers;
pub mod rings;
mod serial;
mod threads;

use super::cases::Case;
use crate::measure::harness::{CaseResult, Run, Setting, Table, number_in};

/// A runtime that runs cases.
pub struct Runtime {
    /// Its name in the table of results.
    pub name: &'static str,
    /// The numbers of workers with which it is measured.
    counts: Counts,
    /// The cases that it runs.
    table: Table,
}

/// The numbers of workers with which a runtime is measured.
#[derive(Clone, Copy, Debug)]
enum Counts {
    /// The numbers of the case.
    All,
    /// One: the runtime has no worker threads to count.
    One,
    /// As many threads as the work has parts, on all processors. They are compared with two
    /// workers, or with fewer if the case has fewer. If the work has parts for each worker, the
    /// numbers of the case.
    Threads,
}

const FIRST: &[Runtime] = &[
    Runtime { name: "serial", counts: Counts::One, table: serial::TABLE },
    Runtime { name: "cygnet", counts: Counts::All, table: cygnet::TABLE },
];
#[cfg(feature = "peers")]
const PEERS: &[Runtime] = peers::RUNTIMES;
#[cfg(not(feature = "peers"))]
const PEERS: &[Runtime] = &[];
const LAST: &[Runtime] =
    &[Runtime { name: "threads", counts: Counts::Threads, table: threads::TABLE }];

/// All runtimes, in the order of the tables.
pub fn runtimes() -> impl Iterator<Item = &'static Runtime> {
    FIRST.iter().chain(PEERS).chain(LAST)
}

/// Finds the runtime of that name.
pub fn find(name: &str) -> Option<&'static Runtime> {
    runtimes().find(|runtime| runtime.name == name)
}

impl Runtime {
    /// The function that measures a case, if the runtime runs it, and the case's number.
    pub fn run(&self, case: &str) -> Option<(Run, u64)> {
        self.table.iter().find_map(|&(name, run)| {
            let number = if name == case { Some(0) } else { number_in(name, case) };
            Some((run, number?))
        })
    }

    /// Measures a case in this process, if the runtime runs it.
    pub fn measure(&self, case: &str, setting: &Setting) -> Option<CaseResult> {
        self.run(case).map(|(run, number)| run(&Setting { number, ..*setting }))
    }

    /// The numbers of workers with which it is measured in a case.
    pub fn workers(&self, case: &Case) -> Vec<usize> {
        match self.counts {
            Counts::One => vec![1],
            Counts::Threads if !case.has_parts_for_each_worker => {
                case.workers.iter().copied().filter(|&n| n <= 2).max().into_iter().collect()
            }
            Counts::All | Counts::Threads => case.workers.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{CASES, find as find_case};
    use super::*;
    use crate::measure::harness::moment;

    #[test]
    fn every_entry_is_a_case_or_a_family_and_every_case_is_run_by_cygnet() {
        for runtime in runtimes() {
            for (name, _) in runtime.table {
                let is_one =
                    |case: &&Case| case.name == *name || number_in(name, case.name).is_some();
                let case = CASES.iter().find(is_one).unwrap_or_else(|| panic!("{name} is no case"));
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
        for runtime in runtimes() {
            for case in CASES.iter().filter(|case| runtime.run(case.name).is_some()) {
                for workers in runtime.workers(case) {
                    let pair = format!("{} on {} with {workers}", case.name, runtime.name);
                    let measured = runtime.measure(case.name, &moment(workers)).unwrap();
                    let measured = measured.unwrap_or_else(|error| panic!("{pair}: {error}"));
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
