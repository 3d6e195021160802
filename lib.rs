//! A multi-threaded, work-stealing scheduler of stackful coroutines for compute jobs.
//!
//! A *task* is a closure with a result. It runs on a *coroutine*, a stack of its own size that can
//! be left and continued, so ordinary blocking-style code may wait anywhere, in any depth of calls,
//! and its *worker* (a thread of the pool) goes on with other tasks meanwhile. Tasks form a tree: a
//! parent ends after its children.
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
//! | to | use |
//! | --- | --- |
//! | have workers | [`Runtime`], [`Builder`], [`Handle`]; [`Runtime::block_on`] to get in |
//! | start tasks | [`spawn()`], [`scope()`], [`spawn_now`], [`spawn_unscoped`], [`spawn_local`], [`spawn_migratable`], [`task()`] for a name or a stack size |
//! | compute on all workers | [`join()`]; parallel loops: [`par`] |
//! | pass items through stages | [`pipeline()`], with [`parallel`](Pipeline::parallel), [`serial`](Pipeline::serial) and [`ordered`](Pipeline::ordered) ones |
//! | wait | [`Task::join`], [`park`] and [`Unparker`], [`sleep()`], [`interval()`], [`yield_now`], [`yield_to`], [`checkpoint`] |
//! | wait for each other, as tasks, threads or futures | [`sync`]: [`Mutex`](sync::Mutex), [`RwLock`](sync::RwLock), [`Condvar`](sync::Condvar), [`Semaphore`](sync::Semaphore), [`Event`](sync::Event), [`Barrier`](sync::Barrier), channels: [`bounded`](sync::bounded), [`unbounded`](sync::unbounded), [`oneshot`](sync::oneshot()), [`broadcast`](sync::broadcast()), [`watch`](sync::watch()) |
//! | wait for the first of several | [`select!`], over any futures, from ordinary code |
//! | call async code | [`wait()`]; a [`Task`] is a future for the way back |
//! | tell futures the time | [`sleep_async`], [`timeout_async`], on any executor by a [`Handle`] |
//! | have a channel as a stream and a sink (feature `futures`) | `Receiver::into_stream`, `Sender::into_sink` |
//! | call what blocks | [`blocking()`], [`spawn_blocking`]; [`Builder::max_blocking_threads`], [`BlockingMetrics`] |
//! | carry values along | [`TaskLocal`] |
//! | switch by hand, without workers | [`coroutine::Coroutine`] |
//! | cancel | [`Task::cancel`], [`CancelHandle`], which can be [waited for](CancelHandle::cancelled_async); [`timeout`], [`deadline`], [`on_cancel`]; [`is_cancelled`], [`checkpoint`]; [`ignore_cancellation`], [`shield`], [`Cancelled::unwind`] |
//! | stop softly, and finish what is in progress | [`shutdown`]: [`Swansong`](shutdown::Swansong), [`Guard`](shutdown::Guard), [`Interrupt`](shutdown::Interrupt); with features also around streams and what reads and writes |
//! | end in good order, within a time | [`Runtime::shutdown`], [`Swansong::shut_down_within`](shutdown::Swansong::shut_down_within); `spawn_guarded` |
//! | look | [`Metrics`], [`current_id`] |
//! | have a seed decide who runs, to find what goes wrong seldom (feature `sim`) | `sim::check` |
//!
//! # The thread rule
//!
//! A task that has not started may be stolen by any worker. One that has started stays on the
//! worker where it did, its *home*, until it ends. As with a thread, its code never sees another
//! thread. So [`spawn()`] is safe and asks `Send` only of the closure and of the result; an `Rc`, a
//! reference into a thread-local or a guard of a std lock may live on the coroutine's stack, over
//! suspensions too.
//!
//! ```compile_fail,E0277
//! let shared = std::rc::Rc::new(1);
//! cygnet::spawn(move || *shared); // would take the Rc along to whoever steals the task
//! ```
//!
//! What pinning cannot restore is that a thread does one thing at a time. While a task is
//! suspended, others run on its thread, and they see the thread's state as it left it. Code must
//! therefore not suspend
//!
//! * inside the initialiser of a `thread_local!`, which another task would begin a second time;
//! * inside a callback of an interface that keeps per-thread state for the callback's extent and
//!   relies on extents being nested: scoped thread-locals, an interpreter's lock guard, the `enter`
//!   guard of another runtime;
//! * inside a panic hook.
//!
//! Other safe stackful crates share these three; no signature can express them. [`no_suspend`]
//! turns a suspension below it into a panic; wrap such a callback in it. (While a thread unwinds, or calls a panic
//! hook, nothing suspends in any case: waits are cut short.) The library does so where
//! it calls foreign code itself (wakers, [`Builder::on_panic`], destructors that run after a task's
//! end). Wakers and hooks are called in no task's name: to spawn, they need a [`Handle`]. Two
//! milder relatives of the rule are not about soundness: a `RefCell` in a thread-local
//! that is borrowed over a suspension is found borrowed by the next task, and a std `Mutex` that is
//! locked over one can block the very worker that would have to unlock it. docs/soundness.md has every
//! hazard that we know, what is done about it, and the test; tests/hazards.rs shows the first two.
//!
//! A task that lives long and works in turns, such as one for each stage of a pipeline, stays where it has started even if its
//! worker has too much to do. Items that pass through stages balance better with [`pipeline()`].
//!
//! Outside the rule are [`spawn_local`] (never leaves its worker at all, so it asks no `Send`) and
//! the unsafe [`spawn_migratable`] (may change workers at each suspension).
//!
//! # Structured waits
//!
//! A wait that keeps a borrow alive, or that the tree demands, is never cut short, neither by
//! cancellation nor by unwinding nor by the end of the runtime: the end of a [`scope()`],
//! [`Runtime::block_on`], [`blocking()`], and the end of a task, which comes after that of its last
//! child. Nothing suspends in the middle of an unwinding, where no other task may run: a structured
//! wait holds its worker until it is over, other waits return [`Cancelled`] at once, and a yield
//! returns without having yielded.
//!
//! # Cancellation is a value
//!
//! Every other call that can suspend returns a `Result` whose error is, or includes, [`Cancelled`];
//! `?` passes it on. Who cancels a task cancels all its descendants: those that have not started never
//! do, and of the others the present wait and each later one return the error, which says [why](Reason)
//! and from where. Dropping a [`Task`] does so, [`Task::cancel`] with a reason, a [`CancelHandle`] from
//! anywhere, and dropping the [`Runtime`] to all its tasks. Nothing is unwound or freed under a running
//! task, and a task that ignores the error runs on; [`ignore_cancellation`] puts it off, and a [`shield`]
//! lets a cancelled task wait for what it has to put in order.
//!
//! # Platforms
//!
//! Linux on 64-bit x86 and ARM; elsewhere the build fails with a sentence. Two features of newer
//! kernels are used where they are found: `membarrier` (4.14; without it each spawn pays a fence)
//! and guard markers (6.13; without them each stack takes two mappings of `vm.max_map_count`).
//! A program that installs a filter of system calls does so before it builds its first runtime, or
//! lets the filter allow `membarrier`: a process in which that is refused later aborts with a sentence.
//!
//! # The modules of the house
//!
//! Layers, each of which knows only those before it. `runtime` is private, and re-exported here.
//!
//! | module | contents |
//! | --- | --- |
//! | `shim` | atomics, locks, clock and randomness: from std, loom or the simulation |
//! | `asm` | the context switch, and a word per thread |
//! | `retire` | the memory of coroutines and tasks: stacks, guards, pools, and how it is given back |
//! | `task` | what stands for a task: its record, its words, its place in the tree, its outcome |
//! | `scheduler` | workers: their loop and queues, stealing, sleep, how a task waits and ends |
//! | `runtime` | runtimes, tasks, scopes, cancellation, waits |
//! | [`sync`], [`ring`] | locks and channels; rings of items and sequences |
//! | [`par`] | parallel loops |
//! | [`shutdown`] | graceful shutdown |
//! | [`coroutine`] | coroutines without workers |
//! | `sim` | simulation (feature `sim`) |

#[cfg(not(target_os = "linux"))]
compile_error!("cygnet runs on Linux only: it relies on madvise, membarrier and futexes");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cygnet has a context switch for x86_64 and aarch64 only");
#[cfg(not(target_pointer_width = "64"))]
compile_error!("cygnet needs 64-bit pointers: stacks are cut from large address ranges");

mod asm;
pub mod coroutine;
pub mod par;
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

pub use runtime::*;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}

/// And what must compile, or must not, for the sake of lifetimes.
#[cfg(doctest)]
#[doc = include_str!("docs/auto-traits.md")]
mod auto_traits {}
