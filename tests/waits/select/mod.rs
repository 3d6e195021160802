//! `select!`: which branch wins, in which order, what happens to the others, and its ends.

mod ends;
mod storm;

use crate::common::prelude::*;
use cygnet::sync::{Mutex, Semaphore};
use std::fmt::Debug;
use std::marker::{PhantomData, PhantomPinned};

#[test]
fn the_first_that_is_ready_has_its_handler_run() {
    with_each(|rt| {
        let (to_a, a) = unbounded();
        let (to_b, b) = unbounded();
        let (received, other) = rt.block_on(|| {
            let first = spawn(move || {
                select! {
                    value = a.recv_async() => ("a", value.unwrap(), a),
                    value = b.recv_async() => ("b", value.unwrap(), b),
                }
            });
            to_b.send(7).unwrap();
            let (name, value, receiver) = first.join().unwrap().unwrap();
            drop(to_a);
            ((name, value), receiver.len())
        });
        assert_eq!((received, other), (("b", 7), 0));
    });
}

#[test]
fn each_primitive_a_task_and_a_foreign_future_may_be_a_branch() {
    in_task(|_| {
        let (sender, receiver) = bounded::<u8>(0);
        let (event, mutex, semaphore) = (Event::new(), Mutex::new(1), Semaphore::new(0));
        let guard = mutex.lock().unwrap();
        let task = spawn(|| {
            yield_now().unwrap();
            5
        });
        let chosen = select! {
            _ = receiver.recv_async() => 1,
            _ = sender.send_async(1), if false => 2,
            _ = event.wait_async() => 3,
            _ = mutex.lock_async() => 4,
            joined = task => joined.unwrap(),
            _ = semaphore.acquire_async(1) => 6,
            _ = pending::<()>() => 7,
        };
        assert_eq!(chosen, Ok(5));
        drop(guard);
        let chosen = select! {
            _ = receiver.recv_async() => 0,
            value = mutex.lock_async() => *value,
        };
        assert_eq!(chosen, Ok(1));
        let chosen = select! {
            _ = event.wait_async() => 0,
            value = async { 8 } => value,
        };
        assert_eq!(chosen, Ok(8));
        semaphore.add_permits(1);
        assert_eq!(select! { permit = semaphore.acquire_async(1) => drop(permit) }, Ok(()));
        for primitive in [&receiver as &dyn Debug, &event, &mutex, &semaphore] {
            assert_eq!(waiting(&primitive), 0, "{primitive:?}");
        }
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
}

#[test]
fn losing_branches_are_dropped_before_the_handler_runs() {
    in_task(|_| {
        let drops = Drops::new();
        let loses = || {
            let guard = drops.guard();
            async move {
                let _guard = guard;
                pending::<()>().await;
            }
        };
        let event = Event::new();
        event.set();
        let left = select! {
            _ = loses() => unreachable!(),
            _ = event.wait_async() => drops.left(),
            _ = loses() => unreachable!(),
            _ = event.wait_async(), if false => 9,
        };
        assert_eq!((left, drops.count()), (Ok(0), 2));
    });
}

#[test]
fn futures_may_borrow_and_need_be_neither_send_nor_unpin() {
    struct Once<'a>(&'a Cell<u32>, PhantomData<Rc<()>>, PhantomPinned);
    impl Future for Once<'_> {
        type Output = u32;
        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
            self.0.set(self.0.get() + 1);
            if self.0.get() < 3 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(self.0.get())
        }
    }
    in_task(|_| {
        let (polls, mut log) = (Cell::new(0), String::new());
        let mut text = String::from("x");
        let chosen = select! {
            count = Once(&polls, PhantomData, PhantomPinned) => {
                // The other one is gone, with what it has borrowed.
                text.push('y');
                log.push_str("ran");
                count
            }
            () = async { pending::<()>().await; text.push('z') } => 0,
        };
        assert_eq!((chosen, text.as_str(), log.as_str()), (Ok(3), "xy", "ran"));
    });
}

#[test]
fn handlers_leave_loops_and_functions_and_wait_themselves() {
    fn first(numbers: &[u32]) -> Result<u32, Cancelled> {
        for &number in numbers {
            select! {
                n = ready(number) => {
                    if n == 2 {
                        return Ok(n);
                    }
                    yield_now()?;
                }
            }?;
        }
        Ok(0)
    }
    fn fails(event: &Event) -> Result<(), WaitError> {
        select! {
            done = event.wait_async() => done?,
        }?;
        Ok(())
    }
    with_each(|rt| {
        assert_eq!(rt.block_on(|| first(&[1, 2, 3])), Ok(2));
        assert_eq!(rt.block_on(|| first(&[1])), Ok(0));
        let closed = Event::new();
        closed.close();
        assert_eq!(rt.block_on(|| fails(&closed)), Err(WaitError::Closed));
        let turns = rt.block_on(|| {
            let mut turns = 0;
            'outer: loop {
                let _: Result<(), Cancelled> = select! {
                    _ = ready(()), if turns < 3 => { turns += 1; continue 'outer }
                    else => break turns,
                };
            }
        });
        assert_eq!(turns, 3);
    });
}

#[test]
fn selects_nest_in_handlers_and_in_futures() {
    with_each(|rt| {
        let inner = rt.block_on(|| {
            select! {
                a = ready(1) => select! {
                    b = ready(2) => select! { c = ready(3) => a + b + c },
                },
            }
        });
        assert_eq!(inner, Ok(Ok(Ok(6))));
        // In the middle of another poll.
        let event = Event::new();
        event.set();
        let mut polled = false;
        let nested = rt.block_on(|| {
            select! {
                value = poll_fn(|_| {
                    polled = true;
                    Poll::Ready(select! { _ = event.wait_async() => 4 })
                }) => value,
            }
        });
        assert_eq!((nested, polled), (Ok(Ok(4)), true));
    });
}

#[test]
fn biased_is_the_order_written_and_otherwise_both_have_their_turn() {
    in_task_with(&[1, 2], |_| {
        for _ in 0..100 {
            let chosen = select! {
                biased;
                _ = pending::<()>() => 0,
                _ = ready(()), if false => 1,
                _ = ready(()) => 2,
                _ = ready(()) => 3,
            };
            assert_eq!(chosen, Ok(2));
        }
        // Each of them so seldom only with a probability of less than 10 to the -20.
        let mut taken = [0; 3];
        for _ in 0..1_000 {
            select! {
                _ = ready(()) => taken[0] += 1,
                _ = ready(()) => taken[1] += 1,
                _ = ready(()) => taken[2] += 1,
            }
            .unwrap();
        }
        assert!(taken.iter().all(|&times| times > 200), "{taken:?}");
    });
}

/// The last branch is polled too, though only branches before it can win over it.
#[test]
fn each_poll_comes_to_every_branch() {
    in_task_with(&[1], |_| {
        for _ in 0..50 {
            let polls = [const { Cell::new(0) }; 4];
            let count = |i: usize| {
                let polls = &polls;
                poll_fn(move |cx| {
                    polls[i].set(polls[i].get() + 1);
                    if polls.iter().all(|count| count.get() == 3) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
            };
            select! {
                _ = count(0) => (),
                _ = count(1) => (),
                _ = count(2) => (),
                _ = count(3) => (),
            }
            .unwrap();
        }
    });
}

#[test]
fn a_select_may_have_more_than_sixteen_branches() {
    in_task_with(&[1], |_| {
        for open in 0..17 {
            let go = |i: u32| async move { if i == open { i } else { pending().await } };
            let chosen = select! {
                n = go(0) => n,
                n = go(1) => n,
                n = go(2) => n,
                n = go(3) => n,
                n = go(4) => n,
                n = go(5) => n,
                n = go(6) => n,
                n = go(7) => { n }
                n = go(8) => { n },
                n = go(9) => n,
                n = go(10) => n,
                n = go(11) => n,
                n = go(12) => n,
                n = go(13) => n,
                n = go(14), if open > 0 => n,
                n = go(15), if open > 0 => n,
                n = go(16), if open > 0 => n
            };
            assert_eq!(chosen, Ok(open));
        }
    });
}

#[test]
fn a_select_has_many_forms() {
    let event = Event::new();
    event.set();
    let (mut a, b) = (0, Some(1));
    assert_eq!(select! { _ = event.wait_async() => 1 }, Ok(1));
    assert_eq!(select! { biased; _ = event.wait_async() => 1, else => 2 }, Ok(1));
    assert_eq!(select! { (x, [y, _]) = ready((1, [2, 3])) => x + y }, Ok(3));
    assert_eq!(select! { mut x = ready(1) => { x += 1; x } }, Ok(2));
    assert_eq!(select! { Ok(x) | Err(x) = ready(Ok::<_, i32>(4)) => x }, Ok(4));
    assert_eq!(select! { _ = ready(()), if b.is_none() => 1, else => 2, }, Ok(2));
    // A disabled branch is not evaluated.
    let none: Option<std::future::Ready<u8>> = std::hint::black_box(None);
    assert_eq!(select! { x = none.unwrap(), if none.is_some() => x, else => 2 }, Ok(2));
    assert_eq!(select! { x = { a += 1; ready(a) } => x }, Ok(1));
    // A temporary value that the expression borrows.
    assert_eq!(select! { x = length(&String::from("text")) => x }, Ok(4));
    // Names of the caller's that the macro uses too.
    let (chosen, output, rest) = (1, 2, 3);
    assert_eq!(select! { _ = ready(()) => chosen + output + rest }, Ok(6));

    async fn length(text: &str) -> usize {
        text.len()
    }
}

/// The future keeps its value and its place while other branches are chosen.
#[test]
fn a_future_by_reference_goes_on_in_the_next_select() {
    in_task(|_| {
        let (sender, receiver) = bounded(1);
        let (pulse, pulses) = unbounded();
        sender.send(String::from("first")).unwrap();
        let mut sending = pin!(sender.send_async(String::from("second")));
        for i in 0..3 {
            pulse.send(i).unwrap();
            let chosen = select! {
                biased;
                sent = &mut sending => panic!("{sent:?}"),
                beat = pulses.recv_async() => beat,
            };
            assert_eq!(chosen, Ok(Ok(i)));
            assert_eq!(waiting(&sender), 1);
        }
        assert_eq!(receiver.recv().unwrap(), "first");
        let chosen = select! {
            sent = sending.as_mut() => sent.is_ok(),
            _ = pulses.recv_async() => false,
        };
        assert_eq!(chosen, Ok(true));
        assert_eq!(receiver.recv().unwrap(), "second");
        // One that fails gives the value back.
        sender.close();
        let failed = select! { sent = sender.send_async(String::from("third")) => sent };
        assert_eq!(failed.unwrap().unwrap_err().into_inner(), "third");
        assert_eq!(waiting(&sender), 0);
    });
}

/// Two channels that are closed at some time: all values, once each.
#[test]
fn a_loop_over_two_channels_receives_everything_once() {
    with_each(|rt| {
        for seed in 1..=scaled_in_debug(40) as u64 {
            for biased in [false, true] {
                let mut random = Random(seed * 7919);
                let (to_a, a) = bounded(random.below(3) as usize);
                let (to_b, b) = unbounded();
                let (of_a, of_b) = (random.below(60), random.below(60));
                let sum = rt.block_on(|| {
                    spawn(move || (0..of_a).for_each(|i| to_a.send(i).unwrap())).detach();
                    spawn(move || (0..of_b).for_each(|i| to_b.send(i).unwrap())).detach();
                    let (mut sums, mut open) = ([0, 0], [true, true]);
                    let mut take = |at: usize, value: Result<u64, WaitError>| match value {
                        Ok(value) => {
                            sums[at] += value + 1;
                            true
                        }
                        Err(closed) => {
                            assert_eq!(closed, WaitError::Closed);
                            false
                        }
                    };
                    loop {
                        if biased {
                            select! {
                                biased;
                                value = a.recv_async(), if open[0] => open[0] = take(0, value),
                                value = b.recv_async(), if open[1] => open[1] = take(1, value),
                                else => break,
                            }
                            .unwrap();
                        } else {
                            select! {
                                value = a.recv_async(), if open[0] => open[0] = take(0, value),
                                value = b.recv_async(), if open[1] => open[1] = take(1, value),
                                else => break,
                            }
                            .unwrap();
                        }
                    }
                    sums
                });
                assert_eq!(sum, [of_a * (of_a + 1) / 2, of_b * (of_b + 1) / 2]);
                assert_eq!((waiting(&a), waiting(&b)), (0, 0));
            }
        }
    });
}

#[test]
fn a_select_works_in_a_scope_and_on_plain_threads() {
    with_each(|rt| {
        let (sender, receiver) = bounded(0);
        let enough = Event::new();
        let received = scope_on(rt, |s| {
            let task = s.spawn(|| {
                let mut received = 0;
                loop {
                    select! {
                        biased;
                        value = receiver.recv_async() => received += value.unwrap(),
                        _ = enough.wait_async() => break,
                    }
                    .unwrap();
                }
                // All of it may have been sent since the channel was polled.
                received + receiver.try_iter().sum::<i32>()
            });
            (0..10).for_each(|i| sender.send(i).unwrap());
            enough.set();
            task.join().unwrap()
        });
        assert_eq!(received, 45);
    });
    within(|| {
        let (sender, receiver) = bounded(0);
        let other = Event::new();
        common::thread::scope(|s| {
            let waits = s.spawn(|| {
                select! {
                    value = receiver.recv_async() => value,
                    _ = other.wait_async() => Err(WaitError::Closed),
                }
            });
            eventually("it waits", || waiting(&receiver) == 1 && waiting(&other) == 1);
            sender.send(3).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(Ok(3)));
        });
        assert_eq!(waiting(&other), 0);
        // A task of some runtime as a branch of a thread's.
        let rt = runtime(1);
        let chosen = select! {
            _ = other.wait_async() => 0,
            joined = rt.spawn(|| 6) => joined.unwrap(),
        };
        assert_eq!(chosen, Ok(6));
    });
}

#[test]
fn later_waits_are_not_disturbed_by_wakers_that_are_called_late() {
    in_task(|_| {
        let kept = Mutex::new(Vec::new());
        select! {
            _ = poll_fn(|cx| {
                kept.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            }) => (),
            _ = async { ready(()).await } => (),
        }
        .unwrap();
        let event = Event::new();
        let refused = scope(|s| {
            let task = s.spawn(|| wait(event.wait_async()));
            kept.lock().unwrap().drain(..).for_each(|waker| waker.wake());
            common::give_way_until(|| waiting(&event) == 1);
            task.cancel("enough");
            task.join().unwrap()
        });
        assert_eq!(*refused.unwrap_err().reason(), Reason::Explicit("enough".into()));
    });
}
