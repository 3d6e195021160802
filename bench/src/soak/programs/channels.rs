//! Channels: each value is received once, is still in the channel, or was given back.

use cygnet::sync::{self, Receiver, Sender, WaitError};

use super::prelude::*;

/// Sends numbers that no other task sends. Returns the numbers that were accepted.
fn send(sender: &Sender<u64>, first: u64, count: u64, rng: &mut Rng) -> Vec<u64> {
    let mut sent = Vec::new();
    for value in first..first + count {
        let refused = match rng.below(4) {
            0 => sender.send_timeout(value, limit(rng, 300)).err(),
            1 => match cygnet::wait(sender.send_async(value)) {
                Ok(refused) => refused.err(),
                // The value was dropped with the future.
                Err(_) => return sent,
            },
            _ => sender.send(value).err(),
        };
        match refused {
            None => sent.push(value),
            Some(error) => {
                let timed_out = *error.reason() == WaitError::TimedOut;
                assert_eq!(error.into_inner(), value, "the value was not given back");
                if !timed_out {
                    return sent;
                }
            }
        }
        drop(pause(rng));
    }
    sent
}

/// Receives until the channel is closed or the task is cancelled.
fn receive(receiver: &Receiver<u64>, rng: &mut Rng, received: &std::sync::Mutex<Vec<u64>>) {
    loop {
        let value = match rng.below(4) {
            0 => receiver.recv_timeout(limit(rng, 300)),
            1 => match cygnet::wait(receiver.recv_async()) {
                Ok(value) => value,
                Err(_) => return,
            },
            _ => receiver.recv(),
        };
        let Ok(value) = in_time(value) else { return };
        received.lock().expect("no holder panics").extend(value);
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
    let (senders, receivers) = (p.rng.between(1, 5), p.rng.between(1, 5));
    let senders = p.spawn_each(senders, |number, mut rng| {
        let sender = sender.clone();
        move || send(&sender, number * 1000, count, &mut rng)
    });
    let receivers = p.spawn_each(receivers, |_, mut rng| {
        let (receiver, received) = (receiver.clone(), received.clone());
        move || receive(&receiver, &mut rng, &received)
    });
    // A cancelled receiver takes no value with it. A value that was received and then dropped
    // would be missing.
    for task in &receivers {
        if p.rng.one_in(3) {
            thread::sleep(p.rng.micros(300));
            cancel(task);
        }
    }
    let stalled = p.rng.one_in(4);
    let mut rng = p.rng.split();
    let mut sent: Vec<u64> = thread::scope(|s| {
        // This receiver is never cancelled, so no sender waits for ever.
        s.spawn(|| {
            if stalled {
                stall(&mut rng);
            }
            while let Ok(value) = receiver.recv() {
                received.lock().expect("no holder panics").push(value);
            }
        });
        drop(sender);
        senders.into_iter().flat_map(|task| value(task.join())).collect()
    });
    receivers.into_iter().for_each(|task| _ = outcome(task.join()));
    let mut received = std::mem::take(&mut *received.lock().expect("no holder panics"));
    sent.sort_unstable();
    received.sort_unstable();
    assert_eq!(received, sent, "each value that was sent must be received once");
}

/// The other channels: oneshot, broadcast and watch.
pub(crate) fn others(p: &mut Program) {
    let count = p.rng.between(1, 30);
    let (last, mut seen) = sync::watch(0);
    let (all, mut heard) = sync::broadcast(p.rng.count(1, 16));
    let (one, mut answer) = sync::oneshot();
    let watching = p.spawn(move || {
        let mut before = 0;
        while let Ok(newer) = seen.changed() {
            assert!(*newer > before, "values must come in order");
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
                        assert_eq!(value, expected, "values must come in order, and once");
                        expected += 1;
                        number += 1;
                    }
                    Err(WaitError::Lagged(missed)) => {
                        lost.fetch_add(missed, Ordering::Relaxed);
                        expected += missed;
                    }
                    Err(WaitError::Closed) => return number,
                    Err(error) => panic!("the receiver was not cancelled: {error}"),
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
                // This fails if the receiver is gone.
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
                one.send(count).expect("the receiver waits for it");
            }
        });
    });
    assert_eq!(value(watching.join()), count, "the last value must be seen");
    let number = value(hearing.join());
    assert_eq!(
        number + lost.load(Ordering::Relaxed),
        count,
        "each value must be received or reported as missed"
    );
    let answer = value(waiting.join());
    assert_eq!(answer, if broken { Err(WaitError::Closed) } else { Ok(count) });
}
