//! Tasks from their spawn to their end: values and panics, parents and children, deep chains, handles,
//! tasks as futures, and the end of the runtime.

mod common;

use common::{
    Drops, eventually, give_way_until, scaled, text, with, with_each, with_each_and_many,
};
use cygnet::{JoinError, Runtime, park, spawn, spawn_unscoped, unparker, yield_now};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

// --- block_on and spawn -------------------------------------------------------------------------

#[test]
fn block_on_returns_the_value_of_a_closure_that_borrows() {
    with_each_and_many(|rt| {
        let words = ["a".to_owned(), "b".to_owned()];
        let mut calls = 0;
        let joined = rt.block_on(|| {
            calls += 1;
            words.concat()
        });
        assert_eq!((joined.as_str(), calls), ("ab", 1));
    });
}

#[test]
fn block_on_passes_a_panic_on_and_try_block_on_returns_it() {
    with_each(|rt| {
        assert_eq!(common::panic_of(|| rt.block_on(|| panic!("boo"))), "boo");
        let error = rt.try_block_on(|| panic!("boo")).unwrap_err();
        assert_eq!(text(&*error.into_panic().unwrap()), "boo");
        assert_eq!(rt.try_block_on(|| 7).unwrap(), 7);
    });
}

#[test]
fn a_task_s_value_and_panic_reach_its_join() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..1000u64).map(|i| spawn(move || i)).collect();
            let sum: u64 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, 499_500);
            let error = spawn(|| panic!("in a task")).join().unwrap_err();
            assert!(error.is_panic() && !error.is_cancelled());
            assert_eq!(error.to_string(), "the task panicked: in a task");
        });
    });
}

#[test]
fn tasks_are_spawned_from_many_foreign_threads_at_once() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        let each = scaled(500) as u64;
        let sum: u64 = std::thread::scope(|scope| {
            let spawners: Vec<_> = (0..4)
                .map(|_| {
                    let handle = handle.clone();
                    scope.spawn(move || {
                        let tasks: Vec<_> =
                            (0..each).map(|i| handle.spawn(move || i).unwrap()).collect();
                        tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
                    })
                })
                .collect();
            spawners.into_iter().map(|spawner| spawner.join().unwrap()).sum()
        });
        assert_eq!(sum, 4 * each * (each - 1) / 2);
    });
}

#[test]
fn a_handle_that_outlives_its_runtime_gives_the_closure_back() {
    common::within(|| {
        let rt = common::runtime(2);
        let handle = rt.handle();
        drop(rt);
        let error = handle.spawn(|| 5).unwrap_err();
        assert_eq!((error.0)(), 5);
        assert!(matches!(handle.try_block_on(|| 5), Err(JoinError::NotStarted)));
    });
}

// --- parents end after their children -------------------------------------------------------------

/// A child that yields some times before it ends.
fn linger(turns: usize) {
    for _ in 0..turns {
        yield_now().unwrap();
    }
}

#[test]
fn a_parent_s_result_is_not_visible_before_its_children_have_ended() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(50) {
                let ended = Arc::new(AtomicUsize::new(0));
                let parent = spawn({
                    let ended = ended.clone();
                    move || {
                        for i in 0..8 {
                            let ended = ended.clone();
                            spawn(move || {
                                linger(i);
                                let inner = ended.clone();
                                spawn(move || {
                                    linger(i);
                                    inner.fetch_add(1, Ordering::Relaxed);
                                })
                                .detach();
                                ended.fetch_add(1, Ordering::Relaxed);
                            })
                            .detach();
                        }
                        "value"
                    }
                });
                give_way_until(|| parent.is_finished());
                assert_eq!(ended.load(Ordering::Relaxed), 16, "is_finished was early");
                assert_eq!(parent.join().unwrap(), "value");
            }
        });
    });
}

#[test]
fn block_on_waits_for_the_children_that_were_left() {
    with_each(|rt| {
        let ended = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            for i in 0..20 {
                let ended = ended.clone();
                spawn(move || {
                    linger(i);
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
        });
        assert_eq!(ended.load(Ordering::Relaxed), 20);
    });
}

/// How the handle of a child is disposed of by its parent.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    Detached,
    DroppedUnstarted,
    DroppedOnceStarted,
    JoinedByParent,
}

/// What captures, locals and result of a child have been dropped when its parent's join returns.
fn dropped_at_parents_end(how: Leaves) {
    let (captures, locals, results) = (Drops::new(), Drops::new(), Drops::new());
    let parent = spawn({
        let (captures, locals, results) = (captures.clone(), locals.clone(), results.clone());
        move || {
            for i in 0..10 {
                let capture = captures.guard();
                let (locals, results) = (locals.clone(), results.clone());
                let started = Arc::new(AtomicBool::new(false));
                let seen = started.clone();
                let child = spawn(move || {
                    let _capture = capture;
                    let _local = locals.guard();
                    seen.store(true, Ordering::Release);
                    // Cancelled or not, it ends by itself.
                    for _ in 0..i {
                        let _ = yield_now();
                    }
                    results.guard()
                });
                match how {
                    Leaves::Detached => child.detach(),
                    Leaves::DroppedUnstarted => drop(child),
                    Leaves::DroppedOnceStarted => {
                        give_way_until(|| started.load(Ordering::Acquire));
                        drop(child);
                    }
                    Leaves::JoinedByParent => drop(child.join()),
                }
            }
        }
    });
    parent.join().unwrap();
    assert_eq!(captures.count(), 10, "captures, {how:?}");
    assert_eq!(locals.count(), results.count(), "{how:?}");
    if !matches!(how, Leaves::DroppedUnstarted) {
        assert_eq!(results.count(), 10, "results, {how:?}");
    }
}

#[test]
fn what_a_child_owned_is_dropped_before_its_parent_has_ended() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(50) {
                dropped_at_parents_end(Leaves::Detached);
                dropped_at_parents_end(Leaves::DroppedUnstarted);
                dropped_at_parents_end(Leaves::DroppedOnceStarted);
                dropped_at_parents_end(Leaves::JoinedByParent);
            }
        });
    });
}

#[test]
fn what_a_child_owned_is_dropped_although_somebody_can_still_reach_it() {
    with_each(|rt| {
        rt.block_on(|| {
            let (captures, results) = (Drops::new(), Drops::new());
            let reach = Arc::new(Mutex::new(Vec::new()));
            let parent = spawn({
                let (captures, results, reach) = (captures.clone(), results.clone(), reach.clone());
                move || {
                    for _ in 0..10 {
                        let (capture, result) = (captures.guard(), results.guard());
                        let reach = reach.clone();
                        spawn(move || {
                            let _capture = capture;
                            reach.lock().unwrap().push(unparker());
                            result
                        })
                        .detach();
                    }
                }
            });
            parent.join().unwrap();
            assert_eq!((captures.count(), results.count()), (10, 10));
            // Records that are still there, of tasks that are not.
            reach.lock().unwrap().iter().for_each(cygnet::Unparker::unpark);
        });
    });
}

#[test]
fn an_unscoped_task_outlives_the_one_that_spawned_it() {
    with_each(|rt| {
        let (open, gate) = channel();
        let task = rt.block_on(|| {
            let parent = spawn(move || {
                spawn_unscoped(move || cygnet::blocking(move || gate.recv().unwrap()))
            });
            parent.join().unwrap()
        });
        assert!(!task.is_finished());
        open.send(17).unwrap();
        assert_eq!(task.join().unwrap(), 17);
    });
}

// --- depth and number -----------------------------------------------------------------------------

#[test]
fn a_chain_of_spawn_and_join_may_be_100_000_deep() {
    fn depth(n: usize) -> usize {
        if n == 0 { 0 } else { spawn(move || depth(n - 1)).join().unwrap() + 1 }
    }
    let deep = scaled(100_000);
    with(&[1, 2, 8], |rt| assert_eq!(rt.block_on(|| depth(deep)), deep));
}

#[test]
fn a_chain_of_spawn_and_join_that_yields_on_the_way_may_be_deep() {
    fn depth(n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let child = spawn(move || depth(n - 1));
        yield_now().unwrap();
        child.join().unwrap() + 1
    }
    let deep = scaled(20_000);
    with(&[1, 2, 8], |rt| assert_eq!(rt.block_on(|| depth(deep)), deep));
}

#[test]
fn a_chain_of_a_million_detached_parents_and_children_ends() {
    fn descend(n: usize, ends: Arc<AtomicUsize>) {
        if n > 0 {
            let inner = ends.clone();
            spawn(move || descend(n - 1, inner)).detach();
        }
        ends.fetch_add(1, Ordering::Relaxed);
    }
    let deep = scaled(1_000_000);
    with(&[1, 2, 8], |rt| {
        let ends = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| descend(deep, ends.clone()));
        assert_eq!(ends.load(Ordering::Relaxed), deep + 1);
    });
}

#[test]
fn a_million_detached_children_of_one_parent_end_before_it() {
    let many = scaled(1_000_000);
    with(&[1, 2, 8], |rt| {
        let ends = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            for _ in 0..many {
                let ends = ends.clone();
                spawn(move || {
                    ends.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
        });
        assert_eq!(ends.load(Ordering::Relaxed), many);
    });
}

#[test]
fn a_chain_of_tasks_that_own_each_other_s_handles_is_released_without_recursion() {
    // Each task owns the one before. None has started when the last is dropped, whose end drops the
    // next handle, and so on.
    let long = scaled(200_000);
    with(&[1], |rt| {
        let drops = Drops::new();
        rt.block_on(|| {
            let mut last = spawn(|| ());
            for _ in 0..long {
                let guard = drops.guard();
                last = spawn(move || drop((last, guard)));
            }
            drop(last);
        });
        assert_eq!(drops.count(), long);
    });
}

#[test]
fn a_deep_chain_of_parked_parents_wakes_and_ends() {
    fn descend(n: usize, bottom: Arc<Mutex<Option<cygnet::Unparker>>>) -> usize {
        if n == 0 {
            *bottom.lock().unwrap() = Some(unparker());
            park().unwrap();
            return 0;
        }
        let child = spawn(move || descend(n - 1, bottom));
        // On a stack of its own.
        yield_now().unwrap();
        child.join().unwrap() + 1
    }
    let deep = scaled(5_000);
    with_each(|rt| {
        let bottom = Arc::new(Mutex::new(None));
        let task = rt.spawn({
            let bottom = bottom.clone();
            move || descend(deep, bottom)
        });
        eventually("the deepest task has parked", || bottom.lock().unwrap().is_some());
        assert!(!task.is_finished());
        bottom.lock().unwrap().take().unwrap().unpark();
        assert_eq!(task.join().unwrap(), deep);
    });
}

// --- handles --------------------------------------------------------------------------------------

#[test]
fn is_finished_turns_true_at_the_end_and_not_before() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let task = rt.spawn(move || cygnet::blocking(move || gate.recv().is_ok()));
        assert!(!task.is_finished());
        open.send(()).unwrap();
        eventually("the task has ended", || task.is_finished());
        assert!(task.join().unwrap());
    });
}

#[test]
fn ids_are_unique_and_known_to_the_task_itself() {
    with_each(|rt| {
        let mut ids = HashSet::new();
        let outside: Vec<_> = (0..100).map(|_| rt.spawn(cygnet::current_id)).collect();
        let inside = rt.block_on(|| {
            let parents: Vec<_> = (0..20)
                .map(|_| {
                    spawn(|| {
                        let children: Vec<_> =
                            (0..100).map(|_| spawn(cygnet::current_id)).collect();
                        let ids = children.into_iter().map(|child| {
                            let id = child.id();
                            assert_eq!(child.join().unwrap(), Some(id));
                            id
                        });
                        ids.collect::<Vec<_>>()
                    })
                })
                .collect();
            parents.into_iter().flat_map(|p| p.join().unwrap()).collect::<Vec<_>>()
        });
        for task in outside {
            let id = task.id();
            assert_eq!(task.join().unwrap(), Some(id));
            assert!(ids.insert(id));
        }
        assert!(inside.into_iter().all(|id| ids.insert(id)));
        assert_eq!(ids.len(), 2_100);
        assert_eq!(cygnet::current_id(), None);
    });
}

#[test]
fn a_task_has_the_name_that_it_was_given() {
    with_each(|rt| {
        rt.block_on(|| {
            let named = cygnet::task().name("parser").spawn(|| ());
            assert_eq!(named.name(), Some("parser"));
            assert!(format!("{named:?}").contains("parser"));
            named.join().unwrap();
            let nameless = spawn(|| ());
            assert_eq!(nameless.name(), None);
            nameless.join().unwrap();
        });
        let outside = rt.handle().spawn_with(cygnet::task().name("from outside"), || ()).unwrap();
        assert_eq!(outside.name(), Some("from outside"));
        outside.join().unwrap();
    });
}

#[test]
fn a_task_with_a_stack_of_its_own_size_has_that_much_room() {
    #[inline(never)]
    fn fill(kilobytes: usize) -> usize {
        let page = std::hint::black_box([1u8; 1024]);
        if kilobytes == 0 { 0 } else { fill(kilobytes - 1) + usize::from(page[kilobytes % 1024]) }
    }
    with_each(|rt| {
        rt.block_on(|| {
            let task = cygnet::task().stack_size(16 << 20).unwrap();
            assert_eq!(task.spawn(|| fill(1_000)).join().unwrap(), 1_000);
        });
    });
}

// --- errors of a join -----------------------------------------------------------------------------

#[test]
fn a_task_that_joins_itself_is_told_so() {
    with_each(|rt| {
        rt.block_on(|| {
            let place = Arc::new(Mutex::new(None::<cygnet::Task<Result<(), JoinError>>>));
            let (started, mine) = (Arc::new(AtomicBool::new(false)), place.clone());
            let seen = started.clone();
            let task = spawn(move || {
                seen.store(true, Ordering::Release);
                give_way_until(|| mine.lock().unwrap().is_some());
                let own = mine.lock().unwrap().take().unwrap();
                own.join().map(|_| ()).map_err(|error| {
                    assert!(matches!(error, JoinError::OwnEnd), "{error}");
                    seen.store(false, Ordering::Release);
                    error
                })
            });
            give_way_until(|| started.load(Ordering::Acquire));
            *place.lock().unwrap() = Some(task);
            give_way_until(|| !started.load(Ordering::Acquire));
        });
    });
}

/// A task that joins a child which is parked for ever is dropped; how its join ends.
fn join_of_a_dropped_task(rt: &Runtime) -> JoinError {
    let outcome = Arc::new(Mutex::new(None));
    let joining_now = Arc::new(AtomicBool::new(false));
    let before = common::parks(rt);
    let joining = spawn({
        let (outcome, joining_now, handle) = (outcome.clone(), joining_now.clone(), rt.handle());
        move || {
            let parks = move || handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>();
            let joined = spawn(|| park().is_err());
            // Started, so that it is not called in place.
            give_way_until(|| parks() > before);
            joining_now.store(true, Ordering::Release);
            let error = joined.join().unwrap_err();
            *outcome.lock().unwrap() = Some(error);
        }
    });
    give_way_until(|| joining_now.load(Ordering::Acquire) && common::parks(rt) >= before + 2);
    drop(joining);
    give_way_until(|| outcome.lock().unwrap().is_some());
    outcome.lock().unwrap().take().unwrap()
}

#[test]
fn a_join_is_cut_short_when_the_joining_task_is_cancelled_and_cancels_the_joined() {
    with_each(|rt| {
        assert!(rt.block_on(|| join_of_a_dropped_task(rt)).is_cancelled());
    });
}

/// Waits until the runtime takes no more tasks.
fn await_refusal(handle: &cygnet::Handle) {
    eventually("the runtime takes no more tasks", || match handle.spawn(|| ()) {
        Err(_) => true,
        Ok(task) => {
            task.detach();
            false
        }
    });
}

#[test]
fn a_join_on_a_task_that_the_runtime_s_end_prevented_says_that_it_never_started() {
    common::within(|| {
        let rt = common::runtime(1);
        let handle = rt.handle();
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
        });
        runs.recv().unwrap();
        // The only worker is busy, so these stay queued.
        let drops = Drops::new();
        let queued: Vec<_> = (0..10)
            .map(|_| {
                let guard = drops.guard();
                rt.spawn(move || drop(guard))
            })
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(rt));
            await_refusal(&handle);
            assert!(queued.iter().all(|task| !task.is_finished()));
            open.send(()).unwrap();
        });
        assert_eq!(drops.count(), 10);
        for task in queued {
            assert!(matches!(task.join(), Err(JoinError::NotStarted)));
        }
        busy.join().unwrap();
    });
}

#[test]
fn a_panic_that_nobody_joins_is_told_to_the_hook_with_the_task_s_name() {
    for workers in common::WORKERS {
        common::within(|| {
            let told = Arc::new(Mutex::new(Vec::new()));
            let hook = told.clone();
            let rt = Runtime::builder()
                .workers(workers)
                .on_panic(move |report| {
                    let name = report.name().map(str::to_owned);
                    hook.lock().unwrap().push((report.message().to_owned(), name));
                })
                .build()
                .unwrap();
            rt.block_on(|| {
                cygnet::task().name("leaf").spawn(|| panic!("unseen")).detach();
                let seen: cygnet::Task<()> = spawn(|| panic!("seen"));
                assert!(seen.join().is_err());
            });
            let told = told.lock().unwrap();
            assert_eq!(*told, [("unseen".to_owned(), Some("leaf".to_owned()))]);
        });
    }
}

// --- a handle that is dropped ---------------------------------------------------------------------

#[test]
fn dropping_a_task_before_its_start_prevents_the_start_and_drops_its_captures() {
    // With one worker nobody can start the child while its parent runs.
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        rt.block_on(|| {
            for _ in 0..100 {
                let (guard, starts) = (drops.guard(), starts.clone());
                drop(spawn(move || {
                    starts.fetch_add(1, Ordering::Relaxed);
                    drop(guard);
                }));
            }
            yield_now().unwrap();
        });
        assert_eq!((starts.load(Ordering::Relaxed), drops.count()), (0, 100));
    });
}

#[test]
fn dropping_a_task_that_was_spawned_from_outside_prevents_its_start() {
    with(&[1], |rt| {
        let (drops, starts) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
        });
        runs.recv().unwrap();
        for _ in 0..100 {
            let (guard, starts) = (drops.guard(), starts.clone());
            drop(rt.spawn(move || {
                starts.fetch_add(1, Ordering::Relaxed);
                drop(guard);
            }));
        }
        open.send(()).unwrap();
        busy.join().unwrap();
        rt.block_on(|| ());
        eventually("the captures have been dropped", || drops.count() == 100);
        assert_eq!(starts.load(Ordering::Relaxed), 0);
    });
}

/// Spawns a child that runs `wait` as soon as its handle has been dropped, and what came of it.
fn after_the_drop<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> R {
    let result = Arc::new(Mutex::new(None));
    let dropped = Arc::new(AtomicBool::new(false));
    let started = Arc::new(AtomicBool::new(false));
    let child = spawn({
        let (result, dropped, started) = (result.clone(), dropped.clone(), started.clone());
        move || {
            started.store(true, Ordering::Release);
            while !dropped.load(Ordering::Acquire) {
                // A cancelled task's yield is an error, which is what is waited for.
                let _ = yield_now();
            }
            *result.lock().unwrap() = Some(wait());
        }
    });
    give_way_until(|| started.load(Ordering::Acquire));
    drop(child);
    dropped.store(true, Ordering::Release);
    give_way_until(|| result.lock().unwrap().is_some());
    result.lock().unwrap().take().unwrap()
}

#[test]
fn dropping_a_task_after_its_start_is_seen_by_every_wait_of_it() {
    with_each(|rt| {
        rt.block_on(|| {
            assert!(after_the_drop(yield_now).is_err());
            assert!(after_the_drop(park).is_err());
            assert!(after_the_drop(cygnet::checkpoint).is_err());
            assert!(after_the_drop(cygnet::is_cancelled));
            let join = || spawn(|| yield_now().is_ok()).join();
            assert!(after_the_drop(join).is_err_and(|error| error.is_cancelled()));
        });
    });
}

#[test]
fn cancellation_beats_a_permit_that_is_ready() {
    with_each(|rt| {
        rt.block_on(|| {
            let park_with_permit = || {
                unparker().unpark();
                (park().is_err(), park().is_err())
            };
            assert_eq!(after_the_drop(park_with_permit), (true, true));
        });
    });
}

#[test]
fn dropping_a_task_wakes_it_out_of_its_park() {
    with_each(|rt| {
        rt.block_on(|| {
            let woken = Arc::new(AtomicBool::new(false));
            let before = common::parks(rt);
            let parked = spawn({
                let woken = woken.clone();
                move || woken.store(park().is_err(), Ordering::Release)
            });
            give_way_until(|| common::parks(rt) > before);
            drop(parked);
            give_way_until(|| woken.load(Ordering::Acquire));
        });
    });
}

#[test]
fn a_cancelled_task_that_goes_on_calling_waits_does_not_keep_its_worker_from_others() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (started, stop) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let stubborn = spawn({
                let (started, stop) = (started.clone(), stop.clone());
                move || {
                    started.store(true, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        let _ = park();
                    }
                }
            });
            give_way_until(|| started.load(Ordering::Relaxed));
            drop(stubborn);
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
            stop.store(true, Ordering::Relaxed);
        });
    });
}

// --- the end of the runtime -----------------------------------------------------------------------

#[test]
fn a_runtime_that_ends_wakes_parked_yielding_and_joining_tasks_with_cancelled() {
    for workers in [1, 2, 3, 8, common::MANY] {
        common::within(|| {
            let rt = common::runtime(workers);
            let (told, outcomes) = channel();
            let start = |wait: fn() -> bool| {
                let told = told.clone();
                rt.spawn(move || told.send(wait()).unwrap()).detach();
            };
            for _ in 0..10 {
                start(|| park().is_err());
                start(|| {
                    while yield_now().is_ok() {}
                    true
                });
                // A child that the join calls in place has its say before the join has.
                start(|| match spawn(|| park().is_err()).join() {
                    Ok(cut) => cut,
                    Err(error) => error.is_cancelled(),
                });
            }
            // All have started, children too; who does not wait yet finds out when it would.
            eventually("they wait", || rt.metrics().tasks() >= 40 && common::parks(&rt) >= 20);
            drop(rt);
            drop(told);
            assert_eq!(outcomes.iter().filter(|cut| *cut).count(), 30);
        });
    }
}

#[test]
fn a_runtime_does_not_end_before_its_tasks_have() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let ended = Arc::new(AtomicUsize::new(0));
            let started = Arc::new(AtomicUsize::new(0));
            for _ in 0..20 {
                let (started, ended) = (started.clone(), ended.clone());
                rt.spawn(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    let _ = park();
                    // Clean-up that takes its time, and turns.
                    for _ in 0..100 {
                        let _ = yield_now();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            eventually("all have started", || started.load(Ordering::Relaxed) == 20);
            drop(rt);
            assert_eq!(ended.load(Ordering::Relaxed), 20);
        });
    }
}

#[test]
fn threads_begin_and_end_with_the_runtime_and_call_its_hooks() {
    common::within(|| {
        let (starts, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (start, stop) = (starts.clone(), stops.clone());
        let rt = Runtime::builder()
            .workers(3)
            .thread_name("life")
            .on_thread_start(move || {
                start.fetch_add(1, Ordering::Relaxed);
            })
            .on_thread_stop(move || {
                stop.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let name = rt.block_on(|| std::thread::current().name().unwrap().to_owned());
        assert!(["life-0", "life-1", "life-2"].contains(&name.as_str()), "{name}");
        drop(rt);
        assert_eq!((starts.load(Ordering::Relaxed), stops.load(Ordering::Relaxed)), (3, 3));
    });
}

// --- a task as a future ---------------------------------------------------------------------------

mod executor {
    //! The smallest executor: a thread that polls one future and parks in between.

    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    pub(super) struct Unpark {
        thread: std::thread::Thread,
        pub(super) wakes: AtomicUsize,
    }

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    pub(super) fn waker() -> (Arc<Unpark>, Waker) {
        let unpark =
            Arc::new(Unpark { thread: std::thread::current(), wakes: AtomicUsize::new(0) });
        (unpark.clone(), Waker::from(unpark))
    }

    pub(super) fn run<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let (_, waker) = waker();
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

#[test]
fn a_task_is_a_future_for_any_executor() {
    with_each_and_many(|rt| {
        let all = async {
            let tasks: Vec<_> = (0..100u64).map(|i| rt.spawn(move || i)).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            let boom: Result<(), _> = rt.spawn(|| panic!("awaited")).await;
            (sum, text(&*boom.unwrap_err().into_panic().unwrap()).to_owned())
        };
        assert_eq!(executor::run(all), (4_950, "awaited".to_owned()));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken_once_and_the_earlier_ones_are_not() {
    use std::pin::Pin;
    use std::task::Context;
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let mut task = rt.spawn(move || cygnet::blocking(move || gate.recv().unwrap()));
        let (first, first_waker) = executor::waker();
        let (last, last_waker) = executor::waker();
        for waker in [&first_waker, &last_waker] {
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(waker)).is_pending());
        }
        open.send(()).unwrap();
        eventually("it is woken", || last.wakes.load(Ordering::Relaxed) == 1);
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&last_waker)).is_ready());
        assert_eq!(first.wakes.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_task_that_was_polled_can_still_be_joined_and_dropped() {
    use std::pin::Pin;
    use std::task::Context;
    with_each(|rt| {
        let (_, waker) = executor::waker();
        let mut cx = Context::from_waker(&waker);
        let (open, gate) = channel::<()>();
        let mut joined = rt.spawn(move || cygnet::blocking(move || gate.recv().unwrap()));
        assert!(Pin::new(&mut joined).poll(&mut cx).is_pending());
        open.send(()).unwrap();
        joined.join().unwrap();

        let before = common::parks(rt);
        let (told, outcome) = channel();
        let mut dropped = rt.spawn(move || told.send(park().is_err()).unwrap());
        eventually("it is parked", || {
            assert!(Pin::new(&mut dropped).poll(&mut cx).is_pending());
            common::parks(rt) > before
        });
        drop(dropped);
        assert!(outcome.recv().unwrap());
    });
}
