//! Models of a reader-writer lock.

use super::{Task, enter_or_come};
use crate::scheduler::wait::waiters::{Entering, Waitable};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::raw_rwlock::{CALL, READ, RawRwLock, WRITE};
use std::panic::Location;
use std::task::{Context, Waker};

/// A lock, and what it guards.
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
            // SAFETY: entered above.
            unsafe { self.lock.unlock(what) };
        }
        inside
    }

    fn end(this: Stage<Guarded>, writes: usize) {
        assert_eq!(this.value.read(), writes);
        assert!(this.lock.state().is_empty(), "somebody is left in the queue");
        assert!(this.lock.try_lock(WRITE), "somebody that is gone is inside");
        // SAFETY: the threads have ended.
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
fn loom_readers_and_writers_exclude_each_other_and_nobody_is_forgotten() {
    explore(2, readers_and_writers);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_reader_writer_lock_without_order() {
    plant("sync/raw_rwlock.rs", ORDERS);
    explore(2, readers_and_writers);
}

/// A writer that is cut lets the reader behind it in, with another reader still inside.
#[test]
fn loom_a_writer_that_leaves_the_queue_lets_readers_in() {
    explore(2, || {
        let (guarded, writer, reader) = (Guarded::new(), Task::new(), Task::new());
        assert!(guarded.lock.try_lock(READ));
        let writes = spawn(move || guarded.visit(writer, WRITE));
        let reads = spawn(move || guarded.visit(reader, READ));
        writer.cut();
        guarded.value.read();
        // SAFETY: entered above.
        unsafe { guarded.lock.unlock(READ) };
        let written = writes.join().unwrap();
        assert!(reads.join().unwrap(), "it was not cut");
        Task::end(writer);
        Task::end(reader);
        Guarded::end(guarded, usize::from(written));
    });
}

/// The same, and only the writer that leaves can let the reader in: the other one inside stays there.
#[test]
fn loom_who_leaves_the_queue_of_a_reader_writer_lock_makes_way() {
    explore(ALL, || {
        let (guarded, reader) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(READ));
        let mut cx = Context::from_waker(Waker::noop());
        let mut writes = Box::pin(Entering::new(&guarded.lock, WRITE, Location::caller()));
        assert!(writes.as_mut().poll(&mut cx).is_pending());
        // It has been passed so often that it is not passed again.
        for _ in 0..2 {
            assert!(guarded.lock.try_lock(READ));
            // SAFETY: entered above.
            unsafe { guarded.lock.unlock(READ) };
        }
        assert!(!guarded.lock.try_lock(READ));
        let reads = spawn(move || guarded.visit(reader, READ));
        drop(writes);
        assert!(reads.join().unwrap());
        // SAFETY: entered above.
        unsafe { guarded.lock.unlock(READ) };
        Task::end(reader);
        Guarded::end(guarded, 0);
    });
}

/// A writer that has been called is not there any more: the next one is called.
#[test]
fn loom_a_writer_that_gives_up_on_its_way_passes_the_call_on() {
    explore(3, || {
        let (guarded, writer) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(WRITE));
        let mut cx = Context::from_waker(Waker::noop());
        let mut gives_up = Box::pin(Entering::new(&guarded.lock, WRITE, Location::caller()));
        assert!(gives_up.as_mut().poll(&mut cx).is_pending());
        let writes = spawn(move || guarded.visit(writer, WRITE));
        // SAFETY: entered above.
        unsafe { guarded.lock.unlock(WRITE) };
        drop(gives_up);
        assert!(writes.join().unwrap());
        Task::end(writer);
        Guarded::end(guarded, 1);
    });
}

/// A reader looks in vain whether it can enter, and seems to be inside meanwhile: the writer that
/// waits comes in all the same.
#[test]
fn loom_a_reader_that_comes_in_vain_keeps_nobody_waiting() {
    explore(3, || {
        let (guarded, writer) = (Guarded::new(), Task::new());
        assert!(guarded.lock.try_lock(WRITE));
        let writes = spawn(move || guarded.visit(writer, WRITE));
        let looks = spawn(move || {
            if guarded.lock.read() {
                guarded.value.read();
                // SAFETY: entered above.
                unsafe { guarded.lock.unlock(READ) };
            }
        });
        // SAFETY: entered above.
        unsafe { guarded.lock.unlock(WRITE) };
        assert!(writes.join().unwrap(), "it was not cut");
        looks.join().unwrap();
        Task::end(writer);
        Guarded::end(guarded, 1);
    });
}

/// A writer that becomes a reader, and stays one: those who want to read come in, and see what it has written.
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
        // SAFETY: entered above.
        unsafe { guarded.lock.downgrade() };
        reads.join().unwrap();
        // SAFETY: it has become a reader.
        unsafe { guarded.lock.unlock(READ) };
        Task::end(reader);
        Guarded::end(guarded, 1);
    });
}
