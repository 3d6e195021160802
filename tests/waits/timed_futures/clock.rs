//! Somebody looks at the clock, whatever the workers do: those that rest get up, and those that are busy look, or are seen
//! to by one that rests.

use super::{LONG, SHORT, block_on, poll};
use crate::common::Mutex;
use crate::common::mpsc::{Receiver, channel};
use crate::common::{eventually, give_way_until, scaled, watchdog, with, with_each};
use cygnet::{Sleep, on_cancel, sleep_async, timeout};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// From a plain thread on every wheel, one after the other.
fn sleep_on_each(rt: &cygnet::Runtime) {
    for _ in 0..2 * rt.workers() {
        block_on(rt.handle().sleep_async(Duration::from_micros(300))).unwrap();
    }
}

#[test]
fn workers_that_sleep_get_up_for_what_is_set_from_outside() {
    with_each(|rt| {
        for round in 0..scaled(20) as u64 {
            // While they lie down, and when they have.
            crate::common::thread::sleep(Duration::from_micros(round * 20));
            sleep_on_each(rt);
        }
        // One comes before what its worker has got up for the last time.
        let mut late = pin!(rt.handle().sleep_async(LONG));
        let _ = poll(late.as_mut(), Waker::noop());
        sleep_on_each(rt);
    });
}

#[test]
fn one_that_rests_sees_to_those_that_compute_and_do_not_ask() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(10) {
            let (begun, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let compute = || {
                let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
                move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while !over.load(Ordering::Acquire) {
                        crate::common::thread::yield_now();
                    }
                }
            };
            let tasks: Vec<_> = (1..rt.workers()).map(|_| rt.spawn(compute())).collect();
            eventually("all but one compute", || begun.load(Ordering::Relaxed) == rt.workers() - 1);
            sleep_on_each(rt);
            over.store(true, Ordering::Release);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

#[test]
fn workers_that_always_have_something_to_do_look_at_the_clock() {
    with_each(|rt| {
        let over = Arc::new(AtomicBool::new(false));
        let busy = || {
            let over = Arc::clone(&over);
            move || give_way_until(|| over.load(Ordering::Acquire))
        };
        let tasks: Vec<_> = (0..4 * rt.workers()).map(|_| rt.spawn(busy())).collect();
        for _ in 0..scaled(5) {
            sleep_on_each(rt);
        }
        over.store(true, Ordering::Release);
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

/// So long foreign code waits for what others are to do meanwhile, and never gets if the clock is left to it.
fn meanwhile() -> Duration {
    watchdog::patience() / 8
}

/// A waker that calls a closure.
struct Calling<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calling<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn calling(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Calling(f)))
}

/// Foreign code that takes its time: it waits for others.
#[derive(Clone)]
struct Slow {
    others: Arc<Mutex<Receiver<()>>>,
    begun: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    told: Arc<AtomicBool>,
}

impl Slow {
    fn new(others: Receiver<()>) -> Slow {
        let flag = || Arc::new(AtomicBool::new(false));
        let others = Arc::new(Mutex::new(others));
        Slow { others, begun: flag(), over: flag(), told: flag() }
    }

    fn call(&self) {
        self.begun.store(true, Ordering::Release);
        let told = self.others.lock().unwrap().recv_timeout(meanwhile());
        self.told.store(told.is_ok(), Ordering::Release);
        self.over.store(true, Ordering::Release);
    }

    fn was_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }
}

/// A sleep whose time had not come when it was polled: it is longer where the machine is slow.
fn waited_for(mut time: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    loop {
        let mut sleep = Box::pin(sleep_async(time));
        if poll(sleep.as_mut(), waker).is_pending() {
            return sleep;
        }
        time *= 2;
    }
}

/// In a task: keeps its worker, and does not ask.
fn compute_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        crate::common::thread::yield_now();
    }
}

#[test]
fn who_watches_leaves_that_to_another_before_it_calls_what_may_take_its_time() {
    with(&[3, 8], |rt| {
        let (tell, others) = channel();
        let slow = Slow::new(others);
        let slow_waker = calling({
            let slow = slow.clone();
            move || slow.call()
        });
        let quick = calling(move || tell.send(()).unwrap());
        rt.block_on(|| {
            let _early = waited_for(SHORT, &slow_waker);
            compute_until(&slow.begun);
            let _late = waited_for(SHORT, &quick);
            compute_until(&slow.over);
        });
        assert!(slow.was_told(), "nobody has looked at the clock meanwhile");
    });
}

/// Of those that were set before, too; and a hook is as foreign as a waker.
#[test]
fn who_watches_leaves_that_to_another_before_it_calls_a_hook() {
    /// False if the hook came too late: what is due by then may have been taken out together with it, and comes after it.
    fn in_time(rt: &cygnet::Runtime, time: Duration) -> bool {
        let (tell, others) = channel();
        let slow = Slow::new(others);
        let quick = calling(move || tell.send(()).unwrap());
        rt.block_on(|| {
            let late = waited_for(3 * time, &quick);
            let due = late.deadline().unwrap();
            let limited = timeout(time, || {
                let slow = slow.clone();
                let over = Arc::clone(&slow.over);
                let _hook = on_cancel(move |_| match crate::common::now() < due {
                    true => slow.call(),
                    false => slow.over.store(true, Ordering::Release),
                });
                compute_until(&over);
            });
            assert!(limited.is_err());
        });
        let begun = slow.begun.load(Ordering::Acquire);
        assert!(!begun || slow.was_told(), "nobody has looked at the clock meanwhile");
        begun
    }
    with(&[3, 8], |rt| {
        let mut time = SHORT;
        while !in_time(rt, time) {
            time *= 2;
        }
    });
}

/// As long as somebody is counted among those who search no other worker is woken for work.
#[test]
fn who_was_woken_to_search_does_not_count_while_it_calls_what_may_take_its_time() {
    with(&[3, 8], |rt| {
        for round in 0..scaled(40) as u64 {
            let (tell, others) = channel();
            let slow = Slow::new(others);
            let waker = calling({
                let slow = slow.clone();
                move || slow.call()
            });
            // Until the others sleep.
            crate::common::thread::sleep(Duration::from_millis(1));
            let busy = rt.spawn({
                let slow = slow.clone();
                move || {
                    let mut sleep = pin!(sleep_async(Duration::from_micros(round * 5)));
                    if poll(sleep.as_mut(), &waker).is_ready() {
                        return false;
                    }
                    compute_until(&slow.over);
                    true
                }
            });
            eventually("it is called", || slow.begun.load(Ordering::Acquire) || busy.is_finished());
            let work = rt.spawn(move || tell.send(()).is_ok());
            let waits = busy.join().unwrap();
            work.join().unwrap();
            assert!(!waits || slow.was_told(), "nobody was woken for work meanwhile");
        }
    });
}
