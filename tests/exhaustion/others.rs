//! Waits that are no joins by an ancestor exceed the limit too: of threads, of futures, and of
//! tasks of another runtime. Only threads on their own do not.

use crate::common::prelude::*;
use crate::{assert_stacks, deep, runtime};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Waits in a blocking call for a task that does the same, `depth` times.
fn blocks(handle: &Handle, depth: usize) -> usize {
    if depth == 0 { 0 } else { blocking(|| handle.block_on(|| blocks(handle, depth - 1))) + 1 }
}

/// Waits for a child that does the same, `depth` times, as for a future.
fn polls(depth: usize) -> usize {
    if depth == 0 { 0 } else { wait(spawn(move || polls(depth - 1))).unwrap().unwrap() + 1 }
}

fn selects(depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let below = select! {
        below = spawn(move || selects(depth - 1)) => below,
        never = pending() => never,
    };
    below.unwrap().unwrap() + 1
}

struct Relay(Waker);
impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// Waits for a task by a waker that does not tell whose it is.
fn waits_through_a_relay<T>(task: Task<T>) -> T {
    let mut task = pin!(task);
    let poll = |cx: &mut Context<'_>| {
        let relay = Waker::from(Arc::new(Relay(cx.waker().clone())));
        task.as_mut().poll(&mut Context::from_waker(&relay))
    };
    wait(poll_fn(poll)).unwrap().unwrap()
}

fn relays(depth: usize) -> usize {
    if depth == 0 { 0 } else { waits_through_a_relay(spawn(move || relays(depth - 1))) + 1 }
}

/// Has a child on the other runtime that does the same, `depth` times.
fn crosses(here: &Handle, there: &Handle, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let (to, from) = (there.clone(), here.clone());
    let below = move || crosses(&to, &from, depth - 1);
    task().spawn_in(ChildOn(there), below).unwrap().join().unwrap() + 1
}

#[test]
fn blocking_calls_that_wait_for_tasks_end_in_any_depth() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, workers);
        let handle = rt.handle();
        assert_eq!(rt.block_on(|| blocks(&handle, 4)), 4);
        let joins = || {
            let child = spawn(|| 7);
            blocking(|| child.join().unwrap())
        };
        assert_eq!(rt.block_on(joins), 7);
        assert_stacks(&rt, workers + 4);
    });
}

#[test]
fn tasks_that_wait_for_their_children_as_for_futures_end_in_any_depth() {
    let ways: [fn() -> usize; 3] = [|| polls(40), || selects(40), || relays(40)];
    within_each([1, 2, 8], |workers| {
        for way in ways {
            let rt = runtime(workers, workers);
            assert_eq!(rt.block_on(way), 40);
            assert_stacks(&rt, workers + 40);
        }
    });
}

#[test]
fn futures_that_wait_for_tasks_elsewhere_in_the_tree_share_one_stack() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, 2);
        let other = || Handle::current().spawn(|| sleep(MILLISECOND).unwrap()).unwrap();
        rt.block_on(|| {
            scope(|s| {
                s.spawn(|| waits_through_a_relay(other()));
                s.spawn(|| wait(other()).unwrap().unwrap());
            });
        });
        assert_stacks(&rt, 4);
    });
}

#[test]
fn members_whose_values_are_waited_for_end() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, workers);
        let sum = rt.block_on(|| {
            let mut group = TaskGroup::new();
            // More than the other workers can start.
            (0..4).for_each(|n| drop(group.spawn(move || n)));
            let mut sum = 0;
            while let Some(n) = group.next().unwrap() {
                sum += n;
            }
            sum
        });
        assert_eq!(sum, 6);
        assert_stacks(&rt, workers + 1);
    });
}

#[test]
fn children_on_another_runtime_end_in_any_depth() {
    within_each([1, 2], |workers| {
        let (a, b) = (runtime(workers, workers), runtime(workers, workers));
        let (here, there) = (a.handle(), b.handle());
        assert_eq!(a.block_on(|| crosses(&here, &there, 6)), 6);
        assert_eq!(a.block_on(|| there.block_on(|| crosses(&there, &here, 3))), 3);
        for rt in [a, b] {
            assert_stacks(&rt, workers + 3);
        }
    });
}

#[test]
fn a_task_with_many_children_on_another_runtime_exceeds_its_limit_by_one_stack() {
    within(|| {
        let (rt, other) = (runtime(1, 2), runtime(1, 1));
        let handle = rt.handle();
        let sleepers = || {
            let child = || sleep(MILLISECOND * 2).unwrap();
            join_all((0..200).map(|_| task().spawn_in(ChildOn(&handle), child).unwrap()));
        };
        // They keep all stacks for longer than a standstill takes.
        let keepers = [(); 2].map(|()| rt.spawn(|| sleep(MILLISECOND * 300).unwrap()));
        eventually("they sleep", || common::parks(&rt) >= 2);
        other.block_on(sleepers);
        keepers.into_iter().for_each(|keeper| keeper.join().unwrap());
        assert_stacks(&rt, 3);
    });
}

#[test]
fn threads_that_wait_do_not_exceed_the_limit() {
    within(|| {
        let rt = runtime(1, 2);
        let parked = [(); 2].map(|()| sleeper(&rt));
        let handle = rt.handle();
        let thread = common::thread::spawn(move || handle.block_on(|| 7));
        // Long enough for a standstill.
        common::thread::sleep(Duration::from_millis(400));
        assert_stacks(&rt, 2);
        for (task, unparker) in parked {
            unparker.unpark();
            assert!(task.join().unwrap());
        }
        assert_eq!(thread.join().unwrap(), 7);
    });
}

#[test]
fn tasks_that_start_again_and_again_beyond_the_limit_are_no_progress_for_the_others() {
    within(|| {
        let rt = runtime(1, 2);
        let (handle, done) = (rt.handle(), Flag::new());
        rt.block_on(|| {
            let joins = {
                let handle = handle.clone();
                move || {
                    sleep(MILLISECOND * 20).unwrap();
                    handle.spawn(|| ()).unwrap().join().unwrap();
                    done.set();
                }
            };
            let task = handle.spawn(joins).unwrap();
            spin_until(|| {
                deep(|| spawn(|| ()).join().unwrap());
                sleep(MILLISECOND * 5).unwrap();
                done.get()
            });
            task.join().unwrap();
        });
    });
}

#[test]
fn actors_that_rest_have_no_stacks() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, 2);
        rt.block_on(|| {
            let actors: Vec<_> = (0..100).map(TaskActor::start).collect();
            for (n, (actor, task)) in actors.into_iter().enumerate() {
                assert_eq!(actor.call(|n| *n), Ok(n));
                assert!(!task.is_finished());
                actor.stop();
                assert_eq!(task.join().unwrap(), n);
            }
        });
        assert_stacks(&rt, 2);
    });
}

/// Calls `f` in a child that another worker has begun, while the caller unwinds and its worker is
/// blocked.
fn beside_a_blocked_worker(f: impl FnOnce() + Send) {
    while_unwinding(|| {
        scope(|s| {
            let begun = Flag::new();
            s.spawn(move || {
                begun.set();
                f();
            });
            begun.hold();
        });
    });
}

#[test]
fn a_standstill_ends_beside_a_blocked_worker() {
    within(|| {
        let rt = runtime(2, 2);
        let handle = rt.handle();
        rt.block_on(|| beside_a_blocked_worker(|| blocking(|| handle.block_on(|| ()))));
    });
}

#[test]
fn a_blocked_worker_gives_up_its_warm_stacks() {
    within(|| {
        let rt = runtime(2, 4);
        let (handle, event) = (rt.handle(), Arc::new(Event::new()));
        rt.block_on(|| {
            // They leave two warm stacks here.
            join_all([(); 2].map(|()| spawn_now(|| sleep(MILLISECOND).unwrap())));
            beside_a_blocked_worker(|| {
                let sets = Arc::clone(&event);
                handle.spawn(move || sets.set()).unwrap().detach();
                event.wait().unwrap();
            });
        });
    });
}
