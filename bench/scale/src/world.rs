//! The machine that runs the workloads.

use std::sync::Mutex;
use std::time::Duration;

/// The report of a workload: the time it took, and the time it would take on an ideal machine.
#[derive(Default)]
pub struct Clock {
    measured: Mutex<Option<(Duration, Duration)>>,
}

impl Clock {
    /// Measures a call of `f`.
    pub fn measure(&self, ideal: Duration, f: impl FnOnce()) {
        let start = now();
        f();
        self.record(now() - start, ideal);
    }

    /// Records a time that the workload has measured itself.
    pub fn record(&self, took: Duration, ideal: Duration) {
        *self.measured.lock().expect("one writes") = Some((took, ideal));
    }

    fn measured(self) -> Result<(Duration, Duration), String> {
        let measured = self.measured.into_inner().expect("one writes");
        measured.ok_or_else(|| "the workload did not measure anything".to_owned())
    }
}

#[cfg_attr(not(feature = "model"), allow(dead_code))]
pub struct World {
    pub cores: usize,
    pub sockets: usize,
    pub seed: u64,
}

/// The time taken, the ideal time, and a report of where the time went.
pub type Outcome = (Duration, Duration, String);

#[cfg(feature = "model")]
pub use modelled::*;
#[cfg(not(feature = "model"))]
pub use real::*;

#[cfg(feature = "model")]
mod modelled {
    use super::*;
    use cygnet::sim::{self, Machine};

    pub const NAME: &str = "modelled";
    pub use cygnet::sim::{now, thread};

    pub fn compute(time: Duration) {
        sim::compute(time);
    }

    impl World {
        pub fn measure(&self, workload: impl Fn(&Clock)) -> Result<Outcome, String> {
            let clock = Clock::default();
            let machine = Machine::new(self.cores).sockets(self.sockets).seed(self.seed);
            let measured = machine.run(|| workload(&clock)).map_err(|error| error.to_string())?;
            let (took, ideal) = clock.measured()?;
            Ok((took, ideal, measured.to_string()))
        }
    }
}

#[cfg(not(feature = "model"))]
mod real {
    use super::*;
    use std::time::Instant;

    pub const NAME: &str = "real";
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
                let measured = clock.measured()?;
                if round > 0 {
                    times.push(measured);
                }
            }
            times.sort_unstable();
            let (took, ideal) = times[times.len() / 2];
            Ok((took, ideal, String::new()))
        }
    }
}
