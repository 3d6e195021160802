//! Which runs the command line asks for.

use crate::arguments::Arguments;
use crate::cases::Case;
use crate::run::Spec;
use crate::world::MODELLED;
use clap::ValueEnum;
use std::collections::BTreeSet;

/// A row of the table: the cells are its columns, each of which is a list of runs (one per seed).
pub struct Row {
    pub case: Case,
    pub work_ns: u64,
    pub sockets: usize,
    /// For each column, the first of its runs and their number; there is none for a machine that
    /// cannot exist.
    pub cells: Vec<Option<(usize, usize)>>,
}

pub struct Plan {
    pub specs: Vec<Spec>,
    pub rows: Vec<Row>,
    pub cores: Vec<usize>,
    /// Why some cells remain empty.
    pub impossible: BTreeSet<String>,
}

impl Plan {
    /// # Errors
    /// The mistake in the command line.
    pub fn new(arguments: &Arguments) -> Result<Plan, String> {
        let cases = match &arguments.cases[..] {
            [] => Case::value_variants(),
            cases => cases,
        };
        if !MODELLED && (arguments.sockets != [1] || arguments.seeds > 1 || arguments.places) {
            return Err("sockets, seeds and places are those of a modelled machine; \
                        this program measures the real one"
                .to_owned());
        }
        let (specs, rows, impossible) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut plan = Plan { specs, rows, impossible, cores: arguments.cores() };
        for &case in cases {
            let usual = [case.usual_work()];
            let works = if arguments.work.is_empty() { &usual[..] } else { &arguments.work };
            for &work_ns in works {
                for &sockets in &arguments.sockets {
                    plan.add_row(arguments, case, work_ns, sockets);
                }
            }
        }
        let runs = plan.specs.len();
        if runs == 0 {
            let reasons: Vec<_> = plan.impossible.into_iter().collect();
            return Err(format!("there is nothing to run: {}", reasons.join("; ")));
        }
        if arguments.places && runs > 1 {
            return Err(format!(
                "--places shows a single run, and these are {runs}; name one case and one number of cores"
            ));
        }
        Ok(plan)
    }

    fn add_row(&mut self, arguments: &Arguments, case: Case, work_ns: u64, sockets: usize) {
        let mut cells = Vec::new();
        for at in 0..self.cores.len() {
            let cores = self.cores[at];
            if let Some(reason) = impossible(case, cores, sockets) {
                self.impossible.insert(reason);
                cells.push(None);
                continue;
            }
            cells.push(Some((self.specs.len(), arguments.seeds as usize)));
            for seed in 0..arguments.seeds {
                self.specs.push(Spec {
                    case,
                    work_ns,
                    cores,
                    workers: arguments.workers.unwrap_or(cores),
                    sockets,
                    seed: arguments.seed.wrapping_add(seed),
                    items_wanted: arguments.items,
                });
            }
        }
        self.rows.push(Row { case, work_ns, sockets, cells });
    }
}

/// Why there is no such machine for this workload.
fn impossible(case: Case, cores: usize, sockets: usize) -> Option<String> {
    if sockets > cores {
        return Some(format!(
            "no runs with cores {cores}: {sockets} sockets need {sockets} cores at least"
        ));
    }
    let most = case.most_cores();
    (cores > most).then(|| format!("{} has {most} cores at most", case.name()))
}
