//! A storm: tasks and threads that select, over channels of each kind and an event, with cancels. What was sent was
//! received, and nobody is left in a list.

use super::waiting;
use crate::common::{Random, runtime, scaled_in_debug, within};
use cygnet::sync::{Event, Receiver, Sender, bounded, unbounded};
use cygnet::{is_cancelled, select};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

struct Storm {
    senders: [Sender<u64>; 3],
    receivers: [Receiver<u64>; 3],
    pulse: Event,
    sent: AtomicU64,
    received: AtomicU64,
    pulses: AtomicUsize,
}

impl Storm {
    fn new() -> Arc<Storm> {
        let [a, b, c] = [bounded(0), bounded(1), unbounded()];
        Arc::new(Storm {
            senders: [a.0, b.0, c.0],
            receivers: [a.1, b.1, c.1],
            pulse: Event::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            pulses: AtomicUsize::new(0),
        })
    }

    /// Each value goes to one of the channels, or, if this is cancelled, to none.
    fn send(&self, seed: usize, times: usize) {
        let mut random = Random(seed as u64 * 7919 + 1);
        let [a, b, c] = &self.senders;
        for _ in 0..times {
            let value = random.below(1 << 20);
            let rarely = random.below(8) == 0;
            let sent = select! {
                sent = a.send_async(value) => sent,
                sent = b.send_async(value) => sent,
                sent = c.send_async(value), if rarely => sent,
                _ = self.pulse.wait_async() => {
                    self.pulses.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            match sent {
                Ok(sent) => sent.expect("it is open"),
                Err(_) => return,
            }
            self.sent.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Until all are closed and empty, or this is cancelled.
    fn receive(&self, seed: usize) {
        let mut random = Random(seed as u64 * 6151 + 1);
        let mut open = [true; 3];
        let [a, b, c] = &self.receivers;
        loop {
            let patient = !open[0] || random.below(4) > 0;
            let received = select! {
                value = a.recv_async(), if open[0] => (0, value),
                value = b.recv_async(), if open[1] => (1, value),
                value = c.recv_async(), if open[2] => (2, value),
                _ = self.pulse.wait_async(), if !patient => continue,
                else => return,
            };
            match received {
                Ok((_, Ok(value))) => {
                    self.received.fetch_add(value, Ordering::Relaxed);
                }
                Ok((at, Err(_))) => open[at] = false,
                Err(_) => return assert!(is_cancelled()),
            }
        }
    }
}

#[test]
fn what_was_sent_was_received_and_nobody_is_left() {
    for workers in [1, 2, 3, 8] {
        within(|| {
            let rt = runtime(workers);
            let storm = Storm::new();
            let times = scaled_in_debug(1_000);
            let sends = |i: usize| {
                let storm = Arc::clone(&storm);
                move || storm.send(i, times)
            };
            let receives = |i: usize| {
                let storm = Arc::clone(&storm);
                move || storm.receive(i)
            };
            let sending: Vec<_> = (0..12).map(|i| rt.spawn(sends(i))).collect();
            let receiving: Vec<_> = (0..12).map(|i| rt.spawn(receives(i))).collect();
            let threads = [
                crate::common::thread::spawn(sends(100)),
                crate::common::thread::spawn(sends(101)),
                crate::common::thread::spawn(receives(102)),
                crate::common::thread::spawn(receives(103)),
            ];
            let [to_a, to_b, from_a, from_b] = threads;
            let mut random = Random(workers as u64);
            let (mut later, mut rest) = (Vec::new(), Vec::new());
            for (i, task) in sending.into_iter().enumerate() {
                storm.pulse.set();
                storm.pulse.reset();
                if i % 3 == 0 {
                    (0..random.below(2_000)).for_each(|_| crate::common::spin_loop());
                    task.cancel("a part of the storm");
                }
                later.push(task);
            }
            for (i, task) in receiving.into_iter().enumerate() {
                storm.pulse.set();
                storm.pulse.reset();
                if i % 3 == 0 {
                    task.cancel("a part of the storm");
                }
                rest.push(task);
            }
            // Some were cancelled before their start.
            later.into_iter().for_each(|task| drop(task.join()));
            [to_a, to_b].into_iter().for_each(|thread| thread.join().unwrap());
            storm.senders.iter().for_each(Sender::close);
            rest.into_iter().for_each(|task| drop(task.join()));
            [from_a, from_b].into_iter().for_each(|thread| thread.join().unwrap());
            // A receiver that is cancelled with a value promised to it leaves that where it is; the others may have been
            // told by then that the channel is closed.
            let left: u64 = storm.receivers.iter().flat_map(Receiver::try_iter).sum();
            let received = storm.received.load(Ordering::Relaxed);
            assert_eq!(storm.sent.load(Ordering::Relaxed), received + left);
            for (sender, receiver) in storm.senders.iter().zip(&storm.receivers) {
                assert_eq!((waiting(sender), receiver.len()), (0, 0), "{sender:?}");
            }
            assert_eq!(waiting(&storm.pulse), 0);
        });
    }
}
