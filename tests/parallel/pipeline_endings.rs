//! Pipelines that end early: errors, panics, cancellation; and what is dropped then.

use crate::common::{
    self, Drops, eventually, mpsc, panic_of, runtime, scaled, with_each, with_each_and_many, within,
};
use cygnet::sync::Event;
use cygnet::{Cancelled, JoinError, TaskError, checkpoint, park, pipeline, sleep, spawn, timeout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn is_cancelled<E>(result: &Result<(), TaskError<E>>) -> bool {
    matches!(result, Err(TaskError::Join(JoinError::Cancelled(_))))
}

#[test]
fn the_first_error_of_each_kind_of_stage_is_returned_and_each_item_dropped_once() {
    with_each(|rt| {
        rt.block_on(|| {
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
                    // What was not taken is there.
                    let (next, _) = source.next().unwrap();
                    assert!(next > bad && next <= bad + 8, "{next} after {bad}");
                }
            }
        });
    });
}

#[test]
fn an_ordered_stage_has_seen_all_items_before_its_error_and_none_behind() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn no_step_begins_after_an_error_has_been_returned_and_all_have_ended() {
    with_each(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(50) {
                let active = AtomicUsize::new(0);
                let result = pipeline(0_u64..)
                    .try_parallel(|n| {
                        active.fetch_add(1, Ordering::SeqCst);
                        common::spin_loop();
                        active.fetch_sub(1, Ordering::SeqCst);
                        if n % 100 == 50 { Err(n) } else { Ok(()) }
                    })
                    .try_run();
                assert_eq!(result.unwrap_err().into_failed().unwrap() % 100, 50);
                assert_eq!(active.into_inner(), 0);
            }
        });
    });
}

#[test]
fn an_error_cuts_the_waits_of_other_steps_short() {
    with_each(|rt| {
        rt.block_on(|| {
            let (waits, cut) = (Event::new(), AtomicUsize::new(0));
            let result = pipeline(0..2)
                .try_parallel(|n| {
                    if n == 0 {
                        waits.set();
                        // Nobody wakes it.
                        cut.fetch_add(usize::from(park().is_err()), Ordering::SeqCst);
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
    });
}

#[test]
fn a_panic_in_a_stage_is_thrown_on_after_the_last_step_and_each_item_dropped_once() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for bad in [0, 1, 5, 77] {
                for kind in 0..3 {
                    let (drops, active) = (Drops::new(), AtomicUsize::new(0));
                    let source = (0..1_000).map(|n| (n, drops.guard()));
                    let fail = |item: (usize, _)| {
                        assert!(item.0 != bad, "item {}", item.0);
                        item
                    };
                    let count = |item| {
                        active.fetch_add(1, Ordering::SeqCst);
                        common::spin_loop();
                        drop(item);
                        active.fetch_sub(1, Ordering::SeqCst);
                    };
                    let begun = pipeline(source).in_flight(9);
                    let text = panic_of(|| match kind {
                        0 => begun.parallel(fail).parallel(count).run(),
                        1 => begun.serial(fail).parallel(count).run(),
                        _ => begun.ordered(fail).parallel(count).run(),
                    });
                    assert_eq!(text, format!("item {bad}"));
                    assert_eq!((drops.left(), active.into_inner()), (0, 0));
                }
            }
        });
    });
}

#[test]
fn a_panic_in_the_source_is_thrown_on() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = Drops::new();
            let source = (0..).map(|n| {
                assert!(n != 20, "the source");
                drops.guard()
            });
            let text = panic_of(|| pipeline(source).parallel(|item| item).ordered(drop).run());
            assert_eq!((text.as_str(), drops.left()), ("the source", 0));
        });
    });
}

#[test]
fn of_several_panics_one_is_thrown() {
    with_each(|rt| {
        rt.block_on(|| {
            let never = |_: usize| -> () { panic!("each") };
            assert_eq!(panic_of(|| pipeline(0..100).parallel(never).run()), "each");
            let mut sum = 0;
            pipeline(0..4).ordered(|n| sum += n).run().unwrap();
            assert_eq!(sum, 6);
        });
    });
}

#[test]
fn an_error_that_came_first_is_returned_though_cut_steps_panic() {
    with_each(|rt| {
        rt.block_on(|| {
            let waits = Event::new();
            let result = pipeline(0..2)
                .try_parallel(|n| {
                    if n == 0 {
                        waits.set();
                        park().unwrap();
                        return Ok(());
                    }
                    waits.wait().unwrap();
                    Err("first")
                })
                .try_run();
            assert!(matches!(result, Err(TaskError::Failed("first"))));
        });
    });
}

/// Panics when it is dropped, but not during a panic.
struct Bomb(#[expect(dead_code, reason = "its drop counts")] common::drops::Guard);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("bomb");
        }
    }
}

#[test]
fn destructors_of_items_may_panic_wherever_items_are_dropped() {
    with_each(|rt| {
        rt.block_on(|| {
            // In a stage.
            let drops = Drops::new();
            let source = (0..50).map(|_| Bomb(drops.guard()));
            let text = panic_of(|| pipeline(source).ordered(|b| b).parallel(drop).run());
            assert_eq!((text.as_str(), drops.left()), ("bomb", 0));
            // Where they wait, after an error: which comes first.
            let (drops, many) = (Drops::new(), Event::new());
            let mut kept = None;
            let source = (0..50).map(|n| (n, Bomb(drops.guard())));
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
            // Where they wait, after a panic: which comes first, too.
            let drops = Drops::new();
            let source = (0..50).map(|n| (n, Bomb(drops.guard())));
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
    });
}

#[test]
fn a_cancelled_task_has_its_pipeline_cut_short() {
    for workers in [1, 2, 3, 8] {
        within(move || {
            let rt = runtime(workers);
            let (begun, drops) = (Arc::new(AtomicBool::new(false)), Drops::new());
            let (sender, receiver) = mpsc::channel();
            let task = rt.spawn({
                let (begun, drops) = (begun.clone(), drops.clone());
                move || {
                    let result = pipeline((0..).map(|_| drops.guard()))
                        .in_flight(5)
                        .parallel(|item| {
                            begun.store(true, Ordering::SeqCst);
                            // Cut short by the cancellation.
                            assert!(sleep(Duration::from_secs(3_600)).is_err());
                            item
                        })
                        .ordered(|_| panic!("no step begins"))
                        .run();
                    sender.send(result).unwrap();
                }
            });
            eventually("a step has begun", || begun.load(Ordering::SeqCst));
            drop(task);
            assert!(receiver.recv().unwrap().is_err());
            assert_eq!(drops.left(), 0);
        });
    }
}

#[test]
fn a_pipeline_begun_in_a_cancelled_task_asks_its_source_for_nothing() {
    with_each(|rt| {
        let (sender, receiver) = mpsc::channel();
        rt.block_on(move || {
            let task = spawn(move || {
                assert!(park().is_err());
                let source = std::iter::from_fn(|| -> Option<()> { panic!("it is asked") });
                let drops = Drops::new();
                let items = vec![drops.guard(), drops.guard()];
                let results = (pipeline(source).run(), pipeline(items).parallel(drop).run());
                sender.send((results, drops.left())).unwrap();
            });
            cygnet::yield_to(&task).unwrap();
            task.cancel("before it begins");
        });
        if let Ok(((first, second), left)) = receiver.recv() {
            assert_eq!(first.unwrap_err().reason().to_string(), "before it begins");
            assert!(second.is_err());
            assert_eq!(left, 0);
        }
    });
}

#[test]
fn a_pipeline_that_was_through_when_its_task_was_cancelled_is_ok() {
    with_each(|rt| {
        rt.block_on(|| {
            let cancel = cygnet::cancel_handle();
            let mut sum = 0;
            let mut source = 0..10;
            // Its last answer comes when nothing is in flight.
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
    });
}

#[test]
fn the_end_of_a_runtime_cuts_its_pipelines_short() {
    for workers in [1, 2, 8] {
        within(move || {
            let rt = runtime(workers);
            let begun = Arc::new(AtomicBool::new(false));
            let (sender, receiver) = mpsc::channel();
            for _ in 0..3 {
                let (begun, sender) = (begun.clone(), sender.clone());
                rt.spawn(move || {
                    let result = pipeline(0_u64..)
                        .parallel(|_| {
                            begun.store(true, Ordering::SeqCst);
                            common::spin_loop();
                        })
                        .run();
                    let _ = sender.send(result);
                })
                .detach();
            }
            drop(sender);
            eventually("a pipeline has begun", || begun.load(Ordering::SeqCst));
            drop(rt);
            // Those that had not begun are dropped uncalled.
            assert!(receiver.iter().all(|result| result.is_err()));
        });
    }
}

#[test]
fn a_stage_that_never_ends_is_ended_by_a_timeout_if_it_checks() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn a_step_that_unwinds_because_its_pipeline_is_cancelled_does_not_unwind_the_caller() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn a_step_that_unwinds_for_another_reason_unwinds_the_caller() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn an_ignored_cancellation_does_not_stop_a_pipeline() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn a_step_that_has_its_own_task_cancelled_cuts_no_waits_of_other_items() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn closures_and_the_source_are_dropped_once_after_the_last_step() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}
