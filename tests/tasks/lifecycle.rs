//! Tasks from their spawn to their end: values, panics and handles, and parents that end after
//! their children.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;
use std::collections::HashSet;

// --- values --------------------------------------------------------------------------------------

/// T24, T26, T35.
#[test]
fn a_task_s_value_and_panic_reach_its_join() {
    in_task_and_many(|_| {
        let sum: u64 = join_all((0..1000u64).map(|i| spawn(move || i))).into_iter().sum();
        assert_eq!(sum, 499_500);
        let error = spawn(|| panic!("in a task")).join().unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled());
        assert_eq!(error.to_string(), "the task panicked: in a task");
    });
}

#[test]
fn tasks_are_spawned_from_many_foreign_threads_at_once() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        let each = scaled(500) as u64;
        let spawns = || {
            join_all((0..each).map(|i| handle.spawn(move || i).unwrap())).into_iter().sum::<u64>()
        };
        let sum: u64 = common::thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(spawns)).map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(sum, 4 * each * (each - 1) / 2);
    });
}

/// T33.
#[test]
fn a_panic_that_is_not_joined_is_told_to_the_hook_with_the_task_s_name() {
    for workers in common::WORKERS {
        within(|| {
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
                let (leaf, line) = (task().name("leaf"), line!() + 1);
                leaf.spawn(|| panic!("unseen")).detach();
                let seen: Task<()> = spawn(|| panic!("seen"));
                assert!(seen.join().is_err());
                line
            });
            let told = told.lock().unwrap();
            assert_eq!(*told, [("unseen".to_owned(), Some("leaf".to_owned()), line)]);
        });
    }
}

// --- parents end after their children ------------------------------------------------------------

/// T22, T25, T38.
#[test]
fn a_parent_s_result_is_not_visible_before_its_children_have_ended() {
    in_task_and_many(|_| {
        for _ in 0..scaled(50) {
            let ended = Count::new();
            let parent = spawn(move || {
                for i in 0..8 {
                    spawn(move || {
                        yields(i);
                        spawn(move || {
                            yields(i);
                            ended.up();
                        })
                        .detach();
                        ended.up();
                    })
                    .detach();
                }
                "value"
            });
            give_way_until(|| parent.is_finished());
            assert_eq!(ended.get(), 16, "is_finished was early");
            assert_eq!(parent.join().unwrap(), "value");
        }
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

/// Checks which captures, locals and results of children are dropped when their parent's join
/// returns.
fn dropped_at_parents_end(how: Leaves) {
    let all = [(); 3].map(|()| Drops::new());
    let [captures, locals, results] = all.clone();
    let parent = spawn(move || {
        for i in 0..10 {
            let (capture, locals, results) = (captures.guard(), locals.clone(), results.clone());
            let started = Flag::new();
            let child = spawn(move || {
                let _capture = capture;
                let _local = locals.guard();
                started.set();
                // Cancelled or not, it ends by itself.
                (0..i).for_each(|_| drop(yield_now()));
                results.guard()
            });
            match how {
                Leaves::Detached => child.detach(),
                Leaves::DroppedUnstarted => drop(child),
                Leaves::DroppedOnceStarted => {
                    started.wait();
                    drop(child);
                }
                Leaves::JoinedByParent => drop(child.join()),
            }
        }
    });
    parent.join().unwrap();
    let [captures, locals, results] = all.map(|drops| drops.count());
    assert_eq!(captures, 10, "captures, {how:?}");
    assert_eq!(locals, results, "{how:?}");
    if !matches!(how, Leaves::DroppedUnstarted) {
        assert_eq!(results, 10, "results, {how:?}");
    }
}

/// T27.
#[test]
fn what_a_child_owned_is_dropped_before_its_parent_has_ended() {
    in_task_and_many(|_| {
        for _ in 0..scaled(50) {
            dropped_at_parents_end(Leaves::Detached);
            dropped_at_parents_end(Leaves::DroppedUnstarted);
            dropped_at_parents_end(Leaves::DroppedOnceStarted);
            dropped_at_parents_end(Leaves::JoinedByParent);
        }
    });
}

/// T31.
#[test]
fn what_a_child_owned_is_dropped_although_its_record_can_still_be_reached() {
    in_task(|_| {
        let (captures, results) = (Drops::new(), Drops::new());
        let reach = Arc::new(Mutex::new(Vec::new()));
        let (capture, result, reached) = (captures.clone(), results.clone(), reach.clone());
        let parent = spawn(move || {
            for _ in 0..10 {
                let (capture, result, reach) = (capture.guard(), result.guard(), reached.clone());
                spawn(move || {
                    let _capture = capture;
                    reach.lock().unwrap().push(unparker());
                    result
                })
                .detach();
            }
        });
        parent.join().unwrap();
        assert_eq!((captures.count(), results.count()), (10, 10));
        // Records that are still there, of tasks that are not.
        reach.lock().unwrap().iter().for_each(cygnet::Unparker::unpark);
    });
}

/// T3.
#[test]
fn an_unscoped_task_outlives_the_one_that_spawned_it() {
    with_each(|rt| {
        let (open, gate) = channel();
        let waits = move || blocking(move || gate.recv().unwrap());
        let task = rt.block_on(|| spawn(move || spawn_unscoped(waits)).join().unwrap());
        assert!(!task.is_finished());
        open.send(17).unwrap();
        assert_eq!(task.join().unwrap(), 17);
    });
}

static BOUND: TaskLocal<u8> = TaskLocal::new();

/// The findings of a destructor: the task, the bound value, and the panic of a call of `scope`.
type Found = (Option<TaskId>, Option<u8>, String);

/// A result whose destructor looks around.
fn asks(tell: Sender<Found>) -> OnDrop<impl FnMut()> {
    OnDrop(move || {
        let said = panic_of(|| scope(|_| ()));
        tell.send((current_id(), BOUND.with(|bound| bound.copied()), said)).unwrap();
    })
}

#[test]
fn a_result_that_is_not_taken_is_not_dropped_in_the_name_of_a_parent_that_runs_elsewhere() {
    // With two workers, one of which its parent never leaves, a child and its own run on the other.
    in_task_with(&[2], |_| {
        let (tell, told) = channel();
        let (id, bound, said) = BOUND.scope(1, || {
            let (away, open, result) = (Flag::new(), Flag::new(), asks(tell));
            let child = spawn(move || {
                spawn(move || {
                    away.set();
                    open.hold();
                })
                .detach();
                result
            });
            away.hold();
            // The child has returned, and its own child is left.
            child.detach();
            open.set();
            told.recv().unwrap()
        });
        assert_eq!((id, bound, told.iter().count()), (None, None, 0));
        assert!(said.contains("outside a task"), "{said}");
    });
}

// --- handles -------------------------------------------------------------------------------------

#[test]
fn ids_are_unique_and_known_to_the_task_itself() {
    /// Joins tasks that tell their ids.
    fn ids(tasks: impl Iterator<Item = Task<Option<TaskId>>>) -> Vec<TaskId> {
        let tasks: Vec<_> = tasks.collect();
        let id = |task: Task<Option<TaskId>>| {
            let id = task.id();
            assert_eq!(task.join().unwrap(), Some(id));
            id
        };
        tasks.into_iter().map(id).collect()
    }
    with_each(|rt| {
        let mut all = HashSet::new();
        let inside = rt.block_on(|| {
            let parent = |_| spawn(|| ids((0..100).map(|_| spawn(current_id))));
            join_all((0..20).map(parent)).concat()
        });
        let outside = ids((0..100).map(|_| rt.spawn(current_id)));
        assert!(outside.into_iter().chain(inside).all(|id| all.insert(id)));
        assert_eq!(all.len(), 2_100);
        assert_eq!(current_id(), None);
    });
}

#[test]
fn a_task_has_the_name_that_it_was_given() {
    with_each(|rt| {
        rt.block_on(|| {
            let named = task().name("parser").spawn(|| ());
            assert_eq!(named.name(), Some("parser"));
            assert!(format!("{named:?}").contains("parser"));
            named.join().unwrap();
            let nameless = spawn(|| ());
            assert_eq!(nameless.name(), None);
            nameless.join().unwrap();
            let local = task().name("here").spawn_in(ThisWorker, yield_now);
            assert_eq!(local.name(), Some("here"));
            local.join().unwrap().unwrap();
            scope(|s| {
                let scoped = task().name("inside").spawn_in(s, || ());
                assert_eq!(scoped.name(), Some("inside"));
                scoped.join().unwrap();
            });
        });
        let outside = task().name("from outside").spawn_in(&rt.handle(), || ()).unwrap();
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
    in_task(|_| {
        let large = || task().stack_size(16 << 20).unwrap();
        assert_eq!(large().spawn(|| fill(1_000)).join().unwrap(), 1_000);
        assert_eq!(large().spawn_in(ThisWorker, || fill(1_000)).join().unwrap(), 1_000);
        let local = large().spawn_in(ThisWorker, || fill(1_000));
        yield_now().unwrap();
        assert_eq!(local.join().unwrap(), 1_000);
        scope(|s| {
            assert_eq!(large().spawn_in(s, || fill(1_000)).join().unwrap(), 1_000);
            large().spawn_in(s, || fill(1_000));
        });
    });
}
