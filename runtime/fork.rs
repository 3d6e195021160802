//! Fork-join: two closures, maybe at once.

use crate::runtime::scope::scope;
use crate::scheduler::worker::Worker;

/// Calls two closures, maybe at the same time, and returns both results.
///
/// `a` is called here. `b` waits meanwhile for a worker that has nothing to do; if none has taken it
/// when `a` has returned, it is called here as well. Both always run to their end.
///
/// Suspends (structured) only if `b` has been taken and goes on longer than `a`.
///
/// ```
/// fn fib(n: u64) -> u64 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = cygnet::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| fib(15)), 610);
/// ```
///
/// # Panics
/// With the panic of `a`, else with that of `b`, after both have ended. Outside a task.
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let mut b = Some(b);
    let mut rb = None;
    let ra = scope(|s| {
        s.spawn(|| rb = b.take().map(|b| b()));
        a()
    });
    // A runtime that ends drops what has not started; a half is called all the same.
    let rb = rb.or_else(|| b.take().map(|b| b())).expect("called once, here or by its task");
    (ra, rb)
}

/// Whether a worker has asked this one for work since it last attended. False outside a worker.
#[inline]
pub(crate) fn is_hungry() -> bool {
    Worker::current().is_some_and(|worker| worker.remote.front.wants_attention())
}
