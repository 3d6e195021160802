//! A storm: tasks and threads that select, over channels of each kind and an event, with cancels.
//! All that was sent was received, and no waiter is left in a list.

use crate::common::prelude::*;
use cygnet::sync::{Receiver, Sender};

struct Storm {
    senders: [Sender<u64>; 3],
    receivers: [Receiver<u64>; 3],
    pulse: Event,
    sent: Count,
    received: Count,
}

impl Storm {
    fn new() -> Arc<Storm> {
        let [a, b, c] = [bounded(0), bounded(1), unbounded()];
        Arc::new(Storm {
            senders: [a.0, b.0, c.0],
            receivers: [a.1, b.1, c.1],
            pulse: Event::new(),
            sent: Count::new(),
            received: Count::new(),
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
                _ = self.pulse.wait_async() => continue,
            };
            match sent {
                Ok(sent) => sent.expect("it is open"),
                Err(_) => return,
            }
            self.sent.add(value as usize);
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
                    self.received.add(value as usize);
                }
                Ok((at, Err(_))) => open[at] = false,
                Err(_) => return assert!(is_cancelled()),
            }
        }
    }
}

#[test]
fn what_was_sent_was_received_and_no_waiter_is_left() {
    with(&[1, 2, 3, 8], |rt| {
        let storm = Storm::new();
        let times = scaled_in_debug(1_000);
        let sends = |i: usize| own(&storm, move |storm| storm.send(i, times));
        let receives = |i: usize| own(&storm, move |storm| storm.receive(i));
        let sending: Vec<_> = (0..12).map(|i| rt.spawn(sends(i))).collect();
        let receiving: Vec<_> = (0..12).map(|i| rt.spawn(receives(i))).collect();
        let senders = [100, 101].map(|i| common::thread::spawn(sends(i)));
        let receivers = [102, 103].map(|i| common::thread::spawn(receives(i)));
        let mut random = Random(rt.workers() as u64);
        for (i, task) in sending.iter().chain(&receiving).enumerate() {
            storm.pulse.set();
            storm.pulse.reset();
            if i % 3 == 0 {
                if i < sending.len() {
                    (0..random.below(2_000)).for_each(|_| common::spin_loop());
                }
                task.cancel("a part of the storm");
            }
        }
        // Some were cancelled before their start.
        sending.into_iter().for_each(|task| drop(task.join()));
        senders.into_iter().for_each(|thread| thread.join().unwrap());
        storm.senders.iter().for_each(Sender::close);
        receiving.into_iter().for_each(|task| drop(task.join()));
        receivers.into_iter().for_each(|thread| thread.join().unwrap());
        // A receiver that is cancelled with a value promised to it leaves that where it is. The
        // others may have been told by then that the channel is closed.
        let left: u64 = storm.receivers.iter().flat_map(Receiver::try_iter).sum();
        assert_eq!(storm.sent.get(), storm.received.get() + left as usize);
        for (sender, receiver) in storm.senders.iter().zip(&storm.receivers) {
            assert_eq!((waiting(sender), receiver.len()), (0, 0), "{sender:?}");
        }
        assert_eq!(waiting(&storm.pulse), 0);
    });
}
