//! `select!`: the first of several futures.
//!
//! The macro makes a [`Branch`] of each branch, a pinned future and those after it, and [`choose`] waits for the first
//! that is ready, by [`wait`](crate::wait()). The futures lie on the frame of the caller, and are gone with the
//! statement that waits: before a handler runs, which is expanded in place, after it. So there is nothing here that
//! could keep a future that has lost, and no unsafe code.

use crate::runtime::errors::Cancelled;
use crate::runtime::future::wait;
use crate::shim::entropy;
use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Which branch was first.
pub enum Chosen<T, Rest> {
    First(T),
    Rest(Rest),
}

/// A branch, and those after it. Without a future it is disabled.
pub struct Branch<'a, F, Rest> {
    future: Pin<&'a mut Option<F>>,
    rest: Rest,
}

/// After the last branch.
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

    /// Whether one of them is not disabled.
    fn any(&self) -> bool;

    /// Polls those in this range, until one is ready.
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

/// Waits for the first branch that is ready; `None` if all are disabled.
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
        "cygnet: select! has nothing to wait for: all branches are disabled, and there is no else"
    )
}

/// Waits for the first of several futures, and then runs the handler of that one.
///
/// ```text
/// cygnet::select! {
///     biased;                                        // may be left out
///     pattern = future => handler,
///     pattern = future, if condition => { handler }  // no comma needed after a block
///     else => handler,                               // may be left out
/// }
/// ```
///
/// The value is a `Result`: that of the handler, or [`Cancelled`](crate::Cancelled), as of every wait. It waits as
/// [`wait()`](crate::wait()) does, from code that is not async, however deep: a task parks, a plain thread blocks.
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
///         // What was sent before that, and has not been received yet.
///         sum += receiver.try_iter().sum::<u32>();
///         Ok::<u32, cygnet::Cancelled>(sum)
///     })
/// });
/// assert_eq!(sum, Ok(10));
/// ```
///
/// **The futures** are any whose output the pattern takes, which must be irrefutable: `recv_async` and its like of
/// [`sync`](crate::sync), a [`Task`](crate::Task), foreign ones. They may borrow, and need be neither `Send` nor `Unpin`. The
/// expressions are evaluated at the beginning, in the order written, before anything is waited for; one with a condition that
/// does not hold is not evaluated, and its branch is *disabled*. If all are, `else` has its turn. (With a condition an
/// expression is a block of its own, as an arm of an `if`: what it borrows must live outside.)
///
/// **The order**: which of the futures is polled first is drawn at random each time, and the others come after it as they are written, so
/// that none is starved by others that are always ready. With `biased` they are polled in the order written. That is no look at
/// all of them in one moment: when a branch is found ready, one before it may have become so since it was polled. So `biased`
/// does not say of a branch that has lost that nothing was there for it.
///
/// **The handler** is run in place when the wait is over: it may use `?`, `break` and `return`, and may itself wait.
/// Before it runs all futures are dropped, in no poll. The futures of this library are *total*: one that is dropped before it was
/// ready leaves nothing behind, so a branch that loses has received nothing, locked nothing, and keeps nobody waiting. What
/// the pattern does not bind lives until the handler has ended.
///
/// **A value in a future that loses** is dropped with it, as that of [`send_async`](crate::sync::Sender::send_async). To keep it,
/// make the future outside and put it there by reference: it goes on when it is polled again. One that was ready must not be
/// polled again, so a loop needs a condition for it.
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
/// Suspends, unless a future is ready at once. Costs what [`wait()`](crate::wait()) costs and a poll of each future at each
/// wake-up; some 20 ns for the draw; no allocation.
///
/// # Errors
/// [`Cancelled`](crate::Cancelled) if the calling task is cancelled, also if a future is ready or all branches are disabled; no handler
/// runs then. A plain thread is never cancelled.
///
/// # Panics
/// If all branches are disabled and there is no `else`. With the panic of a future, when the others have been dropped. If none is
/// ready inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks. A future that suspends the bare
/// coroutine in which the statement waits gets a panic, as [`wait()`](crate::wait()) says; a handler may suspend it.
///
/// A pattern that may fail does not compile, nor do no branches at all, or what is none:
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
    // One branch after the other is taken off: its head, then its handler.
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
    (@handler $biased:tt [$($branches:tt)*] $head:tt $handler:expr, $($rest:tt)*) => {
        $crate::select!(@head $biased [$($branches)* $head {$handler}] $($rest)*)
    };
    (@handler $biased:tt [$($branches:tt)*] $head:tt $handler:expr) => {
        $crate::select!(@head $biased [$($branches)* $head {$handler}])
    };
    (@handler $($rest:tt)*) => {
        ::core::compile_error!("select! needs a comma after a handler that is not a block")
    };

    // What the futures borrow of this statement, and they themselves, go with it.
    (@all $biased:tt [$($head:tt $handler:tt)+] $otherwise:expr) => {{
        let chosen = $crate::__select::choose($crate::select!(@futures $($head)+), $biased);
        match chosen {
            ::core::result::Result::Err(cancelled) => ::core::result::Result::Err(cancelled),
            // All of them may leave by `return` or `break`.
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
