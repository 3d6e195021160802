//! Faults that a test has asked for.

use crate::common::prelude::*;
use crate::{program, runtime};
use cygnet::sim::{self, Faults, Options};

#[test]
fn programs_end_although_much_goes_wrong() {
    let faults = Faults::new().steal(0.3).spurious_unpark(0.2).late_wake(0.3).stall(0.01);
    let faults = faults.stack(0.3).allocation(0.3).thread(0.5).clock(0.001);
    let explored = sim::explore(&Options::new().seeds(0..500).faults(faults), program);
    assert_eq!(explored.unwrap().runs, 500);
}

/// The mean time of a run.
fn mean_time(faults: Faults) -> Duration {
    let (runs, time) = (200, AtomicU64::new(0));
    let options = Options::new().seeds(0..u64::from(runs)).faults(faults);
    sim::check(&options, || {
        let start = sim::now();
        program();
        time.fetch_add((sim::now() - start).as_nanos() as u64, Ordering::Relaxed);
    });
    Duration::from_nanos(time.into_inner()) / runs
}

#[test]
fn late_wakes_stalls_and_clock_jumps_cost_time() {
    let time = mean_time(Faults::new());
    for fault in [Faults::late_wake, Faults::stall, Faults::clock] {
        let faults = fault(Faults::new(), 0.5);
        let longer = mean_time(faults.clone());
        assert!(longer > time * 5 / 4, "{faults:?}: {longer:?}, without it {time:?}");
    }
}

#[test]
fn faults_are_counted() {
    let count = |faults: Faults| {
        let options = Options::new().seeds(0..50).faults(faults);
        sim::explore(&options, program).unwrap().faults
    };
    assert_eq!(count(Faults::new()), 0);
    let half = [Faults::steal, Faults::spurious_unpark, Faults::late_wake, Faults::stall];
    let other_half = [Faults::stack, Faults::allocation, Faults::thread, Faults::clock];
    for fault in half.into_iter().chain(other_half) {
        let faults = fault(Faults::new(), 0.5);
        let happened = count(faults.clone());
        assert!(happened >= 10, "{faults:?}: {happened}");
    }
}

#[test]
fn a_call_whose_thread_is_refused_is_made_by_the_task_itself() {
    let in_place = AtomicU64::new(0);
    let options = Options::new().seeds(0..100).faults(Faults::new().thread(0.5));
    sim::check(&options, || {
        let rt = runtime(2);
        rt.block_on(|| scope(|s| (0..3).for_each(|_| drop(s.spawn(|| cygnet::blocking(|| ()))))));
        in_place.fetch_add(rt.metrics().blocking.in_place, Ordering::Relaxed);
    });
    let in_place = in_place.into_inner();
    assert!((50..250).contains(&in_place), "{in_place} of 300");
}
