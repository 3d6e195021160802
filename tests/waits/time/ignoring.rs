//! Sections that take no notice of a timeout or a cancel, and shields.

use super::{LONG, reason, short, with_enough_time};
use crate::common::prelude::*;

#[test]
fn a_section_that_ignores_cancellation_ignores_the_timeout_around_it_and_not_those_inside() {
    in_task(|_| {
        with_enough_time(|time| {
            let start = common::now();
            let late = timeout(time, || {
                let inside = ignore_cancellation(|| {
                    while (common::now() - start) < 2 * time {
                        common::spin_loop();
                    }
                    assert!(!is_cancelled());
                    sleep(short()).unwrap();
                    timeout(short(), || reason(park())).unwrap_err().into_inner()
                });
                (inside.ok(), reason(checkpoint()))
            });
            let (inside, outside) = late.unwrap_err().into_inner();
            assert_eq!(outside, Reason::Deadline);
            // Else the time was up before it was ignored.
            inside.is_some_and(|inside| inside == Reason::Deadline)
        });
    });
}

/// C51.
#[test]
fn a_shield_lets_a_cancelled_task_wait_and_spawn_until_its_time_is_up() {
    in_task(|_| {
        cancel_handle().cancel("enough");
        let tidied = shield(LONG, || {
            sleep(Duration::from_micros(100)).unwrap();
            let me = cygnet::unparker();
            let child = spawn(move || me.unpark());
            park().unwrap();
            child.join().unwrap();
            7
        });
        assert_eq!(tidied.unwrap(), 7);
        assert_eq!(reason(park()), Reason::from("enough"));
        let late = shield(short(), || reason(park()));
        assert_eq!(late.unwrap_err().into_inner(), Reason::Deadline);
        assert_eq!(reason(park()), Reason::from("enough"));
    });
}

#[test]
fn a_shield_outlasts_the_end_of_its_runtime() {
    with_own_of(&[2], |rt| {
        let task = rt.spawn(|| {
            let told = reason(park());
            (told, shield(LONG, || sleep(short())).unwrap())
        });
        common::eventually("it waits", || parks(&rt) > 0);
        drop(rt);
        assert_eq!(task.join().unwrap(), (Reason::RuntimeShutDown, Ok(())));
    });
}
