//! A worker looks at the clock whatever the workers do: workers that rest get up, and workers that
//! are busy look, or are seen to by one that rests.

use super::{LONG, SHORT};
use crate::common::mpsc::Receiver;
use crate::common::prelude::*;
use crate::{is_pending, poll};

/// From a plain thread on every wheel, one after the other.
fn sleep_on_each(rt: &Runtime) {
    for _ in 0..2 * rt.workers() {
        block_on(rt.handle().sleep_async(Duration::from_micros(300))).unwrap();
    }
}

#[test]
fn workers_that_sleep_get_up_for_what_is_set_from_outside() {
    with_each(|rt| {
        for round in 0..scaled(20) as u64 {
            // While they lie down, and when they have.
            common::thread::sleep(Duration::from_micros(round * 20));
            sleep_on_each(rt);
        }
        // A timer may come before the one that its worker has got up for the last time.
        let mut late = pin!(rt.handle().sleep_async(LONG));
        let _ = is_pending(late.as_mut());
        sleep_on_each(rt);
    });
}

#[test]
fn a_worker_that_rests_sees_to_those_that_compute_and_do_not_ask() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(10) {
            let (begun, over) = (Count::new(), Flag::new());
            let compute = |_| {
                rt.spawn(move || {
                    begun.up();
                    over.hold();
                })
            };
            let tasks: Vec<_> = (1..rt.workers()).map(compute).collect();
            eventually("all but one compute", || begun.get() == rt.workers() - 1);
            sleep_on_each(rt);
            over.set();
            join_all(tasks);
        }
    });
}

#[test]
fn workers_that_always_have_something_to_do_look_at_the_clock() {
    with_each(|rt| {
        let over = Flag::new();
        let busy = |_| rt.spawn(move || over.wait());
        let tasks: Vec<_> = (0..4 * rt.workers()).map(busy).collect();
        (0..scaled(5)).for_each(|_| sleep_on_each(rt));
        over.set();
        join_all(tasks);
    });
}

/// Foreign code that takes its time: it waits for what others are to do meanwhile. If the clock is
/// left to it, they never do.
#[derive(Clone)]
struct Slow {
    others: Arc<Mutex<Receiver<()>>>,
    begun: Flag,
    over: Flag,
    told: Flag,
}

impl Slow {
    fn new(others: Receiver<()>) -> Slow {
        let others = Arc::new(Mutex::new(others));
        Slow { others, begun: Flag::new(), over: Flag::new(), told: Flag::new() }
    }

    fn call(&self) {
        self.begun.set();
        let others = self.others.lock().unwrap();
        self.told.put(others.recv_timeout(watchdog::patience() / 8).is_ok());
        self.over.set();
    }

    fn was_told(&self) -> bool {
        // The flags are relaxed: the lock orders them.
        let _others = self.others.lock().unwrap();
        self.told.get()
    }

    fn waker(&self) -> Waker {
        let slow = self.clone();
        calling(move || slow.call())
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

#[test]
fn the_timekeeper_hands_that_on_before_it_calls_a_slow_waker() {
    with(&[3, 8], |rt| {
        let (tell, others) = channel();
        let slow = Slow::new(others);
        let quick = calling(move || tell.send(()).unwrap());
        rt.block_on(|| {
            let _early = waited_for(SHORT, &slow.waker());
            slow.begun.hold();
            let _late = waited_for(SHORT, &quick);
            slow.over.hold();
        });
        assert!(slow.was_told(), "no worker has looked at the clock meanwhile");
    });
}

/// The other timer was set before. A hook is as foreign as a waker.
#[test]
fn the_timekeeper_hands_that_on_before_it_calls_a_hook() {
    /// False if the hook came too late: a timer that is due by then may have been taken out
    /// together with the hook, and comes after it.
    fn in_time(rt: &Runtime, time: Duration) -> bool {
        let (tell, others) = channel();
        let slow = Slow::new(others);
        let quick = calling(move || tell.send(()).unwrap());
        rt.block_on(|| {
            let late = waited_for(3 * time, &quick);
            let due = late.deadline().unwrap();
            let limited = timeout(time, || {
                let (slow, over) = (slow.clone(), slow.over);
                let _hook = on_cancel(move |_| match common::now() < due {
                    true => slow.call(),
                    false => slow.over.set(),
                });
                over.hold();
            });
            assert!(limited.is_err());
        });
        let begun = slow.begun.get();
        assert!(!begun || slow.was_told(), "no worker has looked at the clock meanwhile");
        begun
    }
    with(&[3, 8], |rt| {
        let mut time = SHORT;
        while !in_time(rt, time) {
            time *= 2;
        }
    });
}

/// As long as a worker is counted among those that search no other worker is woken for work.
#[test]
fn a_worker_woken_to_search_does_not_count_while_it_calls_a_slow_waker() {
    with(&[3, 8], |rt| {
        for round in 0..scaled(40) as u64 {
            let (tell, others) = channel();
            let slow = Slow::new(others);
            let (waker, over) = (slow.waker(), slow.over);
            // Until the others sleep.
            common::thread::sleep(Duration::from_millis(1));
            let busy = rt.spawn(move || {
                let mut sleep = pin!(sleep_async(Duration::from_micros(round * 5)));
                let waits = poll(sleep.as_mut(), &waker).is_pending();
                if waits {
                    over.hold();
                }
                waits
            });
            eventually("it is called", || slow.begun.get() || busy.is_finished());
            let work = rt.spawn(move || tell.send(()).is_ok());
            let waits = busy.join().unwrap();
            work.join().unwrap();
            assert!(!waits || slow.was_told(), "no worker was woken for work meanwhile");
        }
    });
}
