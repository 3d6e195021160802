//! A multi-threaded, work-stealing scheduler of stackful coroutines for compute jobs.
//!
//! A *task* is a closure with a result. It runs on a *coroutine*: a stack of its own that can
//! suspend and resume. So ordinary code in a task may block at any call depth, and the task's
//! *worker* (a thread of the pool) runs other tasks meanwhile. Tasks form a tree: a parent
//! completes after its children.
//!
//! ```
//! let runtime = cygnet::Runtime::builder().workers(2).build()?;
//! let words = ["work", "stealing", "coroutines"];
//! let mut lengths = [0; 3];
//! runtime.block_on(|| {
//!     cygnet::scope(|s| {
//!         for (word, length) in words.iter().zip(&mut lengths) {
//!             s.spawn(|| *length = word.len());
//!         }
//!     });
//! });
//! assert_eq!(lengths, [4, 8, 10]);
//! # Ok::<(), cygnet::BuildError>(())
//! ```
//!
//! # What to use
//!
//! docs/coming-from.md compares the calls below, and has them beside those of tokio, Go, rayon and
//! Kotlin.
//!
//! * **Get workers:** [`Runtime`], [`Builder`], [`Handle`]; enter with [`Runtime::block_on`], or with
//!   [`Handle::scope`], whose closure stays on the calling thread.
//! * **Start tasks:** [`spawn()`], [`scope()`], [`spawn_now`], [`spawn_unscoped`], [`spawn_local`];
//!   [`task()`] for a name, a stack size, a guard, or in another place.
//! * **Compute on all workers:** [`join()`]; parallel loops: [`par`].
//! * **Pass items through stages:** [`pipeline()`] with [`parallel`](Pipeline::parallel),
//!   [`serial`](Pipeline::serial) and [`ordered`](Pipeline::ordered) stages.
//! * **Start several, and end with the first failure:** [`try_scope`]; [`all_fail_fast`]; a
//!   [`TaskGroup`] that fails fast.
//! * **Take values as they come:** [`TaskGroup::next`].
//! * **Wait:** [`Task::join`], [`Task::value`], [`Task::shared`] for several that wait, [`park`] and [`Unparker`], [`sleep()`],
//!   [`interval()`], [`yield_now`], [`yield_to`], [`checkpoint`].
//! * **Synchronise tasks, threads and futures:** [`sync`], with [`Mutex`](sync::Mutex),
//!   [`RwLock`](sync::RwLock), [`Condvar`](sync::Condvar), [`Semaphore`](sync::Semaphore),
//!   [`Event`](sync::Event), [`Barrier`](sync::Barrier), and the channels
//!   [`bounded`](sync::bounded), [`unbounded`](sync::unbounded), [`oneshot`](sync::oneshot()),
//!   [`broadcast`](sync::broadcast()), [`watch`](sync::watch()).
//! * **Wait for the first of several:** [`select!`], over any futures, from ordinary code.
//! * **Call async code:** [`wait()`]; [`wait_in`] with another executor's context. In the other direction, a [`Task`] is a future.
//! * **Give futures a clock:** [`sleep_async`], [`timeout_async`], on any executor by a [`Handle`].
//! * **Use a channel as a stream and a sink** (feature `futures`): `Receiver::into_stream`,
//!   `Sender::into_sink`.
//! * **Call blocking functions:** [`blocking()`], [`spawn_blocking`];
//!   [`Builder::max_blocking_threads`], [`BlockingMetrics`].
//! * **Pass values down to child tasks:** [`TaskLocal`].
//! * **Switch by hand, without workers:** [`coroutine::Coroutine`].
//! * **Cancel:** [`Task::cancel`]; [`CancelHandle`], which can be [waited
//!   for](CancelHandle::cancelled_async); [`timeout`], [`try_timeout`], [`deadline`];
//!   [`on_cancel`]; [`is_cancelled`], [`checkpoint`]; [`ignore_cancellation`], [`shield`],
//!   [`Cancelled::unwind`].
//! * **Stop gracefully, and finish work in progress:** [`shutdown`], with
//!   [`Swansong`](shutdown::Swansong), [`Guard`](shutdown::Guard),
//!   [`Interrupt`](shutdown::Interrupt); with features, also around streams, readers and writers.
//! * **End in good order, within a time:** [`Runtime::shutdown`], [`Runtime::shutdown_async`],
//!   [`Swansong::shut_down_within`](shutdown::Swansong::shut_down_within); [`TaskBuilder::guard`];
//!   by signals (feature `signals`): `shutdown::on_signals`. Without a wait:
//!   [`Runtime::end_when_idle`].
//! * **Observe:** [`Metrics`], [`current_id`], [`current_worker`]; spans of tracing, task by task
//!   (feature `tracing`).
//! * **Find rare bugs under a seeded scheduler** (feature `sim`): `sim::check`.
//!
//! # The thread rule
//!
//! A task that has not started may be stolen by any worker. A started task stays on the worker
//! where it began, its *home*, until it ends: as with a thread, its code never sees another thread.
//! So [`spawn()`] is safe and requires `Send` only of the closure and the result. An `Rc`, a
//! reference into a thread-local or a guard of a std lock may live on the coroutine's stack, even
//! across suspensions.
//!
//! ```compile_fail,E0277
//! let shared = std::rc::Rc::new(1);
//! cygnet::spawn(move || *shared); // would take the Rc along to the thief's thread
//! ```
//!
//! Pinning cannot restore one property of a thread: that it does one thing at a time. While a task
//! is suspended, others run on its thread, and they see the thread's state as the task left it.
//! Code must therefore not suspend
//!
//! * inside the initialiser of a `thread_local!`, which another task would begin a second time;
//! * inside a callback of an interface that keeps per-thread state for the callback's extent and
//!   relies on extents being nested: scoped thread-locals, an interpreter's lock guard, the `enter`
//!   guard of another runtime, a subscriber of tracing for one thread (`with_default`);
//! * inside a panic hook.
//!
//! Other safe stackful crates share these three limits; no signature can express them.
//! [`no_suspend`] turns a suspension inside it into a panic: wrap such a callback in it. (While a
//! thread unwinds or calls a panic hook, nothing suspends in any case: waits are cut short.) The
//! library does so itself where it calls foreign code: wakers, [`Builder::on_panic`], destructors
//! that run after a task's end. Wakers and hooks are not called on behalf of a task: to spawn, they
//! need a [`Handle`].
//!
//! Three milder relatives of the rule do not concern soundness. An entered span of tracing is state
//! of the thread: over a wait it leaks into the tasks that run meanwhile, unless the feature
//! `tracing` is on. With the feature, the spans of a task are left when it waits and entered again
//! when it goes on, and a task begins in the span where it was spawned. If a `RefCell` in a thread-local is
//! borrowed across a suspension, the next task finds it borrowed. If a std `Mutex` is locked across
//! one, it can block the very worker that would have to unlock it. docs/soundness.md lists every
//! hazard that we know, what is done about it, and the test; tests/hazards.rs shows the first two.
//!
//! A long-lived task that works in turns, such as one for each stage of a pipeline, stays where it
//! has started even if its worker has too much to do. Items that pass through stages balance better
//! with [`pipeline()`].
//!
//! Outside the rule are [`spawn_local`] (never leaves its worker at all, so it does not require
//! `Send`) and the unsafe [`TaskBuilder::migratable`] (may change workers at each suspension).
//!
//! # Structured waits
//!
//! A wait that keeps a borrow alive, or that the task tree requires, is never cut short, neither by
//! cancellation nor by unwinding nor by the end of the runtime. These waits are the end of a
//! [`scope()`], of a [`join()`], of a parallel loop or a pipeline, [`Runtime::block_on`],
//! [`blocking()`], and the end of a task, which comes after the end of its last child.
//!
//! Nothing suspends in the middle of an unwinding, where no other task may run: a structured wait
//! then holds its worker until it is over, other waits return [`Cancelled`] at once, and a yield
//! returns without having yielded.
//!
//! # Cancellation is a value
//!
//! Every other call that can suspend returns a `Result` with an error that is, or includes,
//! [`Cancelled`]; `?` passes it on. Cancelling a task cancels all its descendants. Descendants that
//! have not started never start. In the others the present wait and each later one return the
//! error, which says [why](Reason) and where the cancel came from.
//!
//! A task is cancelled by dropping its [`Task`], by [`Task::cancel`] with a reason, by a
//! [`CancelHandle`] from anywhere, and by dropping the [`Runtime`], which cancels all its tasks.
//! Nothing is unwound or freed under a running task, and a task that ignores the error runs on.
//! [`ignore_cancellation`] defers the cancellation, and a [`shield`] lets a cancelled task wait for
//! its clean-up.
//!
//! # Platforms
//!
//! Linux on 64-bit x86 and ARM; elsewhere the build fails with a message. Two features of newer
//! kernels are used if available: `membarrier` (4.14; without it each spawn pays a fence) and guard
//! markers (6.13; without them each stack takes two mappings of `vm.max_map_count`). A program that
//! installs a filter of system calls must do so before it builds its first runtime, or let the
//! filter allow `membarrier`: if it is refused later, the process aborts with a message.
//!
//! # Modules
//!
//! The modules form layers, each of which knows only the ones before it. `runtime` is private, and
//! re-exported here.
//!
//! | module | contents |
//! | --- | --- |
//! | `shim` | atomics, locks, clock and randomness: from std, loom or the simulation |
//! | `asm` | the context switch, and two words for each thread |
//! | `retire` | memory of coroutines and tasks: stacks, guards, pools |
//! | `task` | a task's record, its words, its place in the tree, its outcome |
//! | `scheduler` | workers: their loop and queues, stealing, sleep, how a task waits and ends |
//! | `runtime` | runtimes, tasks, scopes, cancellation, waits |
//! | [`sync`], [`ring`] | locks and channels; rings of items and sequences |
//! | [`par`], `pipeline` | parallel loops; items that pass through stages |
//! | [`shutdown`] | graceful shutdown |
//! | `group` | groups of tasks; tasks that several wait for |
//! | `actor` | actors: a state behind a mailbox |
//! | [`coroutine`] | coroutines without workers |
//! | `sim` | simulation (feature `sim`) |

#[cfg(not(target_os = "linux"))]
compile_error!("cygnet runs on Linux only: it relies on madvise, membarrier and futexes");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cygnet has a context switch for x86_64 and aarch64 only");
#[cfg(not(target_pointer_width = "64"))]
compile_error!("cygnet needs 64-bit pointers: stacks are cut from large address ranges");

// First, as the others use its macros.
#[macro_use]
mod macros;

mod actor;
mod asm;
pub mod coroutine;
mod group;
pub mod par;
mod pipeline;
mod retire;
pub mod ring;
mod runtime;
mod scheduler;
mod shim;
pub mod shutdown;
#[cfg(all(feature = "sim", not(loom)))]
pub mod sim;
pub mod sync;
mod task;

pub use actor::{ActorBody, ActorEnded, CallError, TaskActor};
pub use group::{MemberResult, SharedTask, TaskGroup};
pub use pipeline::{Pipeline, Stages, pipeline};
pub use runtime::*;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}

/// Tests what must compile, and what must not, because of lifetimes and auto traits.
#[cfg(doctest)]
#[doc = include_str!("docs/auto-traits.md")]
mod auto_traits {}
