//! The watchdog: takes samples while programs run, and ends the process if a program does not
//! end.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::state::{Failure, Running, State};

/// Interval of the looks.
///
/// Limits are counted in looks and not read from a clock. A process that was stopped, or had no
/// processor, for a minute has looked once in that minute, and its programs do not count as hung.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of looks while waiting for the counters of a hung runtime, which may be behind
/// a lock.
const ANSWER: u32 = 30;

/// Starts the two threads: one takes samples, one calls `hung` for a hung program. Each thread
/// ends when its sender is dropped.
pub(crate) fn start(
    state: &Arc<State>,
    limit: Duration,
    hung: impl FnOnce(Failure) + Send + 'static,
) -> (Vec<mpsc::Sender<()>>, Vec<JoinHandle<()>>) {
    let sampling = each_look(state, |state| state.sample(false));
    let mut hung = Some(hung);
    let watching = each_look(state, move |state| {
        if let Some(late) = state.look((limit.as_millis() / LOOK.as_millis()) as u64)
            && let Some(hung) = hung.take()
        {
            hung(describe(state, &late, limit));
        }
    });
    [sampling, watching].into_iter().unzip()
}

/// Starts a thread that calls `look` at intervals until its sender is dropped.
fn each_look(
    state: &Arc<State>,
    mut look: impl FnMut(&Arc<State>) + Send + 'static,
) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (state, (running, over)) = (Arc::clone(state), mpsc::channel());
    let observer = thread::spawn(move || {
        while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            look(&state);
        }
    });
    (running, observer)
}

/// Describes the hung program, the programs beside it, the metrics of the runtimes, and the state
/// of the threads in the kernel.
fn describe(state: &Arc<State>, late: &Running, limit: Duration) -> Failure {
    let mut what = format!("it has not ended after {limit:?}\n");
    for other in state.running() {
        let _ = writeln!(what, "runs for {:.1?}: {}", other.begun.elapsed(), other.what);
    }
    let (tell, told) = mpsc::channel();
    let asked = Arc::clone(state);
    thread::spawn(move || {
        for runtime in asked.runtimes() {
            if tell.send(format!("{:#?}", runtime.metrics())).is_err() {
                return;
            }
        }
    });
    let mut looks = 0;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(metrics) => what.push_str(&format!("{metrics}\n")),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if looks < ANSWER => looks += 1,
            Err(RecvTimeoutError::Timeout) => {
                what.push_str("a runtime did not return its metrics\n");
                break;
            }
        }
    }
    threads(&mut what);
    Failure { step: late.what.clone(), what }
}

/// Appends the name, the state and the kernel function of each thread.
fn threads(what: &mut String) {
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, stat, place) = (read("comm"), read("stat"), read("wchan"));
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let _ = writeln!(what, "thread {}: {state} {place}", name.trim());
    }
}
