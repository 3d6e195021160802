//! Scopes that end with their first failure, and joins that pass a cancel on.

use crate::common::prelude::*;
use std::error::Error;

#[derive(PartialEq, Debug)]
enum Oops {
    Own(u32),
    Cancelled(Reason),
}

impl From<Cancelled> for Oops {
    fn from(cancelled: Cancelled) -> Oops {
        Oops::Cancelled(cancelled.reason().clone())
    }
}

/// A task of a scope that has failed waits for ever, unless it is told.
fn told_of_a_sibling(told: Count) -> Result<u32, Oops> {
    match park() {
        Ok(()) => Ok(0),
        Err(cancelled) => {
            told.add(usize::from(*cancelled.reason() == Reason::SiblingFailed));
            Err(cancelled.into())
        }
    }
}

/// T50.
#[test]
fn a_try_scope_whose_tasks_succeed_returns_the_value_of_its_closure() {
    in_task_and_many(|_| {
        let mut numbers = [1_u32; 100];
        let sum = try_scope(|s| {
            let parts: Vec<_> = numbers
                .chunks_mut(10)
                .map(|part| {
                    s.spawn_try(|| {
                        yield_now()?;
                        part.iter_mut().for_each(|n| *n += 1);
                        Ok::<u32, Oops>(part.iter().sum())
                    })
                })
                .collect();
            parts.into_iter().map(|part| Ok(part.value()?)).sum::<Result<u32, Oops>>()
        });
        assert_eq!((sum, numbers), (Ok(200), [2; 100]));
    });
}

/// T50.
#[test]
fn the_first_error_of_a_task_cancels_the_rest_and_is_returned() {
    in_task_and_many(|_| {
        let (told, never) = (Count::new(), Count::new());
        let result = try_scope(|s| {
            for _ in 0..3 {
                s.spawn_try(|| told_of_a_sibling(told));
            }
            s.spawn_try(|| -> Result<(), Oops> {
                yields(2);
                Err(Oops::Own(7))
            });
            let waits = park();
            s.spawn_try(|| {
                never.up();
                Ok(())
            });
            Ok(waits?)
        });
        assert_eq!(result, Err(Oops::Own(7)), "the closure was cancelled after that");
        assert!(told.get() <= 3 && never.get() == 0);
        checkpoint().unwrap();
    });
}

/// T50. All tasks wait when one of them fails.
#[test]
fn tasks_that_wait_are_told_that_a_sibling_has_failed() {
    in_task_and_many(|rt| {
        let told = Count::new();
        let result = try_scope(|s| {
            parking(rt, 3, || (0..3).for_each(|_| drop(s.spawn_try(|| told_of_a_sibling(told)))));
            s.spawn_try(|| Err::<(), _>(Oops::Own(7))).value()?;
            Ok(())
        });
        assert_eq!((result, told.get()), (Err(Oops::Own(7)), 3));
    });
}

/// T50.
#[test]
fn the_first_panic_of_a_task_cancels_the_rest_and_goes_on() {
    in_task_and_many(|rt| {
        let told = Count::new();
        let said = panic_of(|| {
            try_scope(|s| {
                parking(rt, 1, || s.spawn_try(|| told_of_a_sibling(told)));
                let fails = s.spawn_try(|| -> Result<u32, Oops> { panic!("no luck") });
                let reason = fails.value().unwrap_err().reason().clone();
                assert_eq!(reason, Reason::SiblingFailed);
                Err::<(), _>(Oops::Own(8))
            })
        });
        assert_eq!((said.as_str(), told.get()), ("no luck", 1));
        checkpoint().unwrap();
    });
}

/// T50.
#[test]
fn a_failure_of_the_closure_cancels_the_tasks() {
    in_task_and_many(|rt| {
        let told = Count::new();
        let result = try_scope(|s| {
            parking(rt, 1, || s.spawn_try(|| told_of_a_sibling(told)));
            Err::<(), _>(Oops::Own(7))
        });
        assert_eq!((result, told.get()), (Err(Oops::Own(7)), 1));
        let said = panic_of(|| {
            try_scope(|s| -> Result<(), Oops> {
                parking(rt, 1, || s.spawn_try(|| told_of_a_sibling(told)));
                panic!("the closure")
            })
        });
        assert_eq!((said.as_str(), told.get()), ("the closure", 2));
    });
}

/// T50. `Ok` means that all tasks have succeeded, also those that nobody asks.
#[test]
fn a_cancel_from_outside_that_keeps_a_task_from_its_start_is_a_failure() {
    in_task_and_many(|_| {
        let ran = Count::new();
        let cancelled = spawn(move || {
            cancel_handle().cancel("enough");
            try_scope(|s| {
                s.spawn_try(|| {
                    ran.up();
                    Ok(())
                });
                Ok::<(), Oops>(())
            })
        });
        let reason = Reason::from("enough");
        assert_eq!(cancelled.join().unwrap(), Err(Oops::Cancelled(reason)));
        assert_eq!(ran.get(), 0);
    });
}

/// T50.
#[test]
fn a_task_that_is_unwound_by_a_cancel_is_a_failure() {
    in_task_and_many(|rt| {
        let outer = parked(rt, 1, || {
            try_scope(|s| {
                let task = s.spawn_try(|| match park() {
                    Ok(()) => Ok::<(), Oops>(()),
                    Err(cancelled) => cancelled.unwind(),
                });
                Ok(task.value()?)
            })
        });
        outer.cancel("enough");
        assert_eq!(outer.join().unwrap(), Err(Oops::Cancelled(Reason::from("enough"))));
    });
}

/// T50. The others fail, too, and their errors have destructors.
#[test]
fn failures_after_the_first_are_dropped_before_the_scope_returns() {
    in_task_and_many(|_| {
        struct Dropped(Count);

        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.up();
            }
        }

        impl From<Cancelled> for Dropped {
            fn from(_: Cancelled) -> Dropped {
                unreachable!("all tasks have started, or the first has failed")
            }
        }

        let dropped = Count::new();
        let begun = Count::new();
        let result = try_scope(|s| {
            for _ in 0..5 {
                s.spawn_try(|| {
                    begun.up();
                    Err::<(), _>(Dropped(dropped))
                });
            }
            Err::<(), _>(Dropped(dropped))
        });
        assert_eq!(dropped.get(), begun.get(), "all but the first");
        drop(result);
        assert_eq!(dropped.get(), begun.get() + 1);
    });
}

#[test]
fn a_panic_in_the_destructor_of_a_later_failure_goes_on() {
    struct Fails(bool);

    impl Drop for Fails {
        fn drop(&mut self) {
            assert!(!self.0, "in a destructor");
        }
    }

    impl From<Cancelled> for Fails {
        fn from(_: Cancelled) -> Fails {
            Fails(false)
        }
    }

    in_task_and_many(|rt| {
        panics_with("in a destructor", || {
            try_scope(|s| {
                let first = s.spawn_try(|| Err::<(), _>(Fails(false)));
                assert!(first.value().is_err());
                Err::<(), _>(Fails(true))
            })
        });
        panics_with("in a destructor", || {
            try_scope(|s| {
                let fails = || {
                    drop(park());
                    Err::<(), _>(Fails(true))
                };
                parking(rt, 1, || s.spawn_try(fails));
                Err::<(), _>(Fails(false))
            })
        });
        checkpoint().unwrap();
    });
}

/// T46, T50.
#[test]
fn a_try_scope_of_an_unwinding_task_calls_its_tasks_or_waits_for_them() {
    in_task_and_many(|_| {
        let sum = while_unwinding(|| {
            try_scope(|s| {
                let tasks = [1, 2].map(|n| s.spawn_try(move || Ok::<u32, Oops>(n)));
                drop(tasks);
                Ok(7)
            })
        });
        assert_eq!(sum, Ok(7));
    });
}

/// T50. The deadline of the joiner cancels the task, and not the scope.
#[test]
fn a_task_that_its_joiner_has_cancelled_is_a_failure() {
    in_task_with(&[1], |_| {
        let never = Count::new();
        let result = try_scope(|s| {
            let task = s.spawn_try(|| {
                never.up();
                Ok::<(), Oops>(())
            });
            assert!(timeout(Duration::ZERO, || task.value()).is_err());
            Ok(())
        });
        assert_eq!(result, Err(Oops::Cancelled(Reason::HandleDropped)));
        assert_eq!(never.get(), 0);
    });
}

/// T50.
#[test]
fn the_first_panic_goes_on_and_values_are_dropped_before_that() {
    struct Asks(Count);

    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.add(1 + 100 * usize::from(std::thread::panicking()));
        }
    }

    in_task_and_many(|_| {
        let said = panic_of(|| {
            try_scope(|s| -> Result<(), Oops> {
                s.spawn(|| panic!("a plain task"));
                panic!("the closure")
            })
        });
        assert_eq!(said, "the closure");
        let dropped = Count::new();
        panics_with("no luck", || {
            try_scope(|s| {
                s.spawn_try(|| -> Result<(), Oops> { panic!("no luck") });
                Ok(Asks(dropped))
            })
        });
        assert_eq!(dropped.get(), 1, "not while the panic unwinds");
    });
}

/// T41.
#[test]
fn a_task_that_cannot_fail_cancels_nothing_in_a_try_scope() {
    in_task_and_many(|_| {
        let ended = Flag::new();
        let said = panic_of(|| {
            try_scope(|s| {
                s.spawn(|| panic!("a plain task"));
                s.spawn_try(|| {
                    yields(3);
                    ended.set();
                    Ok::<(), Oops>(())
                });
                Ok(())
            })
        });
        assert_eq!((said.as_str(), ended.get()), ("a plain task", true));
    });
}

/// T50.
#[test]
fn a_try_scope_inside_another_fails_alone_unless_its_error_is_passed_on() {
    in_task_and_many(|_| {
        let fails = || {
            try_scope(|s| s.spawn_try(|| Err::<u32, _>(Oops::Own(7))).value().map_err(Oops::from))
        };
        let kept = try_scope(|s| {
            let inner = s.spawn_try(|| Ok::<_, Oops>(fails()));
            Ok::<_, Oops>(inner.value()?)
        });
        assert_eq!(kept, Ok(Err(Oops::Own(7))));
        let passed = try_scope(|s| Ok(s.spawn_try(fails).value()?));
        assert_eq!(passed, Err(Oops::Own(7)));
    });
}

/// T51.
#[test]
fn a_value_passes_a_cancel_on_and_lets_a_panic_go_on() {
    in_task_and_many(|rt| {
        let boxed = || -> Result<u32, Box<dyn Error + Send + Sync>> { Ok(spawn(|| 7).value()?) };
        assert_eq!(boxed().unwrap(), 7);
        panics_with("no luck", || spawn(|| panic!("no luck")).value());
        panics_with("no luck", || spawn_local(|| panic!("no luck")).value());
        panics_with("no luck", || scope(|s| s.spawn(|| panic!("no luck")).value().is_ok()));
        let (task, _) = sleeper(rt);
        task.cancel("enough");
        assert_eq!(task.value(), Ok(false), "it has returned a value");
        let unwound = parked(rt, 1, || park().map_err(Cancelled::unwind));
        unwound.cancel("enough");
        assert_eq!(unwound.value().unwrap_err().reason().to_string(), "enough");
        let (promise, task) = promise::<u32>();
        drop(promise);
        assert_eq!(*task.value().unwrap_err().reason(), Reason::Abandoned);
    });
}

/// T51.
#[test]
fn the_value_of_a_task_that_has_not_started_is_the_cancel() {
    in_task_with(&[1], |_| {
        let task = spawn(|| unreachable!("it never starts"));
        task.cancel("enough");
        let never: Result<(), _> = task.value();
        assert_eq!(never.unwrap_err().reason().to_string(), "enough");
        let caller = spawn(|| {
            cancel_handle().cancel("the caller");
            let task = spawn_unscoped(|| ());
            task.value().unwrap_err().reason().to_string()
        });
        assert_eq!(caller.join().unwrap(), "the caller");
    });
}

/// Every error that may hold a cancel says so, and is made from one by `?`.
#[test]
fn errors_that_hold_a_cancel_name_it_as_their_source() {
    in_task_with(&[1], |_| {
        cancel_handle().cancel("enough");
        let cancelled = checkpoint().unwrap_err();
        let text = cancelled.to_string();
        let source = |error: &dyn Error| error.source().map(ToString::to_string);
        let same = |found: Option<&Cancelled>| assert_eq!(found, Some(&cancelled));
        let (join, wait) = (JoinError::from(cancelled.clone()), WaitError::from(cancelled.clone()));
        same(join.cancelled());
        same(wait.cancelled());
        assert_eq!([source(&join), source(&wait)], [Some(text.clone()), Some(text.clone())]);
        let call = CallError::from(cancelled.clone());
        same(call.cancelled());
        assert_eq!(source(&call), Some(text.clone()));
        let task = TaskError::<Oops>::from(cancelled.clone());
        same(task.cancelled());
        same(TaskError::<Oops>::from(join).cancelled());
        let (to, _from) = bounded(1);
        let send = to.send(7).unwrap_err();
        same(send.cancelled());
        assert_eq!(source(&send), Some(text));
        assert_eq!(source(&JoinError::OwnEnd), None);
        assert_eq!(TaskError::Failed(Oops::Own(1)).cancelled(), None);
    });
}
