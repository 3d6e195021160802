//! Fork-join: two closures, in parallel if a worker is idle.

use crate::runtime::scope::{Wait, scope_with};
use crate::scheduler::life::fork;
use crate::scheduler::spans::carrying;

/// Calls two closures, possibly in parallel, and returns both results.
///
/// `a` is called in place. Meanwhile an idle worker may take `b`. If no worker has taken `b` by the
/// time `a` returns, `b` is called in place too, on the same stack and as part of the same task. If
/// a worker has taken it, this task waits for the end of `b` while its own worker runs other tasks,
/// each on its own stack and never on top of this task's. `a` may wait for `b`: a task that waits
/// first offers all its open forks to other workers.
///
/// Both closures always run to their end, even in a cancelled task or a runtime that ends. In a
/// cancelled task both learn of the cancellation, wherever `b` runs. Borrows of `b` need to outlive
/// this call only. `a` and its result need not be `Send`.
///
/// A `b` that runs elsewhere is a task of its own. It has another
/// [`current_id`](crate::current_id), the [task-locals](crate::TaskLocal) of the fork, and a stack
/// of the same size. All tasks spawned in it end before this returns.
///
/// Suspends (structured) only if `b` was taken and runs longer than `a`. Inside
/// [`no_suspend`](crate::no_suspend) and while unwinding, the wait occupies the worker instead. A
/// bare coroutine cannot be suspended in the middle of a join that its body has begun; inside a
/// bare coroutine, each join costs as much as a spawn.
///
/// Costs some twenty-five instructions over two plain calls, none of them locked, and no
/// allocation; if `b` is taken, a task record and a wait. A recursion has one frame on the stack
/// for each open join. If it is too deep for its stack, the process ends with the report of an
/// overflow (see [`Builder::stack_size`](crate::Builder::stack_size)).
///
/// The second closures are linked in the order of their forks, and thieves take the oldest first,
/// after M. Frigo, C. E. Leiserson, K. H. Randall: The Implementation of the Cilk-5 Multithreaded
/// Language (PLDI 1998).
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
/// With the panic of `a`, else with that of `b`, after both have ended. On a thread that is not a
/// worker's.
// Always inlined in optimised builds: out of line, the captures of `b` would be moved twice, which
// costs as much as the fork. Never inlined in debug builds: the caller's frame would hold the
// locals of all its joins at once, kilobytes of them.
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    fork::join(a, carrying(b))
}

/// Calls two closures like [`join`], and sets what may run on this worker while the task waits.
///
/// With [`Wait::DescendantsOnly`], both closures run in a scope that lets only its own tasks run on
/// this worker. See [`scope_with`] for the limit and the cost. Tasks spawned in either closure end
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
///         // Held over a wait: no task that runs here meanwhile may lock it.
///         let (a, b) = cygnet::join_with(Wait::DescendantsOnly, || 1, || 2);
///         *state += a + b;
///     };
///     cygnet::join(update, update);
/// });
/// assert_eq!(state.into_inner().unwrap(), 6);
/// ```
///
/// # Panics
/// As [`join`] does.
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
