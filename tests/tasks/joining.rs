//! Joins that do not end with a value: of the calling task itself, by a cancelled task, of a task
//! that panics.

use crate::common::prelude::*;
use std::any::Any;
use std::error::Error;

/// Drops a task that joins a child. The child goes on until the join has ended. Returns the error
/// of the join.
fn join_of_a_dropped_task(rt: &Runtime) -> JoinError {
    let ((tell, told), release) = (channel(), Arc::new(Event::new()));
    let joining_now = Flag::new();
    let before = common::parks(rt);
    let (waits, handle) = (release.clone(), rt.handle());
    let joining = spawn(move || {
        let parks = move || handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>();
        let joined = spawn(move || ignore_cancellation(|| waits.wait()).unwrap().unwrap());
        // Started, so that it is not called in place.
        give_way_until(|| parks() > before);
        joining_now.set();
        tell.send(joined.join().unwrap_err()).unwrap();
    });
    give_way_until(|| joining_now.get() && common::parks(rt) >= before + 2);
    drop(joining);
    let outcome = received(&told);
    release.set();
    outcome
}

/// C22.
#[test]
fn a_join_is_cut_short_when_the_joining_task_is_cancelled_and_cancels_the_joined() {
    in_task(|rt| assert!(join_of_a_dropped_task(rt).is_cancelled()));
}

/// Joins a child that cancels its caller and then ends with 7.
type Joins = fn(CancelHandle) -> Result<u32, JoinError>;

fn cancels(caller: CancelHandle) -> u32 {
    caller.cancel("enough");
    7
}

fn gives_way_and_cancels(caller: CancelHandle) -> u32 {
    yield_now().unwrap();
    cancels(caller)
}

/// A child that has been started and lies in the run queue.
fn started(child: Task<u32>) -> Result<u32, JoinError> {
    yield_to(&child).unwrap();
    child.join()
}

const LARGE: usize = if common::SANITIZED { 8 << 20 } else { 1 << 20 };

const JOINS: [(&str, Joins); 8] = [
    ("called in place", |caller| spawn(|| cancels(caller)).join()),
    ("a local one, called in place", |caller| spawn_local(|| cancels(caller)).join()),
    ("begun on a stack of its own", |caller| {
        task().stack_size(LARGE).unwrap().spawn(|| cancels(caller)).join()
    }),
    ("started before", |caller| started(spawn(|| gives_way_and_cancels(caller)))),
    ("a local one, started before", |caller| {
        let child = spawn_local(|| gives_way_and_cancels(caller));
        yield_now().unwrap();
        child.join()
    }),
    ("called in place in a scope", |caller| scope(|s| s.spawn(|| cancels(caller)).join())),
    ("begun on a stack of its own in a scope", |caller| {
        scope(|s| task().stack_size(LARGE).unwrap().spawn_in(s, || cancels(caller)).join())
    }),
    ("started before in a scope", |caller| {
        scope(|s| {
            let child = s.spawn(|| gives_way_and_cancels(caller));
            yield_now().unwrap();
            child.join()
        })
    }),
];

#[test]
fn a_task_that_ends_during_the_join_of_a_cancelled_caller_gives_its_value() {
    in_task_with(&[1], |_| {
        for (how, joins) in JOINS {
            let joining = move || {
                let joined = joins(cancel_handle());
                assert_eq!(joined.map_err(|error| error.to_string()), Ok(7), "{how}");
                assert!(yield_now().is_err(), "{how}");
            };
            spawn(joining).join().unwrap();
        }
    });
}

#[test]
fn a_task_that_panics_during_the_join_of_a_cancelled_caller_gives_its_panic() {
    in_task_with(&[1], |_| {
        let joining = || {
            let caller = cancel_handle();
            let child = spawn(move || {
                yield_now().unwrap();
                caller.cancel("enough");
                resume_unwind(Box::new("the child"));
            });
            yield_to(&child).unwrap();
            child.join().unwrap_err().to_string()
        };
        assert_eq!(spawn(joining).join().unwrap(), "the task panicked: the child");
    });
}

#[test]
fn a_join_that_begins_after_the_cancel_of_its_caller_is_refused_and_drops_the_value() {
    with_each(|rt| {
        let value = Arc::new(());
        rt.block_on(|| {
            let (kept, held) = (value.clone(), value.clone());
            let joining = move || {
                let ended = spawn(move || held);
                give_way_until(|| ended.is_finished());
                let in_scope = scope(|s| {
                    let ended_too = s.spawn(|| kept.clone());
                    give_way_until(|| ended_too.is_finished());
                    cancel_handle().cancel("enough");
                    ended_too.join()
                });
                assert!(in_scope.unwrap_err().is_cancelled());
                assert!(ended.join().unwrap_err().is_cancelled());
                assert_eq!(Arc::strong_count(&kept), 2);
            };
            spawn(joining).join().unwrap();
        });
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// The join of a local task is cut short when the task has returned and has a child left. The join
/// drops its value at home, and the destructor gives way until the child has ended.
#[test]
fn the_value_of_a_local_task_that_ends_while_its_join_drops_it_is_dropped_once() {
    in_task(|_| {
        let drops = Rc::new(Cell::new(0));
        let joining = spawn_local(own(&drops, |theirs| {
            let caller = cancel_handle();
            let local = spawn_local(move || {
                spawn(move || {
                    let _ = yield_now();
                    caller.cancel("enough");
                    (0..2).for_each(|_| drop(yield_now()));
                })
                .detach();
                OnDrop(move || {
                    theirs.set(theirs.get() + 1);
                    (0..10).for_each(|_| drop(shield(Duration::from_secs(1), yield_now)));
                })
            });
            // A value that is given is dropped here.
            local.join().is_ok()
        }));
        let given = joining.join().unwrap();
        assert_eq!(drops.get(), 1, "it was given: {given}");
    });
}

#[test]
fn a_value_is_in_the_caller_s_hand_or_dropped_whenever_the_cancel_comes() {
    in_task(|_| {
        for turns in 0..common::scaled(200) {
            let (value, kept) = (Arc::new(()), Count::new());
            scope(|s| {
                let held = value.clone();
                let joining = s.spawn(|| {
                    let child = spawn(move || {
                        (0..turns % 4).for_each(|_| drop(yield_now()));
                        held
                    });
                    let _ = yield_to(&child);
                    match child.join() {
                        Ok(_) => kept.up(),
                        Err(error) => assert!(error.is_cancelled(), "{error}"),
                    }
                });
                (0..turns % 3).for_each(|_| drop(yield_now()));
                joining.cancel("enough");
            });
            assert_eq!(Arc::strong_count(&value), 1);
            assert!(kept.get() <= 1);
        }
    });
}

/// The payload of a panic is `Send`, and need not be `Sync`.
#[test]
fn an_error_with_a_panic_is_shared_by_threads_and_lends_only_what_may_be_shared() {
    with_each(|rt| {
        let panics = |payload: Box<dyn Any + Send>| {
            let error = rt.spawn(|| resume_unwind(payload)).join().unwrap_err();
            let JoinError::Panicked(payload) = error else { panic!("{error}") };
            payload
        };
        let text = panics(Box::new(String::from("out of range")));
        let error = Arc::new(rt.spawn(|| resume_unwind(text.into_inner())).join().unwrap_err());
        common::thread::scope(|s| {
            for _ in 0..2 {
                let error: Arc<dyn Error + Send + Sync> = error.clone();
                s.spawn(move || {
                    assert_eq!(error.to_string(), "the task panicked: out of range");
                    let joined = error.downcast_ref::<JoinError>().unwrap();
                    let JoinError::Panicked(payload) = joined else { panic!("{joined}") };
                    assert_eq!(payload.downcast_ref::<String>().unwrap(), payload.message());
                });
            }
        });
        let mut cell = panics(Box::new(Cell::new(1)));
        assert!(cell.is::<Cell<i32>>() && !cell.is::<i32>());
        assert_eq!(cell.message(), "(a payload that is not text)");
        assert_eq!(cell.downcast_ref::<i32>(), None);
        *cell.get_mut().downcast_mut::<Cell<i32>>().unwrap().get_mut() += 1;
        assert_eq!(cell.into_inner().downcast::<Cell<i32>>().unwrap().get(), 2);
    });
}
