use crate::retire::nesting::Pin as CoroutinePin;
use crate::runtime::errors::Cancelled;
use crate::scheduler::wait::no_suspend::{assert_may_suspend, assert_may_wait, no_suspend};
use crate::scheduler::wait::waker::waker_of;
use crate::scheduler::worker::{Fiber, Worker};
use crate::task::record::Record;
use crate::task::reference::TaskRef;
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::wait::{WaitKind, WaitWord};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

/// Waits for a future, at any call depth of code that is not async. The future is polled in place,
/// and between polls the calling task is suspended while its worker runs other tasks. A plain
/// thread blocks.
///
/// The future may borrow and need not be `Send`: it stays on the caller's stack and, once the task
/// has started, on the task's worker. Its waker works from any thread and may be kept after the
/// call. If the task is cancelled, the future is dropped here, before the call returns.
///
/// A context that the future needs (a reactor, a runtime's `enter` guard) must surround each poll,
/// and must not be held over a suspension: see [`wait_in`].
///
/// The body of a bare [`Coroutine`](crate::coroutine::Coroutine) may call `wait`, which then parks
/// the task with all its coroutines. Until `wait` returns, the body cannot call
/// [`Yielder::suspend`](crate::coroutine::Yielder::suspend); a `poll` that does so panics. The wait
/// belongs to the task or thread in which it began, and another one could resume the coroutine.
///
/// Suspends, unless the future is ready. Costs two locked instructions for the waker, and the
/// polls.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let length = rt.block_on(|| {
///     let deep = |text: &str| cygnet::wait(async { text.len() });
///     deep("words")
/// });
/// assert_eq!(length, Ok(5));
/// assert_eq!(cygnet::wait(std::future::ready(1)), Ok(1)); // on a plain thread
/// ```
///
/// # Errors
/// [`Cancelled`] if the calling task is cancelled, even if the future is ready; also while the
/// thread is panicking.
///
/// # Panics
/// With the panic of the future. If the future is not ready inside
/// [`no_suspend`], or on a worker's thread between tasks.
#[track_caller]
pub fn wait<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    let future = pin!(future.into_future());
    // Both functions below keep pointers to the current task or thread across each poll.
    let _pin = CoroutinePin::innermost();
    match Worker::current().and_then(Worker::task) {
        Some(task) => wait_as_task(future, task),
        None => wait_as_thread(future),
    }
}

/// Waits for a future that needs a context, such as the runtime of another executor. `enter` enters
/// the context, and returns the guard that leaves it. The guard lives for one poll each, in which
/// nothing may suspend, so that contexts of several tasks do not overlap. Otherwise like [`wait`].
///
/// ```
/// let tokio = tokio::runtime::Runtime::new()?;
/// let rt = cygnet::Runtime::builder().workers(1).build()?;
/// let slept = rt.block_on(|| {
///     cygnet::wait_in(|| tokio.enter(), async {
///         tokio::time::sleep(std::time::Duration::from_millis(1)).await; // needs tokio's timers
///         7
///     })
/// });
/// assert_eq!(slept, Ok(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`wait`].
///
/// # Panics
/// As [`wait`]. With the panic of `enter`. If a poll would suspend.
#[track_caller]
pub fn wait_in<F: IntoFuture, G>(enter: impl Fn() -> G, future: F) -> Result<F::Output, Cancelled> {
    let mut future = pin!(future.into_future());
    wait(poll_fn(|cx| {
        no_suspend(|| {
            let _entered = enter();
            future.as_mut().poll(cx)
        })
    }))
}

#[track_caller]
fn wait_as_task<F: Future>(
    mut future: Pin<&mut F>,
    task: TaskRef<'_>,
) -> Result<F::Output, Cancelled> {
    let waker = waker_of(task);
    let polls = Polls::begin(task);
    let word = polls.word();
    loop {
        let worker = Worker::current().expect("tasks run on workers");
        if worker.is_interrupted() {
            worker.give_way(task);
            return Err(Cancelled::here());
        }
        // The poll may suspend, and a migratable task may continue on another worker.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        assert_may_suspend();
        let worker = Worker::current().expect("tasks run on workers");
        if word.forget_wakes() {
            // A wake-up came during the poll, as from a future that wakes itself to let others run.
            worker.give_way(task);
        } else {
            // The next round of the loop sees a cancellation.
            let _ = worker.wait(task, WaitKind::Wake);
        }
    }
}

/// Marks that a task polls a future. A wait nested in a poll of the same task uses the same wait
/// word and may consume a wake-up of the outer future, so the outer future is polled again.
struct Polls<'a> {
    task: TaskRef<'a>,
    /// The fiber on which the task runs. Its `polls` is the record of the task that polls there.
    fiber: NonNull<Fiber>,
    outer: *const Record,
}

impl<'a> Polls<'a> {
    fn begin(task: TaskRef<'a>) -> Polls<'a> {
        let fiber = Worker::current().expect("tasks run on workers").fiber();
        let outer = fiber.polls.replace(task.pointer().as_ptr());
        let polls = Polls { task, fiber: NonNull::from(fiber), outer };
        if !polls.is_nested() {
            // Clears a wake-up left by the waker of an earlier future.
            polls.word().forget_wakes();
        }
        polls
    }

    fn is_nested(&self) -> bool {
        self.task.is(self.outer)
    }

    fn word(&self) -> &WaitWord {
        &self.task.wait
    }
}

impl Drop for Polls<'_> {
    fn drop(&mut self) {
        // SAFETY: the fiber is alive, because a task stays on its fiber.
        unsafe { self.fiber.as_ref() }.polls.set(self.outer);
        if self.is_nested() {
            let wakes = self.word().wake();
            debug_assert!(!wakes, "a running task was woken out of a wait");
        }
    }
}

#[track_caller]
fn wait_as_thread<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, Cancelled> {
    let waiter = ThreadWaiter::current();
    let waker = Waker::from(waiter.clone());
    waiter.polling(|| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
            if assert_may_wait().is_err() {
                return Err(Cancelled::here());
            }
            waiter.wait_for_wake();
        }
    })
}
