//! `run nqueens`: counts the ways to place N queens on an N by N board, none attacking another.
//!
//! Works row by row. In the upper rows, each free square becomes a child task in a nested scope.
//! The rest of a board is counted in place, with bit sets of the occupied columns and diagonals.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::settled;
use crate::cli::NqueensArgs;
use crate::measure::progress::Progress;
use crate::report::{self, Outcome};

/// Rows that may fork. More of them would make millions of tasks on a large board.
const FORKING_ROWS: u32 = 4;

/// A board with this many rows left is counted in place, in some tens of microseconds.
const LEAF_ROWS: u32 = 8;

/// The row whose squares the progress bar counts.
const COUNTED_ROW: u32 = 2;

/// Runs the job and prints its result.
pub(crate) fn run(args: &NqueensArgs) -> anyhow::Result<ExitCode> {
    let work = |progress: &Progress| count(args.n, progress);
    let report = report::measure("nqueens", "openings", &args.common, work)?;
    report.publish(&args.common)
}

/// The answer.
#[derive(Debug, PartialEq, Serialize)]
struct Count {
    n: u32,
    solutions: u64,
}

/// Counts the solutions; runs as the root task.
fn count(n: u32, progress: &Progress) -> Count {
    if n >= LEAF_ROWS + COUNTED_ROW {
        // Pairs of queens in the first two rows: n * n, less n in the same column, less 2 (n - 1)
        // on the same diagonal.
        progress.expect(u64::from((n - 1) * (n - 2)));
    }
    Count { n, solutions: Board::empty(n).solutions(progress) }
}

/// A board with a queen in each of its upper rows. One bit stands for a column.
#[derive(Clone, Copy)]
struct Board {
    size: u32,
    rows: u32,
    columns: u32,
    /// Diagonals that fall to the left and to the right, as they meet the next row.
    falling: [u32; 2],
}

impl Board {
    fn empty(size: u32) -> Self {
        Self { size, rows: 0, columns: 0, falling: [0, 0] }
    }

    /// The boards with one more queen.
    fn next(self) -> impl Iterator<Item = Self> {
        let [left, right] = self.falling;
        let mut free = ((1 << self.size) - 1) & !(self.columns | left | right);
        std::iter::from_fn(move || {
            let square = free & free.wrapping_neg();
            free ^= square;
            (square != 0).then(|| Self {
                size: self.size,
                rows: self.rows + 1,
                columns: self.columns | square,
                falling: [(left | square) << 1, (right | square) >> 1],
            })
        })
    }

    /// Counts the ways to fill the rest, with a task for each free square of the next row.
    fn solutions(self, progress: &Progress) -> u64 {
        let solutions = if self.rows >= FORKING_ROWS || self.size - self.rows <= LEAF_ROWS {
            self.solutions_in_place()
        } else {
            cygnet::scope(|s| {
                let tasks: Vec<_> =
                    self.next().map(|board| s.spawn(move || board.solutions(progress))).collect();
                tasks.into_iter().map(|task| settled(task.join())).sum()
            })
        };
        if self.rows == COUNTED_ROW {
            progress.step();
        }
        solutions
    }

    /// Counts the ways to fill the rest, in this task.
    fn solutions_in_place(self) -> u64 {
        if self.rows == self.size {
            return 1;
        }
        self.next().map(Self::solutions_in_place).sum()
    }
}

impl Outcome for Count {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.solutions)
    }

    fn summary(&self) -> String {
        format!(
            "{} on a board of {n} by {n}",
            report::counted(self.solutions, "solution"),
            n = self.n
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entry A000170 of the On-Line Encyclopedia of Integer Sequences, from n = 1.
    const KNOWN: [u64; 13] = [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712];

    #[test]
    fn the_known_answers_come_out_without_tasks() {
        for (n, &solutions) in (1..).zip(&KNOWN[..10]) {
            assert_eq!(Board::empty(n).solutions_in_place(), solutions, "n = {n}");
        }
    }

    #[test]
    fn the_known_answers_come_out_with_tasks() {
        let runtime = cygnet::Runtime::builder().workers(2).build().unwrap();
        for (n, &solutions) in (1..).zip(&KNOWN) {
            let counted = runtime.block_on(|| count(n, &Progress::hidden()));
            assert_eq!(counted, Count { n, solutions });
        }
    }

    #[test]
    fn the_largest_board_fits_its_words() {
        assert_eq!(Board::empty(27).next().count(), 27);
    }
}
