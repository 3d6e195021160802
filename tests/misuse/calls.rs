//! Calls in the wrong place or at the wrong time. Each has a defined outcome that says what was
//! wrong.

use crate::common::prelude::*;
use crate::drop_a_result_between_tasks;
use cygnet::coroutine::{Coroutine, Yielder};

/// The parts of a runtime do not pass over the stack of the task that builds it.
#[test]
fn a_task_builds_and_drops_a_runtime_on_a_stack_of_the_default_size() {
    within(|| {
        let inner = runtime(2).block_on(|| runtime(3).block_on(|| 7));
        assert_eq!(inner, 7);
    });
}

/// T21.
#[test]
fn a_handle_that_outlives_its_runtime_gives_the_closure_back_or_says_why() {
    within(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        drop(rt);
        let value = String::from("captured");
        let error = handle.spawn(move || value).expect_err("it was spawned");
        assert!(error.to_string().contains("the runtime has ended or is ending"), "{error}");
        assert_eq!((error.0)(), "captured");
        assert!(matches!(handle.try_block_on(|| 7), Err(JoinError::NotStarted(_))));
        let said = panic_of(|| handle.block_on(|| 7));
        assert!(said.contains("a runtime that has ended"), "{said}");
    });
}

/// T36.
#[test]
fn a_task_that_joins_itself_is_told_so_and_goes_on() {
    with(&[1], |rt| {
        let (give, take) = mpsc::channel::<Task<bool>>();
        let (report, reported) = mpsc::channel();
        let task = rt.spawn(move || {
            let error = take.recv().unwrap().join().unwrap_err();
            assert!(matches!(error, JoinError::OwnEnd), "{error}");
            report.send(error.to_string()).unwrap();
            true
        });
        give.send(task).unwrap();
        let said = reported.recv().unwrap();
        assert!(said.contains("cannot wait for its own end"), "{said}");
    });
}

#[test]
fn calls_outside_a_runtime_say_where_to_make_them() {
    let said = [
        panic_of(|| spawn(|| ())),
        panic_of(|| cygnet::spawn_local(|| ())),
        panic_of(|| cygnet::spawn_unscoped(|| ())),
        panic_of(|| cygnet::spawn_blocking(|| ())),
        // SAFETY: it captures nothing and never starts.
        panic_of(|| unsafe { cygnet::task().migratable() }.spawn(|| ())),
        panic_of(|| cygnet::task().name("a").spawn(|| ())),
        panic_of(|| cygnet::scope(|_| ())),
        panic_of(|| cygnet::try_scope(|_| Ok::<(), Cancelled>(()))),
        panic_of(|| cygnet::try_timeout(Duration::ZERO, || Ok::<(), ()>(()))),
        panic_of(yield_now),
        panic_of(park),
        panic_of(unparker),
        panic_of(cygnet::checkpoint),
        panic_of(Handle::current),
        panic_of(|| cygnet::sleep_async(Duration::ZERO)),
        panic_of(|| cygnet::sleep_until_async(common::now())),
        panic_of(|| cygnet::timeout_async(Duration::ZERO, async {})),
        panic_of(|| cygnet::interval(Duration::from_secs(1))),
        panic_of(|| cygnet::interval_at(common::now(), Duration::from_secs(1))),
        panic_of(|| spawn_now(|| ())),
        panic_of(|| drop(TaskGroup::<()>::new())),
        panic_of(|| join(|| 1, || 2)),
    ];
    for said in said {
        assert!(said.contains("outside a task") || said.contains("outside a runtime"), "{said}");
        assert!(said.contains("Runtime::block_on"), "{said}");
    }
    for (name, said) in [
        ("par::for_each", panic_of(|| par::for_each(0..3, drop))),
        ("par::map_collect", panic_of(|| par::map_collect(0..3, |n| n))),
        ("par::any", panic_of(|| par::any(0..3, |_| true))),
        ("par::position", panic_of(|| par::position(0..3, |_| true))),
        ("par::sum", panic_of(|| par::sum::<_, i32>(0..3))),
        ("par::count", panic_of(|| par::count(0..3, |_| true))),
        ("par::min", panic_of(|| par::min(0..3))),
        ("par::max", panic_of(|| par::max(0..3))),
        ("par::try_for_each", panic_of(|| par::try_for_each(0..3, |_| Ok::<_, Cancelled>(())))),
        (
            "par::try_map_reduce",
            panic_of(|| par::try_map_reduce(0..3, || 0, Ok::<_, Cancelled>, |a, b| a + b)),
        ),
        ("par::sort_unstable", panic_of(|| par::sort_unstable(&mut [2, 1]))),
        ("par::sort", panic_of(|| par::sort(&mut [2, 1]))),
        ("ActorBody::run", panic_of(|| TaskActor::new(0).1.run())),
        ("Pipeline::run", panic_of(|| pipeline([1]).parallel(drop).run())),
        ("Pipeline::try_run", panic_of(|| pipeline([1]).try_parallel(|_| Err("no")).try_run())),
    ] {
        assert!(said.contains(&format!("{name} was called outside a task")), "{said}");
    }
}

#[test]
fn a_scope_on_another_runtime_is_refused_before_its_closure_where_its_end_cannot_wait() {
    with(&[1, 2], |rt| {
        let other = runtime(1);
        let (handle, called) = (other.handle(), Count::new());
        rt.block_on(|| {
            let refused = || no_suspend(|| handle.scope(|_| called.up()));
            panics_with("would be suspended inside no_suspend", refused);
            // A destructor of a value that nobody takes runs between tasks.
            let inner = handle.clone();
            let (tell, told) = bounded(1);
            drop_a_result_between_tasks(move || {
                OnDrop(move || {
                    let said = panic_of(|| inner.scope(|_| called.up()));
                    tell.try_send(said).unwrap();
                })
            });
            let said = told.recv().unwrap();
            assert!(said.contains("outside of its tasks"), "{said}");
            // In a cancelled task it works.
            scope(|s| {
                s.cancel("test");
                handle.scope(|s| drop(s.spawn(move || called.up())));
            });
        });
        assert_eq!(called.get(), 1);
        let unwinds = rt.try_block_on(|| {
            let _late = OnDrop(|| handle.scope(|s| drop(s.spawn(move || called.up()))));
            panic!("planted");
        });
        assert!(unwinds.is_err());
        assert_eq!(called.get(), 2);
    });
}

/// The closure could go on where the end of the scope cannot wait.
#[test]
fn a_bare_coroutine_does_not_leave_a_scope_of_another_runtime() {
    with(&[1, 2], |rt| {
        let other = runtime(1);
        let leave = |handle: &Handle| {
            let handle = handle.clone();
            let body = move |yielder: &Yielder<(), ()>, ()| {
                handle.scope(|s| {
                    s.spawn(|| ());
                    yielder.suspend(());
                });
            };
            panics_with("suspend", || Coroutine::new(body).resume(()));
        };
        leave(&rt.handle());
        let handle = rt.handle();
        other.block_on(|| leave(&handle));
    });
}

#[test]
fn a_runtime_that_is_dropped_inside_a_scope_of_its_own_is_leaked_with_a_sentence() {
    in_own_process_leaking(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        let said = panic_of(|| handle.scope(move |_| runtime(1).handle().scope(|_| drop(rt))));
        assert!(said.contains("dropped by one of its own tasks or scopes"), "{said}");
        assert_eq!(handle.block_on(|| 7), 7);
        let rt = runtime(1);
        rt.handle().scope(|_| drop(runtime(1)));
        drop(rt);
    });
}

#[test]
fn questions_outside_a_runtime_have_answers() {
    assert!(Handle::try_current().is_none());
    assert!(cygnet::current_id().is_none());
    assert!(cygnet::current_worker().is_none());
    assert!(!cygnet::is_cancelled());
    assert_eq!(cygnet::blocking(|| 7), 7);
    assert_eq!(no_suspend(|| 7), 7);
}

#[test]
fn a_join_of_a_fresh_child_inside_no_suspend_is_refused_and_the_child_never_starts() {
    static CALLED: AtomicBool = AtomicBool::new(false);
    with(&[1], |rt| {
        rt.block_on(|| {
            let child = spawn(|| CALLED.store(true, Ordering::Relaxed));
            let said = panic_of(|| no_suspend(|| child.join()));
            assert!(said.contains("inside no_suspend"), "{said}");
        });
        assert!(!CALLED.load(Ordering::Relaxed));
    });
}

/// T49.
#[test]
fn a_runtime_dropped_by_its_own_task_is_a_panic_before_harm_and_goes_on() {
    let drops: [fn(Runtime); 2] = [drop, |rt| cygnet::blocking(move || drop(rt))];
    in_own_process_leaking(|| {
        within_each([1, 2].into_iter().flat_map(|n| drops.map(|f| (n, f))), |(workers, drops)| {
            let rt = runtime(workers);
            let handle = rt.handle();
            let task = handle.spawn(move || {
                let said = panic_of(move || drops(rt));
                yield_now().unwrap();
                (said, spawn(|| 7).join().unwrap())
            });
            let (said, seven) = task.unwrap().join().unwrap();
            assert!(said.contains("dropped by one of its own tasks or scopes"), "{said}");
            assert_eq!(seven, 7);
            assert_eq!(handle.block_on(|| cygnet::blocking(|| 8)), 8);
        });
    });
}

#[test]
fn a_runtime_dropped_by_a_task_of_another_runtime_ends() {
    within(|| {
        let outer = runtime(1);
        let inner = runtime(1);
        let dropped = inner.handle();
        outer.block_on(move || drop(inner));
        assert!(dropped.spawn(|| ()).is_err());
        let dropped_in_a_blocking_call = outer.block_on(|| {
            cygnet::blocking(|| {
                let inner = runtime(1);
                assert_eq!(inner.block_on(|| cygnet::blocking(|| 7)), 7);
                inner.handle()
            })
        });
        assert!(dropped_in_a_blocking_call.spawn(|| ()).is_err());
    });
}

#[test]
fn a_runtime_dropped_while_its_tasks_compute_waits_for_them() {
    within(|| {
        let rt = runtime(2);
        let (started, wait) = mpsc::channel();
        let ended = Count::new();
        for _ in 0..2 {
            rt.spawn(own(&started, move |started| {
                started.send(()).unwrap();
                while !is_cancelled() {
                    common::spin_loop();
                }
                ended.up();
            }))
            .detach();
        }
        wait.iter().take(2).for_each(drop);
        drop(rt);
        assert_eq!(ended.get(), 2);
    });
}

#[test]
fn a_task_spawned_while_the_runtime_ends_is_not_called_and_its_captures_are_dropped() {
    within(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        let captured = Arc::new(());
        let (report, reported) = mpsc::channel();
        let (started, wait) = mpsc::channel();
        rt.spawn({
            let captured = captured.clone();
            move || {
                started.send(()).unwrap();
                assert!(park().is_err());
                let theirs = captured.clone();
                let inside = spawn(move || drop(theirs));
                let outside = handle.spawn(move || drop(captured));
                report.send((inside.join().map_err(|e| e.to_string()), outside.is_err())).unwrap();
            }
        })
        .detach();
        wait.recv().unwrap();
        drop(rt);
        let (inside, refused) = reported.recv().unwrap();
        assert!(refused);
        let said = inside.unwrap_err();
        assert!(said.contains("cancelled") || said.contains("ended"), "{said}");
        assert_eq!(Arc::strong_count(&captured), 1);
    });
}

#[test]
fn hooks_of_threads_that_panic_do_no_harm() {
    within(|| {
        let rt = Runtime::builder()
            .workers(2)
            .on_thread_start(|_| panic!("a hook at the start"))
            .on_thread_stop(|_| panic!("a hook at the end"))
            .build()
            .unwrap();
        assert_eq!(rt.block_on(|| spawn(|| 7).join().unwrap()), 7);
    });
}

/// Builds and drops a runtime with hooks of its threads, and returns what the hooks have sent.
fn sent_by_hooks(
    start: impl Fn(&mpsc::Sender<String>) + Send + Sync + 'static,
    stop: impl Fn(&mpsc::Sender<String>) + Send + Sync + 'static,
) -> Vec<String> {
    let (said, heard) = mpsc::channel();
    let also_said = Mutex::new(said.clone());
    let said = Mutex::new(said);
    let rt = Runtime::builder()
        .workers(1)
        .on_thread_start(move |_| start(&said.lock().unwrap()))
        .on_thread_stop(move |_| stop(&also_said.lock().unwrap()))
        .build()
        .unwrap();
    assert_eq!(rt.block_on(|| 7), 7);
    drop(rt);
    heard.iter().collect()
}

#[test]
fn hooks_of_threads_are_outside_of_tasks() {
    within(|| {
        let say = |said: &mpsc::Sender<String>| {
            said.send(panic_of(|| spawn(|| ()))).unwrap();
            said.send(panic_of(yield_now)).unwrap();
        };
        let heard = sent_by_hooks(say, say);
        assert_eq!(heard.len(), 4);
        assert!(heard.iter().all(|said| said.contains("outside a task")), "{heard:?}");
    });
}

#[test]
fn a_wait_in_a_thread_hook_is_a_panic_and_blocks_no_worker() {
    within(|| {
        let waits = |said: &mpsc::Sender<String>| {
            let here = Handle::current();
            said.send(panic_of(|| here.block_on(|| 7))).unwrap();
            said.send(panic_of(|| here.spawn(|| 7).unwrap().join())).unwrap();
        };
        let heard = sent_by_hooks(waits, |_| ());
        assert_eq!(heard.len(), 2);
        assert!(heard.iter().all(|said| said.contains("outside of its tasks")), "{heard:?}");
    });
}

#[test]
fn a_wait_in_the_destructor_of_a_result_that_is_not_taken_is_a_panic() {
    with(&[1], |rt| {
        let (said, heard) = mpsc::channel();
        let here = rt.handle();
        let waits = OnDrop(move || _ = said.send(panic_of(|| here.block_on(|| 7))));
        rt.block_on(move || drop_a_result_between_tasks(|| waits));
        let heard = heard.recv().unwrap();
        assert!(heard.contains("outside of its tasks"), "{heard}");
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn an_on_panic_hook_that_panics_or_waits_does_no_harm() {
    within(|| {
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        TOLD.store(0, Ordering::Relaxed);
        let hook = |_: &PanicReport<'_>| {
            if TOLD.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                panic!("a hook");
            }
            let _ = yield_now();
        };
        let rt = Runtime::builder().workers(2).on_panic(hook).build().unwrap();
        rt.block_on(|| (0..4).for_each(|_| spawn(|| panic!("a task")).detach()));
        assert_eq!(TOLD.load(Ordering::Relaxed), 4);
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
#[should_panic(expected = "polled after its end")]
fn a_task_polled_after_its_end_says_so() {
    let rt = runtime(1);
    let mut task = rt.spawn(|| 7);
    spin_until(|| task.is_finished());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut task).poll(&mut cx).is_ready());
    let _ = Pin::new(&mut task).poll(&mut cx);
}

/// Ends that do not wait work wherever they are called: inside `no_suspend`, in a cancelled task,
/// while the thread unwinds, outside a runtime, and by one of the runtime's own tasks.
#[test]
fn ends_that_do_not_wait_may_be_called_anywhere() {
    type Way = fn(Runtime);
    let ways: [Way; 3] = [
        |rt| rt.end_when_idle(),
        |rt| drop(rt.shutdown_async(Duration::ZERO)),
        |rt| drop(rt.shutdown_async(Duration::MAX)),
    ];
    within(|| {
        for way in ways {
            let stops = Count::new();
            let new = || {
                let builder = Runtime::builder().workers(1).on_thread_stop(move |_| stops.up());
                builder.build().unwrap()
            };
            way(new());
            let rt = runtime(1);
            rt.block_on(|| {
                no_suspend(|| way(new()));
                scope(|s| {
                    s.cancel("test");
                    way(new());
                });
            });
            let unwinding = move |ended: Runtime| {
                let mut ended = Some(ended);
                move || {
                    let _late = OnDrop(move || way(ended.take().unwrap()));
                    panic!("planted");
                }
            };
            assert!(rt.spawn(unwinding(new())).join().is_err());
            let (own, (give, take)) = (new(), mpsc::channel());
            let task = own.spawn(move || unwinding(take.recv().unwrap())());
            give.send(own).unwrap();
            let _ = task.join();
            eventually("all have ended", || stops.get() == 5);
        }
    });
}

#[test]
fn a_shutdown_as_a_future_is_begun_and_polled_anywhere() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let shut_down = |by: &dyn Fn(&shutdown::Swansong)| {
                let swansong = shutdown::Swansong::new();
                let stuck = task().guard(&swansong).spawn(park);
                by(&swansong);
                assert!(swansong.state().is_shutting_down() || swansong.state().is_complete());
                assert!(!matches!(stuck.join(), Ok(Ok(()))));
            };
            let now = |swansong: &shutdown::Swansong| {
                // The cancel comes with the first poll, and the end of the task later.
                let _ = poll_once(pin!(swansong.shut_down_until(ready(()))));
            };
            shut_down(&now);
            shut_down(&|swansong| no_suspend(|| now(swansong)));
            shut_down(&|swansong| {
                scope(|s| {
                    s.cancel("test");
                    now(swansong);
                });
            });
            shut_down(&|swansong| {
                let unwinds = catch_unwind(AssertUnwindSafe(|| {
                    let _late = OnDrop(|| now(swansong));
                    panic!("planted");
                }));
                assert!(unwinds.is_err());
            });
        });
    });
}
