//! Tasks from their spawn to their end: values, panics and handles, and parents that end after their
//! children.

use crate::common::Mutex;
use crate::common::mpsc::channel;
use crate::common::{
    self, Drops, eventually, give_way_until, panic_of, scaled, with, with_each, with_each_and_many,
};
use cygnet::{Runtime, TaskId, TaskLocal, scope, spawn, spawn_unscoped, unparker, yield_now};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

// --- values --------------------------------------------------------------------------------------

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
        let sum: u64 = common::thread::scope(|scope| {
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
fn a_panic_that_nobody_joins_is_told_to_the_hook_with_the_task_s_name() {
    for workers in common::WORKERS {
        common::within(|| {
            let told = Arc::new(Mutex::new(Vec::new()));
            let hook = told.clone();
            let rt = Runtime::builder()
                .workers(workers)
                .on_panic(move |report| {
                    let name = report.name().map(str::to_owned);
                    let line = report.spawned_at().line();
                    assert_eq!(report.spawned_at().file(), file!());
                    hook.lock().unwrap().push((report.message().to_owned(), name, line));
                })
                .build()
                .unwrap();
            let line = rt.block_on(|| {
                let (leaf, line) = (cygnet::task().name("leaf"), line!() + 1);
                leaf.spawn(|| panic!("unseen")).detach();
                let seen: cygnet::Task<()> = spawn(|| panic!("seen"));
                assert!(seen.join().is_err());
                line
            });
            let told = told.lock().unwrap();
            assert_eq!(*told, [("unseen".to_owned(), Some("leaf".to_owned()), line)]);
        });
    }
}

// --- parents end after their children ------------------------------------------------------------

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

static BOUND: TaskLocal<u8> = TaskLocal::new();

/// What a destructor finds: the task, what is bound, and what a call of `scope` says.
type Found = (Option<TaskId>, Option<u8>, String);

/// A result whose destructor looks around.
struct Asks(Arc<Mutex<Vec<Found>>>);

impl Drop for Asks {
    fn drop(&mut self) {
        let said = panic_of(|| scope(|_| ()));
        let bound = BOUND.with(|bound| bound.copied());
        self.0.lock().unwrap().push((cygnet::current_id(), bound, said));
    }
}

#[test]
fn a_result_that_nobody_takes_is_not_dropped_in_the_name_of_a_parent_that_runs_elsewhere() {
    // With two workers, one of which its parent never leaves, a child and its own run on the other.
    with(&[2], |rt| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        rt.block_on(|| {
            BOUND.scope(1, || {
                let (away, open) =
                    (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let child = spawn({
                    let (away, open, result) = (away.clone(), open.clone(), Asks(asked.clone()));
                    move || {
                        spawn(move || {
                            away.store(true, Ordering::Release);
                            while !open.load(Ordering::Acquire) {
                                common::thread::yield_now();
                            }
                        })
                        .detach();
                        result
                    }
                });
                while !away.load(Ordering::Acquire) {
                    common::thread::yield_now();
                }
                // The child has returned, and its own child is left.
                child.detach();
                open.store(true, Ordering::Release);
                while asked.lock().unwrap().is_empty() {
                    common::thread::yield_now();
                }
            });
        });
        let asked = asked.lock().unwrap();
        let [(id, bound, said)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((*id, *bound), (None, None));
        assert!(said.contains("outside a task"), "{said}");
    });
}

// --- handles -------------------------------------------------------------------------------------

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
            let local = cygnet::task().name("here").spawn_local(cygnet::yield_now);
            assert_eq!(local.name(), Some("here"));
            local.join().unwrap().unwrap();
            cygnet::scope(|s| {
                let scoped = s.spawn_with(cygnet::task().name("inside"), || ());
                assert_eq!(scoped.name(), Some("inside"));
                scoped.join().unwrap();
            });
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
            let large = || cygnet::task().stack_size(16 << 20).unwrap();
            assert_eq!(large().spawn(|| fill(1_000)).join().unwrap(), 1_000);
            assert_eq!(large().spawn_local(|| fill(1_000)).join().unwrap(), 1_000);
            let local = large().spawn_local(|| fill(1_000));
            yield_now().unwrap();
            assert_eq!(local.join().unwrap(), 1_000);
            cygnet::scope(|s| {
                assert_eq!(s.spawn_with(large(), || fill(1_000)).join().unwrap(), 1_000);
                s.spawn_with(large(), || fill(1_000));
            });
        });
    });
}
