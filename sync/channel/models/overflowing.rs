//! Models of rings that overflow.

use super::*;

/// Makes a channel whose ring has one place and overflows.
fn overflowing(capacity: usize) -> Channel<usize> {
    let mut channel = Channel::new(capacity);
    channel.ring = Ring::new(usize::MAX);
    channel
}

fn overflowing_shared(capacity: usize) -> Channel<usize> {
    share(overflowing(capacity))
}

fn overflowing_to_two(capacity: usize) -> Channel<usize> {
    let channel = overflowing(capacity);
    channel.with_line::<Receivers, _>(|line, _, _| line.is_cloned());
    channel
}

/// A ring of one place that overflows. A receiver gets all values in order, and is then told of the
/// end, whether it has found them in the ring or beyond it.
#[test]
fn loom_values_that_overflow_come_in_order() {
    for (values, preemptions) in [(2, 3), (3, 2)] {
        explore_with(preemptions, (alone as Make, usize::MAX), move |channel, [task]| {
            let sends = spawn(move || {
                for i in 0..values {
                    assert!(channel.try_move::<Senders>(&mut Some(i)).is_ok());
                }
                channel.close();
                assert!(channel.try_move::<Senders>(&mut Some(9)).is_err());
            });
            (0..values).for_each(|i| assert_eq!(receive(task, channel), Some(i)));
            assert_eq!(receive(task, channel), None);
            sends.join().unwrap();
        });
    }
}

/// Two values, one of which overflows, and a receiver that is cut.
fn overflow_and_a_cut(make: Make) {
    explore_with(3, (make, usize::MAX), |channel, [cut, other]| {
        let receives = spawn(move || receive(cut, channel));
        (1..3).for_each(|i| assert!(channel.try_move::<Senders>(&mut Some(i)).is_ok()));
        cut.interrupt();
        let mut got = Vec::from_iter(receives.join().unwrap());
        while got.len() < 2 {
            got.push(receive(other, channel).expect("no value is lost"));
        }
        assert_eq!((got, channel.len()), (vec![1, 2], 0));
    });
}

#[test]
fn loom_no_value_is_lost_beyond_the_ring() {
    overflow_and_a_cut(alone);
    overflow_and_a_cut(in_line);
    overflow_and_a_cut(shared);
    overflow_and_a_cut(contended);
}

/// Two senders at once, of which one or both find the ring full.
#[test]
fn loom_two_senders_overflow_at_once() {
    for make in [alone, contended] {
        explore_with(2, (make, usize::MAX), |channel, [task]| {
            let send = move |i| assert!(channel.try_move::<Senders>(&mut Some(i)).is_ok());
            beside(move || [1, 2].map(send), || send(3));
            let got = [(); 3].map(|()| receive(task, channel).expect("no value is lost"));
            assert!(got == [1, 2, 3] || got == [1, 3, 2] || got == [3, 1, 2], "{got:?}");
        });
    }
}

/// Two receivers, one of which only tries, where the second value has overflowed. A try finds
/// nothing only if there is nothing.
#[test]
fn loom_a_try_looks_beyond_the_ring() {
    for make in [shared, contended] {
        explore_with(2, (make, usize::MAX), |channel, [task]| {
            (0..2).for_each(|i| assert!(channel.try_move::<Senders>(&mut Some(i)).is_ok()));
            let receives = spawn(move || receive(task, channel));
            let mut tried = None;
            assert!(channel.move_now::<Receivers>(&mut tried).is_ok(), "there is one for each");
            assert_eq!(receives.join().unwrap().unwrap() + tried.unwrap(), 1);
        });
    }
}

/// A sender claims a place in vain while a receiver moves a value into the ring.
#[test]
fn loom_a_claim_and_a_value_from_beyond_the_ring_come_at_once() {
    explore_with(2, (contended as Make, usize::MAX), |channel, [task]| {
        let send = move |i| assert!(channel.try_move::<Senders>(&mut Some(i)).is_ok());
        (0..2).for_each(send);
        beside(move || send(2), || assert_eq!(take(channel), Ok(0)));
        assert_eq!([(); 2].map(|()| receive(task, channel)), [Some(1), Some(2)]);
    });
}

/// The last receiver is dropped and empties the channel while a sender is about to overflow it.
#[test]
fn loom_the_last_receiver_empties_what_has_overflowed() {
    explore_with(ALL, (alone as Make, usize::MAX), |channel, []| {
        assert!(channel.try_put(&mut Some(1)).is_ok());
        beside(move || channel.try_put(&mut Some(2)).is_ok(), || channel.close_and_empty());
        assert_eq!(channel.len(), 0);
        assert!(channel.is_closed());
    });
}

/// A channel with room for two of which one is in the ring: a sender waits for a place.
#[test]
fn loom_a_sender_waits_for_a_place_beyond_the_ring() {
    for make in [overflowing as Make, overflowing_shared] {
        explore_with(2, (make, 2), |channel, [sender, receiver]| {
            (1..3).for_each(|i| assert!(channel.try_put(&mut Some(i)).is_ok()));
            let sends = spawn(move || send(sender, channel, 3));
            let got = [(); 3].map(|()| receive(receiver, channel));
            assert!(sends.join().unwrap());
            assert_eq!(got, [Some(1), Some(2), Some(3)]);
        });
    }
}

/// The same with two receivers, one of which waits while values have overflowed: the permit of the
/// sender does not keep them from it.
#[test]
fn loom_two_receivers_reach_what_has_overflowed() {
    explore_with(1, (overflowing_to_two as Make, 2), |channel, [sender, one, other]| {
        let receives = spawn(move || receive(one, channel).expect("the channel is open"));
        let sends = spawn(move || {
            (1..3).for_each(|i| assert!(send(sender, channel, i)));
            assert!(send(sender, channel, 3));
        });
        let got = [(); 2].map(|()| receive(other, channel).expect("the channel is open"));
        assert_eq!(receives.join().unwrap() + got.iter().sum::<usize>(), 6);
        sends.join().unwrap();
    });
}
