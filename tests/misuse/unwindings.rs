//! Forbidden waits in destructors that run because of a panic. None may panic, which would end the
//! process. For the same reason the answers are checked outside of the destructor.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;
use crate::drop_a_result_between_tasks;
use cygnet::shutdown::Swansong;
use cygnet::sync::{Mutex, RwLock};
use std::fmt::Debug;

const LONG: Duration = Duration::from_secs(100);

/// Panics, and calls `f` in a destructor that runs because of that.
fn unwind(f: impl FnOnce()) {
    let mut f = Some(f);
    let _late = OnDrop(|| f.take().into_iter().for_each(|f| f()));
    panic!("for the destructor");
}

/// In a task: has a waker called that calls `call`.
fn in_a_waker(call: impl FnOnce() + Send + 'static) {
    let event = Event::new();
    let mut waits = pin!(event.wait_async());
    assert!(poll_by(waits.as_mut(), &calling_once(call)).is_pending());
    event.set();
}

/// The names of waits, and why they were cut short.
type Answers = Vec<(&'static str, String)>;

fn why<T, E: Debug>(result: Result<T, E>) -> String {
    result.err().map_or("it was not".to_owned(), |error| format!("{error:?}"))
}

#[track_caller]
fn assert_all_cut_short(answers: &Answers, n: usize) {
    assert!(answers.iter().all(|(_, why)| why.contains("Unwinding")), "{answers:?}");
    assert_eq!(answers.len(), n);
}

/// Waits for these do not end before all of them have been waited for, even if another worker
/// has taken and cancelled a task.
struct Awaited {
    task: Task<()>,
    timed: Task<()>,
    shared: SharedTask<()>,
    giving: TaskGroup<()>,
    groups: [TaskGroup; 2],
    actor: TaskActor<()>,
    mutex: Arc<Mutex<()>>,
    waited: Arc<AtomicBool>,
}

/// Its drop waits until all have been waited for, also in a task that is cancelled before or after
/// its start.
struct Stays(Arc<AtomicBool>);

impl Drop for Stays {
    fn drop(&mut self) {
        while !self.0.load(Ordering::Acquire) {
            if current_id().is_some() {
                let _ = yield_now();
            }
            common::spin_loop();
        }
    }
}

impl Awaited {
    /// In a task. The mutex is locked.
    fn new(mutex: &Arc<Mutex<()>>) -> Awaited {
        let waited = Arc::new(AtomicBool::new(false));
        let stays = || {
            let stays = Stays(waited.clone());
            move || drop(stays)
        };
        let groups = [(); 2].map(|()| TaskGroup::new());
        groups.iter().for_each(|group| group.add(stays()));
        let (actor, owner) = TaskActor::start(());
        owner.detach();
        let task = spawn(stays());
        let timed = spawn(stays());
        let shared = spawn(stays()).shared();
        let giving = TaskGroup::new();
        giving.spawn(stays());
        Awaited { task, timed, shared, giving, groups, actor, mutex: mutex.clone(), waited }
    }

    /// Waits for one after the other.
    fn wait(mut self) -> Answers {
        let (event, [group, cancelled]) = (Event::new(), self.groups);
        let waited = self.waited.clone();
        let (own, ours) = (Mutex::new(()), RwLock::new(()));
        let _held = (own.lock().unwrap(), ours.write().unwrap());
        let mut answers = vec![
            ("lock", why(self.mutex.lock())),
            ("lock_timeout", why(self.mutex.lock_timeout(LONG))),
            ("a second lock", why(own.lock())),
            ("a second write", why(ours.write())),
            ("Event::wait", why(event.wait())),
            ("wait", why(wait(pending::<()>()))),
            ("select", why(select! { _ = event.wait_async() => () })),
            ("Task::join_timeout", why(self.timed.join_timeout(LONG))),
            ("Task::value", why(self.timed.value())),
            ("SharedTask::join", why(self.shared.join())),
            ("SharedTask::value", why(self.shared.value())),
            ("TaskGroup::next", why(self.giving.next())),
            ("Task::join", why(self.task.join())),
            ("TaskGroup::join", why(group.join())),
            ("TaskActor::call", why(self.actor.call(|()| drop(Stays(waited))))),
        ];
        if current_id().is_some() {
            answers.push(("park", why(park())));
            answers.push(("sleep", why(sleep(LONG))));
            let joined = scope(|s| s.spawn(|| drop(park())).join());
            answers.push(("ScopedTask::join", why(joined)));
        } else {
            // Between tasks these cannot hold the worker, which would block unrelated tasks.
            let here = Handle::current();
            answers.push(("try_block_on", why(here.try_block_on(|| 7))));
            answers.push(("cancel_and_join", why(cancelled.cancel_and_join("no need"))));
        }
        self.waited.store(true, Ordering::Release);
        answers
    }
}

/// In a task: calls `f` with a mutex that is locked.
fn with_locked<R>(f: impl FnOnce(&Arc<Mutex<()>>) -> R) -> R {
    let mutex = Arc::new(Mutex::new(()));
    let held = mutex.clone();
    let _held = held.lock().unwrap();
    f(&mutex)
}

/// Panics, and sends the answers during the unwinding.
fn unwind_and_tell(awaited: Awaited, tell: &Sender<Answers>) {
    unwind(|| tell.send(awaited.wait()).unwrap());
}

#[test]
fn a_wait_inside_no_suspend_is_cut_short() {
    let inside: [fn(&mut dyn FnMut()); 2] =
        [|f| no_suspend(|| unwind(f)), |f| unwind(|| no_suspend(f))];
    with_each(|rt| {
        for inside in inside {
            let answers = rt.block_on(|| {
                with_locked(|mutex| {
                    let (mut awaited, mut answers) = (Some(Awaited::new(mutex)), Vec::new());
                    let mut waits = || {
                        answers = awaited.take().unwrap().wait();
                        // It returns no reason.
                        answers
                            .push(("yield_now", format!("Unwinding, {:?}", yield_now().unwrap())));
                    };
                    assert!(payload_of(|| inside(&mut waits)).is_some());
                    yield_now().unwrap();
                    answers
                })
            });
            assert_all_cut_short(&answers, 19);
        }
    });
}

/// T42, T46.
#[test]
fn a_wait_that_is_not_cut_short_holds_the_worker_inside_no_suspend() {
    with_each(|rt| {
        let other = runtime(1);
        let (ended, values) = (AtomicUsize::new(0), common::Mutex::new(Vec::new()));
        rt.block_on(|| {
            let unwound = payload_of(|| {
                no_suspend(|| {
                    unwind(|| {
                        scope(|s| {
                            for _ in 0..10 {
                                s.spawn(|| {
                                    // On this worker or another one.
                                    let _ = yield_now();
                                    ended.fetch_add(1, Ordering::Relaxed)
                                });
                            }
                        });
                        let scoped = ended.load(Ordering::Relaxed);
                        let group: TaskGroup = TaskGroup::new();
                        group.add(|| ());
                        let left = group.cancel_and_join("no need").is_ok();
                        let called: usize = all([|| 1, || 2]).into_iter().map(Result::unwrap).sum();
                        spawn_now(|| ()).detach();
                        *values.lock().unwrap() = vec![
                            scoped,
                            usize::from(left),
                            called,
                            blocking(|| 4),
                            rt.block_on(|| 5),
                            other.block_on(|| 6),
                        ];
                    });
                });
            });
            assert!(unwound.is_some());
            yield_now().unwrap();
        });
        assert_eq!(values.into_inner().unwrap(), [10, 1, 3, 4, 5, 6]);
    });
}

#[test]
fn a_wait_in_an_unwinding_inside_a_waker_or_a_hook_is_cut_short() {
    let places: [fn(Awaited, Sender<Answers>); 3] = [
        // A waker that panics.
        |awaited, tell| in_a_waker(move || unwind_and_tell(awaited, &tell)),
        // A waker that is called in an unwinding.
        |awaited, tell| {
            let waits = move || tell.send(awaited.wait()).unwrap();
            assert!(payload_of(|| unwind(|| in_a_waker(waits))).is_some());
        },
        // A hook of a cancel that panics.
        |awaited, tell| {
            scope(|s| {
                let _hook = on_cancel(move |_: Cancelled| unwind_and_tell(awaited, &tell));
                s.cancel("for the hook");
            });
        },
    ];
    with_each(|rt| {
        for place in places {
            let (tell, told) = channel();
            rt.block_on(|| with_locked(|mutex| place(Awaited::new(mutex), tell)));
            assert_all_cut_short(&told.recv().unwrap(), 17);
        }
    });
}

#[test]
fn a_wait_in_a_hook_of_a_thread_that_panics_is_cut_short() {
    in_task_with(&[2], |_| {
        with_locked(|mutex| {
            let (tell, told) = channel();
            let awaited = common::Mutex::new(Some((Awaited::new(mutex), tell)));
            let other = Runtime::builder()
                .workers(1)
                .on_thread_start(move |_| {
                    let (awaited, tell) = awaited.lock().unwrap().take().unwrap();
                    unwind_and_tell(awaited, &tell);
                })
                .build()
                .unwrap();
            assert_eq!(other.block_on(|| 7), 7);
            assert_all_cut_short(&told.recv().unwrap(), 17);
        });
    });
}

#[test]
fn a_wait_in_the_destructor_of_a_result_that_is_not_taken_is_cut_short() {
    in_task_with(&[1], |_| {
        let answers = with_locked(|mutex| {
            let (tell, told) = channel();
            let mut awaited = Some(Awaited::new(mutex));
            let waits = OnDrop(move || unwind_and_tell(awaited.take().unwrap(), &tell));
            drop_a_result_between_tasks(|| waits);
            let mut answers = None;
            common::give_way_until(|| {
                answers = told.try_recv().ok();
                answers.is_some()
            });
            answers.unwrap()
        });
        assert_all_cut_short(&answers, 17);
    });
}

/// A wait that has no error to return holds the worker's thread.
#[test]
fn the_end_of_a_shutdown_is_waited_for_in_a_waker_that_panics() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let guard = swansong.guard();
        let (begins, begun) = channel();
        let (tell, told) = channel();
        common::thread::scope(|s| {
            s.spawn(move || {
                begun.recv().unwrap();
                drop(guard);
            });
            rt.block_on(|| {
                in_a_waker(move || {
                    unwind(|| {
                        let completion = swansong.shut_down();
                        begins.send(()).unwrap();
                        completion.block();
                        tell.send(swansong.state().is_complete()).unwrap();
                    });
                });
            });
        });
        assert!(told.recv().unwrap());
    });
}

/// `block_on` has neither a value to return nor an error.
#[test]
fn block_on_in_a_waker_that_panics_ends_the_process_with_a_sentence() {
    let body = || {
        let rt = runtime(1);
        let here = rt.handle();
        rt.block_on(|| in_a_waker(move || unwind(|| here.block_on(|| ()))));
    };
    let Some(ended) = in_child(body) else { return };
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("outside of its tasks"), "{said}");
}

/// The worker calls a descendant that needs a stack of its own, which sees to it that the wait of
/// the blocked task ends.
#[test]
fn a_migratable_task_does_not_go_on_elsewhere_while_it_is_blocked() {
    let blocks = || {
        let (inside, lease, thread) = (Flag::new(), lease(), common::thread::current().id());
        let went_on = while_unwinding(|| {
            scope(|s| {
                let (begun, over) = (Flag::new(), Flag::new());
                s.spawn(move || (begun.set(), over.hold()));
                begun.hold();
                let called = move || {
                    inside.set();
                    over.set();
                    let begun = Flag::new();
                    scope(|s| {
                        s.spawn(move || {
                            begun.set();
                            common::thread::sleep(Duration::from_millis(5));
                        });
                        begun.hold();
                    });
                    inside.put(false);
                };
                task().stack_size(1 << 20).unwrap().spawn_in(&lease, called).detach();
            });
            (inside.get(), common::thread::current().id())
        });
        assert_eq!(went_on, (false, thread));
    };
    within(|| {
        for _ in 0..scaled_in_debug(20) {
            let rt = runtime(2);
            // SAFETY: the task holds nothing of its thread.
            unsafe { task().migratable() }.spawn_in(&rt, blocks).join().unwrap();
        }
    });
}
