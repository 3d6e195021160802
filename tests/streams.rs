//! With the feature `futures`: the ends of a channel as a stream and a sink, and the readers of a
//! ring as streams.

mod common;

use common::prelude::*;
use cygnet::sync::Sender;
use cygnet::sync::streams::{RecvStream, SendSink, SinkError};
use futures_core::Stream;
use futures_sink::Sink;
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::error::Error;
use std::fmt::Debug;

// Their auto traits, as in docs/auto-traits.md.
assert_impl_all!(RecvStream<Cell<u8>>: Send, Sync, Debug, Stream<Item = Cell<u8>>);
assert_not_impl_any!(RecvStream<u8>: Unpin, std::panic::UnwindSafe);
assert_not_impl_any!(RecvStream<Rc<u8>>: Send, Sync);
assert_impl_all!(SendSink<u8>: Send, Sync, Debug, Sink<u8>);
assert_not_impl_any!(SendSink<u8>: Unpin, std::panic::UnwindSafe);
assert_impl_all!(SendSink<Cell<u8>>: Send);
assert_not_impl_any!(SendSink<Cell<u8>>: Sync);
assert_not_impl_any!(SendSink<Rc<u8>>: Send, Sync);
assert_impl_all!(SinkError<Rc<u8>>: Error, Clone, Eq, Unpin);
assert_not_impl_any!(SinkError<Rc<u8>>: Send, Sync);

/// The streams of a ring are `Send` if its items are.
#[allow(dead_code)]
fn streams_of_a_ring_are_send(stage: ring::Stage<Cell<u8>>, reader: ring::Reader<Cell<u8>>) {
    fn is_send(_: impl Stream + Send) {}
    is_send(stage.into_stream());
    is_send(reader.into_stream());
}

async fn next<T>(stream: &mut Pin<&mut RecvStream<T>>) -> Option<T> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

/// As `SinkExt::send` of the futures crate.
async fn send<T>(sink: &mut Pin<&mut SendSink<T>>, item: T) -> Result<(), SinkError<T>> {
    poll_fn(|cx| sink.as_mut().poll_ready(cx)).await?;
    sink.as_mut().start_send(item)?;
    poll_fn(|cx| sink.as_mut().poll_flush(cx)).await
}

async fn close<T>(sink: &mut Pin<&mut SendSink<T>>) -> Result<(), SinkError<T>> {
    poll_fn(|cx| sink.as_mut().poll_close(cx)).await
}

fn ready<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    match poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn next_now<T>(mut stream: Pin<&mut RecvStream<T>>) -> Option<Option<T>> {
    ready(|cx| stream.as_mut().poll_next(cx))
}

fn ready_now<T>(mut sink: Pin<&mut SendSink<T>>) -> Option<Result<(), SinkError<T>>> {
    ready(|cx| sink.as_mut().poll_ready(cx))
}

#[test]
fn all_values_come_in_order_until_all_senders_are_gone() {
    with_each(|rt| {
        for capacity in [0, 1, usize::MAX] {
            let (sender, receiver) = bounded(capacity);
            let sends = rt.spawn(move || {
                wait(async {
                    let mut sink = pin!(sender.into_sink());
                    for i in 0..100 {
                        send(&mut sink, i).await.unwrap();
                    }
                })
            });
            let received = rt.block_on(|| {
                wait(async {
                    let (mut stream, mut all) = (pin!(receiver.into_stream()), Vec::new());
                    while let Some(i) = next(&mut stream).await {
                        all.push(i);
                    }
                    // The end stays.
                    assert_eq!(next(&mut stream).await, None);
                    assert_eq!(waiting(&stream), 0);
                    all
                })
            });
            assert_eq!(received, Ok((0..100).collect()));
            sends.join().unwrap().unwrap();
        }
    });
}

#[test]
fn a_stream_that_is_dropped_has_taken_nothing() {
    let (sender, receiver) = bounded(1);
    let kept = receiver.clone();
    let mut stream = Box::pin(receiver.into_stream());
    assert_eq!(next_now(stream.as_mut()), None);
    assert_eq!(waiting(&sender), 1);
    // The stream is woken, and dropped.
    sender.send(1).unwrap();
    assert_eq!(waiting(&sender), 0);
    drop(stream);
    assert_eq!((kept.try_recv(), waiting(&sender)), (Ok(1), 0));
    // The same after several values.
    let mut stream = Box::pin(kept.clone().into_stream());
    for i in 0..3 {
        sender.send(i).unwrap();
        assert_eq!(next_now(stream.as_mut()), Some(Some(i)));
    }
    assert_eq!(next_now(stream.as_mut()), None);
    drop(stream);
    sender.send(3).unwrap();
    assert_eq!(kept.recv(), Ok(3));
    // The drop of the last receiver closes the channel, also inside a stream.
    drop(kept.into_stream());
    assert!(sender.is_closed());
}

#[test]
fn a_sink_that_is_ready_has_a_place_and_gives_it_back() {
    let (sender, receiver) = bounded(1);
    let mut sink = Box::pin(sender.clone().into_sink());
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    // A second poll changes nothing.
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    assert!(sender.try_send(1).is_err());
    drop(sink);
    sender.try_send(1).unwrap();
    // The channel is full, so the sink waits until it is dropped.
    let mut sink = Box::pin(sender.clone().into_sink());
    assert_eq!(ready_now(sink.as_mut()), None);
    assert_eq!(waiting(&sender), 1);
    panics_with("not ready", || sink.as_mut().start_send(2));
    drop(sink);
    assert_eq!((waiting(&sender), receiver.recv()), (0, Ok(1)));
    // A value that `start_send` has taken is there without a flush. `poll_close` gives back a place
    // that was not used.
    let mut sink = Box::pin(sender.clone().into_sink());
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    sink.as_mut().start_send(3).unwrap();
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    assert_eq!(ready(|cx| sink.as_mut().poll_close(cx)), Some(Ok(())));
    assert_eq!(ready(|cx| sink.as_mut().poll_close(cx)), Some(Ok(())));
    assert!(ready_now(sink.as_mut()).unwrap().is_err());
    sender.try_send(4).unwrap();
    drop(sender);
    assert!(receiver.is_closed(), "a closed sink is no sender any more");
    drop(sink);
}

#[test]
fn a_value_that_cannot_be_sent_comes_back() {
    let drops = Drops::new();
    let (sender, receiver) = bounded(1);
    let mut sink = Box::pin(sender.into_sink());
    assert!(ready_now(sink.as_mut()).unwrap().is_ok());
    receiver.close();
    // The sink has a place.
    assert!(ready_now(sink.as_mut()).unwrap().is_ok());
    let refused = sink.as_mut().start_send(drops.guard()).unwrap_err();
    assert!(refused.to_string().contains("closed"));
    drop(refused.into_inner().expect("the value"));
    let refused = ready_now(sink.as_mut()).unwrap().unwrap_err();
    assert!(refused.into_inner().is_none());
    assert_eq!(drops.left(), 0);
}

/// Without room the place goes with its receiver.
#[test]
fn without_room_a_value_waits_in_the_sink_for_the_next_receiver() {
    let (sender, receiver) = bounded(0);
    let mut sink = Box::pin(sender.into_sink());
    assert_eq!(ready_now(sink.as_mut()), None);
    let mut stream = Box::pin(receiver.clone().into_stream());
    assert_eq!(next_now(stream.as_mut()), None);
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    drop(stream);
    sink.as_mut().start_send(1).unwrap();
    assert_eq!(ready(|cx| sink.as_mut().poll_flush(cx)), None);
    assert_eq!(ready_now(sink.as_mut()), None);
    let mut stream = Box::pin(receiver.into_stream());
    assert_eq!(next_now(stream.as_mut()), None);
    assert_eq!(ready(|cx| sink.as_mut().poll_flush(cx)), Some(Ok(())));
    assert_eq!(next_now(stream.as_mut()), Some(Some(1)));
    // A value that the sink still has when the last receiver goes comes back.
    assert_eq!(next_now(stream.as_mut()), None);
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    drop(stream);
    let refused = sink.as_mut().start_send(2).unwrap_err();
    assert_eq!(refused.into_inner(), Some(2));
}

#[test]
fn as_a_branch_of_a_select() {
    with_each(|rt| {
        let (to_a, a) = unbounded();
        let (to_b, b) = bounded(0);
        let sends = |to: Sender<u64>| move || (1..=50).for_each(|i| to.send(i).unwrap());
        let tasks = [rt.spawn(sends(to_a)), rt.spawn(sends(to_b))];
        let sum = rt.block_on(|| {
            let (mut a, mut b) = (pin!(a.into_stream()), pin!(b.into_stream()));
            let (mut sum, mut open) = (0, [true, true]);
            let mut take = |value: Option<u64>| {
                sum += value.unwrap_or(0);
                value.is_some()
            };
            loop {
                select! {
                    value = next(&mut a), if open[0] => open[0] = take(value),
                    value = next(&mut b), if open[1] => open[1] = take(value),
                    else => break,
                }
                .unwrap();
            }
            sum
        });
        assert_eq!(sum, 2 * 50 * 51 / 2);
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

/// Many streams and sinks, on tasks and threads, some of them dropped at every stage.
#[test]
fn nothing_is_lost_in_a_storm() {
    for workers in [1, 2, 3, 8] {
        for capacity in [0, 1, 7] {
            within(|| {
                let rt = runtime(workers);
                let (sender, receiver) = bounded(capacity);
                let times = scaled_in_debug(500) as u64;
                let sends = |seed: u64| {
                    own(&sender, move |sender| {
                        let mut random = common::Random(seed * 7919 + 1);
                        let mut sink = Box::pin(sender.clone().into_sink());
                        for i in 0..times {
                            if random.below(4) == 0 {
                                // The dropped sink may have a place, and has no value.
                                let _ = ready_now(sink.as_mut());
                                sink = Box::pin(sender.clone().into_sink());
                            }
                            wait(send(&mut sink.as_mut(), i)).unwrap().unwrap();
                        }
                        wait(close(&mut sink.as_mut())).unwrap().unwrap();
                        times * (times - 1) / 2
                    })
                };
                let receives = |seed: u64| {
                    own(&receiver, move |receiver| {
                        let mut random = common::Random(seed * 6151 + 1);
                        let mut stream = Box::pin(receiver.clone().into_stream());
                        let mut sum = 0;
                        loop {
                            if random.below(4) == 0 {
                                let early = next_now(stream.as_mut());
                                sum += early.flatten().unwrap_or(0);
                                stream = Box::pin(receiver.clone().into_stream());
                            }
                            match wait(next(&mut stream.as_mut())).unwrap() {
                                Some(value) => sum += value,
                                None => return sum,
                            }
                        }
                    })
                };
                let mut sending: Vec<_> = (0..4).map(|i| rt.spawn(sends(i))).collect();
                let mut receiving: Vec<_> = (0..4).map(|i| rt.spawn(receives(i))).collect();
                let threads = [sends(10), sends(11)].map(common::thread::spawn);
                let takes = [receives(12), receives(13)].map(common::thread::spawn);
                let mut sent: u64 = sending.drain(..).map(|task| task.join().unwrap()).sum();
                sent += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
                sender.close();
                let mut got: u64 = receiving.drain(..).map(|task| task.join().unwrap()).sum();
                got += takes.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
                assert_eq!((sent, waiting(&receiver), receiver.len()), (got, 0, 0));
            });
        }
    }
}

#[test]
fn a_task_that_is_cancelled_leaves_the_list() {
    with_each(|rt| {
        let (sender, receiver) = bounded::<u8>(0);
        let theirs = receiver.clone();
        let task = rt.spawn(move || wait(next(&mut pin!(theirs.into_stream()))));
        eventually("it waits", || waiting(&receiver) == 1);
        task.cancel("enough");
        assert!(task.join().unwrap().is_err());
        assert_eq!(waiting(&receiver), 0);
        assert!(sender.try_send(1).is_err());
    });
}

/// A stream that was woken once queues anew when it asks for the next value.
#[test]
fn a_stream_is_not_served_again_and_again_before_waiters() {
    within(|| {
        for (to, from) in [bounded(4), unbounded()] {
            let mut stream = pin!(from.clone().into_stream());
            assert!(next_now(stream.as_mut()).is_none());
            to.send(0).unwrap();
            assert_eq!(next_now(stream.as_mut()), Some(Some(0)));
            let mut waits = pin!(from.recv_async());
            let mut served = || ready(|cx| waits.as_mut().poll(cx)).is_some();
            assert!(!served());
            let is_passed = |i: &i32| {
                let at_once = next_now(stream.as_mut()).is_some();
                to.send(*i).unwrap();
                let passed = !served();
                assert!(!at_once);
                passed && next_now(stream.as_mut()) == Some(Some(*i))
            };
            assert!((1..100).take_while(is_passed).count() < 10, "it is passed again and again");
        }
    });
}

#[test]
fn a_sink_is_not_served_again_and_again_before_waiters() {
    within(|| {
        let (to, from) = bounded(1);
        let mut sink = pin!(to.clone().into_sink());
        to.send(0).unwrap();
        assert!(ready_now(sink.as_mut()).is_none());
        from.recv().unwrap();
        assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
        sink.as_mut().start_send(1).unwrap();
        let mut waits = pin!(to.send_async(9));
        let mut served = || ready(|cx| waits.as_mut().poll(cx)).is_some();
        assert!(!served());
        let is_passed = |_: &i32| {
            assert!(ready_now(sink.as_mut()).is_none());
            from.recv().unwrap();
            !served() && {
                assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
                sink.as_mut().start_send(1).unwrap();
                true
            }
        };
        assert!((1..100).take_while(is_passed).count() < 10, "it is passed again and again");
    });
}

/// The sink has a place when the last receiver goes, and puts no value there.
#[test]
fn a_value_that_a_sink_could_not_send_does_not_count() {
    let (to, from) = bounded(2);
    let mut sink = pin!(to.clone().into_sink());
    assert_eq!(ready_now(sink.as_mut()), Some(Ok(())));
    drop(from);
    assert_eq!(sink.as_mut().start_send(1).unwrap_err().into_inner(), Some(1));
    assert_eq!((to.len(), to.is_empty()), (0, true));
}

/// Q40.
#[test]
fn the_streams_of_a_ring_yield_its_items_until_its_end() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(4, String::new);
        let [clones] = ring.readers();
        let (takes, producer) = (ring.stage(), ring.producer());
        let reads = |mut stream: Pin<Box<dyn Stream<Item = String> + Send>>| {
            rt.spawn(move || {
                wait(async {
                    let mut all = Vec::new();
                    while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
                        all.push(item);
                    }
                    // The end stays.
                    assert!(poll_fn(|cx| stream.as_mut().poll_next(cx)).await.is_none());
                    all
                })
            })
        };
        let reads = [reads(Box::pin(clones.into_stream())), reads(Box::pin(takes.into_stream()))];
        let items: Vec<_> = (0..100).map(|item: u8| item.to_string()).collect();
        for item in &items {
            producer.send(item.clone()).unwrap();
        }
        drop(producer);
        assert_eq!(join_all(reads), [Ok(items.clone()), Ok(items)]);
    });
}

/// Q29, Q40.
#[test]
fn a_stream_of_a_ring_that_is_dropped_has_taken_what_it_has_yielded() {
    let mut ring = ring::single_producer(4, u8::default);
    let [reader] = ring.readers();
    let (mut stage, mut producer) = (ring.stage(), ring.producer());
    let mut stream = Box::pin(reader.into_stream());
    let mut next = || ready(|cx| stream.as_mut().poll_next(cx));
    assert_eq!(next(), None);
    (0..3).for_each(|item| producer.send(item).unwrap());
    assert_eq!((next(), next()), (Some(Some(0)), Some(Some(1))));
    drop(stream);
    assert!(producer.is_closed());
    assert_eq!(stage.iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_stream_of_a_ring_ends_with_a_shutdown() {
    within(|| {
        let swansong = shutdown::Swansong::new();
        let mut ring = ring::single_producer(4, u8::default);
        let (stage, mut producer) = (ring.stage(), ring.producer());
        let mut stream = pin!(swansong.interrupt(stage.into_stream()));
        producer.send(7).unwrap();
        let mut next = || wait(poll_fn(|cx| stream.as_mut().poll_next(cx)));
        assert_eq!(next(), Ok(Some(7)));
        common::thread::scope(|s| {
            s.spawn(|| assert_eq!(next(), Ok(None)));
            swansong.shut_down();
        });
        producer.send(8).unwrap();
    });
}

/// The reader is in the future that panics.
#[test]
fn a_clone_that_panics_ends_the_stream_and_the_ring() {
    #[derive(Default)]
    struct Bad;
    impl Clone for Bad {
        fn clone(&self) -> Bad {
            panic!("a bad item")
        }
    }
    let mut ring = ring::single_producer(4, Bad::default);
    let ([reader], mut producer) = (ring.readers(), ring.producer());
    let mut stream = Box::pin(reader.into_stream());
    producer.send(Bad).unwrap();
    let said = panic_of(|| _ = ready(|cx| stream.as_mut().poll_next(cx)));
    assert_eq!(said, "a bad item");
    assert!(producer.is_closed());
}
