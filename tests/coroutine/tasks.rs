//! Coroutines inside of tasks.

use crate::common::prelude::*;
use crate::stack::recurse;
use crate::{MUST_RETURN_FIRST, Plain, again, assert_aborted, suspended};
use cygnet::coroutine::{self, Builder, Coroutine, Resumed, State};
use std::sync::atomic::AtomicU32;

#[test]
fn a_task_that_waits_inside_a_coroutine_does_not_leave_it_to_the_next_task() {
    runtime(1).block_on(|| {
        let co = Coroutine::<u32, u64, u32>::new(|yielder, mut n| {
            for _ in 0..100 {
                let inside = coroutine::current();
                let other = spawn(coroutine::current);
                yield_now().unwrap();
                assert!(other.join().unwrap().is_main());
                assert_eq!(coroutine::current(), inside);
                n += yielder.suspend(inside.id());
            }
            n
        });
        for _ in 0..100 {
            assert_eq!(co.resume(1), Ok(Resumed::Yielded(co.id())));
            assert!(coroutine::current().is_main());
            yield_now().unwrap();
        }
        assert_eq!(co.resume(1), Ok(Resumed::Returned(101)));
    });
}

#[test]
fn many_tasks_each_wait_inside_a_chain_of_coroutines() {
    runtime(2).block_on(|| {
        let work = |n: u64| {
            let outer = Coroutine::<(), u64, ()>::new(move |yielder, ()| {
                let inner = Coroutine::<(), u64, ()>::new(move |yielder, ()| {
                    let inside = coroutine::current();
                    for step in 0..20 {
                        yield_now().unwrap();
                        assert_eq!(coroutine::current(), inside);
                        yielder.suspend(n * step);
                    }
                });
                while let Some(value) = inner.resume(()).unwrap().yielded() {
                    yield_now().unwrap();
                    yielder.suspend(value);
                }
            });
            let mut sum = 0;
            while let Some(value) = outer.resume(()).unwrap().yielded() {
                sum += value;
            }
            sum
        };
        let tasks: Vec<_> = (0..200).map(|n| spawn(move || work(n))).collect();
        for (n, task) in (0..).zip(tasks) {
            assert_eq!(task.join().unwrap(), 190 * n);
        }
    });
}

#[test]
fn a_scope_inside_a_coroutine_waits_for_its_tasks() {
    let sum = runtime(2).block_on(|| {
        let co = Coroutine::<u64, (), u64>::new(|_, n| {
            let parts: Vec<u64> = (0..n).collect();
            scope(|s| {
                let halves = parts.chunks(4).map(|part| s.spawn(|| part.iter().sum::<u64>()));
                halves.collect::<Vec<_>>().into_iter().map(|task| task.join().unwrap()).sum()
            })
        });
        co.resume(100).unwrap().returned().unwrap()
    });
    assert_eq!(sum, 4950);
}

type Slot = Rc<RefCell<Option<Coroutine<(), bool, ()>>>>;

/// Asserts that a body that suspends inside of `around` is refused, and may suspend outside of it.
/// One task begins the body and another one continues it.
fn is_refused(around: fn(&dyn Fn())) {
    runtime(1).block_on(move || {
        let slot = Slot::default();
        let there = slot.clone();
        let begin = spawn_local(move || {
            let co = Coroutine::<(), bool, ()>::new(move |yielder, ()| {
                let said = panic_of(|| around(&|| yielder.suspend(false)));
                assert!(said.contains(MUST_RETURN_FIRST), "{said}");
                yielder.suspend(true);
            });
            assert_eq!(co.resume(()), Ok(Resumed::Yielded(true)));
            *there.borrow_mut() = Some(co);
        });
        begin.join().unwrap();
        let go_on = spawn_local(move || {
            let co = slot.take().unwrap();
            // A scope that the resumer has opened does not matter.
            scope(|_| assert_eq!(co.resume(()), Ok(Resumed::Returned(()))));
        });
        go_on.join().unwrap();
    });
}

/// A future that suspends the coroutine when it is polled, as only a borrow lets it.
fn suspends_when_polled(suspend: &dyn Fn()) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        suspend();
        Poll::Ready(())
    })
}

#[test]
fn a_body_cannot_leave_a_scope_a_binding_or_a_wait_of_its_task_half_way() {
    static LOCAL: TaskLocal<u8> = TaskLocal::new();
    is_refused(|suspend| scope(|_| suspend()));
    is_refused(|suspend| LOCAL.scope(7, suspend));
    is_refused(|suspend| wait(suspends_when_polled(suspend)).unwrap());
    is_refused(|suspend| {
        select! {
            () = suspends_when_polled(suspend) => {}
            () = pending() => unreachable!("it is never ready"),
        }
        .unwrap();
    });
}

/// Otherwise the rest of the wait would block the thread of a worker.
#[test]
fn a_body_that_waits_where_no_task_runs_cannot_be_continued_by_one_half_way() {
    thread_local! {
        static BEGUN: Cell<Option<Coroutine<(), bool, ()>>> = const { Cell::new(None) };
    }
    let begin = || {
        let co = Coroutine::<(), bool, ()>::new(|yielder, ()| {
            let suspend = || {
                yielder.suspend(false);
            };
            let said = panic_of(|| wait(suspends_when_polled(&suspend)));
            assert!(said.contains(MUST_RETURN_FIRST), "{said}");
            yielder.suspend(true);
            // Now it runs in a task, where a wait may take its time.
            wait(suspends_when_polled(&|| yield_now().unwrap())).unwrap();
        });
        assert_eq!(co.resume(()), Ok(Resumed::Yielded(true)));
        BEGUN.set(Some(co));
    };
    let go_on = || BEGUN.take().unwrap().resume(());
    // A plain thread.
    begin();
    assert!(BEGUN.take().is_some_and(|co| co.state() == State::Suspended));
    // A thread of a worker, before its first task.
    let rt = Runtime::builder().workers(1).on_thread_start(move |_| begin()).build().unwrap();
    assert_eq!(rt.block_on(go_on), Ok(Resumed::Returned(())));
}

/// A wait of the coroutine that is resumed in a poll does not belong to the outer wait.
#[test]
fn a_coroutine_that_is_resumed_in_a_poll_may_suspend_between_its_own_waits() {
    runtime(1).block_on(|| {
        let co = Coroutine::<(), u32, u32>::new(|yielder, ()| {
            yielder.suspend(wait(ready(1)).unwrap());
            wait(ready(2)).unwrap()
        });
        let polled = poll_fn(|_| match co.resume(()).unwrap() {
            Resumed::Yielded(_) => Poll::Ready(co.resume(()).unwrap().returned()),
            Resumed::Returned(_) => unreachable!("it suspends first"),
        });
        assert_eq!(wait(polled), Ok(Some(2)));
    });
}

#[test]
fn a_coroutine_that_is_resumed_inside_of_a_scope_of_another_may_suspend() {
    runtime(1).block_on(|| {
        let outer = Coroutine::<(), (), u32>::new(|_, ()| {
            let inner = Plain::new(|yielder, ()| yielder.suspend(()));
            scope(|s| {
                inner.resume(()).unwrap();
                s.spawn(|| yield_now().unwrap());
            });
            inner.resume(()).unwrap().returned().map_or(0, |()| 7)
        });
        assert_eq!(outer.resume(()), Ok(Resumed::Returned(7)));
    });
}

#[test]
fn a_task_may_wait_in_a_destructor_while_its_coroutine_is_unwound() {
    runtime(2).block_on(|| {
        let calls = Arc::new(AtomicU32::new(0));
        let inside = calls.clone();
        drop(suspended(move |yielder, ()| {
            let _waits = OnDrop(|| {
                crowd(10, |_| {
                    assert!(coroutine::current().is_main());
                    inside.fetch_add(1, Ordering::Relaxed);
                });
            });
            yielder.suspend(());
        }));
        assert_eq!(calls.load(Ordering::Relaxed), 10);
        assert!(coroutine::current().is_main());
    });
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn an_overflow_inside_a_task_names_the_coroutine() {
    let output = again(|| {
        runtime(1).block_on(|| {
            let co = Builder::new().name("abyss").create(|_, ()| recurse(0));
            let co: Coroutine<(), (), u64> = co.unwrap();
            let _ = co.resume(());
        });
    });
    assert_aborted(&output, "coroutine \"abyss\"");
}
