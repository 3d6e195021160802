//! The cost of a graceful shutdown, while nothing is stopped and at a stop: guards, interrupts,
//! children.
//!
//! As in [`ops`](super::ops), each function performs its operation `n` times and returns the time
//! taken. The caller decides whether it runs on a worker or on another thread.
//!
//! `compare` runs the same loops on other libraries, so they are written over a common interface.

pub mod measured;

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

use crate::measure::harness::time;

/// A shutdown that waits for guards. The default is a new one without guards.
pub trait Guards: Default + Sync {
    /// A guard, which delays the end of the shutdown.
    type Guard: Send;

    /// Makes a guard.
    fn guard(&self) -> Self::Guard;
}

/// A node that can be stopped together with its descendants.
pub trait Tree: Default {
    /// Makes a child of the node.
    fn child(&self) -> Self;

    /// Stops the node without waiting for its end.
    fn stop(&self);

    /// Whether the node is stopped.
    fn is_stopped(&self) -> bool;
}

/// A shutdown that interrupts the futures, streams and iterators wrapped in it.
pub trait Interrupts: Default {
    /// Wraps a future.
    fn future<F: Future>(&self, future: F) -> impl Future<Output = Option<F::Output>>;

    /// Wraps a stream.
    #[cfg(feature = "futures")]
    fn stream<S: Stream>(&self, stream: S) -> impl Stream<Item = S::Item>;

    /// Wraps an iterator.
    fn iterator<I: Iterator>(&self, iterator: I) -> impl Iterator<Item = I::Item>;
}

/// Implements the three traits for a type with cygnet's method names, which come from `swansong`.
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

/// Calls `call` on a new thread that is not a worker.
pub fn outside<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    let called = thread::scope(|scope| scope.spawn(call).join());
    called.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes guards and drops them in place, one at a time. Moving a guard out of the black box again
/// would be a copy that waits for the stores of its parts.
#[inline(always)]
fn make<S: Guards>(of: &S, n: u64) {
    for _ in 0..n {
        let guard = black_box(of).guard();
        black_box(&guard);
    }
}

/// Guards of an existing shutdown.
pub fn guards_of<S: Guards>(of: &S, n: u64) -> Duration {
    let began = Instant::now();
    make(of, n);
    began.elapsed()
}

/// Guards of a new root.
pub fn guards<S: Guards>(n: u64) -> Duration {
    guards_of(&S::default(), n)
}

/// Number of threads after which a root has no slot left for another thread.
const CROWD: usize = 256;

/// A root without free slots: as many threads have had a guard of it, and have ended.
pub fn crowded<S: Guards>() -> S {
    let root = S::default();
    for _ in 0..CROWD {
        outside(|| make(&root, 1));
    }
    root
}

/// A root and four generations of descendants, one node in each, beginning with the root.
pub fn line<S: Tree>() -> Vec<S> {
    let mut line = vec![S::default()];
    for above in 0..4 {
        line.push(line[above].child());
    }
    line
}

/// Guards four levels below a root, while another guard exists.
pub fn deep_guards<S: Guards + Tree>(n: u64) -> Duration {
    let line: Vec<S> = line();
    let _other = line[4].guard();
    guards_of(&line[4], n)
}

/// Guards four levels below a root, without another guard in the tree.
pub fn deep_guards_alone<S: Guards + Tree>(n: u64) -> Duration {
    let line: Vec<S> = line();
    guards_of(&line[4], n)
}

/// Minimum number of guards that each of two contenders makes. With few guards, the time would
/// show mostly how well the two start together.
pub const TOGETHER: u64 = 10_000;

/// Lets two contenders start together, each on a processor of its own.
#[derive(Debug, Default)]
struct Start(AtomicUsize);

impl Start {
    /// Waits for the other contender. Gives up the processor only if another thread wants it.
    fn meet(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
    }
}

/// One of two contenders that make `n` guards each of the same shutdown. Returns the thread, the
/// start and the end.
fn contend<S: Guards>(of: &S, n: u64, start: &Start) -> (thread::ThreadId, Instant, Instant) {
    start.meet();
    let began = Instant::now();
    make(of, n);
    (thread::current().id(), began, Instant::now())
}

/// Time from the first start to the last end.
fn together(two: [(thread::ThreadId, Instant, Instant); 2]) -> Duration {
    let [(here, began, ended), (there, began_there, ended_there)] = two;
    assert!(here != there, "both contenders ran on one thread");
    ended.max(ended_there) - began.min(began_there)
}

/// Guards of one shutdown on two threads that are not workers, `n` times [`TOGETHER`] on each.
pub fn guards_on_two_threads<S: Guards>(of: &S, n: u64) -> Duration {
    let (n, start) = (n * TOGETHER, Start::default());
    thread::scope(|scope| {
        let other = scope.spawn(|| contend(of, n, &start));
        let here = contend(of, n, &start);
        together([here, other.join().unwrap_or_else(|panic| resume_unwind(panic))])
    })
}

/// Guards of one shutdown in two tasks on two workers, `n` times [`TOGETHER`] in each. Runs
/// inside a task of a runtime with two workers.
///
/// # Panics
/// If both tasks run on one worker.
pub fn guards_on_two_workers<S: Guards>(of: &S, n: u64) -> Duration {
    let (n, start) = (n * TOGETHER, Start::default());
    cygnet::scope(|scope| {
        // This worker is busy, so another one starts the task.
        let other = scope.spawn(|| contend(of, n, &start));
        let here = contend(of, n, &start);
        together([here, other.join().expect("no task panics")])
    })
}

/// Children made and dropped while `siblings` siblings live.
pub fn children<T: Tree>(n: u64, siblings: usize) -> Duration {
    let parent = T::default();
    let _siblings: Vec<T> = (0..siblings).map(|_| parent.child()).collect();
    time(n, |_| black_box(black_box(&parent).child()))
}

/// Children with one guard each; both are made and dropped. A child's first guard is also counted
/// in its parent.
pub fn guarded_children<S: Guards + Tree>(n: u64) -> Duration {
    let parent = S::default();
    time(n, |_| {
        let child = black_box(&parent).child();
        let guard = black_box(&child).guard();
        black_box(&guard);
    })
}

/// The call that stops a root with `count` live children.
///
/// # Panics
/// If a child is not stopped by the call.
pub fn stop_of_a_root<T: Tree>(count: usize) -> Duration {
    let root = T::default();
    let children: Vec<T> = (0..count).map(|_| root.child()).collect();
    let began = Instant::now();
    black_box(&root).stop();
    let time = began.elapsed();
    assert!(children.iter().all(T::is_stopped), "a child was not stopped");
    time
}

/// An endless source of one number: a future that is always ready, a stream and an iterator that
/// always have an item. The number never changes, so no step waits for a store of the step
/// before.
#[derive(Clone, Copy, Debug)]
pub struct Number(u64);

impl Number {
    /// A number unknown to the compiler.
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

/// Polls of a future that is always ready.
pub fn polls(future: impl Future, n: u64) -> Duration {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    time(n, |_| black_box(black_box(future.as_mut()).poll(&mut cx)))
}

/// Polls of a stream that always has an item.
#[cfg(feature = "futures")]
pub fn stream_polls(stream: impl Stream, n: u64) -> Duration {
    let mut stream = pin!(stream);
    let mut cx = Context::from_waker(Waker::noop());
    time(n, |_| black_box(black_box(stream.as_mut()).poll_next(&mut cx)))
}

/// Steps of an iterator.
pub fn steps(mut iterator: impl Iterator, n: u64) -> Duration {
    time(n, |_| black_box(black_box(&mut iterator).next()))
}

/// Polls of an interrupted future.
pub fn interrupted_polls<I: Interrupts>(n: u64) -> Duration {
    polls(I::default().future(Number::some()), n)
}

/// Polls of an interrupted stream.
#[cfg(feature = "futures")]
pub fn interrupted_stream_polls<I: Interrupts>(n: u64) -> Duration {
    stream_polls(I::default().stream(Number::some()), n)
}

/// Steps of an interrupted iterator.
pub fn interrupted_steps<I: Interrupts>(n: u64) -> Duration {
    steps(I::default().iterator(Number::some()), n)
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
            |n| children::<Swansong>(n, 10),
            |n| stop_of_a_root::<Swansong>(n as usize),
        ];
        for operation in operations {
            assert!(outside(|| operation(100)) > Duration::ZERO);
            assert!(runtime(1).block_on(|| operation(100)) > Duration::ZERO);
        }
    }

    #[test]
    fn guards_made_by_two_contenders_are_all_released() {
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
