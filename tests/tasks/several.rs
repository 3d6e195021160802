//! Several tasks at once: `all`, `all_fail_fast`, `any`.

use crate::common::{self, Drops, panic_of, runtime, scaled_in_debug, with_each, within};
use cygnet::{
    JoinError, Reason, TaskError, all, all_fail_fast, any, park, scope, sleep, spawn, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Waits until it is cancelled.
fn lose() -> Result<usize, Reason> {
    Err(park().unwrap_err().reason().clone())
}

#[test]
fn all_gives_each_outcome_in_the_order_of_the_input() {
    with_each(|rt| {
        rt.block_on(|| {
            for n in [1, 2, 3, 100] {
                let outcomes = all((0..n).map(|i| {
                    move || {
                        (0..(n - i) % 7).for_each(|_| yield_now().unwrap());
                        assert!(i % 10 != 3, "the third of ten");
                        i
                    }
                }));
                assert_eq!(outcomes.len(), n);
                for (i, outcome) in outcomes.into_iter().enumerate() {
                    assert_eq!(outcome.ok(), (i % 10 != 3).then_some(i));
                }
            }
        });
    });
}

#[test]
fn empty_inputs_have_an_answer() {
    with_each(|rt| {
        rt.block_on(|| {
            assert!(all::<fn(), ()>([]).is_empty());
            assert!(all_fail_fast::<fn() -> Result<u8, u8>, _, _>([]).unwrap().is_empty());
            assert!(any::<fn() -> Result<u8, u8>, _, _>([]).unwrap_err().is_empty());
        });
    });
}

#[test]
fn the_first_failure_cancels_the_others_and_all_have_ended() {
    with_each(|rt| {
        rt.block_on(|| {
            for failing in 0..5 {
                let ended = AtomicUsize::new(0);
                let result = all_fail_fast((0..5).map(|i| {
                    let ended = &ended;
                    move || {
                        let result = if i == failing {
                            yield_now().unwrap();
                            Err(Reason::from("on purpose"))
                        } else {
                            lose()
                        };
                        ended.fetch_add(1, Ordering::Relaxed);
                        result
                    }
                }));
                let error = result.unwrap_err().into_failed().unwrap();
                assert_eq!(error, Reason::from("on purpose"));
                let started = ended.load(Ordering::Relaxed);
                assert!((1..=5).contains(&started));
            }
            assert!(cygnet::checkpoint().is_ok(), "the caller is not cancelled");
        });
    });
}

#[test]
fn values_that_do_not_fail_come_in_order() {
    with_each(|rt| {
        let values = rt.block_on(|| {
            all_fail_fast((0..50).map(|i| {
                move || {
                    if i % 3 == 0 {
                        yield_now().unwrap();
                    }
                    Ok::<_, ()>(i)
                }
            }))
        });
        assert_eq!(values.unwrap(), (0..50).collect::<Vec<_>>());
    });
}

#[test]
fn a_panic_is_a_failure() {
    with_each(|rt| {
        rt.block_on(|| {
            let panics =
                || -> Result<usize, Reason> { std::panic::resume_unwind(Box::new("boom")) };
            let closures: [Box<dyn FnOnce() -> Result<usize, Reason> + Send>; 3] =
                [Box::new(lose), Box::new(panics), Box::new(lose)];
            match all_fail_fast(closures).unwrap_err() {
                TaskError::Join(JoinError::Panicked(payload)) => {
                    assert_eq!(payload.downcast_ref(), Some(&"boom"));
                }
                other => panic!("{other:?}"),
            }
            // But not the end of a race that somebody else may win.
            let wins = || {
                yield_now().unwrap();
                Ok(7)
            };
            let closures: [Box<dyn FnOnce() -> Result<usize, Reason> + Send>; 3] =
                [Box::new(panics), Box::new(wins), Box::new(lose)];
            assert_eq!(any(closures).unwrap(), 7);
        });
    });
}

#[test]
fn the_first_success_wins_and_the_losers_have_ended() {
    with_each(|rt| {
        let drops = Drops::new();
        rt.block_on(|| {
            for winner in 0..6 {
                let result = any((0..6).map(|i| {
                    let value = drops.guard();
                    move || {
                        let _local = value;
                        if i == winner { Ok(i) } else { lose() }
                    }
                }));
                assert_eq!(drops.left(), 0, "a loser has not ended");
                assert_eq!(result.unwrap(), winner);
            }
        });
    });
}

#[test]
fn without_a_success_all_errors_come_in_order() {
    with_each(|rt| {
        rt.block_on(|| {
            let errors = any((0..20).map(|i| {
                move || -> Result<(), usize> {
                    if i % 4 == 1 {
                        yield_now().unwrap();
                    }
                    Err(i)
                }
            }));
            let errors: Vec<usize> =
                errors.unwrap_err().into_iter().map(|error| error.into_failed().unwrap()).collect();
            assert_eq!(errors, (0..20).collect::<Vec<_>>());
        });
    });
}

/// A loser that pays no attention delays the end and changes nothing.
#[test]
fn a_loser_may_ignore_the_cancel_and_its_value_is_dropped() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = Drops::new();
            let slow = drops.guard();
            let closures: [Box<dyn FnOnce() -> Result<_, Reason> + Send>; 2] = [
                Box::new(|| {
                    for _ in 0..100 {
                        let _ = yield_now();
                    }
                    Ok(slow)
                }),
                Box::new(|| Ok(drops.guard())),
            ];
            let won = any(closures).unwrap();
            assert_eq!(drops.left(), 1);
            drop(won);
        });
    });
}

#[test]
fn a_cancel_of_the_caller_reaches_them_and_they_are_waited_for() {
    with_each(|rt| {
        let before = common::parks(rt);
        let drops = Drops::new();
        let task = rt.spawn({
            let drops = drops.clone();
            move || {
                let losers = || {
                    (0..3).map(|_| {
                        let value = drops.guard();
                        move || {
                            let _local = value;
                            lose()
                        }
                    })
                };
                let told = any(losers()).unwrap_err();
                assert_eq!(drops.left(), 0);
                // None of these starts any more.
                let first = all_fail_fast(losers()).unwrap_err();
                let each = all(losers());
                assert_eq!(drops.left(), 0);
                (told, first, each)
            }
        });
        common::eventually("they wait", || common::parks(rt) >= before + 3);
        task.cancel("enough");
        let (told, first, each) = task.join().unwrap();
        let why = Reason::from("enough");
        assert_eq!(told.len(), 3);
        for error in told {
            match error {
                TaskError::Failed(reason) => assert_eq!(reason, why),
                TaskError::Join(error) => assert_eq!(*error.cancelled().unwrap().reason(), why),
            }
        }
        assert!(matches!(first, TaskError::Join(JoinError::NotStarted(_))), "{first:?}");
        assert!(each.iter().all(|outcome| matches!(outcome, Err(JoinError::NotStarted(_)))));
    });
}

#[test]
fn the_losers_are_told_why() {
    with_each(|rt| {
        rt.block_on(|| {
            let why = Arc::new(common::Mutex::new(None));
            let seen = why.clone();
            let closures: [Box<dyn FnOnce() -> Result<usize, Reason> + Send>; 2] = [
                Box::new(move || {
                    let told = lose();
                    *seen.lock().unwrap() = told.clone().err();
                    told
                }),
                Box::new(|| {
                    sleep(Duration::from_millis(1)).unwrap();
                    Ok(1)
                }),
            ];
            assert_eq!(any(closures).unwrap(), 1);
            let told = why.lock().unwrap().clone();
            assert!(matches!(told, None | Some(Reason::SiblingFailed)), "{told:?}");
        });
    });
}

#[test]
fn an_iterator_that_panics_leaves_nobody_behind() {
    with_each(|rt| {
        let drops = Drops::new();
        let text = panic_of(|| {
            rt.block_on(|| {
                all((0..10).map(|i| {
                    assert!(i < 5, "no more");
                    let value = drops.guard();
                    move || drop(value)
                }))
            })
        });
        assert_eq!(text, "no more");
        assert_eq!(drops.left(), 0);
    });
}

#[test]
fn they_nest_and_race_with_each_other() {
    for workers in common::WORKERS {
        within(|| {
            let rt = runtime(workers);
            let drops = Drops::new();
            rt.block_on(|| {
                for round in 0..scaled_in_debug(200) {
                    let inner = |i: usize| {
                        let drops = &drops;
                        move || {
                            let value = drops.guard();
                            let won = any((0..4).map(|j| {
                                let value = drops.guard();
                                move || {
                                    let _local = value;
                                    match (round + i + j) % 4 {
                                        0 => Ok(j),
                                        1 => lose().map_err(drop),
                                        2 => yield_now().map(|()| j).map_err(drop),
                                        _ => Err(()),
                                    }
                                }
                            }));
                            drop(value);
                            if (round + i).is_multiple_of(9) { Err(()) } else { won.map_err(drop) }
                        }
                    };
                    let _ = all_fail_fast((0..4).map(inner));
                    assert_eq!(drops.left(), 0);
                }
            });
        });
    }
}

/// They can be used from a scope's tasks, and borrow.
#[test]
fn they_borrow_from_the_caller() {
    with_each(|rt| {
        rt.block_on(|| {
            let mut numbers = [1, 2, 3];
            scope(|s| {
                s.spawn(|| all(numbers.iter_mut().map(|n| || *n *= 2)));
            });
            assert_eq!(numbers, [2, 4, 6]);
            assert_eq!(spawn(|| any([|| Ok::<_, ()>(7)]).unwrap()).join().unwrap(), 7);
        });
    });
}
