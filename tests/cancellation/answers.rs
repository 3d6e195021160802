//! Several cancels of one task or scope at the same time, or during its end: every query gets the
//! same answer.

use crate::common::prelude::*;

struct Watcher {
    future: CancelledFuture,
    told: Poll<Option<String>>,
}

impl Watcher {
    fn new(handle: &CancelHandle) -> Watcher {
        let mut watcher = Watcher { future: handle.cancelled_async(), told: Poll::Pending };
        watcher.ask();
        watcher
    }

    fn ask(&mut self) {
        self.told = poll_once(&mut self.future)
            .map(|cancelled| cancelled.map(|cancelled| cancelled.reason().to_string()));
    }

    /// The reason, if there was a cancel.
    fn told(mut self) -> Option<String> {
        loop {
            if let Poll::Ready(told) = self.told {
                return told;
            }
            thread::yield_now();
            self.ask();
        }
    }
}

/// Few rounds: a simulation has its seeds, and on real threads it takes tens of thousands of rounds
/// to meet the interleavings in question.
fn rounds(show: impl Fn(&Runtime) + Sync) {
    with(&[2], |rt| (0..3).for_each(|_| show(rt)));
}

#[test]
fn a_late_cancel_does_not_change_the_answer_of_a_task_that_has_ended() {
    for live in [|| (), || sleep(Duration::from_micros(1)).unwrap_or(())] {
        rounds(|rt| {
            let task = rt.spawn(live);
            let handle = task.cancel_handle();
            let (canceller, watcher) = (handle.clone(), Watcher::new(&handle));
            thread::scope(|threads| {
                threads.spawn(move || canceller.cancel("perhaps too late"));
                let _ = task.join();
                let first = handle.is_cancelled();
                for _ in 0..10 {
                    thread::yield_now();
                    assert_eq!(handle.is_cancelled(), first, "the task has ended");
                }
                assert_eq!(watcher.told().is_some(), first, "an early watcher");
                assert_eq!(Watcher::new(&handle).told().is_some(), first, "a late watcher");
            });
        });
    }
}

/// Parks until a cancel, and returns its reason, which stays the same.
fn first_reason() -> String {
    let first = crate::parked();
    for _ in 0..10 {
        thread::yield_now();
        assert_eq!(first, crate::why(checkpoint()), "the reason has changed");
    }
    first
}

/// Runs `race`, which cancels what `handle` names and may return the reason that was seen there.
fn assert_one_reason(handle: &CancelHandle, race: impl FnOnce() -> Option<String>) {
    let watcher = Watcher::new(handle);
    let own = race();
    let told = watcher.told();
    assert!(told.is_some(), "each of the cancels is in time");
    assert!(own.is_none() || own == told, "{own:?}, and an early watcher: {told:?}");
    assert_eq!(Watcher::new(handle).told(), told, "a late watcher");
}

/// The same race between two cancels, of which `own` returns the reason that was seen.
fn assert_one_reason_of_two(
    handle: &CancelHandle,
    from_above: impl FnOnce() + Send,
    own: impl FnOnce() -> String,
) {
    assert_one_reason(handle, || {
        thread::scope(|threads| {
            threads.spawn(|| handle.cancel("by its handle"));
            threads.spawn(from_above);
            Some(own())
        })
    });
}

/// C34.
#[test]
fn all_are_told_the_same_reason_of_a_task() {
    rounds(|rt| {
        let ((give, mut taken), (give_handle, mut handle)) = (oneshot(), oneshot());
        let outer = rt.spawn(move || {
            let inner = spawn(move || {
                give_handle.send(cancel_handle()).unwrap();
                first_reason()
            });
            assert!(give.send(inner).is_ok());
            park()
        });
        let (inner, handle) = (taken.recv().unwrap(), handle.recv().unwrap());
        assert_one_reason_of_two(&handle, || outer.cancel("above"), || inner.join().unwrap());
    });
}

#[test]
fn all_are_told_the_same_reason_of_a_scope() {
    rounds(|rt| {
        let (give, mut handle) = oneshot();
        let task = rt.spawn(move || {
            scope(|s| {
                give.send(s.cancel_handle()).unwrap();
                first_reason()
            })
        });
        let (handle, above) = (handle.recv().unwrap(), task.cancel_handle());
        assert_one_reason_of_two(&handle, || above.cancel("above"), || task.join().unwrap());
    });
}

#[test]
fn all_are_told_the_same_reason_of_a_task_whose_handle_is_dropped() {
    rounds(|rt| {
        let (give, mut taken) = oneshot();
        let outer = rt.spawn(move || {
            assert!(give.send(spawn(park)).is_ok());
            park()
        });
        let inner = taken.recv().unwrap();
        assert_one_reason(&inner.cancel_handle(), || {
            thread::scope(|threads| {
                threads.spawn(move || drop(inner));
                threads.spawn(move || {
                    outer.cancel("from above");
                    let _ = outer.join();
                });
            });
            None
        });
    });
}
