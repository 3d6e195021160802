//! The source of a ring's reader.

use super::awaited::{Numbers, try_until, wait_as, wait_async};
use super::group::SequenceBarrierGroup;
use super::multi::MultiProducerSequencer;
use super::strategy::WaitStrategy;
use crate::shim::time::Instant;
use crate::sync::WaitError;
use std::panic::Location;

#[derive(Clone)]
pub(crate) enum Source {
    /// The one producer, or the readers of the stage before.
    Barriers(SequenceBarrierGroup<u64>),
    /// The sequencer of several producers.
    Stamps(MultiProducerSequencer<u64>),
}

/// The waits of a reader for `target`. It has read all numbers before `next`, which is `target` or
/// comes before it.
impl Source {
    #[track_caller]
    #[inline]
    pub(crate) fn wait_until(
        &self,
        target: u64,
        next: u64,
        until: Option<Instant>,
        strategy: WaitStrategy,
    ) -> Result<u64, WaitError> {
        let strategy = Some(strategy);
        match self {
            Source::Barriers(group) => wait_as(group.raw(), target, until, strategy),
            Source::Stamps(sequencer) => {
                wait_as(&sequencer.reads_from(next), target, until, strategy)
            }
        }
    }

    pub(crate) async fn wait_async(&self, target: u64, next: u64) -> Result<u64, WaitError> {
        match self {
            Source::Barriers(group) => group.wait_async(target).await,
            Source::Stamps(sequencer) => {
                wait_async(&sequencer.reads_from(next), target, Location::caller()).await
            }
        }
    }

    /// Returns the result that a wait would have now, or `None` if it would have to wait.
    pub(crate) fn try_until(&self, target: u64, next: u64) -> Option<Result<u64, WaitError>> {
        match self {
            Source::Barriers(group) => try_until(group.raw(), target),
            Source::Stamps(sequencer) => try_until(&sequencer.reads_from(next), target),
        }
    }

    /// Returns the last number that can be read.
    #[inline(always)]
    pub(crate) fn last(&self, next: u64) -> u64 {
        match self {
            Source::Barriers(group) => group.last_published(),
            Source::Stamps(sequencer) => sequencer.reads_from(next).published(),
        }
    }
}
