//! The balance: tasks that have been suspended once, and then compute. A started task stays on its
//! worker, so two workers gain by as much as they share the starts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cygnet::Unparker;

use super::ops::Gate;
use super::work::Work;

/// Children that have started and wait to be woken.
#[derive(Default)]
struct Waiting(Mutex<Vec<Unparker>>);

impl Waiting {
    /// Enters the calling task, which parks next.
    fn enter(&self) {
        let me = cygnet::unparker();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(me);
    }

    /// Wakes all that have entered since the last call, and says how many.
    fn wake(&self) -> usize {
        let entered = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        entered.iter().for_each(Unparker::unpark);
        entered.len()
    }
}

/// A parent spawns `tasks` children, each of which starts, parks, and does `work` when it is woken.
/// When all are waiting the parent wakes them. From the first spawn to the end of the last child.
pub fn woken_together(tasks: u32, work: Work) -> Duration {
    let (waiting, gate) = (Waiting::default(), Gate::new(tasks as usize));
    let began = Instant::now();
    cygnet::scope(|scope| {
        for seed in 0..tasks {
            let (waiting, gate) = (&waiting, &gate);
            scope.spawn(move || {
                waiting.enter();
                gate.pass();
                let _ = cygnet::park();
                work.run(seed.into())
            });
        }
        gate.wait();
        waiting.wake();
    });
    began.elapsed()
}

/// The same, but the parent wakes those that wait after each spawn, and from then on whenever one more
/// has come to wait; the others have not started by then.
pub fn woken_at_once(tasks: u32, work: Work) -> Duration {
    let (waiting, parent) = (Waiting::default(), cygnet::unparker());
    let began = Instant::now();
    cygnet::scope(|scope| {
        let mut woken = 0;
        for seed in 0..tasks {
            let (waiting, parent) = (&waiting, &parent);
            scope.spawn(move || {
                waiting.enter();
                parent.unpark();
                let _ = cygnet::park();
                work.run(seed.into())
            });
            woken += waiting.wake();
        }
        while woken < tasks as usize && cygnet::park().is_ok() {
            woken += waiting.wake();
        }
    });
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::super::ops;
    use super::*;

    type Variant = fn(u32, Work) -> Duration;
    const VARIANTS: [Variant; 2] = [woken_together, woken_at_once];

    #[test]
    fn each_child_is_really_suspended() {
        for variant in VARIANTS {
            let runtime = ops::runtime(1);
            runtime.block_on(|| variant(100, Work::NONE));
            let worker = &runtime.metrics().workers[0];
            // On one worker nobody can be woken between its entry and its park. The parent waits too.
            assert!(worker.parks > 100, "{}", worker.parks);
            assert_eq!(worker.tasks, 101);
        }
    }

    #[test]
    fn all_children_are_woken_whoever_starts_them() {
        for variant in VARIANTS {
            let runtime = ops::runtime(2);
            runtime.block_on(|| variant(500, Work::calibrate(Duration::from_micros(2))));
            assert_eq!(runtime.metrics().tasks(), 501);
        }
    }
}
