//! The watchdog of a simulation. A run that blocks its OS thread takes no step, so another thread
//! has to report it.

use crate::scheduler::simulation::Progress;
use crate::shim::real::Mutex;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time without a step after which the process is aborted.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Watches the runs from a thread of its own until it is dropped.
pub(super) struct Watchdog {
    pub(super) progress: Arc<Progress>,
    seed: Arc<Mutex<String>>,
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the watchdog. If no thread can be started, nothing is watched.
    pub(super) fn new() -> Watchdog {
        let (progress, seed) = (Arc::<Progress>::default(), Arc::<Mutex<String>>::default());
        let (end, ended) = channel::<()>();
        let (watched, of) = (Arc::clone(&progress), Arc::clone(&seed));
        let watch = move || {
            let (mut before, mut since) = (watched.steps(), Instant::now());
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let now = watched.steps();
                if now != before {
                    (before, since) = (now, Instant::now());
                } else if since.elapsed() >= PATIENCE {
                    bark(&watched, &of.lock());
                }
            }
        };
        let thread = thread::Builder::new().name("cygnet-sim-watchdog".to_owned()).spawn(watch);
        Watchdog { progress, seed, end: Some(end), thread: thread.ok() }
    }

    /// Tells the watchdog that a run begins, by this seed.
    pub(super) fn begin(&self, seed: String) {
        *self.seed.lock() = seed;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bark(progress: &Progress, seed: &str) -> ! {
    let said = format!(
        "cygnet: a simulation has not made a step for {PATIENCE:?}: {}. It computes without end, or waits for something outside the \
         library, such as a std lock that is held over a suspension, which blocks the one thread of the simulation. \
         To run it again: CYGNET_SIM_SEED={seed}\n",
        progress.last(),
    );
    // Written directly: a test harness would capture `eprintln`, and lose it with the process.
    let _ = std::io::stderr().write_all(said.as_bytes());
    std::process::abort()
}
