//! The wait word: a waiter against a grant, an unpark and an interruption.

use super::Processor;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::load_in_total_order;
use crate::shim::thread::spawn;
use crate::task::words::wait::{Publish, WaitKind, WaitWord, Woken};

/// A waiter: its word, and the context that it saves while it waits.
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

    /// Waits. Returns what woke the waiter, or `None` if it did not park.
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

    /// Resumes the waiter if `duty` is true, which means that the caller has cleared PARKED.
    fn wake_if(&self, duty: bool) -> bool {
        if duty {
            self.context.read();
            self.processor.resume();
        }
        duty
    }
}

/// A wait for a grant, against the grant, an interruption and an unpark. An interrupted waiter
/// cannot take its registration back here, so it collects the grant.
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
    assert_eq!(cut, first == Some(Woken::Interrupted), "interrupted without a resume");
    match second {
        None => assert_eq!(granted, first == Some(Woken::Granted)),
        Some(second) => {
            assert_eq!(granted, second == Some(Woken::Granted));
            assert!(second != Some(Woken::Interrupted), "a structured wait was interrupted");
        }
    }
    assert_eq!(w.processor.wakes(), usize::from(granted) + usize::from(cut));
    let left = w.word.publish(WaitKind::Structured);
    assert_eq!(left, Publish::Parked, "the grant was collected twice");
}

models! {
    fn loom_one_party_ends_a_wait_and_the_loser_is_collected() = explore(2, grant_cut_unpark);

    fn loom_negative_a_wait_word_without_order() = explore(3, grant_cut_unpark),
        without ORDERS in "task/words/wait.rs", fails: "Causality violation";
}

#[test]
fn loom_a_token_is_used_once_or_kept() {
    explore(ALL, || {
        let w = Waiter::new();
        let unparker = spawn(move || w.wake_if(w.word.unpark()));
        let cutter = spawn(move || w.wake_if(w.word.interrupt()));
        let woken = w.wait(WaitKind::Unpark);
        let (unparked, cut) = (unparker.join().unwrap(), cutter.join().unwrap());
        assert_eq!(unparked, woken == Some(Woken::Granted));
        assert_eq!(cut, woken == Some(Woken::Interrupted));
        let kept = w.word.publish(WaitKind::Unpark) == Publish::Ready;
        assert_eq!(kept, cut, "a token is lost or doubled");
    });
}

/// A waker is called before, while or after the future checks for a wake. The next poll sees all
/// that was done before the call. An unpark does not end the wait.
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
    assert!(!w.word.forget_wakes(), "a wake was counted twice");
    assert_eq!(w.word.publish(WaitKind::Unpark), Publish::Ready, "the token is lost");
}

models! {
    fn loom_a_wake_is_seen_by_the_next_poll() = explore(3, wake_and_poll);

    fn loom_negative_a_wake_without_order() = explore(3, wake_and_poll),
        without ORDERS in "task/words/wait.rs", fails: "Causality violation";
}

#[test]
fn loom_nothing_but_a_grant_ends_a_structured_wait() {
    explore(3, || {
        let w = Waiter::new();
        let granter = spawn(move || w.wake_if(w.word.grant()));
        let others = spawn(move || {
            let duty = w.word.interrupt() || w.word.unpark();
            assert!(!duty, "a structured wait was ended without a grant");
        });
        let woken = w.wait(WaitKind::Structured);
        assert_ne!(woken, Some(Woken::Interrupted));
        assert_eq!(granter.join().unwrap(), woken.is_some());
        others.join().unwrap();
        assert_eq!(w.word.publish(WaitKind::Unpark), Publish::Ready, "the token is lost");
    });
}

/// The party that clears PARKED has an external task to itself: the one that settles it, or a
/// canceller. The cancel may come just before the wait is published.
#[test]
fn loom_one_party_ends_the_wait_of_an_external_task() {
    explore(ALL, || {
        let word = Stage::new(WaitWord::new());
        // The mark of its node.
        let mark = Stage::new(AtomicBool::new(false));
        let canceller = spawn(move || {
            mark.swap(true, Ordering::SeqCst);
            word.interrupt()
        });
        word.publish_outside(true);
        let by_publisher = load_in_total_order(&*mark) && word.interrupt();
        let settler = spawn(move || word.take_from_outside());
        let (settled, cut) = (settler.join().unwrap(), canceller.join().unwrap());
        let winners = [by_publisher, settled, cut].into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1, "by the publisher {by_publisher}, settled {settled}, cut {cut}");
        assert!(!word.is_parked());
    });
}

/// Two wakers both act as if they had cleared PARKED.
#[test]
#[should_panic(expected = "queued twice")]
fn loom_negative_a_waker_that_resumes_without_having_cleared_parked() {
    explore(3, || {
        let w = Waiter::new();
        let unparkers = [(); 2].map(|()| {
            spawn(move || {
                w.word.unpark();
                w.processor.resume();
            })
        });
        let _ = w.wait(WaitKind::Unpark);
        unparkers.into_iter().for_each(|u| u.join().unwrap());
        assert!(w.processor.wakes() <= 1, "queued twice");
    });
}
