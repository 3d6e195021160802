//! Models of a reader-writer lock.

use super::{Task, enter_or_come};
use crate::scheduler::wait::waiters::{WaitFuture, Waitable};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::called::CALL;
use crate::sync::raw_rwlock::{READ, RawRwLock, WRITE};
use std::panic::Location;
use std::task::{Context, Waker};

/// A lock, and the value that it guards.
struct Guarded {
    lock: RawRwLock,
    value: Baton,
}

impl Guarded {
    fn new() -> Stage<Guarded> {
        Stage::new(Guarded { lock: RawRwLock::new(), value: Baton::new() })
    }

    fn visit(&self, task: Stage<Task>, what: u64) -> bool {
        task.introduce();
        let at_once = if what == READ { self.lock.read() } else { self.lock.write() };
        let comes = || self.lock.answer_call(what);
        let inside = at_once || enter_or_come(task, &self.lock, what, CALL, comes).is_some();
        if inside {
            match what {
                WRITE => self.value.write(),
                _ => self.value.read(),
            };
            // SAFETY: the task has entered as `what`.
            unsafe { self.lock.unlock(what) };
        }
        inside
    }

    fn end(this: Stage<Guarded>, writes: usize) {
        assert_eq!(this.value.read(), writes);
        assert!(this.lock.state().is_empty(), "a waiter is left in the queue");
        assert!(this.lock.try_lock(WRITE), "the lock is still held at the end");
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { this.end() };
    }
}

fn readers_and_writers() {
    let (guarded, tasks) = (Guarded::new(), [Task::new(), Task::new(), Task::new()]);
    let [one, two, three] = tasks;
    let reader = spawn(move || guarded.visit(one, READ));
    let writer = spawn(move || guarded.visit(two, WRITE));
    assert!(guarded.visit(three, WRITE));
    assert!(reader.join().unwrap() && writer.join().unwrap());
    tasks.into_iter().for_each(Task::end);
    Guarded::end(guarded, 2);
}

#[test]
fn loom_readers_and_writers_exclude_each_other_and_none_is_forgotten() {
    explore(2, readers_and_writers);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_reader_writer_lock_without_order() {
    plant("sync/raw_rwlock.rs", ORDERS);
    explore(2, readers_and_writers);
}

/// A writer that is cut lets the reader behind it enter, while another reader is still inside.
#[test]
fn loom_a_writer_that_leaves_the_queue_lets_readers_in() {
    explore(2, || {
        let (guarded, writer, reader) = (Guarded::new(), Task::new(), Task::new());
        assert!(guarded.lock.try_lock(READ));
        let writes = spawn(move || guarded.visit(writer, WRITE));
        let reads = spawn(move || guarded.visit(reader, READ));
        writer.interrupt();
        guarded.value.read();
        // SAFETY: this thread has entered as a reader.
        unsafe { guarded.lock.unlock(READ) };
        let written = writes.join().unwrap();
        assert!(reads.join().unwrap(), "a waiter that was not cut was refused");
        Task::end(writer);
        Task::end(reader);
        Guarded::end(guarded, usize::from(written));
    });
}

/// Only the writer that leaves the queue can let the reader in, because the other reader stays
/// inside.
#[test]
fn loom_a_strict_writer_that_leaves_the_queue_makes_way() {
    explore(ALL, || {
        let (guarded, reader) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(READ));
        let mut cx = Context::from_waker(Waker::noop());
        let mut writes = Box::pin(WaitFuture::new(&guarded.lock, WRITE, Location::caller()));
        assert!(writes.as_mut().poll(&mut cx).is_pending());
        // The writer has been passed so often that it is not passed again.
        for _ in 0..2 {
            assert!(guarded.lock.try_lock(READ));
            // SAFETY: this thread has just entered as a reader.
            unsafe { guarded.lock.unlock(READ) };
        }
        assert!(!guarded.lock.try_lock(READ));
        let reads = spawn(move || guarded.visit(reader, READ));
        drop(writes);
        assert!(reads.join().unwrap());
        // SAFETY: this thread has entered as a reader.
        unsafe { guarded.lock.unlock(READ) };
        Task::end(reader);
        Guarded::end(guarded, 0);
    });
}

/// A called writer gives up before it has come, and the next waiter is called.
#[test]
fn loom_a_called_writer_that_gives_up_passes_the_call_on() {
    explore(3, || {
        let (guarded, writer) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(WRITE));
        let mut cx = Context::from_waker(Waker::noop());
        let mut gives_up = Box::pin(WaitFuture::new(&guarded.lock, WRITE, Location::caller()));
        assert!(gives_up.as_mut().poll(&mut cx).is_pending());
        let writes = spawn(move || guarded.visit(writer, WRITE));
        // SAFETY: this thread has entered as a writer.
        unsafe { guarded.lock.unlock(WRITE) };
        drop(gives_up);
        assert!(writes.join().unwrap());
        Task::end(writer);
        Guarded::end(guarded, 1);
    });
}

/// A reader that tries to enter seems to be inside while it looks. The waiting writer enters all
/// the same.
#[test]
fn loom_a_reader_that_cannot_enter_holds_up_no_writer() {
    explore(3, || {
        let (guarded, writer) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(WRITE));
        let writes = spawn(move || guarded.visit(writer, WRITE));
        let looks = spawn(move || {
            if guarded.lock.read() {
                guarded.value.read();
                // SAFETY: this thread has just entered as a reader.
                unsafe { guarded.lock.unlock(READ) };
            }
        });
        // SAFETY: this thread has entered as a writer.
        unsafe { guarded.lock.unlock(WRITE) };
        assert!(writes.join().unwrap(), "a waiter that was not cut was refused");
        looks.join().unwrap();
        Task::end(writer);
        Guarded::end(guarded, 1);
    });
}

/// A writer becomes a reader and stays one. Waiting readers enter, and see what it has written.
#[test]
fn loom_a_writer_that_becomes_a_reader_lets_readers_in() {
    explore(ALL, || {
        let (guarded, reader) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(WRITE));
        let reads = spawn(move || {
            assert!(guarded.visit(reader, READ));
            assert_eq!(guarded.value.read(), 1);
        });
        guarded.value.write();
        // SAFETY: this thread has entered as a writer.
        unsafe { guarded.lock.downgrade() };
        reads.join().unwrap();
        // SAFETY: the writer has become a reader.
        unsafe { guarded.lock.unlock(READ) };
        Task::end(reader);
        Guarded::end(guarded, 1);
    });
}
