//! Tasks whose outcome many wait for.

use crate::common::prelude::*;

const LONG: Duration = Duration::from_secs(3600);

/// T55.
#[test]
fn all_that_wait_get_the_one_value() {
    in_task_and_many(|rt| {
        let gate = Arc::new(Event::new());
        let (task, waiters) = parking(rt, 5, || {
            let task = spawn(own(&gate, |gate| gate.wait().map_or("", |()| "one"))).shared();
            let waiter = || spawn(own(&task, |task| task.value().map(|text| text.len())));
            let waiters = [(); 4].map(|()| waiter());
            (task, waiters)
        });
        gate.set();
        assert_eq!(blocking(|| *task.join().unwrap()), "one", "on a plain thread");
        assert_eq!(waiters.map(|waiter| waiter.value().unwrap().unwrap()), [3; 4]);
        assert!(task.is_finished());
        assert!(std::ptr::eq(task.join().unwrap(), task.clone().join().unwrap()));
        assert_eq!(wait(pin!(task.join_async())).unwrap().unwrap(), &"one");
    });
}

/// T55. Also if it had ended before it was shared.
#[test]
fn the_value_lives_as_long_as_the_handles() {
    in_task(|_| {
        for ends_before in [false, true] {
            let drops = Drops::new();
            let task = spawn(own(&drops, |drops| drops.guard()));
            if ends_before {
                give_way_until(|| task.is_finished());
            }
            let task = task.shared();
            let other = task.clone();
            task.join().unwrap();
            drop(task);
            assert_eq!(drops.left(), 1);
            other.join().unwrap();
            drop(other);
            assert_eq!(drops.left(), 0);
        }
    });
}

/// T55.
#[test]
fn the_last_handle_cancels_the_task_and_the_others_do_not() {
    with_each(|rt| {
        let (task, unparker) = sleeper(rt);
        let task = task.shared();
        drop(task.clone());
        unparker.unpark();
        assert!(task.join().unwrap());

        let (told, reason) = channel();
        let task = parked(rt, 1, move || {
            told.send(park().unwrap_err().reason().clone()).unwrap();
        });
        drop(task.shared().clone());
        assert_eq!(reason.recv().unwrap(), Reason::HandleDropped);
    });
}

/// T33, T55. Also if the task had ended before it was shared.
#[test]
fn a_panic_that_nobody_waits_for_is_reported() {
    common::within(|| {
        let told = Count::new();
        let rt = Runtime::builder().workers(2).on_panic(move |_| told.up()).build().unwrap();
        for ends_before in [true, false] {
            let task = rt.spawn(|| resume_unwind(Box::new("unseen")));
            if ends_before {
                eventually("it has ended", || task.is_finished());
            }
            let task: SharedTask<()> = task.shared();
            eventually("it has ended", || task.is_finished());
            // In a task: a plain thread that drops a handle knows of no runtime.
            rt.block_on(|| drop(task));
        }
        eventually("both are reported", || told.get() == 2);
    });
}

/// T55.
#[test]
fn all_that_wait_share_an_error() {
    in_task_and_many(|_| {
        let task = spawn(|| -> u32 { resume_unwind(Box::new("boom")) }).shared();
        let errors = [(); 2].map(|()| task.join().unwrap_err());
        assert!(Arc::ptr_eq(&errors[0], &errors[1]) && errors[0].is_panic());
        panics_with("boom", || task.value());
        panics_with("boom", || task.value());

        let task = spawn(park).shared();
        task.cancel("not needed");
        match task.value() {
            Ok(parked) => assert!(parked.is_err()),
            Err(cancelled) => assert_eq!(cancelled.reason().to_string(), "not needed"),
        }

        let (promise, answer) = promise::<u32>();
        let answer = answer.shared();
        drop(promise);
        assert_eq!(*answer.value().unwrap_err().reason(), Reason::Abandoned);
    });
}

/// T55.
#[test]
fn a_wait_that_is_cut_short_leaves_the_task_to_the_others() {
    in_task_and_many(|rt| {
        let (task, unparker) = sleeper(rt);
        let task = task.shared();
        for time in [Duration::ZERO, Duration::from_millis(1)] {
            assert!(matches!(*task.join_timeout(time).unwrap_err(), JoinError::TimedOut));
        }
        let late = timeout(Duration::ZERO, || task.join().map(|_| ())).unwrap_err().into_inner();
        assert!(late.unwrap_err().is_cancelled());
        let waiter = parked(rt, 1, own(&task, |task| task.join_timeout(LONG).is_err()));
        waiter.cancel("enough");
        assert!(waiter.join().unwrap());
        panics_with("no_suspend", || no_suspend(|| task.join().is_ok()));
        assert!(while_unwinding(|| task.join().map(|_| ())).unwrap_err().is_cancelled());
        assert!(!task.is_finished());
        unparker.unpark();
        assert!(task.join_timeout(Duration::MAX).unwrap());
        assert!(no_suspend(|| *task.join().unwrap()));
    });
}

/// T36, T55.
#[test]
fn a_task_that_waits_for_its_own_shared_end_is_told_so() {
    with(&[1, 2], |rt| {
        let (give, take) = channel::<SharedTask<()>>();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            let itself = take.recv().unwrap();
            tell.send(matches!(*itself.join().unwrap_err(), JoinError::OwnEnd)).unwrap();
            tell.send(itself.join_timeout(LONG).is_err()).unwrap();
        });
        let task = task.shared();
        give.send(task.clone()).unwrap();
        assert!(told.recv().unwrap() && told.recv().unwrap());
        task.join().unwrap();
    });
}
