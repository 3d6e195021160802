//! Models of channels, run by ci/loom.sh. See `sync::models` for what a task is in a model.

mod overflowing;

use super::bounded;
use super::errors::Refused;
use super::line::{PERMIT, Receivers, Senders, Side};
use super::ring::Ring;
use super::state::Channel;
use super::state::waiting::InLine;
use super::word::LineState;
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::check::{ALL, Baton, FENCES, ORDERS, Stage, beside, explore, models};
use crate::shim::thread::spawn;
use crate::sync::models::{Modelled, Of, Subject, Task, enter, enter_node, explore_with};
use std::panic::Location;
use std::pin::pin;

type Model = Of<Channel<usize>>;

impl Modelled for Channel<usize> {
    type End = ();

    fn assert_end(channel: &Subject<Self>, (): ()) {
        let (senders, receivers) = channel.locations();
        assert!(senders.is_empty() && receivers.is_empty(), "a waiter is left in a line");
    }
}

/// Like `Sender::send` or `Receiver::recv`. Returns `true` if a value was moved.
fn pass<S: Side>(
    task: Stage<Task>,
    channel: Model,
    cell: &mut Option<usize>,
    gives_back: bool,
) -> bool {
    task.introduce();
    match channel.try_move::<S>(cell) {
        Ok(()) => true,
        Err(Refused::Closed) => false,
        _ => wait::<S>(task, channel, cell, gives_back),
    }
}

/// As `pass`, after an attempt in vain. Unless it `gives_back`, it has a fault: a task that is cut
/// keeps what it was granted.
fn wait<S: Side>(
    task: Stage<Task>,
    channel: Model,
    cell: &mut Option<usize>,
    gives_back: bool,
) -> bool {
    let source = InLine::<_, S>::new(&**channel);
    let node = pin!(WaitNode::new(0, Location::caller()));
    let cell: *mut Option<usize> = cell;
    node.cell.set(cell.cast());
    while let Some(answer) = enter_node(task, &source, node.as_ref(), gives_back, None) {
        // SAFETY: the node is in no list and no seat, so that this call alone uses the cell.
        match channel.move_after::<S>(answer, unsafe { &mut *cell }) {
            Ok(()) => return true,
            Err(Refused::Closed) => return false,
            _ => {}
        }
    }
    false
}

fn receive(task: Stage<Task>, channel: Model) -> Option<usize> {
    receive_or_give_back(task, channel, true)
}

fn receive_or_give_back(task: Stage<Task>, channel: Model, gives_back: bool) -> Option<usize> {
    let mut value = None;
    pass::<Receivers>(task, channel, &mut value, gives_back);
    value
}

fn send(task: Stage<Task>, channel: Model, value: usize) -> bool {
    pass::<Senders>(task, channel, &mut Some(value), true)
}

fn take(channel: Model) -> Result<usize, Refused> {
    let mut taken = None;
    channel.try_move::<Receivers>(&mut taken).map(|()| taken.expect("a value was taken"))
}

type Make = fn(usize) -> Channel<usize>;

/// A channel with one handle at each end.
fn alone(capacity: usize) -> Channel<usize> {
    Channel::new(capacity)
}

/// A channel with one handle at each end, where the first waiter finds no seat.
fn in_line(capacity: usize) -> Channel<usize> {
    let channel = Channel::new(capacity);
    let ring = channel.ring.as_ref().expect("a channel with room has a ring");
    for seat in [ring.seat::<Senders>(), ring.seat::<Receivers>()] {
        assert!(!seat.block_seat().waits());
        seat.write(LineState::NO_SEAT);
    }
    channel
}

/// A channel with two handles at each end, so that waiters are called.
fn shared(capacity: usize) -> Channel<usize> {
    share(Channel::new(capacity))
}

fn share(channel: Channel<usize>) -> Channel<usize> {
    channel.with_line::<Senders, _>(|line, _, _| line.is_cloned());
    channel.with_line::<Receivers, _>(|line, _, _| line.is_cloned());
    channel
}

/// A channel with two handles at each end, and many callers at both.
fn contended(capacity: usize) -> Channel<usize> {
    let channel = shared(capacity);
    channel.ring.as_ref().expect("a channel with room has a ring").contend();
    channel
}

/// A channel with one handle at each end, and many callers at both.
fn contended_alone(capacity: usize) -> Channel<usize> {
    let channel = alone(capacity);
    channel.ring.as_ref().expect("a channel with room has a ring").contend();
    channel
}

/// One value and two waiting receivers, one of which is cut: one of them receives the value.
fn one_value_and_a_cut(preemptions: usize, make: Make) {
    explore_with(preemptions, (make, 1), move |channel, [cut, other]| {
        let first = spawn(move || receive(cut, channel));
        let sends = spawn(move || {
            assert!(channel.try_put(&mut Some(7)).is_ok());
            channel.close();
        });
        // While the value is on its way.
        cut.interrupt();
        let second = receive(other, channel);
        sends.join().unwrap();
        let got = [first.join().unwrap(), second];
        let times = got.iter().filter(|value| **value == Some(7)).count();
        // The second receiver is told of the end only if the first has the value, not while the
        // first might still give it back.
        assert_eq!(times, 1, "{got:?}");
        assert_eq!(take(channel), Err(Refused::Closed));
    });
}

#[test]
fn loom_a_value_is_received_once_even_if_a_receiver_is_cut() {
    one_value_and_a_cut(1, alone);
    one_value_and_a_cut(1, in_line);
    one_value_and_a_cut(1, shared);
    one_value_and_a_cut(1, contended);
}

/// One value, and a receiver that is cut while it waits in the line.
fn one_value_for_a_cut_receiver(gives_back: bool) {
    explore_with(2, (in_line as Make, 1), move |channel, [cut]| {
        let receives = spawn(move || receive_or_give_back(cut, channel, gives_back));
        cut.interrupt();
        assert!(channel.try_put(&mut Some(7)).is_ok());
        let got = receives.join().unwrap();
        assert_eq!(got.or_else(|| take(channel).ok()), Some(7), "the value is out of reach");
    });
}

models! {
    fn loom_a_permit_is_passed_on() = one_value_for_a_cut_receiver(true);
    fn loom_negative_a_permit_that_is_not_passed_on() = one_value_for_a_cut_receiver(false),
        fails: "out of reach";
}

/// A receiver sits down while another thread serves the empty line, and then sends.
#[test]
fn loom_nobody_writes_over_an_unblocked_seat() {
    explore_with(2, (alone as Make, 1), |channel, [task]| {
        let receives = spawn(move || receive(task, channel));
        channel.serve::<Receivers>();
        assert!(channel.try_put(&mut Some(7)).is_ok());
        assert_eq!(receives.join().unwrap(), Some(7));
    });
}

/// A receiver sits down and gets up while another thread sends, and closes the channel.
#[test]
fn loom_a_value_that_is_handed_over_passes_no_other_and_no_close() {
    for values in [0, 2] {
        explore_with(3, (alone as Make, 2), move |channel, [task]| {
            let sends = spawn(move || {
                (0..values).for_each(|i| assert!(channel.try_put(&mut Some(i)).is_ok()));
                channel.close();
                assert!(channel.try_put(&mut Some(values)).is_err(), "the channel is closed");
            });
            (0..values).for_each(|i| assert_eq!(receive(task, channel), Some(i)));
            assert_eq!(receive(task, channel), None);
            sends.join().unwrap();
        });
    }
}

/// A caller that only tries asks for a permit, in vain or not, while a receiver sits down.
#[test]
fn loom_a_caller_that_asks_hides_nothing_from_the_seat() {
    explore_with(2, (alone as Make, 2), |channel, [task]| {
        let receives = spawn(move || receive(task, channel));
        let asks = spawn(move || {
            let got =
                channel.with_line::<Receivers, _>(|line, supply, wakes| line.ask(supply, wakes));
            if got {
                assert!(channel.by_permit::<Receivers>(&mut None).is_ok());
                assert!(channel.try_put(&mut Some(8)).is_ok());
            }
        });
        assert!(channel.try_put(&mut Some(7)).is_ok());
        assert!(receives.join().unwrap().is_some());
        asks.join().unwrap();
    });
}

/// Two values and one place: a sender waits until the other value is received.
#[test]
fn loom_a_freed_place_goes_to_the_waiting_sender() {
    for make in [alone, in_line, shared, contended] {
        explore_with(3, (make, 1), |channel, [sender, receiver]| {
            assert!(channel.try_put(&mut Some(1)).is_ok());
            let sends = spawn(move || send(sender, channel, 2));
            let first = receive(receiver, channel);
            let second = receive(receiver, channel);
            assert!(sends.join().unwrap());
            assert_eq!((first, second), (Some(1), Some(2)));
        });
    }
}

/// Two senders and a receiver, none of which has to wait for long. The receiver sees what was
/// written before the value was sent.
fn passers_by(make: Make) {
    explore_with(2, (make, 2), |channel, [task]| {
        let written = [Stage::new(Baton::new()), Stage::new(Baton::new())];
        let senders = [0, 1].map(|n: usize| {
            spawn(move || {
                written[n].write();
                assert!(channel.try_put(&mut Some(n)).is_ok());
            })
        });
        for _ in 0..2 {
            let n = receive(task, channel).expect("the channel is open");
            assert_eq!(written[n].write(), 1, "a value was received twice");
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn loom_values_pass_through_a_ring() {
    passers_by(alone);
    passers_by(contended);
}

models! {
    fn loom_negative_a_ring_without_order() = passers_by(alone),
        without ORDERS in "sync/channel/ring/mod.rs", fails: "Causality violation";

    /// A waiter announces itself and then looks once more; a passing caller does this in the other
    /// order.
    fn loom_negative_a_ring_without_the_total_order() = passers_by(alone),
        without FENCES in "sync/channel/word.rs", fails: "deadlock";
}

/// One caller enters and another only tries, for two values or two places. The first is granted one
/// at once, and does not hinder the other.
fn one_enters_and_another_tries<S: Side>(make: Make) {
    explore_with(2, (make, 2), |channel, [task]| {
        if !S::SENDS {
            (0..2).for_each(|i| assert!(channel.try_put(&mut Some(i)).is_ok()));
        }
        let enters = spawn(move || {
            task.introduce();
            assert_eq!(enter(task, &InLine::<_, S>::new(&**channel), 0), Some(PERMIT));
            assert!(channel.move_after::<S>(PERMIT, &mut Some(2)).is_ok());
        });
        let tried = channel.move_now::<S>(&mut Some(3)).is_ok();
        enters.join().unwrap();
        assert!(tried, "there is one for each");
        assert_eq!(channel.len(), if S::SENDS { 2 } else { 0 });
    });
}

#[test]
fn loom_an_entering_waiter_does_not_hinder_a_try() {
    for make in [alone, shared] {
        one_enters_and_another_tries::<Senders>(make);
        one_enters_and_another_tries::<Receivers>(make);
    }
}

/// Without room: the sender has sent if and only if the receiver has received, whichever is cut.
#[test]
fn loom_a_meeting_counts_at_both_ends_or_at_neither() {
    for cut in [0, 1] {
        explore_with(2, (alone, 0), move |channel, ends: [_; 2]| {
            let sends = spawn(move || send(ends[0], channel, 5));
            let receives = spawn(move || receive(ends[1], channel));
            ends[cut].interrupt();
            channel.close();
            let (sent, received) = (sends.join().unwrap(), receives.join().unwrap());
            assert_eq!(sent, received.is_some());
            assert_eq!(channel.len(), 0);
        });
    }
}

/// Without room: two callers of one side, one of which is cut, and one of the other. The third
/// meets one of the two, and the other of them is told of the end.
fn two_for_one<S: Side>() {
    explore_with(2, (alone, 0), |channel, [cut, other, third]| {
        let of_two = move |task, n| {
            let mut cell = S::SENDS.then_some(n);
            pass::<S>(task, channel, &mut cell, true).then_some(cell.unwrap_or(n))
        };
        let first = spawn(move || of_two(cut, 1));
        let second = spawn(move || of_two(other, 2));
        cut.interrupt();
        let mut cell = (!S::SENDS).then_some(7);
        assert!(pass::<S::Other>(third, channel, &mut cell, true), "one of the two stays");
        channel.close();
        let met = [first.join().unwrap(), second.join().unwrap()];
        let met: Vec<usize> = met.into_iter().flatten().collect();
        assert_eq!(met, [cell.unwrap_or(7)], "one of the two has met the third");
    });
}

#[test]
fn loom_of_two_that_wait_without_room_one_meets_the_third() {
    two_for_one::<Senders>();
    two_for_one::<Receivers>();
}

/// Without room: a sender and a receiver that only try, while one of each side waits.
#[test]
fn loom_a_try_without_room_meets_a_waiter_or_nobody() {
    explore_with(2, (alone, 0), |channel, [sender, receiver]| {
        let sends = spawn(move || send(sender, channel, 1));
        let tries = spawn(move || channel.move_now::<Senders>(&mut Some(2)).is_ok());
        let got = receive(receiver, channel).expect("a sender comes");
        let tried = tries.join().unwrap();
        assert_eq!(tried, got == 2);
        let rest = tried.then(|| receive(receiver, channel).expect("the other sender comes"));
        assert_eq!(rest, tried.then_some(1));
        assert!(sends.join().unwrap());
        assert_eq!(channel.move_now::<Receivers>(&mut None), Err(Refused::Later));
    });
}

/// A value that was put into a ring before the close can be received.
#[test]
fn loom_a_close_loses_no_value() {
    for make in [alone, contended] {
        explore_with(ALL, (make, 2), |channel, []| {
            let sends = spawn(move || channel.try_put(&mut Some(7)).is_ok());
            channel.close();
            let sent = sends.join().unwrap();
            assert_eq!(take(channel) == Ok(7), sent);
            assert_eq!(take(channel), Err(Refused::Closed));
        });
    }
}

/// A receiver waits while the channel is closed and a sender has a place. It receives the value, or
/// is told of the end.
#[test]
fn loom_a_late_sender_tells_a_waiting_receiver_of_the_end() {
    explore_with(3, (contended_alone, 2), |channel, [task]| {
        let sends = spawn(move || channel.try_put(&mut Some(7)).is_ok());
        let receives = spawn(move || receive(task, channel));
        channel.close();
        let (sent, received) = (sends.join().unwrap(), receives.join().unwrap());
        assert_eq!(received, sent.then_some(7));
    });
}

/// The last receiver is dropped and empties the channel, while a sender has a place and comes too
/// late.
#[test]
fn loom_the_last_receiver_and_a_late_sender_leave_no_value() {
    explore_with(ALL, (contended, 2), |channel, []| {
        beside(move || channel.try_put(&mut Some(7)).is_ok(), || channel.close_and_empty());
        assert_eq!(channel.len(), 0);
    });
}

/// Two senders pass each other at one place, and both get through.
#[test]
fn loom_senders_that_pass_each_other_all_get_through() {
    for (make, preemptions) in [(shared as Make, 2), (contended, 1)] {
        explore_with(preemptions, (make, 1), |channel, [one, two, receiver]| {
            let senders = [one, two]
                .map(|task| spawn(move || assert!(send(task, channel, 1), "no sender was cut")));
            let received = (0..2).map(|_| receive(receiver, channel).expect("the channel is open"));
            assert_eq!(received.sum::<usize>(), 2);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert_eq!(channel.len(), 0);
        });
    }
}

/// Two receivers, one of which may take the value that the other was called for.
#[test]
fn loom_receivers_that_pass_each_other_all_get_through() {
    for (make, preemptions) in [(shared as Make, 2), (contended, 1)] {
        explore_with(preemptions, (make, 2), |channel, [one, two]| {
            let receivers = [one, two].map(|task| spawn(move || receive(task, channel)));
            for value in [1, 2] {
                assert!(channel.try_put(&mut Some(value)).is_ok());
            }
            let received = receivers.map(|receiver| receiver.join().unwrap().unwrap());
            assert!(received == [1, 2] || received == [2, 1], "{received:?}");
        });
    }
}

/// A refused claim makes the channel look full to a sender that enters the line meanwhile. The
/// claimer then serves that sender.
#[test]
fn loom_a_refused_claim_does_not_strand_a_waiting_sender() {
    explore_with(2, (contended, 1), |channel, [task, reader]| {
        assert!(channel.try_put(&mut Some(1)).is_ok());
        let waits = spawn(move || assert!(send(task, channel, 2), "the sender was cut"));
        let looks = spawn(move || channel.move_now::<Senders>(&mut Some(3)).is_ok());
        assert_eq!(take(channel), Ok(1));
        if looks.join().unwrap() {
            // One of the two values is in the channel, and the sender of the other one waits or is
            // about to.
            let received = [receive(reader, channel), receive(reader, channel)];
            assert!(received == [Some(2), Some(3)] || received == [Some(3), Some(2)]);
            waits.join().unwrap();
        } else {
            waits.join().unwrap();
            assert_eq!(take(channel), Ok(2));
        }
    });
}

/// One caller enters a line while another one takes what the first has seen, and gives it back. A
/// refused claim of the first hides something from the other one for a moment.
fn one_enters_and_another_one_passes<S: Side>(make: Make) {
    explore_with(3, (make, 1), |channel, [task]| {
        if !S::SENDS {
            assert!(channel.try_put(&mut Some(1)).is_ok());
        }
        let enters = spawn(move || {
            task.introduce();
            assert!(wait::<S>(task, channel, &mut Some(3), true), "the caller was not cut");
        });
        let mut passed = Some(2);
        if channel.try_move::<S>(&mut passed).is_ok() {
            let _ = channel.try_move::<S::Other>(&mut passed);
        }
        enters.join().unwrap();
    });
}

#[test]
fn loom_an_entering_waiter_is_served_by_a_passing_caller() {
    for make in [alone, in_line, shared, contended] {
        one_enters_and_another_one_passes::<Receivers>(make);
        one_enters_and_another_one_passes::<Senders>(make);
    }
}

/// Two senders are dropped at the same time. One of them is the last, and closes the channel.
#[test]
fn loom_the_last_of_two_senders_closes_the_channel() {
    explore(ALL, || {
        let (sender, receiver) = bounded::<usize>(1);
        let other = sender.clone();
        beside(move || drop(other), || drop(sender));
        assert!(receiver.is_closed());
    });
}

/// Like `Receiver::recv`: after an attempt in vain it waits at once, without asking why.
fn receive_at_once(task: Stage<Task>, channel: Model) -> Option<usize> {
    task.introduce();
    channel.try_take().ok().or_else(|| {
        let mut value = None;
        wait::<Receivers>(task, channel, &mut value, true);
        value
    })
}

/// A sender finds a receiver in the seat, which is then told of the end, and sits down once more.
#[test]
fn loom_after_the_end_no_value_is_handed_over() {
    explore_with(3, (alone as Make, 1), |channel, [task]| {
        let sends = spawn(move || channel.try_put(&mut Some(7)).is_ok());
        let closes = spawn(move || channel.close());
        let got = [(); 2].map(|()| receive_at_once(task, channel));
        closes.join().unwrap();
        sends.join().unwrap();
        assert_ne!(got, [None, Some(7)], "a value was received after the end");
    });
}
