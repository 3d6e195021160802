//! `WaitStrategy::Spin` with more waiters than processors: the waiters in excess park, and the
//! others find the number that they wait for.

use crate::common::prelude::*;
use cygnet::ring::sequence::{SequenceBarrier, WaitStrategy};
use std::thread::available_parallelism;

fn spinning() -> SequenceBarrier<u64> {
    SequenceBarrier::new().with_strategy(WaitStrategy::Spin)
}

/// Q35.
#[test]
fn of_more_spinning_threads_or_tasks_than_processors_the_rest_park() {
    common::real!("asks how many processors there are");
    for in_tasks in [false, true] {
        within(|| {
            let processors = available_parallelism().unwrap().get();
            let (barrier, waiters) = (spinning(), processors + 6);
            let rt = in_tasks.then(|| runtime(waiters));
            let wait = || own(&barrier, |barrier| barrier.wait_until_published(0));
            let spawn = |_| match &rt {
                Some(rt) => (Some(rt.spawn(wait())), None),
                None => (None, Some(thread::spawn(wait()))),
            };
            let spinning: Vec<_> = (0..waiters).map(spawn).collect();
            eventually("the rest park", || waiting(&barrier) > waiters - processors);
            barrier.publish(0);
            for (task, thread) in spinning {
                let joined = task.map(|task| task.join().unwrap());
                assert_eq!(joined.or_else(|| Some(thread?.join().unwrap())), Some(Ok(0)));
            }
            assert_eq!(waiting(&barrier), 0);
        });
    }
}

#[test]
fn a_number_goes_round_many_spinning_tasks() {
    with_each_and_many(|rt| {
        const WAITERS: u64 = 6;
        let (barrier, laps) = (spinning(), scaled(50) as u64);
        let tasks: Vec<_> = (0..WAITERS)
            .map(|first| {
                rt.spawn(own(&barrier, move |barrier| {
                    for number in (0..laps).map(|lap| lap * WAITERS + first) {
                        let before = number.wrapping_sub(1);
                        assert_eq!(barrier.wait_until_published(before), Ok(before));
                        assert!(barrier.publish(number));
                    }
                }))
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!((barrier.last_published(), waiting(&barrier)), (laps * WAITERS - 1, 0));
    });
}
