//! Models of a reader-writer lock.

use super::{Modelled, Subject, Task, enter_or_come, explore_with, queued};
use crate::scheduler::wait::waiters::Waitable;
use crate::shim::check::{ALL, ORDERS, Stage, models};
use crate::shim::thread::spawn;
use crate::sync::called::CALL;
use crate::sync::raw_rwlock::{READ, RawRwLock, WRITE};

impl Modelled for RawRwLock {
    /// How often the value was written.
    type End = usize;

    fn assert_end(lock: &Subject<RawRwLock>, writes: usize) {
        assert_eq!(lock.value.read(), writes);
        assert!(lock.state().is_empty(), "a waiter is left in the queue");
        assert!(lock.try_take(WRITE), "the lock is still held at the end");
    }
}

impl Subject<RawRwLock> {
    fn visit(&self, task: Stage<Task>, what: u64) -> bool {
        task.introduce();
        let at_once = if what == READ { self.take_one() } else { self.write() };
        let comes = || self.answer_call(what);
        let inside = at_once || enter_or_come(task, &self.primitive, what, CALL, comes).is_some();
        if inside {
            match what {
                WRITE => self.value.write(),
                _ => self.value.read(),
            };
            // SAFETY: the task has entered as `what`.
            unsafe { self.unlock(what) };
        }
        inside
    }
}

fn readers_and_writers() {
    explore_with(2, RawRwLock::new, |lock, [one, two, three]| {
        let reader = spawn(move || lock.visit(one, READ));
        let writer = spawn(move || lock.visit(two, WRITE));
        assert!(lock.visit(three, WRITE));
        assert!(reader.join().unwrap() && writer.join().unwrap());
        2
    });
}

models! {
    fn loom_readers_and_writers_exclude_each_other_and_none_is_forgotten() = readers_and_writers();

    fn loom_negative_a_reader_writer_lock_without_order() = readers_and_writers(),
        without ORDERS in "sync/raw_rwlock.rs", fails: "Causality violation";
}

/// A writer that is cut lets the reader behind it enter, while another reader is still inside.
#[test]
fn loom_a_writer_that_leaves_the_queue_lets_readers_in() {
    explore_with(2, RawRwLock::new, |lock, [writer, reader]| {
        assert!(lock.try_take(READ));
        let writes = spawn(move || lock.visit(writer, WRITE));
        let reads = spawn(move || lock.visit(reader, READ));
        writer.interrupt();
        lock.value.read();
        // SAFETY: this thread has entered as a reader.
        unsafe { lock.unlock(READ) };
        let written = writes.join().unwrap();
        assert!(reads.join().unwrap(), "a waiter that was not cut was refused");
        usize::from(written)
    });
}

/// Only the writer that leaves the queue can let the reader in, because the other reader stays
/// inside.
#[test]
fn loom_a_strict_writer_that_leaves_the_queue_makes_way() {
    explore_with(ALL, RawRwLock::new, |lock, [reader]| {
        assert!(lock.try_take(READ));
        let writes = queued(&**lock, WRITE);
        // The writer has been passed so often that it is not passed again.
        for _ in 0..2 {
            assert!(lock.try_take(READ));
            // SAFETY: this thread has just entered as a reader.
            unsafe { lock.unlock(READ) };
        }
        assert!(!lock.try_take(READ));
        let reads = spawn(move || lock.visit(reader, READ));
        drop(writes);
        assert!(reads.join().unwrap());
        // SAFETY: this thread has entered as a reader.
        unsafe { lock.unlock(READ) };
        0
    });
}

/// A called writer gives up before it has come, and the next waiter is called.
#[test]
fn loom_a_called_writer_that_gives_up_passes_the_call_on() {
    explore_with(3, RawRwLock::new, |lock, [writer]| {
        assert!(lock.try_take(WRITE));
        let gives_up = queued(&**lock, WRITE);
        let writes = spawn(move || lock.visit(writer, WRITE));
        // SAFETY: this thread has entered as a writer.
        unsafe { lock.unlock(WRITE) };
        drop(gives_up);
        assert!(writes.join().unwrap());
        1
    });
}

/// A reader that tries to enter seems to be inside while it looks. The waiting writer enters all
/// the same.
#[test]
fn loom_a_reader_that_cannot_enter_holds_up_no_writer() {
    explore_with(3, RawRwLock::new, |lock, [writer]| {
        assert!(lock.try_take(WRITE));
        let writes = spawn(move || lock.visit(writer, WRITE));
        let looks = spawn(move || {
            if lock.take_one() {
                lock.value.read();
                // SAFETY: this thread has just entered as a reader.
                unsafe { lock.unlock(READ) };
            }
        });
        // SAFETY: this thread has entered as a writer.
        unsafe { lock.unlock(WRITE) };
        assert!(writes.join().unwrap(), "a waiter that was not cut was refused");
        looks.join().unwrap();
        1
    });
}

/// A writer becomes a reader and stays one. Waiting readers enter, and see what it has written.
#[test]
fn loom_a_writer_that_becomes_a_reader_lets_readers_in() {
    explore_with(ALL, RawRwLock::new, |lock, [reader]| {
        assert!(lock.try_take(WRITE));
        let reads = spawn(move || {
            assert!(lock.visit(reader, READ));
            assert_eq!(lock.value.read(), 1);
        });
        lock.value.write();
        // SAFETY: this thread has entered as a writer.
        unsafe { lock.downgrade() };
        reads.join().unwrap();
        // SAFETY: the writer has become a reader.
        unsafe { lock.unlock(READ) };
        1
    });
}
