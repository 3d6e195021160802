//! The trace of a run: its last switches, and a hash of all steps.

use std::backtrace::Backtrace;
use std::collections::VecDeque;
use std::panic::Location;
use std::time::Duration;

/// The number of switches that are kept. The last ones show why a run has failed.
const KEPT: usize = 64;

/// The reason why a virtual thread was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Preempted,
    GaveWay,
    Waits,
    /// A fault has stalled the thread.
    Stalled,
    Ended,
    /// The thread cannot continue, and no other thread can run: a deadlock.
    Stuck,
}

/// A switch.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) time: Duration,
    pub(crate) from: usize,
    pub(crate) step: Step,
    pub(crate) place: &'static Location<'static>,
    pub(crate) to: usize,
    /// The backtrace of the switch, if backtraces are kept.
    pub(crate) calls: Option<Backtrace>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Trace {
    /// The last switches.
    pub(crate) events: VecDeque<Event>,
    keeps_calls: bool,
    /// A hash of all steps (FNV-1a over words). Runs with the same steps at the same places and
    /// times have the same hash.
    pub(crate) hash: u64,
}

impl Trace {
    pub(super) fn new(keeps_calls: bool) -> Trace {
        Trace { events: VecDeque::new(), keeps_calls, hash: 0xcbf2_9ce4_8422_2325 }
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Adds a step after which the same thread continues.
    pub(super) fn pass(&mut self, thread: usize, place: &Location<'_>) {
        self.mix(u64::from(place.line()) << 32 | u64::from(place.column()) << 16 | thread as u64);
    }

    /// Adds a switch.
    pub(super) fn add(&mut self, mut event: Event) {
        self.pass(event.from, event.place);
        self.mix(event.time.as_nanos() as u64);
        self.mix((event.to as u64) << 8 | event.step as u64);
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        event.calls = self.keeps_calls.then(Backtrace::force_capture);
        self.events.push_back(event);
    }
}
