//! The cost of waits: locks, channels, `select!`, blocking calls. As in [`ops`](super::ops), each
//! function performs its operation `n` times inside a task and returns the time taken.

use std::hint::black_box;
use std::sync;
use std::time::{Duration, Instant};

use cygnet::sync::{Event, Mutex, Receiver, Sender, bounded, oneshot, unbounded};

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
    time(n, |_| *black_box(&mutex).lock().expect(UNDISTURBED) += 1)
}

/// An uncontended std mutex, locked and unlocked.
pub fn locks_of_std(n: u64) -> Duration {
    let mutex = sync::Mutex::new(0);
    time(n, |_| *black_box(&mutex).lock().expect(UNDISTURBED) += 1)
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

/// Values that go to another task and come back, over two channels that `channel` makes.
pub fn round_trips(n: u64, channel: fn() -> (Sender<u64>, Receiver<u64>)) -> Duration {
    let ((to, their_from), (their_to, from)) = (channel(), channel());
    cygnet::scope(|s| {
        s.spawn(move || {
            for value in their_from.iter() {
                their_to.send(value).expect(UNDISTURBED);
            }
        });
        let took = time(n, |i| {
            to.send(i).expect(UNDISTURBED);
            assert_eq!(from.recv(), Ok(i), "the value that was sent");
        });
        drop(to);
        took
    })
}

/// Requests that a task receives over a channel, and answers by a oneshot channel.
pub fn requests(n: u64) -> Duration {
    let (to, from) = bounded::<(u64, cygnet::sync::OneshotSender<u64>)>(1);
    cygnet::scope(|s| {
        s.spawn(move || {
            for (value, answer) in from.iter() {
                answer.send(value).expect(UNDISTURBED);
            }
        });
        let took = time(n, |i| {
            let (answer, mut answered) = oneshot();
            to.send((i, answer)).expect(UNDISTURBED);
            assert_eq!(answered.recv(), Ok(i), "the answer to this request");
        });
        drop(to);
        took
    })
}

/// Turns of two tasks at a mutex that is handed over in order of arrival.
pub fn turns(n: u64) -> Duration {
    let mutex = Mutex::fifo(0u64);
    let turns = |n| {
        for _ in 0..n {
            let mut turns = mutex.lock().expect(UNDISTURBED);
            *turns += 1;
            cygnet::yield_now().expect(UNDISTURBED);
        }
    };
    cygnet::scope(|s| {
        s.spawn(|| turns(n / 2));
        time(1, |_| turns(n - n / 2))
    })
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
