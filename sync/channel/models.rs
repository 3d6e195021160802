//! Models of channels, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::bounded;
use super::line::PERMIT;
use super::shared::{Receiving, Sending, Shared, Tried};
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::check::{ALL, Baton, FENCES, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::models::{Task, enter, enter_node};
use std::panic::Location;
use std::pin::pin;

/// Like `Receiver::recv`.
fn receive(task: Stage<Task>, channel: Stage<Shared<usize>>) -> Option<usize> {
    receive_or_give_back(task, channel, true)
}

fn receive_or_give_back(
    task: Stage<Task>,
    channel: Stage<Shared<usize>>,
    gives_back: bool,
) -> Option<usize> {
    task.introduce();
    let source = Receiving(&*channel);
    let node = pin!(WaitNode::new(0, Location::caller()));
    let mut tried = channel.try_take();
    loop {
        match tried {
            Tried::Done(value) => return Some(value),
            Tried::Closed => return None,
            _ => {}
        }
        let answer = enter_node(task, &source, node.as_ref(), gives_back, None)?;
        tried = channel.take_after(answer);
    }
}

/// Like `Sender::send`.
fn send(task: Stage<Task>, channel: Stage<Shared<usize>>, value: usize) -> bool {
    task.introduce();
    let source = Sending(&*channel);
    let node = pin!(WaitNode::new(0, Location::caller()));
    let mut value = Some(value);
    let mut tried = channel.try_put(&mut value);
    loop {
        match tried {
            Tried::Done(()) => return true,
            Tried::Closed => return false,
            _ => {}
        }
        let Some(answer) = enter_node(task, &source, node.as_ref(), true, None) else {
            return false;
        };
        tried = channel.put_after(answer, &mut value);
    }
}

type Make = fn(usize) -> Stage<Shared<usize>>;

/// A channel with one handle at each end.
fn alone(capacity: usize) -> Stage<Shared<usize>> {
    Stage::new(Shared::new(capacity))
}

/// A channel with two handles at each end, so that waiters are called.
fn shared(capacity: usize) -> Stage<Shared<usize>> {
    let channel = Stage::new(Shared::new(capacity));
    channel.lock().ends.senders.is_cloned();
    channel.lock().ends.receivers.is_cloned();
    channel
}

/// A channel with two handles at each end, and many callers at both.
fn contended(capacity: usize) -> Stage<Shared<usize>> {
    let channel = shared(capacity);
    channel.ring.as_ref().expect("a channel with room has a ring").contend();
    channel
}

fn end(channel: Stage<Shared<usize>>) {
    let (senders, receivers) = channel.places();
    assert!(senders.is_empty() && receivers.is_empty(), "a waiter is left in a line");
    // SAFETY: the threads have ended, so the channel has no other user.
    unsafe { channel.end() };
}

/// One value and two waiting receivers, one of which is cut: one of them receives the value.
fn one_value_and_a_cut(make: Make, gives_back: bool) {
    let channel = make(1);
    let (cut, other) = (Task::new(), Task::new());
    let first = spawn(move || receive_or_give_back(cut, channel, gives_back));
    let sends = spawn(move || {
        assert!(matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
        channel.close();
    });
    // While the value is on its way.
    cut.interrupt();
    let second = receive(other, channel);
    sends.join().unwrap();
    let got = [first.join().unwrap(), second];
    let times = got.iter().filter(|value| **value == Some(7)).count();
    // The second receiver is told of the end only if the first has the value, not while the first
    // might still give it back.
    assert_eq!(times, 1, "{got:?}");
    assert!(matches!(channel.try_take(), Tried::Closed));
    Task::end(cut);
    Task::end(other);
    end(channel);
}

#[test]
fn loom_a_value_is_received_once_even_if_a_receiver_is_cut() {
    explore(2, || one_value_and_a_cut(alone, true));
    explore(1, || one_value_and_a_cut(shared, true));
    explore(1, || one_value_and_a_cut(contended, true));
}

/// The other receiver waits for the permit to be passed on.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_permit_that_is_not_passed_on() {
    explore(2, || one_value_and_a_cut(alone, false));
}

/// Two values and one place: a sender waits until the other value is received.
#[test]
fn loom_a_freed_place_goes_to_the_waiting_sender() {
    for make in [alone, shared, contended] {
        explore(3, move || a_place_becomes_free(make(1)));
    }
}

fn a_place_becomes_free(channel: Stage<Shared<usize>>) {
    let (sender, receiver) = (Task::new(), Task::new());
    assert!(matches!(channel.try_put(&mut Some(1)), Tried::Done(())));
    let sends = spawn(move || send(sender, channel, 2));
    let first = receive(receiver, channel);
    let second = receive(receiver, channel);
    assert!(sends.join().unwrap());
    assert_eq!((first, second), (Some(1), Some(2)));
    Task::end(sender);
    Task::end(receiver);
    end(channel);
}

/// Two senders and a receiver, none of which has to wait for long. The receiver sees what was
/// written before the value was sent.
fn passers_by(channel: Stage<Shared<usize>>) {
    let written = [Stage::new(Baton::new()), Stage::new(Baton::new())];
    let put = move |n: usize| {
        written[n].write();
        assert!(matches!(channel.try_put(&mut Some(n)), Tried::Done(())));
    };
    let (first, second) = (spawn(move || put(0)), spawn(move || put(1)));
    let task = Task::new();
    for _ in 0..2 {
        let n = receive(task, channel).expect("the channel is open");
        assert_eq!(written[n].write(), 1, "a value was received twice");
    }
    first.join().unwrap();
    second.join().unwrap();
    Task::end(task);
    end(channel);
    // SAFETY: the threads have ended, so the batons have no other user.
    written.into_iter().for_each(|written| unsafe { written.end() });
}

#[test]
fn loom_values_pass_through_a_ring() {
    for make in [alone, contended] {
        explore(2, move || passers_by(make(2)));
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_ring_without_order() {
    plant("sync/channel/ring.rs", ORDERS);
    explore(2, || passers_by(alone(2)));
}

/// A waiter announces itself and then looks once more; a passing caller does this in the other
/// order.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_ring_without_the_total_order() {
    plant("sync/channel/ring.rs", FENCES);
    explore(2, || passers_by(alone(2)));
}

/// One caller enters and another only tries, for two values or two places. The first is granted one
/// at once, and does not hinder the other.
fn one_enters_and_another_tries(channel: Stage<Shared<usize>>, sends: bool) {
    if !sends {
        (0..2).for_each(|i| assert!(matches!(channel.try_put(&mut Some(i)), Tried::Done(()))));
    }
    let task = Task::new();
    let enters = spawn(move || {
        task.introduce();
        if sends {
            assert_eq!(enter(task, &Sending(&*channel), 0), Some(PERMIT));
            assert!(matches!(channel.put_after(PERMIT, &mut Some(2)), Tried::Done(())));
        } else {
            assert_eq!(enter(task, &Receiving(&*channel), 0), Some(PERMIT));
            assert!(matches!(channel.take_after(PERMIT), Tried::Done(_)));
        }
    });
    let tried = match sends {
        true => matches!(channel.put_now(&mut Some(3)), Tried::Done(())),
        false => matches!(channel.take_now(), Tried::Done(_)),
    };
    enters.join().unwrap();
    assert!(tried, "there is one for each");
    assert_eq!(channel.len(), if sends { 2 } else { 0 });
    Task::end(task);
    end(channel);
}

#[test]
fn loom_an_entering_waiter_does_not_hinder_a_try() {
    for make in [alone, shared] {
        explore(2, move || one_enters_and_another_tries(make(2), true));
        explore(2, move || one_enters_and_another_tries(make(2), false));
    }
}

/// Without room: the sender has sent if and only if the receiver has received, whichever is cut.
#[test]
fn loom_a_meeting_counts_at_both_ends_or_at_neither() {
    explore(2, || {
        let channel = Stage::new(Shared::new(0));
        let (sender, receiver) = (Task::new(), Task::new());
        let sends = spawn(move || send(sender, channel, 5));
        let receives = spawn(move || receive(receiver, channel));
        receiver.interrupt();
        channel.close();
        let (sent, received) = (sends.join().unwrap(), receives.join().unwrap());
        assert_eq!(sent, received.is_some());
        assert_eq!(channel.len(), 0);
        Task::end(sender);
        Task::end(receiver);
        end(channel);
    });
}

/// A value that was put into a ring before the close can be received.
#[test]
fn loom_a_close_loses_no_value() {
    for make in [alone, contended] {
        explore(ALL, move || {
            let channel = make(2);
            let sends = spawn(move || matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
            channel.close();
            let sent = sends.join().unwrap();
            assert_eq!(matches!(channel.try_take(), Tried::Done(7)), sent);
            assert!(matches!(channel.try_take(), Tried::Closed));
            end(channel);
        });
    }
}

/// A receiver waits while the channel is closed and a sender has a place. It receives the value, or
/// is told of the end.
#[test]
fn loom_a_late_sender_tells_a_waiting_receiver_of_the_end() {
    explore(3, || {
        let (channel, task) = (contended(2), Task::new());
        let sends = spawn(move || matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
        let receives = spawn(move || receive(task, channel));
        channel.close();
        let (sent, received) = (sends.join().unwrap(), receives.join().unwrap());
        assert_eq!(received, sent.then_some(7));
        Task::end(task);
        end(channel);
    });
}

/// The last receiver is dropped and empties the channel, while a sender has a place and comes too
/// late.
#[test]
fn loom_the_last_receiver_and_a_late_sender_leave_no_value() {
    explore(ALL, || {
        let channel = contended(2);
        let sends = spawn(move || matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
        channel.close_and_empty();
        sends.join().unwrap();
        assert_eq!(channel.len(), 0);
        end(channel);
    });
}

/// Two senders pass each other at one place, and both get through.
fn three_senders(channel: Stage<Shared<usize>>) {
    let tasks = [Task::new(), Task::new()];
    let senders =
        tasks.map(|task| spawn(move || assert!(send(task, channel, 1), "no sender was cut")));
    let receiver = Task::new();
    let received = (0..2).map(|_| receive(receiver, channel).expect("the channel is open"));
    assert_eq!(received.sum::<usize>(), 2);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(channel.len(), 0);
    tasks.into_iter().for_each(Task::end);
    Task::end(receiver);
    end(channel);
}

#[test]
fn loom_senders_that_pass_each_other_all_get_through() {
    explore(2, || three_senders(shared(1)));
    explore(1, || three_senders(contended(1)));
}

/// Two receivers, one of which may take the value that the other was called for.
#[test]
fn loom_receivers_that_pass_each_other_all_get_through() {
    for (make, preemptions) in [(shared as Make, 2), (contended, 1)] {
        explore(preemptions, move || {
            let channel = make(2);
            let tasks = [Task::new(), Task::new()];
            let receivers = tasks.map(|task| spawn(move || receive(task, channel)));
            for value in [1, 2] {
                assert!(matches!(channel.try_put(&mut Some(value)), Tried::Done(())));
            }
            let received = receivers.map(|receiver| receiver.join().unwrap().unwrap());
            assert!(received == [1, 2] || received == [2, 1], "{received:?}");
            tasks.into_iter().for_each(Task::end);
            end(channel);
        });
    }
}

/// A refused claim makes the channel look full to a sender that enters the line meanwhile. The
/// claimer then serves that sender.
#[test]
fn loom_a_refused_claim_does_not_strand_a_waiting_sender() {
    explore(2, || {
        let (channel, task) = (contended(1), Task::new());
        assert!(matches!(channel.try_put(&mut Some(1)), Tried::Done(())));
        let waits = spawn(move || assert!(send(task, channel, 2), "the sender was cut"));
        let looks = spawn(move || matches!(channel.put_now(&mut Some(3)), Tried::Done(())));
        assert!(matches!(channel.try_take(), Tried::Done(1)));
        if looks.join().unwrap() {
            // One of the two values is in the channel, and the sender of the other one waits or is
            // about to.
            let reader = Task::new();
            let received = [receive(reader, channel), receive(reader, channel)];
            assert!(received == [Some(2), Some(3)] || received == [Some(3), Some(2)]);
            waits.join().unwrap();
            Task::end(reader);
        } else {
            waits.join().unwrap();
            assert!(matches!(channel.try_take(), Tried::Done(2)));
        }
        Task::end(task);
        end(channel);
    });
}

/// One caller enters a line while another one takes what the first has seen, and gives it back. A
/// refused claim of the first hides something from the other one for a moment.
fn one_enters_and_another_one_passes(channel: Stage<Shared<usize>>, sends: bool) {
    if !sends {
        assert!(matches!(channel.try_put(&mut Some(1)), Tried::Done(())));
    }
    let task = Task::new();
    let enters = spawn(move || {
        task.introduce();
        let node = pin!(WaitNode::new(0, Location::caller()));
        let mut value = Some(3);
        loop {
            let (sender, receiver) = (Sending(&*channel), Receiving(&*channel));
            let answer = match sends {
                true => enter_node(task, &sender, node.as_ref(), true, None),
                false => enter_node(task, &receiver, node.as_ref(), true, None),
            };
            let answer = answer.expect("the caller was not cut");
            let is_done = match sends {
                true => matches!(channel.put_after(answer, &mut value), Tried::Done(())),
                false => matches!(channel.take_after(answer), Tried::Done(_)),
            };
            if is_done {
                return;
            }
        }
    });
    let mut passed = Some(2);
    if !sends {
        if let Tried::Done(_) = channel.try_take() {
            channel.try_put(&mut passed);
        }
    } else if let Tried::Done(()) = channel.try_put(&mut passed) {
        channel.try_take();
    }
    enters.join().unwrap();
    Task::end(task);
    end(channel);
}

#[test]
fn loom_an_entering_waiter_is_served_by_a_passing_caller() {
    for make in [alone, shared, contended] {
        for sends in [false, true] {
            explore(3, move || one_enters_and_another_one_passes(make(1), sends));
        }
    }
}

/// Two senders are dropped at the same time. One of them is the last, and closes the channel.
#[test]
fn loom_the_last_of_two_senders_closes_the_channel() {
    explore(ALL, || {
        let (sender, receiver) = bounded::<usize>(1);
        let other = sender.clone();
        let goes = spawn(move || drop(other));
        drop(sender);
        goes.join().unwrap();
        assert!(receiver.is_closed());
    });
}
