//! Unpark tokens: `park` and `unpark`, by tasks and by foreign threads.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

#[test]
fn an_unpark_before_the_park_is_kept_and_two_count_as_one() {
    in_task(|rt| {
        let me = unparker();
        me.unpark();
        me.unpark();
        park().unwrap();
        // The second would have been kept as another token: this park must wait for the third.
        let (third, before) = (Flag::new(), parks(rt));
        let parks = || Handle::current().metrics().workers.iter().map(|w| w.parks).sum::<u64>();
        let waker = spawn(move || {
            give_way_until(|| parks() > before);
            third.set();
            me.unpark();
        });
        park().unwrap();
        assert!(third.get());
        waker.join().unwrap();
    });
}

#[test]
fn a_foreign_thread_wakes_a_parked_task() {
    with_each_and_many(|rt| {
        let (tell, unparkers) = channel::<Unparker>();
        let parks = |tell: Sender<Unparker>| {
            tell.send(unparker()).unwrap();
            park().is_ok()
        };
        let spawns = |_| rt.spawn(own(&tell, parks));
        let tasks: Vec<_> = parking(rt, 100, || (0..100).map(spawns).collect());
        unparkers.try_iter().for_each(|unparker| unparker.unpark());
        assert!(join_all(tasks).into_iter().all(|woken| woken));
    });
}

#[test]
fn every_unpark_of_many_foreign_threads_at_once_is_seen() {
    with_each(|rt| {
        let each = scaled(2_000);
        let sent = Count::new();
        let (tell, unparkers) = channel();
        let task = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            // A count that was stored before an unpark is seen after the park that it ends.
            while sent.get() < 3 * each {
                park().unwrap();
            }
        });
        let unparker = unparkers.recv().unwrap();
        common::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(own(&unparker, move |unparker| {
                    for _ in 0..each {
                        sent.up();
                        unparker.unpark();
                    }
                }));
            }
        });
        task.join().unwrap();
    });
}

fn park_until(turn: Count, n: usize) {
    while turn.get() != n {
        park().unwrap();
    }
}

#[test]
fn two_tasks_wake_each_other_many_times() {
    in_task_and_many(|_| {
        let rounds = scaled(5_000);
        let me = unparker();
        let (tell, other) = channel();
        let turn = Count::new();
        let partner = spawn(move || {
            tell.send(unparker()).unwrap();
            for round in 0..rounds {
                park_until(turn, 2 * round + 1);
                turn.put(2 * round + 2);
                me.unpark();
            }
        });
        let other = received(&other);
        for round in 0..rounds {
            turn.put(2 * round + 1);
            other.unpark();
            park_until(turn, 2 * round + 2);
        }
        partner.join().unwrap();
    });
}

#[test]
fn an_unpark_after_the_end_of_its_task_or_runtime_does_nothing() {
    with_own(|rt| {
        let task = rt.spawn(unparker);
        let id = task.id();
        let unparker = task.join().unwrap();
        unparker.unpark();
        let copy = unparker.clone();
        assert_eq!(copy.id(), id);
        drop(rt);
        copy.unpark();
        unparker.unpark();
    });
}

#[test]
fn an_unpark_does_not_end_a_wait_of_another_kind_and_is_kept() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            blocking(move || gate.recv().unwrap());
            tell.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = told.recv().unwrap();
        eventually("it waits for the blocking call", || parks(rt) == 1);
        unparker.unpark();
        assert!(told.try_recv().is_err());
        open.send(()).unwrap();
        task.join().unwrap();
        assert_eq!(parks(rt), 1, "the token was kept for the park");
    });
}
