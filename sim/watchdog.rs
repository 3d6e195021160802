//! A run that blocks its OS thread makes no step, and so cannot say so itself.

use crate::scheduler::simulation::Progress;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Without a step for so long, a run is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Looks on from a thread of its own as long as it lives.
pub(super) struct Watchdog {
    progress: Arc<Progress>,
    seed: Arc<Mutex<String>>,
    /// Its drop ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// None is there if there is no thread to be had.
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
                    bark(&watched, &of.lock().unwrap_or_else(PoisonError::into_inner));
                }
            }
        };
        let thread = thread::Builder::new().name("cygnet-sim-watchdog".to_owned()).spawn(watch);
        Watchdog { progress, seed, end: Some(end), thread: thread.ok() }
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// A run begins, by this seed.
    pub(super) fn begin(&self, seed: String) {
        *self.seed.lock().unwrap_or_else(PoisonError::into_inner) = seed;
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
        "cygnet: a simulation has not made a step for {PATIENCE:?}: {}. It computes without an end, or it waits for something that is not the \
         library's, as a lock of std's that is held over a suspension: that blocks the one thread that all run on. The same again: CYGNET_SIM_SEED={seed}\n",
        progress.last(),
    );
    // Not `eprintln`: the harness of tests would keep it to itself, and go with the process.
    let _ = std::io::stderr().write_all(said.as_bytes());
    std::process::abort()
}
