//! Channels: what is sent is received once, or is still there, or was given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cygnet::sync::{self, BroadcastRecvError, Receiver, Sender, WaitError};

use super::Program;
use super::aids::{outcome, pause, stall, value};
use crate::soak::faults::Fault;
use crate::soak::rng::Rng;

/// Sends numbers that nobody else sends. How many were taken from it.
fn send(sender: &Sender<u64>, first: u64, count: u64, rng: &mut Rng) -> Vec<u64> {
    let mut sent = Vec::new();
    for value in first..first + count {
        let refused = match rng.below(4) {
            0 => {
                Fault::Timeout.count();
                sender.send_timeout(value, rng.micros(300)).err()
            }
            1 => match cygnet::wait(sender.send_async(value)) {
                Ok(refused) => refused.err(),
                // The value went with the future.
                Err(_) => return sent,
            },
            _ => sender.send(value).err(),
        };
        match refused {
            None => sent.push(value),
            Some(error) => {
                let timed_out = *error.reason() == WaitError::TimedOut;
                assert_eq!(error.into_inner(), value, "it is given back");
                if !timed_out {
                    return sent;
                }
            }
        }
        drop(pause(rng));
    }
    sent
}

/// Receives until there is nothing more to come, or it is cancelled.
fn receive(receiver: &Receiver<u64>, rng: &mut Rng, received: &std::sync::Mutex<Vec<u64>>) {
    loop {
        let value = match rng.below(4) {
            0 => {
                Fault::Timeout.count();
                receiver.recv_timeout(rng.micros(300))
            }
            1 => match cygnet::wait(receiver.recv_async()) {
                Ok(value) => value,
                Err(_) => return,
            },
            _ => receiver.recv(),
        };
        match value {
            Ok(value) => received.lock().expect("nobody panics with it").push(value),
            Err(WaitError::TimedOut) => {}
            Err(_) => return,
        }
        drop(pause(rng));
    }
}

pub(crate) fn channel(p: &mut Program) {
    let (sender, receiver) = match p.rng.below(3) {
        0 => sync::unbounded(),
        _ => sync::bounded(p.rng.count(0, 6)),
    };
    let received = Arc::new(std::sync::Mutex::new(Vec::new()));
    let count = p.rng.between(1, 40);
    let senders: Vec<_> = (0..p.rng.between(1, 5))
        .map(|number| {
            let (sender, mut rng) = (sender.clone(), p.rng.split());
            p.spawn(move || send(&sender, number * 1000, count, &mut rng))
        })
        .collect();
    let receivers: Vec<_> = (0..p.rng.between(1, 5))
        .map(|_| {
            let (receiver, received) = (receiver.clone(), received.clone());
            let mut rng = p.rng.split();
            p.spawn(move || receive(&receiver, &mut rng, &received))
        })
        .collect();
    // A receiver that is cancelled takes nothing with it. What it has received, and then dropped, would be missed.
    for task in &receivers {
        if p.rng.one_in(3) {
            Fault::Cancel.count();
            thread::sleep(p.rng.micros(300));
            task.cancel("at a random moment");
        }
    }
    let stalled = p.rng.one_in(4);
    let mut rng = p.rng.split();
    let mut sent: Vec<u64> = thread::scope(|s| {
        // One that is never cancelled sees to it that no sender waits for ever.
        s.spawn(|| {
            if stalled {
                stall(&mut rng);
            }
            while let Ok(value) = receiver.recv() {
                received.lock().expect("nobody panics with it").push(value);
            }
        });
        drop(sender);
        senders.into_iter().flat_map(|task| value(task.join())).collect()
    });
    for task in receivers {
        outcome(task.join());
    }
    let mut received = std::mem::take(&mut *received.lock().expect("nobody panics with it"));
    sent.sort_unstable();
    received.sort_unstable();
    assert_eq!(received, sent, "each value that was sent is received once");
}

/// A value for one, a value for all, and the last value.
pub(crate) fn others(p: &mut Program) {
    let count = p.rng.between(1, 30);
    let (last, mut seen) = sync::watch(0);
    let (all, one) = (sync::broadcast(p.rng.count(1, 16)), sync::oneshot());
    let ((all, mut heard), (one, mut answer)) = (all, one);
    let watching = p.spawn(move || {
        let mut before = 0;
        while let Ok(newer) = seen.changed() {
            assert!(*newer > before, "values come in order");
            before = *newer;
        }
        before
    });
    let lost = Arc::new(AtomicU64::new(0));
    let hearing = {
        let lost = lost.clone();
        p.spawn(move || {
            let (mut number, mut expected) = (0, 0);
            loop {
                match heard.recv() {
                    Ok(value) => {
                        assert_eq!(value, expected, "in order, and none twice");
                        expected += 1;
                        number += 1;
                    }
                    Err(BroadcastRecvError::Lagged(missed)) => {
                        lost.fetch_add(missed, Ordering::Relaxed);
                        expected += missed;
                    }
                    Err(BroadcastRecvError::Closed) => return number,
                    Err(error) => panic!("nobody cancels it: {error}"),
                }
            }
        })
    };
    let waiting = p.spawn(move || answer.recv());
    let mut rng = p.rng.split();
    let broken = rng.one_in(4);
    thread::scope(|s| {
        s.spawn(|| {
            for number in 0..count {
                last.send(number + 1);
                // Nobody hears it, if the receiver has gone.
                let _ = all.send(number);
                stall(&mut rng.split());
                if rng.one_in(30) {
                    stall(&mut rng);
                }
            }
            drop((last, all));
            if broken {
                drop(one);
            } else {
                one.send(count).expect("somebody waits for it");
            }
        });
    });
    assert_eq!(value(watching.join()), count, "the last value is always seen");
    let number = value(hearing.join());
    assert_eq!(number + lost.load(Ordering::Relaxed), count, "heard, or told that it was missed");
    let answer = value(waiting.join());
    assert_eq!(answer, if broken { Err(WaitError::Closed) } else { Ok(count) });
}
