//! `select!` over several futures.

use cygnet::sync::{self, Event};

use super::prelude::*;

/// Two channels, a timer and an event, until both channels are closed. Losing branches must lose
/// no value.
pub(crate) fn run(p: &mut Program) {
    let (left, from_left) = sync::bounded(p.rng.count(0, 3));
    let (right, from_right) = sync::unbounded();
    let count = p.rng.between(1, 60);
    let feed = |sender: sync::Sender<u64>, mut rng: Rng| {
        move || {
            for value in 1..=count {
                sender.send(value).expect("the receiver is there");
                drop(pause(&mut rng));
            }
        }
    };
    let (one, other) = (p.rng.split(), p.rng.split());
    let feeding = [p.spawn(feed(left, one)), p.spawn(feed(right, other))];
    let mut rng = p.rng.split();
    let sum = p.handle.block_on(move || {
        let (mut sum, mut open, never) = (0, [true; 2], Event::new());
        let mut take = |received: Result<u64, WaitError>, open: &mut bool| match received {
            Ok(value) => sum += value,
            Err(error) => {
                assert_eq!(error, WaitError::Closed);
                *open = false;
            }
        };
        while open != [false; 2] {
            let nap = Duration::from_micros(rng.below(300));
            let [left, right] = open;
            cygnet::select! {
                received = from_left.recv_async(), if left => take(received, &mut open[0]),
                received = from_right.recv_async(), if right => take(received, &mut open[1]),
                _ = cygnet::sleep_async(nap) => (),
                _ = never.wait_async() => panic!("the event is never set"),
            }
            .expect("it is never cancelled");
        }
        sum
    });
    feeding.into_iter().for_each(|task| value(task.join()));
    assert_eq!(sum, count * (count + 1), "each value must come once");
}
