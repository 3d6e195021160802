//! The machine that runs the workloads.

use std::sync::Mutex;
use std::time::Duration;

/// What a workload reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timed {
    pub took: Duration,
    /// The time that the workload would take on an ideal machine.
    pub ideal: Duration,
    pub items: u64,
}

/// The report of a workload, which the workload fills in.
#[derive(Default)]
pub struct Clock {
    timed: Mutex<Option<Timed>>,
}

impl Clock {
    /// Measures a call of `f`, which handles `items` items.
    pub fn measure(&self, ideal: Duration, items: u64, f: impl FnOnce()) {
        let start = now();
        f();
        self.record(now() - start, ideal, items);
    }

    /// Records a time that the workload has measured itself.
    pub fn record(&self, took: Duration, ideal: Duration, items: u64) {
        *self.timed.lock().expect("one writes") = Some(Timed { took, ideal, items });
    }

    fn timed(self) -> Result<Timed, String> {
        let timed = self.timed.into_inner().expect("one writes");
        timed.ok_or_else(|| "the workload did not measure anything".to_owned())
    }
}

#[cfg_attr(not(feature = "model"), allow(dead_code))]
pub struct World {
    pub cores: usize,
    pub sockets: usize,
    pub seed: u64,
    pub most_steps: u64,
}

/// What a modelled machine has counted in a whole run, from the start of the runtime to its end.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub moves: u64,
    pub barriers: u64,
    pub wakes: u64,
    pub steps: u64,
}

/// The result of a run.
pub struct Outcome {
    pub timed: Timed,
    pub counts: Option<Counts>,
    /// Where the time went.
    pub places: String,
}

#[cfg(feature = "model")]
pub use modelled::*;
#[cfg(not(feature = "model"))]
pub use real::*;

#[cfg(feature = "model")]
mod modelled {
    use super::*;
    use cygnet::sim::{self, Machine};

    /// Whether the machine is a modelled one.
    pub const MODELLED: bool = true;
    pub use cygnet::sim::{now, thread};

    pub fn compute(time: Duration) {
        sim::compute(time);
    }

    impl World {
        pub fn measure(&self, workload: impl Fn(&Clock)) -> Result<Outcome, String> {
            let clock = Clock::default();
            let machine = Machine::new(self.cores).sockets(self.sockets).seed(self.seed);
            let machine = machine.most_steps(self.most_steps);
            let measured = machine.run(|| workload(&clock)).map_err(|error| error.to_string())?;
            let counts = Counts {
                moves: measured.moves,
                barriers: measured.barriers,
                wakes: measured.wakes,
                steps: measured.run.steps,
            };
            let (timed, places) = (clock.timed()?, measured.to_string());
            Ok(Outcome { timed, counts: Some(counts), places })
        }
    }
}

#[cfg(not(feature = "model"))]
mod real {
    use super::*;
    use std::time::Instant;

    /// Whether the machine is a modelled one.
    pub const MODELLED: bool = false;
    pub use std::thread;

    pub fn now() -> Instant {
        Instant::now()
    }

    pub fn compute(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    impl World {
        /// Returns the median of nine runs, after a first run that does not count.
        pub fn measure(&self, workload: impl Fn(&Clock)) -> Result<Outcome, String> {
            let mut times = Vec::new();
            for round in 0..10 {
                let clock = Clock::default();
                workload(&clock);
                let timed = clock.timed()?;
                if round > 0 {
                    times.push(timed);
                }
            }
            times.sort_unstable();
            let timed = times[times.len() / 2];
            Ok(Outcome { timed, counts: None, places: String::new() })
        }
    }
}
