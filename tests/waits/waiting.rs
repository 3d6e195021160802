//! `wait`: futures inside of tasks and on plain threads, their wakers, and their end.

use crate::common::prelude::*;

/// Ready when it is told so, from anywhere.
#[derive(Clone, Default)]
struct Signal(Arc<Mutex<(bool, Option<Waker>)>>);

impl Signal {
    fn give(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn forget_poll(&self) {
        self.0.lock().unwrap().1 = None;
    }

    fn is_polled(&self) -> bool {
        self.0.lock().unwrap().1.is_some()
    }

    fn eventually_polled(&self) {
        eventually("it waits", || self.is_polled());
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_future_that_is_ready_or_becomes_so_gives_its_value() {
    with_each(|rt| {
        assert_eq!(rt.block_on(|| wait(ready(1))), Ok(1));
        let signal = Signal::default();
        let task = rt.spawn(own(&signal, |theirs| {
            wait(async {
                theirs.await;
                2
            })
        }));
        signal.eventually_polled();
        signal.give();
        assert_eq!(task.join().unwrap(), Ok(2));
    });
    // On a plain thread, too.
    let signal = Signal::default();
    common::thread::scope(|s| {
        let waits = s.spawn(|| wait(signal.clone()));
        signal.eventually_polled();
        signal.give();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_future_may_borrow_and_need_not_be_send_and_is_polled_and_dropped_at_home() {
    in_task(|_| {
        let text = String::from("borrowed");
        let drops = Rc::new(Cell::new(0));
        let (here, theirs) = (common::thread::current().id(), Rc::clone(&drops));
        let home = OnDrop(|| {
            assert_eq!(common::thread::current().id(), here);
            theirs.set(theirs.get() + 1);
        });
        let length = wait(async {
            let _home = home;
            wait_a_little().await;
            text.len()
        });
        assert_eq!((length, drops.get()), (Ok(8), 1));
    });
}

/// Woken from another thread, a few times.
async fn wait_a_little() {
    for _ in 0..3 {
        let signal = Signal::default();
        common::thread::spawn(own(&signal, |theirs| theirs.give()));
        signal.await;
    }
}

/// Waits a little, and gives `value`.
fn late<T>(value: T) -> Result<T, Cancelled> {
    wait(async {
        wait_a_little().await;
        value
    })
}

#[test]
fn many_tasks_wait_for_many_futures() {
    in_task(|_| {
        scope(|s| {
            let tasks: Vec<_> = (0..50).map(|i| s.spawn(move || late(i).unwrap())).collect();
            let sum: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, 49 * 50 / 2);
        });
    });
}

#[test]
fn a_cancel_and_the_end_of_the_runtime_end_a_wait_and_drop_its_future_first() {
    with_each(|rt| {
        let (signal, drops) = (Signal::default(), Drops::new());
        let (theirs, guard, count) = (signal.clone(), drops.guard(), drops.clone());
        let task = rt.spawn(move || {
            let refused = wait(async {
                let _guard = guard;
                theirs.await;
            });
            (refused, count.count())
        });
        signal.eventually_polled();
        task.cancel("enough");
        let (refused, dropped) = task.join().unwrap();
        assert_eq!(*refused.unwrap_err().reason(), Reason::Explicit("enough".into()));
        assert_eq!(dropped, 1);
        // The waker outlives it all.
        signal.give();
    });
    with_own_of(&[2], |rt| {
        let signal = Signal::default();
        let task = rt.spawn(own(&signal, wait));
        signal.eventually_polled();
        drop(rt);
        assert_eq!(*task.join().unwrap().unwrap_err().reason(), Reason::RuntimeShutDown);
        signal.give();
    });
}

#[test]
fn a_cancelled_task_does_not_even_poll_and_a_time_limit_ends_its_wait() {
    in_task(|_| {
        let polled = Count::new();
        let counts = || {
            poll_fn(|_| {
                polled.up();
                Poll::Ready(())
            })
        };
        let late = timeout(Duration::ZERO, || wait(counts()));
        let refused: Result<(), Cancelled> = late.unwrap_err().into_inner();
        assert_eq!(*refused.unwrap_err().reason(), Reason::Deadline);
        assert_eq!(polled.get(), 0);
        let late = timeout(Duration::from_millis(2), || wait(pending::<()>()));
        assert!(late.unwrap_err().into_inner().is_err());
        assert_eq!((wait(counts()), polled.get()), (Ok(()), 1));
    });
}

#[test]
fn a_waker_that_is_kept_does_nothing_after_the_end_of_task_and_runtime() {
    let kept: Mutex<Vec<Waker>> = Mutex::default();
    let keeps = || {
        poll_fn(|cx| {
            kept.lock().unwrap().extend([cx.waker().clone(), cx.waker().clone()]);
            Poll::Ready(())
        })
    };
    with_each(|rt| {
        rt.block_on(|| wait(keeps())).unwrap();
        kept.lock().unwrap().iter().for_each(Waker::wake_by_ref);
        let waker = kept.lock().unwrap()[0].clone();
        assert!(waker.will_wake(&waker.clone()));
    });
    wait(keeps()).unwrap();
    kept.into_inner().unwrap().into_iter().for_each(Waker::wake);
}

#[test]
fn wakers_and_unparks_do_not_use_each_other_up() {
    in_task(|_| {
        let me = unparker();
        me.unpark();
        let signal = Signal::default();
        let other = spawn(own(&signal, |theirs| {
            give_way_until(|| theirs.is_polled());
            theirs.give();
        }));
        wait(signal.clone()).unwrap();
        other.join().unwrap();
        // The token is still there. A late call of a waker leaves none.
        park().unwrap();
        let kept = wait(poll_fn(|cx| Poll::Ready(cx.waker().clone()))).unwrap();
        kept.wake_by_ref();
        let parked = timeout(Duration::from_millis(2), park);
        assert!(parked.unwrap_err().into_inner().is_err());
        kept.wake();
    });
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    in_task_with(&[1], |_| {
        let others = Count::new();
        let other = spawn(move || {
            for _ in 0..10 {
                others.up();
                yield_now().unwrap();
            }
        });
        yield_now().unwrap();
        let turns = wait(poll_fn(|cx| {
            if others.get() == 10 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        turns.unwrap();
        other.join().unwrap();
    });
}

/// The poll of a future waits for another one. Meanwhile the outer future is woken.
#[test]
fn a_wait_inside_a_poll_does_not_swallow_what_wakes_the_outer_one() {
    fn outer() -> u32 {
        let signal = Signal::default();
        let mut polls = 0;
        wait(poll_fn(|cx| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(polls);
            }
            let waker = cx.waker().clone();
            common::thread::spawn(own(&signal, |theirs| {
                theirs.eventually_polled();
                theirs.forget_poll();
                waker.wake();
                eventually("the inner one has used that up", || theirs.is_polled());
                theirs.give();
            }));
            wait(signal.clone()).unwrap();
            Poll::Pending
        }))
        .unwrap()
    }
    in_task(|_| assert_eq!(outer(), 2));
    within(|| assert_eq!(outer(), 2));
}

#[test]
fn a_panic_in_a_poll_passes_and_drops_the_future() {
    with_each(|rt| {
        let drops = Drops::new();
        let guard = drops.guard();
        let said = panic_of(|| {
            rt.block_on(|| {
                wait(async {
                    let _guard = guard;
                    wait_a_little().await;
                    panic!("in the poll");
                })
            })
        });
        assert_eq!((said.as_str(), drops.count()), ("in the poll", 1));
        // A later one is not disturbed by it.
        assert_eq!(rt.block_on(|| late(1)), Ok(1));
    });
}

#[test]
fn where_nothing_may_wait_a_future_must_be_ready() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            assert_eq!(cygnet::no_suspend(|| wait(ready(1))), Ok(1));
            panics_with("no_suspend", || cygnet::no_suspend(|| wait(pending::<()>()).is_ok()));
        });
        let refused = rt.block_on(|| while_unwinding(|| wait(ready(1)))).unwrap_err();
        assert_eq!(*refused.reason(), Reason::Unwinding);
    });
}

/// Wakes race the wait, a cancel and each other.
#[test]
fn no_wake_is_lost_and_no_wait_ends_without_one() {
    with(&[1, 2, 8], |rt| {
        for round in 0..scaled_in_debug(3_000) {
            let signal = Signal::default();
            let task = rt.spawn(own(&signal, wait));
            let gives = rt.spawn(move || signal.give());
            if round % 3 == 0 {
                task.cancel("races");
            }
            gives.join().unwrap();
            match task.join() {
                Ok(Ok(())) => {}
                _ => assert_eq!(round % 3, 0),
            }
        }
    });
}
