//! What a graceful shutdown costs while nobody stops anything, and when somebody does: guards, interrupts, children. As in
//! [`ops`](super::ops), each performs its operation `n` times and returns how long that took; where it is called is told by who calls it.
//!
//! `compare` runs the same loops on other libraries, so they are written over what these have in common.

use std::hint::black_box;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cygnet::shutdown::{Guard, Swansong};
#[cfg(feature = "futures")]
use futures_core::Stream;

/// Something whose end waits for guards. The default is a new one that nobody else has.
pub trait Guards: Default + Sync {
    /// What its end waits for.
    type Guard: Send;

    /// A new one.
    fn guard(&self) -> Self::Guard;
}

/// Something that can be stopped, with what is below it.
pub trait Tree: Default {
    /// A new one below it.
    fn child(&self) -> Self;

    /// Stops it, and does not wait.
    fn stop(&self);

    /// Whether it is stopped.
    fn is_stopped(&self) -> bool;
}

/// Something whose stop interrupts what is wrapped in it.
pub trait Interrupts: Default {
    /// A future.
    fn future<F: Future>(&self, future: F) -> impl Future<Output = Option<F::Output>>;

    /// A stream.
    #[cfg(feature = "futures")]
    fn stream<S: Stream>(&self, stream: S) -> impl Stream<Item = S::Item>;

    /// An iterator.
    fn iterator<I: Iterator>(&self, iterator: I) -> impl Iterator<Item = I::Item>;
}

/// All three of a type that is called as cygnet's: `swansong` has given the names.
macro_rules! as_swansong {
    ($swansong:ty, $guard:ty) => {
        impl $crate::figures::stops::Guards for $swansong {
            type Guard = $guard;

            #[inline(always)]
            fn guard(&self) -> $guard {
                <$swansong>::guard(self)
            }
        }

        impl $crate::figures::stops::Tree for $swansong {
            #[inline(always)]
            fn child(&self) -> $swansong {
                <$swansong>::child(self)
            }

            #[inline(always)]
            fn stop(&self) {
                drop(self.shut_down());
            }

            fn is_stopped(&self) -> bool {
                !self.state().is_running()
            }
        }

        impl $crate::figures::stops::Interrupts for $swansong {
            fn future<F: Future>(&self, future: F) -> impl Future<Output = Option<F::Output>> {
                self.interrupt(future)
            }

            #[cfg(feature = "futures")]
            fn stream<S: futures_core::Stream>(
                &self,
                stream: S,
            ) -> impl futures_core::Stream<Item = S::Item> {
                self.interrupt(stream)
            }

            fn iterator<I: Iterator>(&self, iterator: I) -> impl Iterator<Item = I::Item> {
                self.interrupt(iterator)
            }
        }
    };
}
#[cfg(feature = "peers")]
pub(crate) use as_swansong;

as_swansong!(Swansong, Guard);

/// Calls something on a new thread that is no worker.
pub fn outside<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    let called = thread::scope(|scope| scope.spawn(call).join());
    called.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes guards and drops them, one at a time, where they are: to take one out of the black box again would be a copy that waits for
/// the stores of its parts.
#[inline(always)]
fn make<S: Guards>(of: &S, n: u64) {
    for _ in 0..n {
        let guard = black_box(of).guard();
        black_box(&guard);
    }
}

/// Guards of something that is there already.
pub fn guards_of<S: Guards>(of: &S, n: u64) -> Duration {
    let began = Instant::now();
    make(of, n);
    began.elapsed()
}

/// Guards of a root.
pub fn guards<S: Guards>(n: u64) -> Duration {
    guards_of(&S::default(), n)
}

/// Threads after which a root has no place of its own left for another one.
const CROWD: usize = 256;

/// A root of which many threads have had a guard: they have ended, and whoever comes now comes late.
#[must_use]
pub fn crowded<S: Guards>() -> S {
    let root = S::default();
    for _ in 0..CROWD {
        outside(|| make(&root, 1));
    }
    root
}

/// Something in the last of four generations below a root, which comes first.
#[must_use]
pub fn line<S: Tree>() -> Vec<S> {
    let mut line = vec![S::default()];
    for above in 0..4 {
        line.push(line[above].child());
    }
    line
}

/// Guards four levels down, while another one is there.
pub fn deep_guards<S: Guards + Tree>(n: u64) -> Duration {
    let line: Vec<S> = line();
    let _other = line[4].guard();
    guards_of(&line[4], n)
}

/// The same while there is no other in the whole tree.
pub fn deep_guards_alone<S: Guards + Tree>(n: u64) -> Duration {
    let line: Vec<S> = line();
    guards_of(&line[4], n)
}

/// How many guards each of two makes at least, when they do it at the same time: while they are few the measure would be how
/// well the two begin together.
pub const TOGETHER: u64 = 10_000;

/// Lets two begin together, each on a processor.
#[derive(Debug, Default)]
struct Start(AtomicUsize);

impl Start {
    /// Waits for the other one, and does not let go of the processor if nobody else wants it.
    fn meet(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
    }
}

/// One of two who make so many guards of the same at the same time: on which thread, from when to when.
fn contend<S: Guards>(of: &S, n: u64, start: &Start) -> (thread::ThreadId, Instant, Instant) {
    start.meet();
    let began = Instant::now();
    make(of, n);
    (thread::current().id(), began, Instant::now())
}

/// From the start of the first to the end of the last.
fn together(two: [(thread::ThreadId, Instant, Instant); 2]) -> Duration {
    let [(here, began, ended), (there, began_there, ended_there)] = two;
    assert!(here != there, "they share a thread");
    ended.max(ended_there) - began.min(began_there)
}

/// Guards of the same on two threads that are no workers, `n` times [`TOGETHER`] on each.
pub fn guards_on_two_threads<S: Guards>(of: &S, n: u64) -> Duration {
    let (n, start) = (n * TOGETHER, Start::default());
    thread::scope(|scope| {
        let other = scope.spawn(|| contend(of, n, &start));
        let here = contend(of, n, &start);
        together([here, other.join().unwrap_or_else(|panic| resume_unwind(panic))])
    })
}

/// The same in two tasks on two workers: inside one, of a runtime with two.
///
/// # Panics
/// If both run on one worker.
pub fn guards_on_two_workers<S: Guards>(of: &S, n: u64) -> Duration {
    let (n, start) = (n * TOGETHER, Start::default());
    cygnet::scope(|scope| {
        // As this worker is busy, another one starts it.
        let other = scope.spawn(|| contend(of, n, &start));
        let here = contend(of, n, &start);
        together([here, other.join().expect("no task panics")])
    })
}

/// Children made and dropped while so many siblings live.
pub fn children<T: Tree>(n: u64, siblings: usize) -> Duration {
    let parent = T::default();
    let _siblings: Vec<T> = (0..siblings).map(|_| parent.child()).collect();
    let began = Instant::now();
    for _ in 0..n {
        black_box(black_box(&parent).child());
    }
    began.elapsed()
}

/// Children each of which has one guard: both made, both dropped. Its first guard is one that is counted above.
pub fn guarded_children<S: Guards + Tree>(n: u64) -> Duration {
    let parent = S::default();
    let began = Instant::now();
    for _ in 0..n {
        let child = black_box(&parent).child();
        let guard = black_box(&child).guard();
        black_box(&guard);
    }
    began.elapsed()
}

/// The stop of a root with so many children, whose handles are there: the call alone.
///
/// # Panics
/// If one of them is not stopped by it.
#[must_use]
pub fn stop_of_a_root<T: Tree>(count: usize) -> Duration {
    let root = T::default();
    let children: Vec<T> = (0..count).map(|_| root.child()).collect();
    let began = Instant::now();
    black_box(&root).stop();
    let time = began.elapsed();
    assert!(children.iter().all(T::is_stopped), "a child goes on");
    time
}

/// A number without end: as a future that is ready whenever it is polled, as a stream that has an item, as an iterator. The same
/// number each time, so that none of them waits for what the one before has written.
#[derive(Clone, Copy, Debug)]
pub struct Number(u64);

impl Number {
    /// One that the compiler does not know.
    #[must_use]
    pub fn some() -> Number {
        Number(black_box(7))
    }
}

impl Future for Number {
    type Output = u64;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        Poll::Ready(self.0)
    }
}

#[cfg(feature = "futures")]
impl Stream for Number {
    type Item = u64;

    #[inline(always)]
    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        Poll::Ready(Some(self.0))
    }
}

impl Iterator for Number {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        Some(self.0)
    }
}

/// Polls of one future, which is ready each time.
pub fn polls(future: impl Future, n: u64) -> Duration {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..n {
        let _ = black_box(black_box(future.as_mut()).poll(&mut cx));
    }
    began.elapsed()
}

/// Polls of one stream, which has an item each time.
#[cfg(feature = "futures")]
pub fn stream_polls(stream: impl Stream, n: u64) -> Duration {
    let mut stream = pin!(stream);
    let mut cx = Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..n {
        let _ = black_box(black_box(stream.as_mut()).poll_next(&mut cx));
    }
    began.elapsed()
}

/// Steps of one iterator.
pub fn steps(mut iterator: impl Iterator, n: u64) -> Duration {
    let began = Instant::now();
    for _ in 0..n {
        black_box(black_box(&mut iterator).next());
    }
    began.elapsed()
}

/// Polls of an interrupted future.
pub fn interrupted_polls<I: Interrupts>(n: u64) -> Duration {
    let root = I::default();
    polls(root.future(Number::some()), n)
}

/// Polls of an interrupted stream.
#[cfg(feature = "futures")]
pub fn interrupted_stream_polls<I: Interrupts>(n: u64) -> Duration {
    let root = I::default();
    stream_polls(root.stream(Number::some()), n)
}

/// Steps of an interrupted iterator.
pub fn interrupted_steps<I: Interrupts>(n: u64) -> Duration {
    let root = I::default();
    steps(root.iterator(Number::some()), n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::ops::runtime;

    #[test]
    fn each_operation_comes_to_its_end() {
        let operations: &[fn(u64) -> Duration] = &[
            guards::<Swansong>,
            deep_guards::<Swansong>,
            deep_guards_alone::<Swansong>,
            guarded_children::<Swansong>,
            interrupted_polls::<Swansong>,
            interrupted_steps::<Swansong>,
            #[cfg(feature = "futures")]
            interrupted_stream_polls::<Swansong>,
            |n| polls(Number::some(), n),
            |n| steps(Number::some(), n),
            #[cfg(feature = "futures")]
            |n| stream_polls(Number::some(), n),
            |n| children::<Swansong>(n, 10),
            |n| stop_of_a_root::<Swansong>(n as usize),
        ];
        for operation in operations {
            assert!(outside(|| operation(100)) > Duration::ZERO);
            assert!(runtime(1).block_on(|| operation(100)) > Duration::ZERO);
        }
    }

    #[test]
    fn two_make_guards_of_the_same_and_none_is_left() {
        for of in line::<Swansong>() {
            assert!(runtime(2).block_on(|| guards_on_two_workers(&of, 1)) > Duration::ZERO);
            assert!(guards_on_two_threads(&of, 1) > Duration::ZERO);
            assert_eq!(of.guard_count(), 0);
        }
    }

    #[test]
    fn after_a_crowd_guards_are_counted_too() {
        let root: Swansong = crowded();
        let guard = root.guard();
        assert_eq!(root.guard_count(), 1);
        drop(guard);
        assert!(outside(|| guards_of(&root, 100)) > Duration::ZERO);
        assert_eq!(root.guard_count(), 0);
    }
}
