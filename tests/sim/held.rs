//! Held workers tell each other what they give away. Each would find it by itself, 10 ms later at the latest: that nobody was told is seen
//! by the time, which is virtual, and stands still as long as somebody has something to do.

use cygnet::sim::{Options, check, now};
use cygnet::{Runtime, scope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Much longer than a run takes, and shorter than the rest of a held worker.
const MOMENT: Duration = Duration::from_millis(5);

/// Opens a scope in the middle of an unwinding: its worker is held.
struct Parent<'a> {
    depth: usize,
    ended: &'a AtomicUsize,
}

impl Drop for Parent<'_> {
    fn drop(&mut self) {
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| family(self.depth - 1, self.ended));
            }
        });
    }
}

fn family(depth: usize, ended: &AtomicUsize) {
    if depth > 0 {
        let unwinds = catch_unwind(AssertUnwindSafe(|| {
            let _parent = Parent { depth, ended };
            resume_unwind(Box::new(()));
        }));
        assert!(unwinds.is_err());
    }
    ended.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn what_a_held_worker_gives_away_is_found_at_once() {
    for workers in [2, 3] {
        check(&Options::new().seeds(0..1_000), || {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            let ended = AtomicUsize::new(0);
            let before = now();
            rt.block_on(|| {
                scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| family(2, &ended));
                    }
                });
            });
            let time = now() - before;
            assert_eq!(ended.into_inner(), 3 * 7);
            assert!(time < MOMENT, "somebody has waited for {time:?}");
        });
    }
}
