//! Pipelines that end early, by errors, panics or cancellation, and the values that they drop then.

use crate::common::prelude::*;
use crate::{Active, Meanwhile, cancelled_meanwhile};

fn is_cancelled<E>(result: &Result<(), TaskError<E>>) -> bool {
    matches!(result, Err(TaskError::Join(JoinError::Cancelled(_))))
}

#[test]
fn each_kind_of_stage_returns_its_first_error_and_drops_each_item_once() {
    in_task(|_| {
        for bad in [0, 1, 7, 60] {
            for kind in 0..3 {
                let drops = Drops::new();
                let mut source = (0..).map(|n| (n, drops.guard()));
                let fail = |(n, guard)| if n == bad { Err(n) } else { Ok((n, guard)) };
                let begun = pipeline(source.by_ref()).in_flight(8).parallel(|item| item);
                let result = match kind {
                    0 => begun.try_parallel(fail).ordered(drop).try_run(),
                    1 => begun.try_serial(fail).ordered(drop).try_run(),
                    _ => begun.try_ordered(fail).serial(drop).try_run(),
                };
                assert_eq!(result.unwrap_err().into_failed().unwrap(), bad);
                assert_eq!(drops.left(), 0);
                // The source still has the items that were not taken.
                let (next, _) = source.next().unwrap();
                assert!(next > bad && next <= bad + 8, "{next} after {bad}");
            }
        }
    });
}

#[test]
fn an_ordered_stage_has_seen_all_items_before_its_error_and_none_after() {
    in_task_and_many(|_| {
        let mut seen = Vec::new();
        let result = pipeline(0..1_000)
            .parallel(|n| n)
            .try_ordered(|n| {
                seen.push(n);
                if n == 123 { Err("enough") } else { Ok(()) }
            })
            .try_run();
        assert!(matches!(result, Err(TaskError::Failed("enough"))));
        assert!(seen.into_iter().eq(0..=123));
    });
}

#[test]
fn no_step_begins_after_an_error_has_been_returned_and_all_have_ended() {
    in_task(|_| {
        for _ in 0..scaled(50) {
            let active = Active::default();
            let result = pipeline(0_u64..)
                .try_parallel(|n| {
                    active.during(common::spin_loop);
                    if n % 100 == 50 { Err(n) } else { Ok(()) }
                })
                .try_run();
            assert_eq!(result.unwrap_err().into_failed().unwrap() % 100, 50);
            assert_eq!(active.count(), 0);
        }
    });
}

#[test]
fn an_error_cuts_the_waits_of_other_steps_short_and_is_returned_although_they_panic() {
    for panics in [false, true] {
        in_task(|_| {
            let (waits, cut) = (Event::new(), AtomicUsize::new(0));
            let result = pipeline(0..2)
                .try_parallel(|n| {
                    if n == 0 {
                        waits.set();
                        // Only the cancellation ends this wait.
                        cut.fetch_add(usize::from(park().is_err()), Ordering::SeqCst);
                        assert!(!panics, "after the wait");
                        return Ok(());
                    }
                    waits.wait().unwrap();
                    Err("the second")
                })
                .try_run();
            assert!(matches!(result, Err(TaskError::Failed("the second"))));
            assert_eq!(cut.into_inner(), 1);
            // The calling task is not cancelled.
            checkpoint().unwrap();
        });
    }
}

#[test]
fn a_panic_in_a_stage_is_thrown_after_the_last_step_and_items_are_dropped_once() {
    in_task_and_many(|_| {
        for bad in [0, 1, 5, 77] {
            for kind in 0..3 {
                let (drops, active) = (Drops::new(), Active::default());
                let source = (0..1_000).map(|n| (n, drops.guard()));
                let fail = |item: (usize, _)| {
                    assert!(item.0 != bad, "item {}", item.0);
                    item
                };
                let count = |item| {
                    active.during(|| {
                        common::spin_loop();
                        drop(item);
                    });
                };
                let begun = pipeline(source).in_flight(9);
                let text = panic_of(|| match kind {
                    0 => begun.parallel(fail).parallel(count).run(),
                    1 => begun.serial(fail).parallel(count).run(),
                    _ => begun.ordered(fail).parallel(count).run(),
                });
                assert_eq!(text, format!("item {bad}"));
                assert_eq!((drops.left(), active.count()), (0, 0));
            }
        }
    });
}

#[test]
fn a_panic_in_the_source_is_thrown_on() {
    in_task(|_| {
        let drops = Drops::new();
        let source = (0..).map(|n| {
            assert!(n != 20, "the source");
            drops.guard()
        });
        let text = panic_of(|| pipeline(source).parallel(|item| item).ordered(drop).run());
        assert_eq!((text.as_str(), drops.left()), ("the source", 0));
    });
}

#[test]
fn one_of_several_panics_is_thrown() {
    in_task(|_| {
        let never = |_: usize| -> () { panic!("each") };
        assert_eq!(panic_of(|| pipeline(0..100).parallel(never).run()), "each");
        let mut sum = 0;
        pipeline(0..4).ordered(|n| sum += n).run().unwrap();
        assert_eq!(sum, 6);
    });
}

#[test]
fn destructors_of_items_may_panic_wherever_items_are_dropped() {
    in_task(|_| {
        // In a stage.
        let drops = Drops::new();
        let source = (0..50).map(|_| (drops.guard(), Bomb("bomb")));
        let text = panic_of(|| pipeline(source).ordered(|b| b).parallel(drop).run());
        assert_eq!((text.as_str(), drops.left()), ("bomb", 0));
        // Where they wait, after an error, which comes first.
        let (drops, many) = (Drops::new(), Event::new());
        let mut kept = None;
        let source = (0..50).map(|n| (n, (drops.guard(), Bomb("bomb"))));
        let result = pipeline(source)
            .in_flight(8)
            .parallel(|item| {
                if item.0 == 7 {
                    many.set();
                }
                item
            })
            .try_ordered(|(_, bomb)| {
                let _ = many.wait();
                kept = Some(bomb);
                Err::<(), _>("with seven behind")
            })
            .try_run();
        assert!(matches!(result, Err(TaskError::Failed("with seven behind"))));
        assert_eq!(drops.left(), 1, "the one that was kept");
        panic_of(|| drop(kept));
        // Where they wait, after a panic, which comes first too.
        let drops = Drops::new();
        let source = (0..50).map(|_| (drops.guard(), Bomb("bomb")));
        let text = panic_of(|| {
            pipeline(source)
                .in_flight(8)
                .parallel(|item| item)
                .serial(|item| {
                    let _item = item;
                    panic!("a stage");
                })
                .run()
        });
        assert_eq!((text.as_str(), drops.left()), ("a stage", 0));
    });
}

#[test]
fn a_cancelled_task_has_its_pipeline_cut_short() {
    let run = |meanwhile: &Meanwhile| {
        let drops = Drops::new();
        let result = pipeline((0..).map(|_| drops.guard()))
            .in_flight(5)
            .parallel(|item| {
                meanwhile.begins();
                // Cut short by the cancellation.
                assert!(sleep(Duration::from_secs(3_600)).is_err());
                item
            })
            .ordered(|_| panic!("no step begins"))
            .run();
        (result.is_err(), drops.left())
    };
    cancelled_meanwhile(&WORKERS, run, |ended| assert_eq!(ended, (true, 0)));
}

#[test]
fn a_cancellation_after_the_last_step_does_not_change_the_result() {
    in_task(|_| {
        let cancel = cygnet::cancel_handle();
        let mut sum = 0;
        let mut source = 0..10;
        // The source gives its last answer when no item is in flight.
        let items = std::iter::from_fn(|| {
            source.next().or_else(|| {
                cancel.clone().cancel("too late");
                None
            })
        });
        let result = pipeline(items).in_flight(1).ordered(|n| sum += n).run();
        assert_eq!((result, sum), (Ok(()), 45));
        assert!(checkpoint().is_err());
    });
}

#[test]
fn a_stage_that_never_ends_is_ended_by_a_timeout_if_it_checks() {
    in_task(|_| {
        let late = timeout(Duration::from_millis(1), || {
            pipeline(0..10)
                .try_parallel(|n| {
                    if n % 2 == 1 {
                        return Ok::<_, Cancelled>(n);
                    }
                    loop {
                        checkpoint()?;
                    }
                })
                .ordered(drop)
                .try_run()
        });
        let result = late.unwrap_err().into_inner();
        assert!(is_cancelled(&result), "{result:?}");
        checkpoint().unwrap();
    });
}

#[test]
fn a_step_unwound_by_the_end_of_its_pipeline_does_not_unwind_the_caller() {
    in_task(|_| {
        let late = timeout(Duration::from_millis(1), || {
            pipeline(0..10)
                .serial(|_| {
                    loop {
                        checkpoint().unwrap_or_else(|cancelled| cancelled.unwind());
                    }
                })
                .run()
        });
        assert!(late.unwrap_err().into_inner().is_err());
        checkpoint().unwrap();
    });
}

#[test]
fn a_step_that_unwinds_for_another_reason_unwinds_the_caller() {
    in_task(|_| {
        let task = spawn(|| {
            pipeline(0..10)
                .parallel(|_| {
                    let late = timeout(Duration::ZERO, checkpoint).unwrap_err();
                    late.into_inner().unwrap_err().unwind();
                })
                .run()
        });
        assert!(matches!(task.join(), Err(JoinError::Unwound(_))));
    });
}

#[test]
fn an_ignored_cancellation_does_not_stop_a_pipeline() {
    in_task(|_| {
        let cancel = cygnet::cancel_handle();
        let (mut sum, mut result) = (0, None);
        let afterwards = cygnet::ignore_cancellation(|| {
            cancel.cancel("not now");
            result = Some(pipeline(0..100).parallel(|n| n).ordered(|n| sum += n).run());
        });
        assert_eq!((result, sum), (Some(Ok(())), 4_950));
        afterwards.unwrap();
        assert!(checkpoint().is_err());
    });
}

#[test]
fn a_step_that_has_its_own_task_cancelled_cuts_no_waits_of_other_items() {
    in_task(|_| {
        let (mut sum, cancelled) = (0, AtomicUsize::new(0));
        pipeline(0..20)
            .in_flight(1)
            .parallel(|n| {
                if n % 2 == 0 {
                    cygnet::cancel_handle().cancel("this step");
                }
                let waited = cygnet::yield_now().is_ok();
                assert_eq!(waited, n % 2 == 1);
                cancelled.fetch_add(usize::from(!waited), Ordering::SeqCst);
                n
            })
            .ordered(|n| sum += n)
            .run()
            .unwrap();
        assert_eq!((sum, cancelled.into_inner()), (190, 10));
    });
}

#[test]
fn closures_and_the_source_are_dropped_once_after_the_last_step() {
    in_task(|_| {
        let drops = Drops::new();
        let [source, parallel, serial, ordered] = [(); 4].map(|()| drops.guard());
        let check = |guard: &common::drops::Guard| {
            assert_eq!(drops.count(), 0);
            std::hint::black_box(guard);
        };
        let panic = catch_unwind(AssertUnwindSafe(|| {
            pipeline((0..100).inspect(move |_| check(&source)))
                .parallel(move |n| {
                    check(&parallel);
                    n
                })
                .serial(move |n| {
                    check(&serial);
                    n
                })
                .ordered(move |n| {
                    check(&ordered);
                    assert!(n != 60);
                })
                .run()
        }));
        assert!(panic.is_err());
        assert_eq!(drops.count(), 4);
    });
}
