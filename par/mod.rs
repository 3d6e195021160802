//! Parallel loops: the same work for each item, on as many workers as have nothing else to do.
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
//! | do something with each item | [`for_each`] |
//! | make one value of all | [`map_reduce`], [`fold_reduce`] |
//! | make a `Vec` of as many | [`map_collect`] |
//! | look for one | [`find_any`], [`any`], [`all`] |
//! | sort | [`sort_unstable`], [`sort_unstable_by`], [`sort_unstable_by_key`] |
//! | go over | ranges of integers, slices, `&Vec`, `&mut Vec`, `Vec`, references to arrays and boxed slices, [`chunks`], [`chunks_mut`], [`zip`], any [`Source`] |
//!
//! The functions are called inside a task. They return after the last call of a closure has ended, so
//! closures may borrow. Items are gone over on any worker and in any order; within a chunk, one after
//! the other. A [bare coroutine](crate::coroutine) cannot suspend before the end of a loop that its body has
//! begun; that it tries is a panic.
//!
//! # Ending early
//!
//! **Cancellation.** A loop can be long, so its task must be able to stop it: each function returns
//! [`Cancelled`](crate::Cancelled) if the task is cancelled, or its runtime ends, before all items have had
//! their turn. Every worker notices at the end of its chunk; no closure is interrupted. A loop that was
//! through with its items is `Ok`, and one that is begun in a cancelled task does nothing.
//!
//! **Panics.** A panic in a closure stops the other workers likewise, and is thrown on when they have ended.
//! If several closures panic before they can be stopped, one of the panics is thrown and the others are
//! dropped.
//!
//! What has been made for nothing is dropped then, and so are the items of a `Vec` that had no turn: each
//! value once.
//!
//! # How a loop is cut
//!
//! Nobody has to say how many items are worth a task. Three things are found out while the loop runs.
//!
//! **How many items a chunk has.** Between two chunks a loop lets ready tasks of its worker run, looks whether it is
//! to stop and whether somebody wants a part of it. That should happen often, and cost next to nothing;
//! an item may take a nanosecond or ten milliseconds. So chunks are timed, and made as long as 20 us take; the
//! first ones have one, two and four items, and a loop that is over by then never reads the clock. The
//! last ones are halves of what is left (the idea of guided self-scheduling: Polychronopoulos, Kuck, "Guided
//! Self-Scheduling: A Practical Scheduling Scheme for Parallel Supercomputers", IEEE Transactions on
//! Computers, 1987), so that no worker is left alone with a long one. Within a chunk runs a plain iterator
//! of std, which the compiler treats as it does in serial code.
//!
//! **When to share.** A part of a loop that shares, cuts what it has left into halves and
//! [`join`](crate::join())s them: the second is on offer to other workers while the first is gone
//! over, and if nobody has taken it by then, it is gone over here. As in lazy binary splitting (Tzannes,
//! Caragea, Barua, Vishkin, "Lazy Binary-Splitting: A Run-Time Adaptive Work-Stealing Scheduler", PPoPP
//! 2010) that is done not down to some grain, but only as long as there is nothing on offer: when the half that was has
//! been taken, the next one is offered. A loop that nobody helps with is so cut as often as the
//! logarithm of its length. Their sign that there is nothing on offer is an empty deque; here it is a flag that
//! the thief of the half raises, so that a loop inside of another one offers something of its own. And a part
//! shares when its worker has been asked for work (a worker that finds none anywhere leaves a request
//! with the others before it sleeps).
//!
//! **When not to.** What is expected to be over in 20 us is kept. As long as a loop has not been timed it
//! might consist of a few long items: then the first part of it, on each worker that comes to it, offers up to three
//! halves at once, so that eight workers have eight items in no more than two steps. With one worker there
//! is nobody to share with, and all of this is left out.
//!
//! # What it costs
//!
//! On one worker a loop costs a few hundred instructions, and some sixty for each chunk: a sum of a million integers
//! that are in the cache, with which the least is done, executes 3.5 % more of them than the serial
//! loop. On several workers there are in addition the forks, as many as the logarithm of the number of items and a
//! few for each worker.

mod boundary;
mod collect;
mod drive;
mod each;
mod find;
mod items;
mod pace;
mod ranges;
mod sort;
mod source;

pub use collect::map_collect;
pub use each::{fold_reduce, for_each, map_reduce};
pub use find::{all, any, find_any};
pub use items::Items;
pub use ranges::Integer;
pub use sort::{sort_unstable, sort_unstable_by, sort_unstable_by_key};
pub use source::{
    AtLeast, Chunks, ChunksMut, IntoSource, Source, Zip, at_least, chunks, chunks_mut, zip,
};
