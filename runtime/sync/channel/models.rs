//! Models of channels; run by ci/loom.sh. See `sync::models` for what a task is there.

use super::bounded;
use super::shared::{CLOSED, PERMIT, Receiving, Sending, Shared, Tried};
use crate::runtime::sync::models::{Task, enter, enter_and};
use crate::shim::check::{ALL, Baton, FENCES, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;

/// As `Receiver::recv`.
fn receive(task: Stage<Task>, channel: Stage<Shared<usize>>) -> Option<usize> {
    receive_or_give_back(task, channel, true)
}

fn receive_or_give_back(
    task: Stage<Task>,
    channel: Stage<Shared<usize>>,
    gives_back: bool,
) -> Option<usize> {
    task.introduce();
    match channel.try_take() {
        Tried::Done(value) => Some(value),
        Tried::Closed => None,
        Tried::Later | Tried::Behind => {
            match enter_and(task, &Receiving(&*channel), 0, gives_back, None) {
                None | Some(CLOSED) => None,
                Some(_) => Some(channel.take_by_permit()),
            }
        }
    }
}

/// As `Sender::send`.
fn send(task: Stage<Task>, channel: Stage<Shared<usize>>, value: usize) -> bool {
    task.introduce();
    let mut value = Some(value);
    let mut tried = channel.try_put(&mut value);
    loop {
        match tried {
            Tried::Done(()) => return true,
            Tried::Closed => return false,
            Tried::Later | Tried::Behind => {}
        }
        match enter(task, &Sending(&*channel), 0) {
            None | Some(CLOSED) => return false,
            Some(_) => tried = channel.put_by_permit(&mut value),
        }
    }
}

fn end(channel: Stage<Shared<usize>>) {
    let (senders, receivers) = channel.places();
    assert!(senders.is_empty() && receivers.is_empty(), "somebody is left in a queue");
    // SAFETY: the threads have ended.
    unsafe { channel.end() };
}

/// One value, and two that wait for it, one of which is cut: one of them receives it.
fn one_value_and_a_cut(gives_back: bool) {
    let channel = Stage::new(Shared::new(1));
    let (cut, other) = (Task::new(), Task::new());
    let first = spawn(move || receive_or_give_back(cut, channel, gives_back));
    let sends = spawn(move || {
        assert!(matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
        channel.close();
    });
    // While the value is on its way.
    cut.cut();
    let second = receive(other, channel);
    sends.join().unwrap();
    let got = [first.join().unwrap(), second];
    let times = got.iter().filter(|value| **value == Some(7)).count();
    // Who comes second is told of the end only if the first has it, and not as long as it might give it back.
    assert_eq!(times, 1, "{got:?}");
    assert!(matches!(channel.try_take(), Tried::Closed));
    Task::end(cut);
    Task::end(other);
    end(channel);
}

#[test]
fn loom_a_value_is_received_once_whoever_is_cut() {
    explore(2, || one_value_and_a_cut(true));
}

/// The other waits for it to come back.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_permit_that_is_not_passed_on() {
    explore(2, || one_value_and_a_cut(false));
}

/// Two values and one place: a sender waits for the other's value to be received.
#[test]
fn loom_a_place_that_becomes_free_goes_to_who_waits_for_it() {
    explore(3, || {
        let channel = Stage::new(Shared::new(1));
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
    });
}

/// Two that send and one that receives, none of which has to wait for long: what was written before the value was sent is seen
/// by who receives it.
fn passers_by() {
    let channel = Stage::new(Shared::new(2));
    let written = [Stage::new(Baton::new()), Stage::new(Baton::new())];
    let put = move |n: usize| {
        written[n].write();
        assert!(matches!(channel.try_put(&mut Some(n)), Tried::Done(())));
    };
    let (first, second) = (spawn(move || put(0)), spawn(move || put(1)));
    let task = Task::new();
    for _ in 0..2 {
        let n = receive(task, channel).expect("it is not closed");
        assert_eq!(written[n].write(), 1, "it was received twice");
    }
    first.join().unwrap();
    second.join().unwrap();
    Task::end(task);
    end(channel);
    // SAFETY: the threads have ended.
    written.into_iter().for_each(|written| unsafe { written.end() });
}

#[test]
fn loom_values_pass_through_a_ring() {
    explore(2, passers_by);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_ring_without_order() {
    plant("runtime/sync/channel/ring.rs", ORDERS);
    explore(2, passers_by);
}

/// Who waits says so, and then looks once more; who passes does it the other way round.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_ring_without_the_total_order() {
    plant("runtime/sync/channel/ring.rs", FENCES);
    explore(2, passers_by);
}

/// One asks for a value, or a place, and has it at once: there is one for each, and nobody is in the way of who only tries.
fn one_enters_and_another_tries(sends: bool) {
    let channel = Stage::new(Shared::new(2));
    if !sends {
        (0..2).for_each(|i| assert!(matches!(channel.try_put(&mut Some(i)), Tried::Done(()))));
    }
    let task = Task::new();
    let enters = spawn(move || {
        task.introduce();
        if sends {
            assert_eq!(enter(task, &Sending(&*channel), 0), Some(PERMIT));
            assert!(matches!(channel.put_by_permit(&mut Some(2)), Tried::Done(())));
        } else {
            assert_eq!(enter(task, &Receiving(&*channel), 0), Some(PERMIT));
            channel.take_by_permit();
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
fn loom_who_enters_is_in_nobodys_way() {
    explore(2, || one_enters_and_another_tries(true));
    explore(2, || one_enters_and_another_tries(false));
}

/// Without room: the sender has sent if and only if the receiver has received, whatever cuts whom.
#[test]
fn loom_both_have_met_or_neither() {
    explore(2, || {
        let channel = Stage::new(Shared::new(0));
        let (sender, receiver) = (Task::new(), Task::new());
        let sends = spawn(move || send(sender, channel, 5));
        let receives = spawn(move || receive(receiver, channel));
        receiver.cut();
        channel.close();
        let (sent, received) = (sends.join().unwrap(), receives.join().unwrap());
        assert_eq!(sent, received.is_some());
        assert_eq!(channel.len(), 0);
        Task::end(sender);
        Task::end(receiver);
        end(channel);
    });
}

/// What was put into a ring before it is closed is in it.
#[test]
fn loom_a_close_loses_no_value() {
    explore(ALL, || {
        let channel = Stage::new(Shared::new(2));
        let sends = spawn(move || matches!(channel.try_put(&mut Some(7)), Tried::Done(())));
        channel.close();
        let sent = sends.join().unwrap();
        assert_eq!(matches!(channel.try_take(), Tried::Done(7)), sent);
        assert!(matches!(channel.try_take(), Tried::Closed));
        end(channel);
    });
}

/// Of two senders that go at the same time one is the last, and says that no more will come.
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
