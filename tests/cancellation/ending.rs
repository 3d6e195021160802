//! A cancel by a waker that the end of a task or scope calls comes too late for every query.

use crate::common::prelude::*;

/// A task or scope with several futures, each of which cancels it when it is woken.
struct Watched {
    handle: CancelHandle,
    /// The handle has reported a cancel then.
    happened: Flag,
    futures: Vec<CancelledFuture>,
}

impl Watched {
    fn new(handle: CancelHandle) -> Watched {
        let (happened, own) = (Flag::new(), handle.clone());
        let waker = calling(move || {
            own.cancel("too late");
            happened.put(happened.get() || own.is_cancelled());
        });
        let mut futures: Vec<_> = (0..3).map(|_| handle.cancelled_async()).collect();
        futures.iter_mut().for_each(|future| assert!(poll_by(future, &waker).is_pending()));
        Watched { handle, happened, futures }
    }

    fn assert_not_cancelled(self) {
        assert!(!self.handle.is_cancelled());
        assert!(!self.happened.get(), "a waker saw a cancel");
        let new = self.handle.cancelled_async();
        for mut future in self.futures.into_iter().chain([new]) {
            assert!(matches!(poll_once(&mut future), Poll::Ready(None)));
        }
    }
}

#[test]
fn a_scope_is_not_cancelled_by_what_its_end_calls() {
    in_task(|_| {
        let watched = scope(|s| Watched::new(s.cancel_handle()));
        watched.assert_not_cancelled();
    });
}

/// A task that never waits, and a task that waits where a cancel finds it.
const LIVES: [fn() -> u8; 2] = [
    || 7,
    || {
        sleep(Duration::from_micros(10)).unwrap();
        7
    },
];

#[test]
fn a_task_is_not_cancelled_by_what_its_end_calls() {
    within_each(LIVES, |live| {
        let rt = Runtime::builder().workers(1).build().unwrap();
        // Only the end of its parent waits for the task.
        let (watched, value) = rt.block_on(|| {
            let task = spawn(live);
            let watched = Watched::new(task.cancel_handle());
            (watched, task)
        });
        assert_eq!(value.join().unwrap(), 7);
        watched.assert_not_cancelled();
        rt.block_on(|| {
            // The join calls the task in place.
            let task = spawn(live);
            let watched = Watched::new(task.cancel_handle());
            assert_eq!(task.join().unwrap(), 7);
            watched.assert_not_cancelled();
            // A task on the same worker waits for it.
            let task = spawn(live);
            let watched = Watched::new(task.cancel_handle());
            cygnet::yield_now().unwrap();
            assert_eq!(task.join().unwrap(), 7);
            watched.assert_not_cancelled();
            // Only the end of the scope waits for the task.
            let watched = scope(|s| Watched::new(s.spawn(live).cancel_handle()));
            watched.assert_not_cancelled();
        });
    });
}
