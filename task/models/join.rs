//! The join word, alone and together with the wait word of its waiter.

use super::{Processor, end, record};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::record::Record;
use crate::task::reference::{Ready, TaskRef, WaiterRef};
use crate::task::words::join::{Finished, JoinWord, Waiter};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// A task that ends: its join word and its result.
struct Child {
    join: JoinWord,
    result: Baton,
}

impl Child {
    fn new() -> Stage<Child> {
        Stage::new(Child { join: JoinWord::new(false), result: Baton::new() })
    }

    fn drop_outcome(&self) {
        assert_eq!(self.result.write(), 1, "the outcome was dropped early, or twice");
    }
}

fn finish_detach() {
    let child = Child::new();
    let finisher = spawn(move || {
        child.result.write();
        // As at the end of a closure: an early look. Its answer may be out of date.
        let early = child.join.is_detached();
        if early {
            child.drop_outcome();
        }
        match child.join.finish() {
            Finished::Detached if !early => child.drop_outcome(),
            Finished::Detached => {}
            Finished::Unclaimed => assert!(!early),
            Finished::Waiter(_) => panic!("this model has no waiter"),
        }
    });
    if !child.join.detach() {
        child.drop_outcome();
    }
    finisher.join().unwrap();
    assert_eq!(child.result.read(), 2, "the outcome was not dropped");
}

models! {
    fn loom_an_outcome_is_dropped_once() = explore(ALL, finish_detach);

    fn loom_negative_a_join_word_without_order() = explore(ALL, finish_detach),
        without ORDERS in "task/words/join.rs", fails: "Causality violation";
}

/// A waker that counts its calls. The thread that makes it writes the baton.
struct Count(AtomicUsize, Baton);

impl Count {
    fn new() -> Arc<Count> {
        let count = Count(AtomicUsize::new(0), Baton::new());
        count.1.write();
        Arc::new(count)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        assert_eq!(self.1.read(), 1);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn loom_a_waker_is_called_once_or_comes_back() {
    explore(ALL, || {
        let child = Child::new();
        let waker = |count: &Arc<Count>| Waiter::Waker(Box::new(Waker::from(Arc::clone(count))));
        let finisher = spawn(move || {
            child.result.write();
            match child.join.finish() {
                Finished::Waiter(Waiter::Waker(waker)) => waker.wake(),
                Finished::Unclaimed => {}
                _ => panic!("this model has no detach, and no task that waits"),
            }
        });
        // Two polls, then the future is dropped.
        let (first, second) = (Count::new(), Count::new());
        let registered = child.join.register(waker(&first)).is_ok();
        let replaced = registered && child.join.register(waker(&second)).is_ok();
        let taken_back = child.join.take_back();
        if !taken_back {
            child.drop_outcome();
        }
        finisher.join().unwrap();
        let calls = [&first, &second].map(|count| count.0.load(Ordering::Relaxed));
        let expected = match (registered, replaced, taken_back) {
            (false, _, back) | (_, _, back @ true) => {
                assert!(registered || !back, "taken back from a task that had ended");
                [0, 0]
            }
            // The end came before the second poll took the first waker back, or right after that.
            // The second poll has the answer.
            (true, false, false) => [calls[0].min(1), 0],
            (true, true, false) => [0, 1],
        };
        assert_eq!(calls, expected);
        assert_eq!(Arc::strong_count(&first) + Arc::strong_count(&second), 2, "a waker is left");
    });
}

/// A task that waits for the end of another task, as `await_end` and `resume` in
/// scheduler/wait/park.rs do.
struct Pair {
    child: Stage<Child>,
    waiter: NonNull<Record>,
    processor: Processor,
}

impl Pair {
    fn new() -> Stage<Pair> {
        // One reference for the waiter, and one for the canceller.
        let waiter = record(|| (), false);
        let pair = Pair { child: Child::new(), waiter, processor: Processor::new() };
        pair.processor.introduce();
        Stage::new(pair)
    }

    fn resume(&self, task: Ready) {
        task.place.load(Ordering::Relaxed);
        self.processor.resume();
    }

    fn wait(&self, kind: WaitKind) -> bool {
        // SAFETY: this thread runs the task, so the record is alive.
        let me = unsafe { self.waiter.as_ref() };
        me.place.store(7, Ordering::Relaxed);
        match me.wait.publish(kind) {
            Publish::Ready => return true,
            Publish::Parked => self.processor.suspend(),
        }
        me.wait.woken() == Woken::Granted
    }

    fn as_waiter(&self) -> Waiter {
        // SAFETY: `await_end` returns after the grant, or with the registration taken back.
        Waiter::Task(unsafe { WaiterRef::new(TaskRef::new(self.waiter)) })
    }

    /// Returns `true` if the wait ended with the end of the task, and `false` if it was
    /// interrupted. In that case the task may have ended too.
    fn await_end(&self, kind: WaitKind, collect: bool) -> bool {
        let join = &self.child.join;
        if join.is_done() || join.register(self.as_waiter()).is_err() {
            return true;
        }
        if self.wait(kind) {
            return true;
        }
        if !join.take_back() && collect {
            assert!(self.wait(WaitKind::Structured), "a structured wait was interrupted");
        }
        false
    }

    fn finish(&self) {
        self.child.result.write();
        match self.child.join.finish() {
            Finished::Unclaimed => {}
            Finished::Waiter(Waiter::Task(task)) => {
                task.grant().into_iter().for_each(|task| self.resume(task));
            }
            Finished::Waiter(_) => {}
            Finished::Detached => panic!("this model has no detach"),
        }
    }

    fn release(&self) {
        // SAFETY: the caller has a reference.
        if unsafe { self.waiter.as_ref() }.release(1) {
            // SAFETY: that was the last one; the closure has nothing to drop.
            unsafe { end(self.waiter) };
        }
    }
}

fn await_end(kind: WaitKind, collect: bool) {
    let pair = Pair::new();
    let finisher = spawn(move || pair.finish());
    let canceller = spawn(move || {
        // SAFETY: the canceller has a reference.
        let waiter = unsafe { TaskRef::new(pair.waiter) };
        waiter.interrupt().into_iter().for_each(|task| pair.resume(task));
        pair.release();
    });
    let ended = pair.await_end(kind, collect);
    assert!(ended || kind != WaitKind::Structured, "a structured wait was interrupted");
    if ended {
        assert_eq!(pair.child.result.read(), 1, "the end is not visible");
    }
    // The task ends, and its record is freed if this was the last reference.
    pair.release();
    finisher.join().unwrap();
    canceller.join().unwrap();
    assert!(pair.processor.wakes() <= 2);
}

models! {
    fn loom_a_waiter_leaves_with_the_end_or_with_its_registration() =
        explore(2, || await_end(WaitKind::Grant, true));

    fn loom_a_structured_waiter_leaves_with_the_end() =
        explore(3, || await_end(WaitKind::Structured, true));

    fn loom_negative_a_waiter_that_does_not_collect_a_late_grant() =
        explore(3, || await_end(WaitKind::Grant, false)), fails: "Causality violation";

    fn loom_negative_a_wait_for_an_end_on_a_word_without_order() =
        explore(3, || await_end(WaitKind::Grant, true)),
        without ORDERS in "task/words/join.rs", fails: "Causality violation";
}
