//! Several tasks at once: `all`, `all_fail_fast`, `any`.

use crate::common::prelude::*;

type Body<T> = Box<dyn FnOnce() -> Result<T, Reason> + Send>;

/// Waits until it is cancelled.
fn lose() -> Result<usize, Reason> {
    Err(park().unwrap_err().reason().clone())
}

#[test]
fn all_gives_each_outcome_in_the_order_of_the_input() {
    in_task(|_| {
        for n in [1, 2, 3, 100] {
            let outcomes = all((0..n).map(|i| {
                move || {
                    yields((n - i) % 7);
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
}

#[test]
fn empty_inputs_have_an_answer() {
    in_task(|_| {
        assert!(all::<fn(), ()>([]).is_empty());
        assert!(all_fail_fast::<fn() -> Result<u8, u8>, _, _>([]).unwrap().is_empty());
        assert!(any::<fn() -> Result<u8, u8>, _, _>([]).unwrap_err().is_empty());
    });
}

/// C9.
#[test]
fn the_first_failure_cancels_the_others_and_all_have_ended() {
    in_task(|_| {
        for failing in 0..5 {
            let ended = Count::new();
            let result = all_fail_fast((0..5).map(|i| {
                move || {
                    let result = if i == failing {
                        yield_now().unwrap();
                        Err(Reason::from("on purpose"))
                    } else {
                        lose()
                    };
                    ended.up();
                    result
                }
            }));
            let error = result.unwrap_err().into_failed().unwrap();
            assert_eq!(error, Reason::from("on purpose"));
            assert!((1..=5).contains(&ended.get()));
        }
        assert!(cygnet::checkpoint().is_ok(), "the caller is not cancelled");
    });
}

#[test]
fn values_that_do_not_fail_and_errors_without_a_success_come_in_order() {
    in_task(|_| {
        let values = all_fail_fast((0..50).map(|i| {
            move || {
                yields(usize::from(i % 3 == 0));
                Ok::<_, ()>(i)
            }
        }));
        assert_eq!(values.unwrap(), (0..50).collect::<Vec<_>>());
        let errors = any((0..20).map(|i| {
            move || -> Result<(), usize> {
                yields(usize::from(i % 4 == 1));
                Err(i)
            }
        }));
        let errors = errors.unwrap_err().into_iter().map(|error| error.into_failed().unwrap());
        assert!(errors.eq(0..20));
    });
}

#[test]
fn a_panic_is_a_failure() {
    in_task(|_| {
        let panics = || -> Result<usize, Reason> { resume_unwind(Box::new("boom")) };
        let bodies: [Body<usize>; 3] = [Box::new(lose), Box::new(panics), Box::new(lose)];
        let TaskError::Join(JoinError::Panicked(payload)) = all_fail_fast(bodies).unwrap_err()
        else {
            panic!("it has not panicked")
        };
        assert_eq!(payload.downcast_ref(), Some(&"boom"));
        // But not the end of a race that another one may win.
        let wins = || {
            yield_now().unwrap();
            Ok(7)
        };
        let bodies: [Body<usize>; 3] = [Box::new(panics), Box::new(wins), Box::new(lose)];
        assert_eq!(any(bodies).unwrap(), 7);
    });
}

/// C9.
#[test]
fn the_first_success_wins_and_the_losers_have_ended() {
    in_task(|_| {
        let drops = Drops::new();
        for winner in 0..6 {
            let wins = |i| move || if i == winner { Ok(i) } else { lose() };
            let result = any((0..6).map(|i| drops.around(wins(i))));
            assert_eq!(drops.left(), 0, "a loser has not ended");
            assert_eq!(result.unwrap(), winner);
        }
    });
}

/// A loser that pays no attention delays the end and changes nothing.
#[test]
fn a_loser_may_ignore_the_cancel_and_its_value_is_dropped() {
    in_task(|_| {
        let drops = Drops::new();
        let slow = drops.guard();
        let bodies: [Box<dyn FnOnce() -> Result<_, Reason> + Send>; 2] = [
            Box::new(|| {
                (0..100).for_each(|_| drop(yield_now()));
                Ok(slow)
            }),
            Box::new(|| Ok(drops.guard())),
        ];
        let won = any(bodies).unwrap();
        assert_eq!(drops.left(), 1);
        drop(won);
    });
}

#[test]
fn a_cancel_of_the_caller_reaches_them_and_they_are_waited_for() {
    with_each(|rt| {
        let task = parked(rt, 3, move || {
            let drops = Drops::new();
            let losers = || (0..3).map(|_| drops.around(lose));
            let told = any(losers()).unwrap_err();
            assert_eq!(drops.left(), 0);
            // None of these starts any more.
            let first = all_fail_fast(losers()).unwrap_err();
            let each = all(losers());
            assert_eq!(drops.left(), 0);
            (told, first, each)
        });
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
    in_task(|_| {
        let why = Arc::new(Mutex::new(None));
        let seen = why.clone();
        let bodies: [Body<usize>; 2] = [
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
        assert_eq!(any(bodies).unwrap(), 1);
        let told = why.lock().unwrap().clone();
        assert!(matches!(told, None | Some(Reason::SiblingFailed)), "{told:?}");
    });
}

#[test]
fn an_iterator_that_panics_leaves_no_task_behind() {
    with_each(|rt| {
        let drops = Drops::new();
        let text = panic_of(|| {
            rt.block_on(|| {
                all((0..10).map(|i| {
                    assert!(i < 5, "no more");
                    drops.around(|| ())
                }))
            })
        });
        assert_eq!((text.as_str(), drops.left()), ("no more", 0));
    });
}

#[test]
fn all_fail_fast_and_any_nest_and_race_with_each_other() {
    with_own(|rt| {
        let drops = &Drops::new();
        rt.block_on(|| {
            for round in 0..scaled_in_debug(200) {
                let inner = |i: usize| {
                    move || {
                        let value = drops.guard();
                        let won = any((0..4).map(|j| {
                            drops.around(move || match (round + i + j) % 4 {
                                0 => Ok(j),
                                1 => lose().map_err(drop),
                                2 => yield_now().map(|()| j).map_err(drop),
                                _ => Err(()),
                            })
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

/// From the tasks of a scope, too.
#[test]
fn all_and_any_borrow_from_the_caller() {
    in_task(|_| {
        let mut numbers = [1, 2, 3];
        scope(|s| drop(s.spawn(|| all(numbers.iter_mut().map(|n| || *n *= 2)))));
        assert_eq!(numbers, [2, 4, 6]);
        assert_eq!(spawn(|| any([|| Ok::<_, ()>(7)]).unwrap()).join().unwrap(), 7);
    });
}
