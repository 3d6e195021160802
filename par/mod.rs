//! Parallel loops: the same work for each item, on every worker that has nothing else to do.
//!
//! ```
//! use cygnet::par;
//!
//! let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
//! let samples: Vec<f64> = (0..10_000).map(f64::from).collect();
//! let (squares, largest) = rt.block_on(|| -> Result<_, cygnet::Cancelled> {
//!     let squares = par::map_collect(&samples, |x| x * x)?;
//!     let largest = par::map_reduce(&squares, || f64::MIN, |x| *x, f64::max)?;
//!     Ok((squares, largest))
//! })?;
//! assert_eq!((squares[3], largest), (9.0, 99_980_001.0));
//! # Ok::<(), cygnet::Cancelled>(())
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | process each item | [`for_each`] |
//! | reduce the items to one value | [`map_reduce`], [`fold_reduce`] |
//! | map the items to a `Vec` | [`map_collect`] |
//! | sum up | [`sum`], [`count`], [`min`], [`max`] |
//! | search | [`find_any`], [`position`], [`any`], [`all`] |
//! | end with the first error | [`try_for_each`], [`try_map_reduce`] |
//! | sort | [`sort_unstable`], [`sort_unstable_by`], [`sort_unstable_by_key`] |
//! | sort, and keep the order of equal elements | [`sort()`], [`sort_by`], [`sort_by_key`] |
//!
//! A loop goes over ranges of integers, slices, `&Vec`, `&mut Vec`, `Vec`, references to arrays and
//! boxed slices, [`chunks`], [`chunks_mut`], [`zip`], [`enumerate`], and any other [`Source`].
//! Items of an iterator, whose number is unknown, go through a [`pipeline()`](crate::pipeline())
//! instead.
//!
//! The functions are called inside a task. They return after the last call of a closure has ended,
//! so closures may borrow. Items are processed on any worker and in any order; within a chunk, one
//! after the other. If the body of a [bare coroutine](crate::coroutine) begins a loop, the
//! coroutine cannot suspend before the loop's end; an attempt panics.
//!
//! # Ending early
//!
//! **Cancellation.** A loop can be long, so its task must be able to stop it. Each function returns
//! [`Cancelled`](crate::Cancelled) if the task is cancelled or its runtime ends before all items
//! have been processed. Every worker notices this at the end of its chunk; no closure is
//! interrupted. A loop that has already processed all items returns `Ok`. A loop that is begun in a
//! cancelled task does nothing.
//!
//! **Panics.** A panic in a closure stops the other workers in the same way. It is resumed in the
//! caller when they have ended. If several closures panic before they can be stopped, one of the
//! panics is resumed and the others are dropped.
//!
//! In both cases the results made so far are dropped, and so are the unprocessed items of a `Vec`,
//! each value once.
//!
//! # How a loop is cut
//!
//! The caller need not say how many items are worth a task. Three things are found out while the
//! loop runs.
//!
//! **How many items a chunk has.** Between two chunks a loop lets ready tasks of its worker run,
//! and checks whether it must stop and whether another worker has asked for a part. That should
//! happen often and cost next to nothing, although an item may take a nanosecond or ten
//! milliseconds. So chunks are timed and sized to take 20 us. The first ones have one, two and four
//! items, and a loop that is over by then never reads the clock. Each of the last chunks is half of
//! the remaining items, so that no worker is left alone with a long chunk (the idea of guided
//! self-scheduling: Polychronopoulos, Kuck, "Guided Self-Scheduling: A Practical Scheduling Scheme
//! for Parallel Supercomputers", IEEE Transactions on Computers, 1987). Within a chunk runs a plain
//! iterator of std, which the compiler treats as it does in serial code.
//!
//! **When to share.** A part of a loop that shares cuts its remaining items into halves and
//! [`join`](crate::join())s them. The second half is on offer to other workers during the first,
//! and runs on this worker if no thief has taken it by then. This is lazy binary splitting
//! (Tzannes, Caragea, Barua, Vishkin, "Lazy Binary-Splitting: A Run-Time Adaptive Work-Stealing
//! Scheduler", PPoPP 2010): a part is not split down to some grain, but only while nothing is on
//! offer. When the half on offer has been taken, the next one is offered. So a loop that no other
//! worker helps with is cut as often as the logarithm of its length.
//!
//! In the paper an empty deque says that nothing is on offer. Here the thief of the half raises a
//! flag instead, so that a loop inside another one offers something of its own. A part also shares
//! when its worker has been asked for work: a worker that finds none anywhere leaves a request with
//! the others before it sleeps.
//!
//! **When not to.** A part that is expected to be over in 20 us is not shared. A loop that has not
//! been timed yet might consist of a few long items, so its first part on each worker offers up to
//! three halves at once. Eight workers then have eight items in at most two steps. With one worker,
//! all of this is left out.
//!
//! # What it costs
//!
//! On one worker a loop costs a few hundred instructions, and some sixty for each chunk. The worst
//! case is a loop that does least: a sum of a million integers in the cache executes 3.5 % more
//! instructions than the serial loop. On several workers the forks come on top, as many as the
//! logarithm of the number of items and a few for each worker.

mod boundary;
mod collect;
mod drive;
mod each;
mod find;
mod items;
mod merge_sort;
mod pace;
mod ranges;
mod sort;
mod source;
mod summary;

pub use collect::map_collect;
pub use each::{fold_reduce, for_each, map_reduce};
pub use find::{all, any, find_any, position, try_for_each, try_map_reduce};
pub use items::Items;
pub use merge_sort::{sort, sort_by, sort_by_key};
pub use ranges::Integer;
pub use sort::{sort_unstable, sort_unstable_by, sort_unstable_by_key};
pub use source::{
    AtLeast, Chunks, ChunksMut, Enumerate, IntoSource, Numbered, Source, Zip, at_least, chunks,
    chunks_mut, enumerate, zip,
};
pub use summary::{count, max, min, sum};
