//! Balance: tasks that are suspended once before they compute. A started task stays on its
//! worker, so two workers gain only as far as they share the starts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cygnet::Unparker;

use super::ops::Gate;
use crate::measure::work::Work;

/// Children that have started and are waiting to be woken.
#[derive(Default)]
struct Waiting(Mutex<Vec<Unparker>>);

impl Waiting {
    /// Registers the calling task, which parks next.
    fn enter(&self) {
        let me = cygnet::unparker();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(me);
    }

    /// Wakes all children registered since the last call, and returns their number.
    fn wake(&self) -> usize {
        let entered = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        entered.iter().for_each(Unparker::unpark);
        entered.len()
    }
}

/// The parent spawns `tasks` children; each one starts, parks, and does `work` when it is woken.
/// The parent wakes them once all are waiting. Measures from the first spawn to the end of the
/// last child.
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

/// The same as [`woken_together`], but the parent wakes the waiting children after each spawn.
/// Children that have not started by the last spawn are woken as soon as they wait.
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
            // On one worker no child can be woken between its registration and its park. The
            // parent parks too.
            assert!(worker.parks > 100, "{}", worker.parks);
            assert_eq!(worker.tasks, 101);
        }
    }

    #[test]
    fn all_children_are_woken_on_whichever_worker_they_started() {
        for variant in VARIANTS {
            let runtime = ops::runtime(2);
            runtime.block_on(|| variant(500, Work { steps: 1000 }));
            assert_eq!(runtime.metrics().tasks(), 501);
        }
    }
}
