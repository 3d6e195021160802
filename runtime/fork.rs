//! Fork-join: two closures, maybe at once.

use crate::runtime::scope::{Wait, scope_with};
use crate::scheduler::life::fork;

/// Calls two closures, maybe at the same time, and returns both results.
///
/// `a` is called here. `b` waits meanwhile for a worker that has nothing to do; if none has taken it
/// when `a` has returned, it is called here as well, on the same stack and as a part of the same task. If
/// one has, this task waits for its end, and its worker runs other tasks, on their own stacks: never a
/// stranger on top of this one's. `a` may wait for what `b` does: a task that waits offers all its open
/// forks first.
///
/// Both halves always run to their end, also in a cancelled task, which finds in both of them that it is
/// (`b` too, wherever it runs), and in a runtime that ends. What `b` borrows need not outlive more than this
/// call. `a` need not be `Send`, nor its result.
///
/// A `b` that runs elsewhere is a task of its own: [`current_id`](crate::current_id) differs, it has the
/// [task-locals](crate::TaskLocal) of the fork, a stack of the same size, and what is spawned in it has
/// ended before this returns.
///
/// Suspends (structured) only if `b` has been taken and goes on longer than `a`; inside
/// [`no_suspend`](crate::no_suspend) and in the middle of an unwinding it holds the worker instead. A bare
/// coroutine is not left in the middle of a join that its body has begun; in there each join costs as much
/// as a spawn.
///
/// Costs some twenty-five instructions over two plain calls, none of them locked, and no allocation; if `b` is taken,
/// a task record and a wait. A recursion has one frame on the stack for each open join; one that is too deep
/// for its stack ends in the report of an overflow (see [`Builder::stack_size`](crate::Builder::stack_size)).
///
/// The second halves are linked in the order of their forks, and others take the oldest, after M.
/// Frigo, C. E. Leiserson, K. H. Randall: The Implementation of the Cilk-5 Multithreaded Language (PLDI
/// 1998).
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
/// With the panic of `a`, else with that of `b`, after both have ended. On a thread that is not a worker's.
// Always: out of line, what `b` captures would be moved twice, which costs as much as the fork. But not where
// nothing is optimised: the caller's frame would hold the locals of all its joins at once, kilobytes of them.
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    fork::join(a, b)
}

/// As [`join`], and says who may run on this worker while the task waits.
///
/// With [`Wait::DescendantsOnly`] the two halves are in a scope that lets nothing but its own tasks run
/// here: see [`scope_with`], also for the limit and what it costs. Tasks that are spawned in either half end
/// before this returns.
///
/// ```
/// use cygnet::Wait;
/// use std::sync::Mutex;
///
/// let state = Mutex::new(0);
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     let update = || {
///         let mut state = state.lock().unwrap();
///         // Held over a wait: whoever runs here meanwhile must not ask for it.
///         let (a, b) = cygnet::join_with(Wait::DescendantsOnly, || 1, || 2);
///         *state += a + b;
///     };
///     cygnet::join(update, update);
/// });
/// assert_eq!(state.into_inner().unwrap(), 6);
/// ```
///
/// # Panics
/// As [`join`].
#[track_caller]
pub fn join_with<A, B, RA, RB>(wait: Wait, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    match wait {
        Wait::Anyone => join(a, b),
        Wait::DescendantsOnly => scope_with(wait, |_| join(a, b)),
    }
}
