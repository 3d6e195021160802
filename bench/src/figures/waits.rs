//! The cost of waits: locks, channels, `select!`, blocking calls. As in [`ops`](super::ops), each
//! function performs its operation `n` times inside a task and returns the time taken.

use std::hint::black_box;
use std::sync;
use std::time::{Duration, Instant};

use cygnet::sync::{Event, Mutex, bounded, oneshot, unbounded};

use super::ops::Gate;
use crate::measure::harness::time;

/// Number of tasks that lock one mutex.
const CONTENDERS: u64 = 64;
/// Capacity of a channel.
const ROOM: usize = 1024;
/// Holds for every wait in this module.
const UNDISTURBED: &str = "it is neither cancelled nor closed";

/// An uncontended mutex, locked and unlocked.
pub fn locks(n: u64) -> Duration {
    let mutex = Mutex::new(0);
    time(n, |_| {
        *black_box(&mutex).lock().expect(UNDISTURBED) += 1;
    })
}

/// An uncontended std mutex, locked and unlocked.
pub fn locks_of_std(n: u64) -> Duration {
    let mutex = sync::Mutex::new(0);
    time(n, |_| {
        *black_box(&mutex).lock().expect(UNDISTURBED) += 1;
    })
}

/// A mutex that many tasks lock in turn.
pub fn contended_locks(n: u64) -> Duration {
    let (mutex, start) = (Mutex::new(0), Event::new());
    let here = Gate::new(CONTENDERS as usize);
    cygnet::scope(|s| {
        for i in 0..CONTENDERS {
            let (mutex, start, here) = (&mutex, &start, &here);
            s.spawn(move || {
                here.pass();
                start.wait().expect(UNDISTURBED);
                for _ in 0..n / CONTENDERS + u64::from(i < n % CONTENDERS) {
                    *mutex.lock().expect(UNDISTURBED) += 1;
                }
            });
        }
        here.wait();
        let began = Instant::now();
        start.set();
        began
    })
    .elapsed()
}

/// Values passed from `senders` tasks to this one through a bounded channel.
pub fn passed_values(n: u64, senders: u64) -> Duration {
    let (to, from) = bounded(ROOM);
    let began = Instant::now();
    cygnet::scope(|s| {
        for i in 0..senders {
            let to = to.clone();
            s.spawn(move || {
                let count = n / senders + u64::from(i < n % senders);
                (0..count).for_each(|i| to.send(i).expect(UNDISTURBED));
            });
        }
        drop(to);
        assert_eq!(from.iter().map(black_box).count() as u64, n, "values that were received");
    });
    began.elapsed()
}

/// Oneshot channels, made, used and dropped.
pub fn oneshots(n: u64) -> Duration {
    time(n, |i| {
        let (to, mut from) = oneshot();
        to.send(i).expect(UNDISTURBED);
        black_box(from.recv().expect(UNDISTURBED));
    })
}

/// A send, and a select of two channels of which one has a value.
pub fn selects(n: u64) -> Duration {
    let ((to, from), (_quiet, nothing)) = (unbounded(), unbounded::<u64>());
    time(n, |i| {
        to.send(i).expect(UNDISTURBED);
        let value = cygnet::select! {
            value = from.recv_async() => value,
            value = nothing.recv_async() => value,
        };
        let _ = black_box(value.expect(UNDISTURBED));
    })
}

/// Calls on a thread for blocking calls.
pub fn blocking_calls(n: u64) -> Duration {
    time(n, |i| black_box(cygnet::blocking(|| black_box(i))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::ops::runtime;

    #[test]
    fn each_operation_comes_to_its_end() {
        for workers in [1, 2] {
            runtime(workers).block_on(|| {
                let operations =
                    [locks, locks_of_std, contended_locks, oneshots, selects, blocking_calls];
                for operation in operations {
                    assert!(operation(100) > Duration::ZERO);
                }
                for senders in [1, 4] {
                    assert!(passed_values(2_001, senders) > Duration::ZERO);
                }
            });
        }
    }
}
