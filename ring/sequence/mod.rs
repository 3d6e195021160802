//! The progress of the producers and readers of a ring: sequence numbers that are claimed,
//! published and waited for.
//!
//! A ring has a power of two of slots; the item with the number `n` lies in the slot `n % size`.
//! A producer *claims* numbers, writes their items, and *publishes* them. A reader *waits* until a
//! number is published, reads the items up to it, and publishes that it has read them. This module
//! provides the numbers. The caller stores the items.
//!
//! | | |
//! | --- | --- |
//! | [`SequenceBarrier`] | the progress of one party |
//! | [`SequenceBarrierGroup`] | the progress of the slowest of several parties |
//! | [`SingleProducerSequencer`] | claims of a single producer |
//! | [`MultiProducerSequencer`] | claims of several producers |
//! | [`Sequence`], [`SequenceRange`] | numbers that wrap around, and ranges of them |
//! | [`Count`] | how many numbers a claim asks for |
//! | [`WaitStrategy`] | how a waiter waits |
//!
//! All of it works from tasks, plain threads and futures on any executor, in any mix.
//! **Cancellation is total**: a wait or a claim that is cancelled, times out or is dropped as a
//! future has no effect, and disturbs no other.
//!
//! The ideas come from the LMAX disruptor (Thompson, Farley, Barker, Gee, Stewart: *Disruptor*,
//! 2011), and the names from L. Baker's cppcoro, in which a wait cannot be cancelled.
//!
//! ```
//! use cygnet::ring::sequence::{SequenceBarrier, SingleProducerSequencer};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
//! let items = [const { AtomicU64::new(0) }; 8];
//! let read = SequenceBarrier::<u64>::new();
//! let mut ring = SingleProducerSequencer::new(&read, items.len());
//! let written = ring.published().clone();
//! let sum = rt.block_on(|| {
//!     cygnet::scope(|s| {
//!         s.spawn(|| {
//!             let mut ring = ring; // dropped with this task, which ends the ring
//!             for item in 1..=100 {
//!                 let claim = ring.claim_one().unwrap();
//!                 let slot = claim.range().start() as usize % items.len();
//!                 items[slot].store(item, Ordering::Relaxed);
//!                 claim.publish();
//!             }
//!         });
//!         let (mut next, mut sum) = (0, 0);
//!         while let Ok(last) = written.wait_until_published(next) {
//!             for number in next..=last {
//!                 sum += items[number as usize % items.len()].load(Ordering::Relaxed);
//!             }
//!             read.publish(last);
//!             next = last + 1;
//!         }
//!         sum
//!     })
//! });
//! assert_eq!(sum, 5050);
//! ```

mod arithmetic;
mod awaited;
mod barrier;
mod claims;
mod common;
mod count;
mod errors;
mod group;
#[cfg(all(test, loom))]
mod models;
mod multi;
mod raw_barrier;
mod raw_group;
mod raw_multi;
mod single;
mod source;
mod spinning;
mod stamps;
mod strategy;

pub use arithmetic::{Sequence, SequenceIter, SequenceRange};
pub use barrier::SequenceBarrier;
pub use count::Count;
pub use errors::TryClaimError;
pub use group::SequenceBarrierGroup;
pub use multi::{MultiClaim, MultiProducerSequencer};
pub use single::{SingleClaim, SingleProducerSequencer};
pub use strategy::WaitStrategy;

pub(crate) use single::assert_size;
pub(crate) use source::Source;
