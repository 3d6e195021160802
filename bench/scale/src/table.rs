//! The table: a row per case and work, a column per number of cores.

use crate::cases::Kind;
use crate::plan::{Plan, Row};
use crate::run::{Figures, Mean};
use crate::world::MODELLED;
use std::fmt::Write;

pub struct Table<'a> {
    plan: &'a Plan,
    /// The results of the runs that have ended.
    results: Vec<Option<Result<Figures, ()>>>,
    /// The number of rows that have been shown.
    shown: usize,
}

impl Table<'_> {
    pub fn new(plan: &Plan) -> Table<'_> {
        Table { plan, results: vec![None; plan.specs.len()], shown: 0 }
    }

    /// Adds the result of the run at this place of the plan.
    pub fn add(&mut self, at: usize, result: &Result<Figures, String>) {
        self.results[at] = Some(result.clone().map_err(drop));
    }

    /// Returns the text of the rows that are complete and have not been shown, in order.
    pub fn finished_rows(&mut self) -> String {
        let mut text = String::new();
        let rows = &self.plan.rows;
        while let Some(row) = rows.get(self.shown)
            && let Some(cells) = self.cells(row)
        {
            let before = self.shown.checked_sub(1).map(|before| is_time(&rows[before]));
            if before != Some(is_time(row)) {
                text += if before.is_some() { "\n" } else { "" };
                self.heading(&mut text, is_time(row));
            }
            let Row { work_ns, sockets, .. } = row;
            write!(text, "{:<15}{work_ns:>8}{sockets:>8}", row.case.name()).expect("a string");
            cells.iter().for_each(|cell| _ = write!(text, "{cell:>8}"));
            text.push('\n');
            self.shown += 1;
        }
        text
    }

    fn heading(&self, text: &mut String, time: bool) {
        let figure = if time { "time, us" } else { "efficiency" };
        let machine = if MODELLED { "a modelled machine" } else { "the real machine" };
        writeln!(text, "{figure} on {machine}, by the number of cores for the workers")
            .expect("a string");
        write!(text, "{:<15}{:>8}{:>8}", "case", "work, ns", "sockets").expect("a string");
        self.plan.cores.iter().for_each(|cores| _ = write!(text, "{cores:>8}"));
        text.push('\n');
    }

    /// Returns `None` if a run of this row has not ended.
    fn cells(&self, row: &Row) -> Option<Vec<String>> {
        let cell = |cell: &Option<(usize, usize)>| {
            let Some((first, number)) = *cell else { return Some("-".to_owned()) };
            let results = self.results[first..first + number].iter().cloned();
            let results: Vec<_> = results.collect::<Option<_>>()?;
            let figures: Result<Vec<Figures>, ()> = results.into_iter().collect();
            let mean = figures.ok().and_then(|figures| Mean::of(figures.iter()));
            Some(mean.map_or("failed".to_owned(), |mean| mean.to_string()))
        };
        row.cells.iter().map(cell).collect()
    }
}

fn is_time(row: &Row) -> bool {
    row.case.kind() == Kind::Times
}
