//! Items that are received one at a time.

use super::one_stage;
use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring;
use cygnet::sync::TryRecvError;

fn late() -> Instant {
    common::now() + LONG
}

/// Q40.
#[test]
fn an_item_is_received_in_each_form() {
    with_both!(|new| {
        let mut ring = new(8, String::new);
        let [mut clones] = ring.readers();
        let (mut takes, mut producer) = (ring.stage(), ring.producer());
        for item in ["a", "b", "c", "d", "e"] {
            producer.send(item.into()).unwrap();
        }
        assert_eq!(clones.recv().unwrap(), "a");
        assert_eq!(clones.recv_timeout(Duration::ZERO).unwrap(), "b");
        assert_eq!(clones.recv_deadline(common::now()).unwrap(), "c");
        assert_eq!(wait(clones.recv_async()).unwrap().unwrap(), "d");
        assert_eq!(takes.recv().unwrap(), "a");
        assert_eq!(takes.recv_timeout(Duration::MAX).unwrap(), "b");
        assert_eq!(takes.recv_deadline(late()).unwrap(), "c");
        assert_eq!(wait(takes.recv_async()).unwrap().unwrap(), "d");
        assert_eq!(takes.try_recv().unwrap_err(), TryRecvError::Empty);
        assert_eq!(clones.try_recv().unwrap(), "e");
        assert_eq!(takes.try_recv().unwrap(), "e");
        for error in [
            clones.recv_timeout(MOMENT).unwrap_err(),
            takes.recv_timeout(Duration::ZERO).unwrap_err(),
            clones.recv_deadline(common::now()).unwrap_err(),
            takes.recv_deadline(common::now() + MOMENT).unwrap_err(),
        ] {
            assert_eq!(error, WaitError::TimedOut);
        }
        assert!(poll_once(clones.recv_async()).is_pending());
        assert!(poll_once(takes.recv_async()).is_pending());
        drop(producer);
        assert_eq!(clones.try_recv().unwrap_err(), TryRecvError::Closed);
        assert_eq!(takes.recv_timeout(LONG).unwrap_err(), WaitError::Closed);
        assert_eq!(takes.recv_deadline(late()).unwrap_err(), WaitError::Closed);
        assert_eq!(wait(clones.recv_async()).unwrap().unwrap_err(), WaitError::Closed);
        assert_eq!(takes.try_recv().unwrap_err(), TryRecvError::Closed);
    });
}

/// A taken item leaves a default one in its place; a cloned item stays.
#[test]
fn a_stage_takes_the_item_and_a_reader_clones_it() {
    let mut ring = ring::single_producer(1, String::new);
    let ([mut clones], mut takes) = (ring.readers(), ring.stage());
    let mut producer = ring.producer();
    producer.send("item".into()).unwrap();
    assert_eq!((clones.recv().unwrap(), takes.recv().unwrap()), ("item".into(), "item".into()));
    assert_eq!(producer.claim(1).unwrap().iter_mut().next().unwrap(), "");
}

/// Q19, Q40.
#[test]
fn a_number_without_an_item_is_passed_over() {
    let mut ring = ring::multi_producer(8, u32::default);
    let [mut reader] = ring.readers();
    let (mut stage, producer) = (ring.stage(), ring.producer());
    let given_up = producer.claim(2).unwrap();
    producer.send(1).unwrap();
    drop(given_up);
    assert_eq!(reader.try_recv(), Ok(1));
    assert_eq!(wait(stage.recv_async()), Ok(Ok(1)));
    let given_up = producer.claim(2).unwrap();
    let behind = producer.claim(1).unwrap();
    drop(given_up);
    assert_eq!(reader.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(reader.recv_timeout(MOMENT), Err(WaitError::TimedOut));
    behind.publish();
    assert_eq!(reader.recv_timeout(LONG), Ok(0));
    assert_eq!(stage.try_iter().collect::<Vec<_>>(), [0]);
}

/// Q40.
#[test]
fn a_waiting_receive_of_each_form_gets_the_next_item() {
    with_each_strategy(|rt, strategy| {
        for form in 0..4 {
            let mut ring = ring::multi_producer_with(2, strategy, u32::default);
            let [mut reader] = ring.readers();
            let (mut stage, producer) = (ring.stage(), ring.producer());
            let clones = rt.spawn(move || match form {
                0 => reader.recv(),
                1 => reader.recv_timeout(LONG),
                2 => reader.recv_deadline(late()),
                _ => wait(reader.recv_async()).unwrap(),
            });
            let takes = rt.spawn(move || match form {
                0 => stage.recv(),
                1 => stage.recv_timeout(LONG),
                2 => stage.recv_deadline(late()),
                _ => wait(stage.recv_async()).unwrap(),
            });
            thread::yield_now();
            producer.send(7).unwrap();
            // A reader that has received its item is dropped, and that ends the ring.
            assert_eq!(clones.join().unwrap(), Ok(7));
            assert_eq!(takes.join().unwrap(), Ok(7));
        }
    });
}

/// Q40.
#[test]
fn an_iterator_receives_until_the_end_and_another_one_what_is_there() {
    with_each(|rt| {
        let mut ring = ring::single_producer(4, u32::default);
        let [mut reader] = ring.readers();
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        (0..3).for_each(|item| producer.send(item).unwrap());
        assert_eq!(reader.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(reader.try_iter().next(), None);
        assert_eq!(stage.try_iter().take(2).collect::<Vec<_>>(), [0, 1]);
        let sums = [
            rt.spawn(move || reader.iter().sum::<u32>()),
            rt.spawn(move || stage.iter().sum::<u32>()),
        ];
        (3..100).for_each(|item| producer.send(item).unwrap());
        drop(producer);
        assert_eq!(join_all(sums), [4950 - 3, 4950 - 1]);
    });
}

/// Q33, Q40.
#[test]
fn a_cancelled_task_receives_nothing_but_at_once() {
    in_task(|_| {
        let (mut stage, mut producer) = one_stage(4, u32::default);
        (0..3).for_each(|item| producer.send(item).unwrap());
        let task = spawn(move || {
            cygnet::cancel_handle().cancel("enough");
            let refused = [
                stage.recv().unwrap_err(),
                stage.recv_timeout(LONG).unwrap_err(),
                stage.recv_deadline(late()).unwrap_err(),
            ];
            assert!(
                refused.iter().all(|why| matches!(why, WaitError::Cancelled(_))),
                "{refused:?}"
            );
            assert!(wait(stage.recv_async()).is_err());
            assert_eq!(stage.iter().next(), None);
            assert_eq!(stage.try_recv(), Ok(0));
            assert_eq!(stage.try_iter().collect::<Vec<_>>(), [1, 2]);
        });
        task.join().unwrap();
    });
}

/// Q27.
#[test]
fn an_item_whose_clone_panics_counts_as_read() {
    #[derive(Default)]
    struct Bad(u32);
    impl Clone for Bad {
        fn clone(&self) -> Bad {
            assert!(self.0 != 1, "a bad item");
            Bad(self.0)
        }
    }
    let mut ring = ring::multi_producer(2, Bad::default);
    let ([mut reader], producer) = (ring.readers(), ring.producer());
    for form in 0..3 {
        producer.send(Bad(1)).unwrap();
        producer.send(Bad(2)).unwrap();
        let said = panic_of(|| match form {
            0 => drop(reader.recv()),
            1 => drop(reader.try_recv()),
            _ => drop(wait(reader.recv_async())),
        });
        assert!(said.contains("a bad item"), "{said}");
        assert_eq!(reader.try_recv().map(|item| item.0), Ok(2));
    }
}
