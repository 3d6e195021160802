//! `WaitStrategy::Spin` with more waiters than processors: those that are too many park, and the others find what they wait for.

use crate::common::{self, eventually, runtime, scaled, with_each_and_many, within};
use crate::waiting;
use cygnet::ring::sequence::{SequenceBarrier, WaitStrategy};
use std::thread::available_parallelism;

fn spinning() -> SequenceBarrier<u64> {
    SequenceBarrier::new().with_strategy(WaitStrategy::Spin)
}

#[test]
fn of_threads_that_spin_for_one_number_those_that_have_no_processor_park() {
    common::real!("asks how many processors there are");
    within(|| {
        let processors = available_parallelism().unwrap().get();
        let (barrier, waiters) = (spinning(), processors + 6);
        common::thread::scope(|s| {
            let threads: Vec<_> =
                (0..waiters).map(|_| s.spawn(|| barrier.wait_until_published(0))).collect();
            eventually("all but some park", || waiting(&barrier) > waiters - processors);
            barrier.publish(0);
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(0)));
        });
        assert_eq!(waiting(&barrier), 0);
    });
}

#[test]
fn of_tasks_that_spin_on_more_workers_than_processors_those_that_have_none_park() {
    common::real!("asks how many processors there are");
    within(|| {
        let processors = available_parallelism().unwrap().get();
        let (barrier, waiters) = (spinning(), processors + 6);
        let rt = runtime(waiters);
        let tasks: Vec<_> = (0..waiters)
            .map(|_| {
                let barrier = barrier.clone();
                rt.spawn(move || barrier.wait_until_published(0))
            })
            .collect();
        eventually("all but some park", || waiting(&barrier) > waiters - processors);
        barrier.publish(0);
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), Ok(0)));
        assert_eq!(waiting(&barrier), 0);
    });
}

#[test]
fn a_number_goes_round_many_that_spin_each_of_which_waits_for_the_one_before() {
    with_each_and_many(|rt| {
        const WAITERS: u64 = 6;
        let (barrier, laps) = (spinning(), scaled(50) as u64);
        let tasks: Vec<_> = (0..WAITERS)
            .map(|first| {
                let barrier = barrier.clone();
                rt.spawn(move || {
                    for number in (0..laps).map(|lap| lap * WAITERS + first) {
                        let before = number.wrapping_sub(1);
                        assert_eq!(barrier.wait_until_published(before), Ok(before));
                        assert!(barrier.publish(number));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!((barrier.last_published(), waiting(&barrier)), (laps * WAITERS - 1, 0));
    });
}
