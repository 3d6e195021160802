//! Panics, cancellation, the end of the runtime: both halves run to their end.

use super::spin_until;
use crate::common;
use crate::common::drops::Drops;
use crate::common::mpsc::channel;
use crate::common::spin_loop;
use crate::common::{eventually, panic_of, parks, runtime, scaled, with, with_each, within};
use cygnet::{is_cancelled, join, park, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn a_panic_comes_after_both_halves_and_the_first_ones_goes_before() {
    with_each(|rt| {
        for taken_first in [false, true] {
            let may_take = taken_first && rt.metrics().workers.len() > 1;
            let (taken, count) = (AtomicBool::new(false), AtomicUsize::new(0));
            let begin = |panics: Option<&str>| {
                if may_take {
                    spin_until(&taken);
                }
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(text) = panics {
                    panic!("{text}");
                }
            };
            let end = |panics: Option<&str>| {
                taken.store(true, Ordering::Release);
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(text) = panics {
                    panic!("{text}");
                }
            };
            let cases = [
                (Some("first"), None, "first"),
                (None, Some("second"), "second"),
                (Some("first"), Some("second"), "first"),
            ];
            for (first, second, seen) in cases {
                taken.store(false, Ordering::Relaxed);
                count.store(0, Ordering::Relaxed);
                let text = panic_of(|| rt.block_on(|| join(|| begin(first), || end(second))));
                assert_eq!(text, seen);
                assert_eq!(count.load(Ordering::Relaxed), 2);
            }
        }
    });
}

#[test]
fn each_capture_and_result_is_dropped_once() {
    with_each(|rt| {
        let drops = Drops::default();
        rt.block_on(|| {
            for panics in [None, Some(0), Some(1)] {
                let (a, b) = (drops.guard(), drops.guard());
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    join(
                        || {
                            assert!(panics != Some(0), "the first one's");
                            a
                        },
                        || {
                            yield_now().unwrap();
                            assert!(panics != Some(1), "the second one's");
                            b
                        },
                    )
                }));
                assert_eq!(result.is_err(), panics.is_some());
            }
        });
        assert_eq!(drops.count(), 3 * 2);
    });
}

#[test]
fn a_cancelled_task_sees_it_in_both_halves() {
    with_each(|rt| {
        let (started, wait) = channel();
        let (tell, told) = channel();
        let cancelled = || {
            while yield_now().is_ok() {}
            is_cancelled()
        };
        let task = rt.spawn(move || {
            started.send(()).unwrap();
            tell.send(join(cancelled, cancelled)).unwrap();
        });
        wait.recv().unwrap();
        drop(task);
        assert_eq!(told.recv().unwrap(), (true, true));
    });
}

#[test]
fn a_cancel_reaches_halves_that_are_parked_elsewhere() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(50) {
            let before = parks(rt);
            let (tell, told) = channel();
            let task = rt.spawn(move || {
                let taken: [_; 2] = std::array::from_fn(|_| AtomicBool::new(false));
                let inner = |taken: &AtomicBool| {
                    taken.store(true, Ordering::Release);
                    park().is_err()
                };
                let ended = join(
                    || join(|| spin_until(&taken[0]), || park().is_err()).1,
                    || {
                        let both = join(|| inner(&taken[0]), || park().is_err());
                        both.0 && both.1
                    },
                );
                tell.send(ended).unwrap();
            });
            eventually("all are parked", || parks(rt) >= before + 3);
            drop(task);
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

#[test]
fn a_cancel_reaches_a_half_and_its_half_that_park_at_the_same_time() {
    #[derive(Default)]
    struct Flags {
        taken: AtomicBool,
        cancelled: AtomicBool,
        met: AtomicUsize,
    }
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(150) {
            let flags = Arc::new(Flags::default());
            let (tell, told) = channel();
            let task = rt.spawn({
                let flags = flags.clone();
                move || {
                    let park_together = || {
                        flags.met.fetch_add(1, Ordering::AcqRel);
                        while flags.met.load(Ordering::Acquire) < 2 {
                            spin_loop();
                        }
                        park().is_err()
                    };
                    let taken = || {
                        flags.taken.store(true, Ordering::Release);
                        spin_until(&flags.cancelled);
                        join(park_together, park_together)
                    };
                    let ((), ended) = join(|| spin_until(&flags.taken), taken);
                    tell.send(ended).unwrap();
                }
            });
            spin_until(&flags.taken);
            drop(task);
            flags.cancelled.store(true, Ordering::Release);
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

#[test]
fn both_halves_run_to_their_end_when_the_runtime_ends() {
    within(|| {
        for workers in common::WORKERS {
            let rt = runtime(workers);
            let (started, wait) = channel();
            let (tell, told) = channel();
            rt.spawn(move || {
                started.send(()).unwrap();
                let until_cut = || {
                    while yield_now().is_ok() {}
                    join(|| 1, || 2)
                };
                tell.send(join(until_cut, until_cut)).unwrap();
            })
            .detach();
            wait.recv().unwrap();
            drop(rt);
            assert_eq!(told.recv().unwrap(), ((1, 2), (1, 2)));
        }
    });
}
