//! `select!`: waits for the first of several futures.
//!
//! The macro makes a [`Branch`] of each branch: a pinned future and the branches after it.
//! [`choose`] waits for the first ready future by [`wait`](crate::wait()). The futures live on the
//! caller's frame and are dropped with the statement that waits. The handler is expanded after that
//! statement, so it runs when they are gone. A losing future cannot outlive the wait, and no unsafe
//! code is needed.

use crate::runtime::errors::Cancelled;
use crate::runtime::future::wait;
use crate::shim::entropy;
use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The output of the first branch, or of one of the branches after it.
pub enum Chosen<T, Rest> {
    First(T),
    Rest(Rest),
}

/// A branch, and the branches after it. A branch without a future is disabled.
pub struct Branch<'a, F, Rest> {
    future: Pin<&'a mut Option<F>>,
    rest: Rest,
}

/// The end of the list of branches.
pub struct End;

impl<'a, F: Future, Rest: Branches> Branch<'a, F, Rest> {
    pub fn new(future: Pin<&'a mut Option<F>>, rest: Rest) -> Branch<'a, F, Rest> {
        Branch { future, rest }
    }
}

/// A list of branches.
pub trait Branches {
    type Chosen;

    const COUNT: u64;

    /// Returns whether a branch is enabled.
    fn any(&self) -> bool;

    /// Polls the branches in this range, in order, until one is ready.
    fn poll(&mut self, turn: Range<u64>, cx: &mut Context<'_>) -> Option<Self::Chosen>;
}

impl Branches for End {
    type Chosen = Infallible;

    const COUNT: u64 = 0;

    fn any(&self) -> bool {
        false
    }

    fn poll(&mut self, _: Range<u64>, _: &mut Context<'_>) -> Option<Infallible> {
        None
    }
}

impl<F: Future, Rest: Branches> Branches for Branch<'_, F, Rest> {
    type Chosen = Chosen<F::Output, Rest::Chosen>;

    const COUNT: u64 = Rest::COUNT + 1;

    fn any(&self) -> bool {
        self.future.is_some() || self.rest.any()
    }

    fn poll(&mut self, turn: Range<u64>, cx: &mut Context<'_>) -> Option<Self::Chosen> {
        if turn.contains(&0)
            && let Some(future) = self.future.as_mut().as_pin_mut()
            && let Poll::Ready(output) = future.poll(cx)
        {
            return Some(Chosen::First(output));
        }
        let after = turn.start.saturating_sub(1)..turn.end.saturating_sub(1);
        self.rest.poll(after, cx).map(Chosen::Rest)
    }
}

/// Waits for the first ready branch. Returns `None` if all branches are disabled.
#[track_caller]
pub fn choose<B: Branches>(mut branches: B, biased: bool) -> Result<Option<B::Chosen>, Cancelled> {
    let begin = if biased || B::COUNT < 2 { 0 } else { entropy() % B::COUNT };
    wait(poll_fn(|cx| {
        if !branches.any() {
            return Poll::Ready(None);
        }
        let chosen = branches.poll(begin..B::COUNT, cx).or_else(|| branches.poll(0..begin, cx));
        chosen.map_or(Poll::Pending, |chosen| Poll::Ready(Some(chosen)))
    }))
}

#[cold]
#[track_caller]
pub fn nothing_to_wait_for() -> ! {
    panic!(
        "cygnet: select! cannot wait, as all branches are disabled; add an `else` branch or enable one"
    )
}

/// Waits for the first of several futures, and runs its handler.
///
/// ```text
/// cygnet::select! {
///     biased;                                        // optional
///     pattern = future => handler,
///     pattern = future, if condition => { handler }  // no comma needed after a block
///     else => handler,                               // optional
/// }
/// ```
///
/// Evaluates to a `Result`: `Ok` with the value of the handler, or [`Cancelled`](crate::Cancelled)
/// as for every wait. Waits as [`wait()`](crate::wait()) does, at any call depth of code that is
/// not async: a task parks, a plain thread blocks.
///
/// ```
/// use cygnet::sync::{Event, unbounded};
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (sender, receiver) = unbounded();
/// let enough = Event::new();
/// let sum = rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(|| {
///             (1..=4).for_each(|i| sender.send(i).unwrap());
///             enough.set();
///         });
///         let mut sum = 0;
///         loop {
///             cygnet::select! {
///                 value = receiver.recv_async() => sum += value.unwrap(),
///                 _ = enough.wait_async() => break,
///             }?;
///         }
///         // Values sent before the event that have not been received yet.
///         sum += receiver.try_iter().sum::<u32>();
///         Ok::<u32, cygnet::Cancelled>(sum)
///     })
/// });
/// assert_eq!(sum, Ok(10));
/// ```
///
/// # Futures
///
/// Any futures will do: `recv_async` and the other async methods of [`sync`](crate::sync), a
/// [`Task`](crate::Task), foreign futures. The pattern must be irrefutable. The futures may borrow,
/// and need be neither `Send` nor `Unpin`.
///
/// The future expressions are evaluated in the order written, before the wait begins. If a branch's
/// condition is false, its expression is not evaluated and the branch is *disabled*. If all
/// branches are disabled, `else` runs. An expression with a condition is a block of its own, like
/// an arm of an `if`, so values that it borrows must live outside it.
///
/// # Order
///
/// The first future to be polled is drawn at random in each wait, and the others follow in cyclic
/// order, so futures that are always ready cannot starve the rest. With `biased`, futures are
/// polled in the order written.
///
/// A round of polls is not atomic: when a branch is found ready, an earlier one may have become
/// ready since it was polled. So a branch that loses under `biased` may still have had something to
/// receive.
///
/// # Handlers
///
/// The handler runs in place after the wait. It may use `?`, `break` and `return`, and may itself
/// wait. Before it runs, all futures have been dropped, outside of any poll. The parts of the
/// output that the pattern does not bind live until the handler has ended.
///
/// # Losing futures
///
/// The futures of this library leave nothing behind when they are dropped before they are ready. A
/// losing branch has received nothing, locked nothing, and does not hold up other waiters.
///
/// A value inside a losing future is dropped with it, for example the value of
/// [`send_async`](crate::sync::Sender::send_async). To keep it, create the future outside and
/// select on a reference: the next poll continues it. A future that was ready must not be polled
/// again, so in a loop its branch needs a condition.
///
/// ```
/// use cygnet::sync::{bounded, Event};
/// use std::pin::pin;
///
/// let (sender, receiver) = bounded(1);
/// sender.send(1).unwrap();
/// let full = Event::new();
/// full.set();
/// let mut sending = pin!(sender.send_async(2));
/// let mut sent = false;
/// while !sent {
///     cygnet::select! {
///         biased;
///         done = &mut sending => {
///             done.unwrap();
///             sent = true;
///         }
///         _ = full.wait_async() => assert_eq!(receiver.recv(), Ok(1)),
///     }?;
/// }
/// assert_eq!(receiver.recv(), Ok(2));
/// # Ok::<(), cygnet::Cancelled>(())
/// ```
///
/// # Cost
///
/// Suspends, unless a future is ready at once. Costs as much as [`wait()`](crate::wait()), a poll
/// of each future at each wake-up, and some 20 ns for the random draw. Does not allocate.
///
/// # Errors
/// [`Cancelled`](crate::Cancelled) if the calling task is cancelled, even if a future is ready or
/// all branches are disabled. No handler runs then. A plain thread is never cancelled.
///
/// # Panics
/// If all branches are disabled and there is no `else`. With the panic of a future, after the other
/// futures have been dropped. If no future is ready inside [`no_suspend`](crate::no_suspend), or on
/// a worker's thread between tasks. If a future suspends the bare coroutine in which the statement
/// waits, as for [`wait()`](crate::wait()); a handler may suspend that coroutine.
///
/// # Errors at compile time
///
/// A refutable pattern, a list without branches, and a malformed branch do not compile:
///
/// ```compile_fail,E0005
/// let (_sender, receiver) = cygnet::sync::unbounded::<u8>();
/// cygnet::select! { Ok(value) = receiver.recv_async() => drop(value) }?;
/// # Ok::<(), cygnet::Cancelled>(())
/// ```
///
/// ```compile_fail
/// cygnet::select! { else => () }.unwrap();
/// ```
///
/// ```compile_fail
/// cygnet::select! { _ = std::future::ready(1) -> () }.unwrap();
/// ```
#[macro_export]
macro_rules! select {
    // Takes one branch off at a time: its head, then its handler.
    (@head $biased:tt []) => {
        ::core::compile_error!("select! needs at least one branch: `pattern = future => handler`")
    };
    (@head $biased:tt [] else $($rest:tt)*) => {
        ::core::compile_error!("select! needs at least one branch before `else`")
    };
    (@head $biased:tt [$($branches:tt)+]) => {
        $crate::select!(@all $biased [$($branches)+] $crate::__select::nothing_to_wait_for())
    };
    (@head $biased:tt [$($branches:tt)+] else => $otherwise:expr $(,)?) => {
        $crate::select!(@all $biased [$($branches)+] $otherwise)
    };
    (@head $biased:tt $branches:tt else $($rest:tt)*) => {
        ::core::compile_error!("select! takes `else => handler` as its last branch")
    };
    (@head $biased:tt $branches:tt
        $pattern:pat = $future:expr, if $condition:expr => $($rest:tt)+) => {
        $crate::select!(@handler $biased $branches {{$pattern} {$future} {$condition}} $($rest)+)
    };
    (@head $biased:tt $branches:tt $pattern:pat = $future:expr => $($rest:tt)+) => {
        $crate::select!(@handler $biased $branches {{$pattern} {$future} {}} $($rest)+)
    };
    (@head $($rest:tt)*) => {
        ::core::compile_error!(
            "select! takes branches of the form `pattern = future => handler` or \
             `pattern = future, if condition => handler`, then perhaps `else => handler`"
        )
    };
    (@handler $biased:tt [$($branches:tt)*] $head:tt $handler:block, $($rest:tt)*) => {
        $crate::select!(@head $biased [$($branches)* $head {$handler}] $($rest)*)
    };
    (@handler $biased:tt [$($branches:tt)*] $head:tt $handler:block $($rest:tt)*) => {
        $crate::select!(@head $biased [$($branches)* $head {$handler}] $($rest)*)
    };
    (@handler $biased:tt [$($branches:tt)*] $head:tt $handler:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@head $biased [$($branches)* $head {$handler}] $($($rest)*)?)
    };
    (@handler $($rest:tt)*) => {
        ::core::compile_error!("select! needs a comma after a handler that is not a block")
    };

    // The futures, and everything that they borrow from this statement, are dropped with it.
    (@all $biased:tt [$($head:tt $handler:tt)+] $otherwise:expr) => {{
        let chosen = $crate::__select::choose($crate::select!(@futures $($head)+), $biased);
        match chosen {
            ::core::result::Result::Err(cancelled) => ::core::result::Result::Err(cancelled),
            // All handlers may leave by `return` or `break`.
            #[allow(unreachable_code)]
            ::core::result::Result::Ok(chosen) => ::core::result::Result::Ok(match chosen {
                ::core::option::Option::Some(chosen) => {
                    $crate::select!(@run chosen $($head $handler)+)
                }
                ::core::option::Option::None => $otherwise,
            }),
        }
    }};
    (@futures) => { $crate::__select::End };
    (@futures {$pattern:tt {$future:expr} {}} $($rest:tt)*) => {
        $crate::__select::Branch::new(
            ::core::pin::pin!(::core::option::Option::Some(
                ::core::future::IntoFuture::into_future($future)
            )),
            $crate::select!(@futures $($rest)*),
        )
    };
    (@futures {$pattern:tt {$future:expr} {$condition:expr}} $($rest:tt)*) => {
        $crate::__select::Branch::new(
            ::core::pin::pin!(if $condition {
                ::core::option::Option::Some(::core::future::IntoFuture::into_future($future))
            } else {
                ::core::option::Option::None
            }),
            $crate::select!(@futures $($rest)*),
        )
    };
    (@run $chosen:ident) => { match $chosen {} };
    (@run $chosen:ident {{$pattern:pat} $future:tt $condition:tt} {$handler:expr} $($rest:tt)*) => {
        match $chosen {
            $crate::__select::Chosen::First(output) => {
                let ($pattern) = output;
                $handler
            }
            $crate::__select::Chosen::Rest(rest) => $crate::select!(@run rest $($rest)*),
        }
    };

    (biased; $($rest:tt)*) => { $crate::select!(@head true [] $($rest)*) };
    ($($rest:tt)*) => { $crate::select!(@head false [] $($rest)*) };
}
