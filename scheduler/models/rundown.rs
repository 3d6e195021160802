//! Run-down protection: one thread closes while others enter and leave.

use crate::scheduler::life::rundown::Rundown;
use crate::shim::check::{ALL, Baton, Stage, UPDATES, explore, models};
use crate::shim::thread::spawn;

struct House {
    door: Rundown,
    /// Written by the closer, and read by the threads that are refused.
    notice: Baton,
    /// Written by the threads inside, and then by the last one.
    inside: [Baton; 2],
    last: Baton,
}

impl House {
    fn last_leaves(&self) {
        assert_eq!(self.last.write(), 0, "two threads were the last");
        for baton in &self.inside {
            baton.write();
        }
    }
}

fn go_through_and_close(outsiders: usize) {
    let (door, notice, last) = (Rundown::new(), Baton::new(), Baton::new());
    let house = Stage::new(House { door, notice, inside: [(); 2].map(|()| Baton::new()), last });
    let outsiders = (0..outsiders).map(|n| {
        spawn(move || {
            if !house.door.enter() {
                assert_eq!(house.notice.read(), 1, "refused without a reason");
                return;
            }
            house.inside[n].write();
            if house.door.leave() {
                house.last_leaves();
            }
        })
    });
    let outsiders: Vec<_> = outsiders.collect();
    house.notice.write();
    if house.door.close() {
        house.last_leaves();
    }
    outsiders.into_iter().for_each(|s| s.join().unwrap());
    assert_eq!(house.last.read(), 1, "no thread was the last");
    assert!(!house.door.enter() && !house.door.close());
}

models! {
    fn loom_one_thread_is_the_last_and_sees_what_the_others_did() =
        explore(ALL, || go_through_and_close(1));

    fn loom_one_of_two_threads_and_the_closer_is_the_last() =
        explore(3, || go_through_and_close(2));

    fn loom_negative_a_door_without_order() = explore(ALL, || go_through_and_close(1)),
        without UPDATES in "scheduler/life/rundown.rs", fails: "Causality violation";
}
