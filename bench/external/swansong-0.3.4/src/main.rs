//! swansong 0.3.4 as an external program of the comparison: measures a case and prints its line,
//! as docs/compare.md specifies. The loops are the same as for swansong 0.3.7 and cygnet.

use std::env::{args, var};

use anyhow::Context;
use cygnet_bench::figures::stops::{Guards, Interrupts, Tree, measured};
use cygnet_bench::measure::harness::{Setting, Table};
use cygnet_bench::measure::line::Line;
use cygnet_bench::measure::work::Speed;
use futures_core::Stream;
use swansong::{Guard, Swansong};

/// swansong's type, wrapped so that this program can implement the traits for it.
#[derive(Default)]
struct Old(Swansong);

impl Guards for Old {
    type Guard = Guard;

    #[inline(always)]
    fn guard(&self) -> Guard {
        self.0.guard()
    }
}

impl Tree for Old {
    #[inline(always)]
    fn child(&self) -> Old {
        Old(self.0.child())
    }

    #[inline(always)]
    fn stop(&self) {
        drop(self.0.shut_down());
    }

    fn is_stopped(&self) -> bool {
        !self.0.state().is_running()
    }
}

impl Interrupts for Old {
    fn future<F: Future>(&self, future: F) -> impl Future<Output = Option<F::Output>> {
        self.0.interrupt(future)
    }

    fn stream<S: Stream>(&self, stream: S) -> impl Stream<Item = S::Item> {
        self.0.interrupt(stream)
    }

    fn iterator<I: Iterator>(&self, iterator: I) -> impl Iterator<Item = I::Item> {
        self.0.interrupt(iterator)
    }
}

const TABLE: Table = measured::table::<Old>();

fn main() -> anyhow::Result<()> {
    let mut words = args().skip(1);
    let case = words.next().context("the first argument must be a case")?;
    let workers =
        words.next().context("the second argument must be a number of workers")?.parse()?;
    let quick = var("COMPARE_QUICK").is_ok_and(|quick| quick == "1");
    // No case here has work of a given length.
    let speed = Speed { steps_per_us: 1, steps_per_item: 1 };
    let line = match TABLE.iter().find(|(name, _)| *name == case) {
        Some((_, run)) => Line::from(run(&Setting::new(quick, workers, speed))),
        None => Line { unknown: true, ..Line::default() },
    };
    let line = Line { runtime: Some("swansong 0.3.4".to_owned()), ..line };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}
