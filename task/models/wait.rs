//! The wait word: a waiter against a grant, an unpark and a cut.

use super::Processor;
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::words::wait::{Publish, WaitKind, WaitWord, Woken};

/// A waiter: its word, and where it is while it waits.
struct Waiter {
    word: WaitWord,
    context: Baton,
    processor: Processor,
}

impl Waiter {
    fn new() -> Stage<Waiter> {
        let waiter =
            Waiter { word: WaitWord::new(), context: Baton::new(), processor: Processor::new() };
        waiter.processor.introduce();
        Stage::new(waiter)
    }

    /// Sleeps if it must; true if it did.
    fn wait(&self, kind: WaitKind) -> Option<Woken> {
        self.context.write();
        match self.word.publish(kind) {
            Publish::Parked => {
                self.processor.suspend();
                self.context.write();
                Some(self.word.woken())
            }
            Publish::Ready => None,
        }
    }

    /// Puts the waiter back to work, if `duty` says so.
    fn wake_if(&self, duty: bool) -> bool {
        if duty {
            self.context.read();
            self.processor.resume();
        }
        duty
    }
}

/// A wait for a grant, against the grant, a cut and an unpark. A waiter that was cut cannot take its
/// registration back here: it collects the grant.
fn grant_cut_unpark() {
    let w = Waiter::new();
    let granter = spawn(move || w.wake_if(w.word.grant()));
    let cutter = spawn(move || w.wake_if(w.word.interrupt()));
    let unparker = spawn(move || w.wake_if(w.word.unpark()));
    let first = w.wait(WaitKind::Grant);
    let second = match first {
        None | Some(Woken::Granted) => None,
        Some(Woken::Interrupted) => Some(w.wait(WaitKind::Structured)),
    };
    let (granted, cut) = (granter.join().unwrap(), cutter.join().unwrap());
    assert!(!unparker.join().unwrap(), "an unpark ended a wait for a grant");
    assert_eq!(cut, first == Some(Woken::Interrupted), "the cutter's duty is the waiter's cut");
    match second {
        None => assert_eq!(granted, first == Some(Woken::Granted)),
        Some(second) => {
            assert_eq!(granted, second == Some(Woken::Granted));
            assert!(second != Some(Woken::Interrupted), "cut although structured");
        }
    }
    assert_eq!(w.processor.wakes(), usize::from(granted) + usize::from(cut));
    let left = w.word.publish(WaitKind::Structured);
    assert_eq!(left, Publish::Parked, "the grant was collected twice");
    // SAFETY: the threads have ended.
    unsafe { w.end() };
}

#[test]
fn loom_one_party_ends_a_wait_and_the_loser_is_collected() {
    explore(2, grant_cut_unpark);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_wait_word_without_order() {
    plant("task/words/wait.rs", ORDERS);
    explore(3, grant_cut_unpark);
}

#[test]
fn loom_a_permit_is_used_once_or_kept() {
    explore(ALL, || {
        let w = Waiter::new();
        let unparker = spawn(move || w.wake_if(w.word.unpark()));
        let cutter = spawn(move || w.wake_if(w.word.interrupt()));
        let woken = w.wait(WaitKind::Permit);
        let (unparked, cut) = (unparker.join().unwrap(), cutter.join().unwrap());
        assert_eq!(unparked, woken == Some(Woken::Granted));
        assert_eq!(cut, woken == Some(Woken::Interrupted));
        let kept = w.word.publish(WaitKind::Permit) == Publish::Ready;
        assert_eq!(kept, cut, "a permit is lost, or there twice");
        // SAFETY: the threads have ended.
        unsafe { w.end() };
    });
}

/// A waker is called before, while or after the future looks whether it was: what was done before the call is seen by
/// the next poll. An unpark does not matter.
fn wake_and_poll() {
    let w = Waiter::new();
    let data = Stage::new(Baton::new());
    let waker = spawn(move || {
        data.write();
        w.wake_if(w.word.wake())
    });
    let unparker = spawn(move || w.wake_if(w.word.unpark()));
    let woken = if w.word.forget_wakes() { None } else { w.wait(WaitKind::Wake) };
    assert_eq!(data.read(), 1);
    assert_eq!(waker.join().unwrap(), woken.is_some());
    assert!(!unparker.join().unwrap(), "an unpark ended a wait for a waker");
    assert!(!w.word.forget_wakes(), "a wake has counted twice");
    assert_eq!(w.word.publish(WaitKind::Permit), Publish::Ready, "the permit is lost");
    // SAFETY: the threads have ended.
    unsafe {
        data.end();
        w.end();
    }
}

#[test]
fn loom_a_wake_is_seen_by_the_next_poll() {
    explore(3, wake_and_poll);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_wake_without_order() {
    plant("task/words/wait.rs", ORDERS);
    explore(3, wake_and_poll);
}

#[test]
fn loom_nothing_but_a_grant_ends_a_structured_wait() {
    explore(3, || {
        let w = Waiter::new();
        let granter = spawn(move || w.wake_if(w.word.grant()));
        let others = spawn(move || {
            let duty = w.word.interrupt() || w.word.unpark();
            assert!(!duty, "somebody ended a structured wait");
        });
        let woken = w.wait(WaitKind::Structured);
        assert_ne!(woken, Some(Woken::Interrupted));
        assert_eq!(granter.join().unwrap(), woken.is_some());
        others.join().unwrap();
        assert_eq!(w.word.publish(WaitKind::Permit), Publish::Ready, "the permit is lost");
        // SAFETY: the threads have ended.
        unsafe { w.end() };
    });
}

/// The wait of an external task before its start is ended by who settles it, or by a cut.
#[test]
fn loom_one_party_ends_a_wait_outside() {
    explore(ALL, || {
        let w = Waiter::new();
        w.word.publish_outside(true);
        let cutter = spawn(move || w.word.interrupt());
        let settled = w.word.take_from_outside();
        assert_ne!(settled, cutter.join().unwrap(), "one party has the task in hand");
        assert!(!w.word.is_parked());
        // SAFETY: the threads have ended.
        unsafe { w.end() };
    });
}

/// The home worker uses a waiter's stack for a guest; a cut comes before, meanwhile or afterwards.
#[test]
fn loom_a_shield_puts_a_cut_off_and_does_not_lose_it() {
    explore(ALL, || {
        let w = Waiter::new();
        assert_eq!(w.word.publish(WaitKind::Grant), Publish::Parked);
        let cutter = spawn(move || w.word.interrupt());
        let mut duties = 0;
        if let Some(new) = w.word.shield() {
            assert!(new, "somebody else has shielded");
            assert!(w.word.is_parked(), "woken although shielded");
            duties += usize::from(w.word.unshield());
        }
        duties += usize::from(cutter.join().unwrap());
        assert_eq!(duties, 1, "one party wakes");
        assert_eq!(w.word.woken(), Woken::Interrupted);
        // SAFETY: the threads have ended.
        unsafe { w.end() };
    });
}

/// Two wakers that both believe to have cleared PARKED.
#[test]
#[should_panic(expected = "queued twice")]
fn loom_negative_a_waker_that_does_not_ask_whose_duty_it_is() {
    explore(3, || {
        let w = Waiter::new();
        let unparkers = [(); 2].map(|()| {
            spawn(move || {
                w.word.unpark();
                w.processor.resume();
            })
        });
        let _ = w.wait(WaitKind::Permit);
        unparkers.into_iter().for_each(|u| u.join().unwrap());
        assert!(w.processor.wakes() <= 1, "queued twice");
    });
}
