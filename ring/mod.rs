//! A ring of items, through which values go in batches without being moved: one or many who write, and stages of those who read.
//!
//! The items are made once, with the ring, and stay where they are. Who writes *claims* some of them, writes them in place, and publishes them; who
//! reads has all that are published, in order, as a *batch*, and gives them back when that is dropped. So an item that has memory of its own keeps it
//! from one use to the next.
//!
//! Who reads belongs to a **stage**. The readers of a stage each see every item, independently; those of the next stage see it when all of these
//! have given it back, and the writers have it again after the last stage. A stage of one reader may [change](Stage) items, as nobody else has them; those of
//! [several](Reader) share them.
//!
//! ```
//! use cygnet::ring;
//!
//! #[derive(Default)]
//! struct Line {
//!     text: String, // its memory is used again and again
//!     number: Option<i64>,
//! }
//!
//! let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
//! let mut ring = ring::single_producer(8, Line::default);
//! let mut parse = ring.stage();
//! let [mut sum, mut count] = ring.readers();
//! let mut lines = ring.producer();
//!
//! rt.block_on(|| {
//!     let parse = cygnet::spawn(move || {
//!         while let Ok(mut batch) = parse.next_batch() {
//!             batch.iter_mut().for_each(|line| line.number = line.text.parse().ok());
//!         }
//!     });
//!     let sum = cygnet::spawn(move || {
//!         let mut total = 0;
//!         while let Ok(batch) = sum.next_batch() {
//!             total += batch.iter().filter_map(|line| line.number).sum::<i64>();
//!         }
//!         total
//!     });
//!     let count = cygnet::spawn(move || {
//!         let mut total = 0;
//!         while let Ok(batch) = count.next_batch() {
//!             total += batch.len();
//!         }
//!         total
//!     });
//!     for number in 1..=100 {
//!         let mut batch = lines.claim(1).unwrap();
//!         for line in batch.iter_mut() {
//!             line.text.clear();
//!             line.text.push_str(&number.to_string());
//!         }
//!         batch.publish();
//!     }
//!     drop(lines); // no more comes; what was published is read to its end
//!     parse.join().unwrap();
//!     assert_eq!((sum.join().unwrap(), count.join().unwrap()), (5050, 100));
//! });
//! ```
//!
//! # The end
//!
//! When the last writer goes the readers read what there is, stage after stage, and then are told [`Closed`](crate::sync::WaitError::Closed): nothing is lost.
//!
//! `close` refuses writers at once. A batch that one of many writers has claimed before may still be published: readers are told `Closed` when they have read all
//! that was claimed, in as far as it was not given back. (A single writer cannot close the ring with a batch in hand, which borrows it.) A batch that is
//! forgotten ([`mem::forget`](std::mem::forget)) is waited for until the last writer goes, and counts as given back then.
//!
//! A reader that goes before the end ends the ring: no stage reads past what it has given back, and writers are refused. A writer that publishes a batch which it
//! has claimed before that comes too late: [`WriteBatch::publish`] returns `false`.
//!
//! A reader that was told `Closed` is told so again by each later call.
//!
//! # Cancellation
//!
//! Is total, as that of [sequences](crate::ring::sequence), on which this rests: a claim or a wait that is cancelled, times out or is dropped as a future is as if it
//! had never been made, and a claim that is dropped unpublished is given back, so that readers never see it.

mod batch;
mod builder;
mod errors;
mod items;
mod producer;
mod reader;
pub mod sequence;

pub use batch::{Batch, BatchMut, WriteBatch};
pub use builder::{
    RingBuilder, multi_producer, multi_producer_with, single_producer, single_producer_with,
};
pub use errors::TryNextError;
pub use producer::{MultiProducer, Producer};
pub use reader::{Reader, Stage};

/// How many write a ring.
pub mod producers {
    /// One.
    #[derive(Debug)]
    pub enum One {}
    /// Many.
    #[derive(Debug)]
    pub enum Many {}
}
