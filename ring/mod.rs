//! Rings: values pass from one or several producers through stages of readers, in batches, without
//! being moved.
//!
//! The items are created once, with the ring, and stay in place. A producer *claims* some of them,
//! writes them in place, and publishes them. A reader receives all published items, in order, as a
//! *batch*, and gives them back when it drops the batch. An item that owns memory therefore keeps
//! it from one use to the next.
//!
//! Readers belong to a **stage**. Each reader of a stage sees every item, independently of the
//! others. The readers of the next stage see an item when all readers of this stage have given it
//! back, and the producers have it again after the last stage. A stage of one reader may
//! [change](Stage) items, as no other reader has access to them. The [readers](Reader) of a
//! larger stage share them.
//!
//! ```
//! use cygnet::ring;
//!
//! #[derive(Default)]
//! struct Line {
//!     text: String, // keeps its memory from one use to the next
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
//!         while let Ok(mut batch) = parse.next_batch(..) {
//!             batch.iter_mut().for_each(|line| line.number = line.text.parse().ok());
//!         }
//!     });
//!     let sum = cygnet::spawn(move || {
//!         let mut total = 0;
//!         while let Ok(batch) = sum.next_batch(..) {
//!             total += batch.iter().filter_map(|line| line.number).sum::<i64>();
//!         }
//!         total
//!     });
//!     let count = cygnet::spawn(move || {
//!         let mut total = 0;
//!         while let Ok(batch) = count.next_batch(..) {
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
//!     drop(lines); // ends the ring when everything published has been read
//!     parse.join().unwrap();
//!     assert_eq!((sum.join().unwrap(), count.join().unwrap()), (5050, 100));
//! });
//! ```
//!
//! # Forms
//!
//! | | items to write | a value | items to read | an item |
//! | --- | --- | --- | --- | --- |
//! | waits | [`claim`] | [`send`] | [`next_batch`] | [`recv`] |
//! | for a time | `claim_timeout` | `send_timeout` | `next_batch_timeout` | `recv_timeout` |
//! | by a moment | `claim_deadline` | `send_deadline` | `next_batch_deadline` | `recv_deadline` |
//! | does not wait | `try_claim` | `try_send` | `try_next_batch` | `try_recv` |
//! | as a future | `claim_async` | `send_async` | `next_batch_async` | `recv_async` |
//!
//! A claim and a batch take a [`Count`] in each form: `8` is exactly 8, `..=8` up to 8, `4..` at
//! least 4, and `..` as many as there are.
//!
//! [`iter`](Stage::iter) goes through the items one by one to the end of the ring. With the feature
//! `futures`, a reader can be turned into a `Stream` by `into_stream`.
//!
//! [`claim`]: Producer::claim
//! [`send`]: Producer::send
//! [`next_batch`]: Stage::next_batch
//! [`recv`]: Stage::recv
//! [`Count`]: crate::ring::sequence::Count
//!
//! # The end
//!
//! When the last producer is dropped, the readers of each stage read what has been published, and
//! then get [`Closed`](crate::sync::WaitError::Closed). Nothing is lost.
//!
//! `close` refuses later claims at once. With several producers, a batch that was claimed before
//! the close may still be published: readers get `Closed` when they have read everything that was
//! claimed and not given back. (A single producer cannot close the ring while it holds a batch,
//! which borrows the producer.) Readers wait for a batch that was forgotten
//! ([`mem::forget`](std::mem::forget)) until the last producer is dropped; the batch counts as
//! given back then.
//!
//! A reader that is dropped before the end ends the ring: no later stage reads past what that reader
//! has given back, and producers are refused. A batch that was claimed before the drop and is published
//! after it comes too late: [`WriteBatch::publish`] returns `false`.
//!
//! A reader that got `Closed` gets it again from each later call.
//!
//! # Cancellation
//!
//! Cancellation is total, as for the [sequences](crate::ring::sequence) underneath: a claim or a
//! wait that is cancelled, times out or is dropped as a future has no effect. A claim that is
//! dropped unpublished is given back, and readers never see it.

mod batch;
mod builder;
mod cursor;
mod items;
mod producer;
mod reader;
mod recv;
pub mod sequence;
#[cfg(feature = "futures")]
mod streams;

pub use batch::{Batch, BatchMut, WriteBatch};
pub use builder::{
    RingBuilder, multi_producer, multi_producer_with, single_producer, single_producer_with,
};
pub use producer::{MultiProducer, Producer};
pub use reader::{Reader, Stage};

/// The number of producers of a ring.
pub mod producers {
    /// One producer.
    #[derive(Debug)]
    pub enum One {}
    /// Several producers.
    #[derive(Debug)]
    pub enum Many {}
}
