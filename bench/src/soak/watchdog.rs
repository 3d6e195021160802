//! Who looks at the clock: takes samples while programs run, and ends the process when one does not come to its end.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::state::{Failure, Running, State};

/// How often it looks.
///
/// Limits are counted in looks, not read from a clock: a process that was stopped, or had no processor, for a minute has had one
/// look in that minute, and what it runs is not said to hang.
const LOOK: Duration = Duration::from_millis(100);
/// How many looks it waits for the counters of a runtime that hangs, which may be behind a lock.
const ANSWER: u32 = 30;

/// The two threads. They end with what holds `over`'s other end.
pub(crate) fn start(
    state: &Arc<State>,
    limit: Duration,
    hung: impl FnOnce(Failure) + Send + 'static,
) -> (Vec<mpsc::Sender<()>>, Vec<JoinHandle<()>>) {
    let (stop_sampling, sampled) = mpsc::channel();
    let (stop_watching, watched) = mpsc::channel();
    let sampling = {
        let state = Arc::clone(state);
        thread::spawn(move || each_look(&sampled, || state.sample(false)))
    };
    let state = Arc::clone(state);
    let watching = thread::spawn(move || {
        let mut hung = Some(hung);
        each_look(&watched, || {
            let late = state.look((limit.as_millis() / LOOK.as_millis()) as u64);
            if let Some(late) = late
                && let Some(hung) = hung.take()
            {
                hung(describe(&state, &late, limit));
            }
        });
    });
    (vec![stop_sampling, stop_watching], vec![sampling, watching])
}

fn each_look(over: &Receiver<()>, mut look: impl FnMut()) {
    while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        look();
    }
}

/// What hangs, what runs beside it, what the runtimes say of themselves, and what the kernel says of the threads.
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
                what.push_str("a runtime does not answer when asked for its metrics\n");
                break;
            }
        }
    }
    threads(&mut what);
    Failure { step: late.what.clone(), what }
}

/// The name, the state and the place in the kernel of each thread.
fn threads(what: &mut String) {
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, stat, place) = (read("comm"), read("stat"), read("wchan"));
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let _ = writeln!(what, "thread {}: {state} {place}", name.trim());
    }
}
