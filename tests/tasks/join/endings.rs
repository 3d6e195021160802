//! Panics, cancellation, the end of the runtime: both halves run to their end.

use crate::common::prelude::*;

#[test]
fn a_panic_comes_after_both_halves_and_the_first_ones_goes_before() {
    with_each(|rt| {
        for taken_first in [false, true] {
            let may_take = taken_first && rt.metrics().workers.len() > 1;
            let (taken, count) = (Flag::new(), Count::new());
            let finish = |panics: Option<&str>| {
                count.up();
                if let Some(text) = panics {
                    panic!("{text}");
                }
            };
            let begin = |panics| {
                if may_take {
                    taken.hold();
                }
                finish(panics);
            };
            let end = |panics| {
                taken.set();
                finish(panics);
            };
            let cases = [
                (Some("first"), None, "first"),
                (None, Some("second"), "second"),
                (Some("first"), Some("second"), "first"),
            ];
            for (first, second, seen) in cases {
                taken.put(false);
                count.put(0);
                let text = panic_of(|| rt.block_on(|| join(|| begin(first), || end(second))));
                assert_eq!(text, seen);
                assert_eq!(count.get(), 2);
            }
        }
    });
}

#[test]
fn each_capture_and_result_is_dropped_once() {
    in_task(|_| {
        let drops = Drops::default();
        for panics in [None, Some(0), Some(1)] {
            let (a, b) = (drops.guard(), drops.guard());
            let first = || {
                assert!(panics != Some(0), "the first one's");
                a
            };
            let second = || {
                yield_now().unwrap();
                assert!(panics != Some(1), "the second one's");
                b
            };
            let panicked = payload_of(|| drop(join(first, second))).is_some();
            assert_eq!(panicked, panics.is_some());
        }
        assert_eq!(drops.count(), 3 * 2);
    });
}

#[test]
fn a_cancel_reaches_halves_that_are_parked_elsewhere() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(50) {
            let (tell, told) = channel();
            let task = parked(rt, 3, move || {
                let taken = Flag::new();
                let inner = || {
                    taken.set();
                    park().is_err()
                };
                let ended = join(
                    || join(|| taken.hold(), || park().is_err()).1,
                    || join(inner, || park().is_err()) == (true, true),
                );
                tell.send(ended).unwrap();
            });
            drop(task);
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

#[test]
fn a_cancel_reaches_a_half_and_its_half_that_park_at_the_same_time() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(150) {
            let (taken, cancelled, met) = (Flag::new(), Flag::new(), Count::new());
            let (tell, told) = channel();
            let task = rt.spawn(move || {
                let park_together = || {
                    met.up();
                    while met.get() < 2 {
                        spin_loop();
                    }
                    park().is_err()
                };
                let second = || {
                    taken.set();
                    cancelled.hold();
                    join(park_together, park_together)
                };
                let ((), ended) = join(|| taken.hold(), second);
                tell.send(ended).unwrap();
            });
            taken.hold();
            drop(task);
            cancelled.set();
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

/// T43.
#[test]
fn both_halves_run_to_their_end_when_the_runtime_ends() {
    with_own(|rt| {
        let (started, wait) = channel();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            started.send(()).unwrap();
            let until_cut = || {
                while yield_now().is_ok() {}
                join(|| 1, || 2)
            };
            tell.send(join(until_cut, until_cut)).unwrap();
        });
        task.detach();
        wait.recv().unwrap();
        drop(rt);
        assert_eq!(told.recv().unwrap(), ((1, 2), (1, 2)));
    });
}
