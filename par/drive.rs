//! The engine of all loops: goes over a source in chunks and shares it out. The reasons for its
//! decisions are in the header of [`par`](crate::par).
//!
//! A function's return value is leaked if it exists already when the destructor of a local value
//! panics (<https://github.com/rust-lang/rust/issues/47949>). For this reason, here and in the
//! bodies of the loops, values that may have a user's destructor and are no longer wanted are
//! dropped by an explicit call.

use crate::par::Source;
use crate::par::boundary::{self, Caller, with_caller};
use crate::par::pace::Pace;
use crate::runtime::{Cancelled, join};
use crate::shim::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use crate::shim::time::{computed, now};
use crossbeam_utils::CachePadded;
use std::mem::forget;
use std::ops::ControlFlow;

/// Parts that a loop offers at most before it has done anything.
const SPINE: u32 = 3;
/// ForkList may nest this deep wherever a loop is called; deeper only if there is room on the
/// stack. (The depth of a part is bounded by the logarithm of its size, but that can be 64, and the
/// depth of a sort by some multiple of it.)
const SHALLOW: u32 = 4;

/// Returns whether a part may fork, given the number of forks of its loop that are open on its
/// stack.
#[inline]
pub(super) fn may_nest(depth: u32) -> bool {
    depth < SHALLOW || boundary::has_room()
}

/// The work that a loop does on its items.
pub(super) trait Body<S>: Sync {
    /// The result of a part.
    type Out: Send;

    /// Returns the value that a part begins with.
    fn begin(&self) -> Self::Out;

    /// Returns whether the loop still has to go over what is left of a part.
    #[inline]
    fn wants(&self, _: &S) -> bool {
        true
    }

    /// Goes over a chunk. `Break` ends the loop, on all workers.
    fn chunk(&self, out: Self::Out, chunk: S) -> ControlFlow<Self::Out, Self::Out>;

    /// Combines the results of a part and of the one right behind it.
    fn merge(&self, first: Self::Out, second: Self::Out) -> Self::Out;
}

/// Why a loop ends before its last item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Stop {
    /// The loop has not been stopped.
    No,
    /// The loop has found the item that it looked for.
    Found,
    Cancelled,
    Panicked,
}

/// The state shared by all parts of one call, in the frame of that call.
pub(super) struct Loop<'a> {
    /// On a cache line of its own, as the calling worker writes to its stack all the time.
    /// Why the loop stops: every part reads this word, and the first part with a reason writes it.
    stop: CachePadded<AtomicU8>,
    caller: Caller<'a>,
    /// The number of parts to offer to begin with: 0 if there is only one worker.
    spine: u32,
}

impl<'a> Loop<'a> {
    /// Creates a loop for a caller whose runtime has `workers` workers.
    #[inline]
    pub(super) fn new(caller: Caller<'a>, workers: usize) -> Loop<'a> {
        let spine = (usize::BITS - (workers - 1).leading_zeros()).min(SPINE);
        Loop { stop: CachePadded::new(AtomicU8::new(Stop::No as u8)), caller, spine }
    }

    #[inline]
    pub(super) fn stop(&self, why: Stop) {
        let no = Stop::No as u8;
        // Relaxed: the word only says that no more need be done, and publishes nothing else.
        let _ = self.stop.compare_exchange(no, why as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn stopped(&self) -> Stop {
        match self.stop.load(Ordering::Relaxed) {
            0 => Stop::No,
            1 => Stop::Found,
            2 => Stop::Cancelled,
            _ => Stop::Panicked,
        }
    }

    /// Returns whether there is another worker to share with.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.spine > 0
    }

    /// Ends a chunk that is not the last. Suspends if another task of this worker is ready.
    ///
    /// Not inlined: loops are compiled in the user's crate, where half of the functions called here
    /// could not be inlined.
    #[inline(never)]
    pub(super) fn pass(&self) -> Pass {
        if self.stopped() == Stop::No && self.caller.all_quiet() {
            return Pass::On;
        }
        self.react()
    }

    #[cold]
    #[inline(never)]
    fn react(&self) -> Pass {
        if self.stopped() != Stop::No {
            return Pass::End;
        }
        let others_ran = boundary::let_others();
        if self.caller.is_cancelled() {
            self.stop(Stop::Cancelled);
            return Pass::End;
        }
        Pass::Interrupted { others_ran, requested: boundary::is_requested() }
    }
}

/// The result of [`Loop::pass`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pass {
    /// Go on.
    On,
    /// Go on, but time may have passed, and another worker may be without work.
    Interrupted { others_ran: bool, requested: bool },
    /// The loop ends here.
    End,
}

/// Stops the loop if the part that holds this guard unwinds. The part forgets the guard when it
/// ends regularly.
pub(super) struct StopOnPanic<'a>(pub(super) &'a Loop<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop(Stop::Panicked);
    }
}

/// State about a part that was offered to other workers, shared with the part before it.
struct Offer {
    /// Another worker has begun with it.
    taken: AtomicBool,
    /// The pace that the part before has found, for this one.
    pace: AtomicUsize,
}

/// The state that a part starts from.
#[derive(Clone, Copy)]
struct Start<'a> {
    pace: Pace,
    /// The part behind this one, if it was offered.
    offer: Option<&'a Offer>,
    /// The number of parts to offer even if no worker has asked and another part is on offer.
    spine: u32,
    /// The forks of this loop that are open on this stack.
    depth: u32,
}

impl Start<'_> {
    /// Returns whether to cut `left` items in two and offer the second half.
    #[inline]
    fn wants_fork(&self, requested: bool, left: usize, least: usize) -> bool {
        if left < 2 || left / 2 < least || !self.pace.is_worth_sharing(left) {
            return false;
        }
        let wanted = requested
            || self.spine > 0 && !self.pace.is_timed()
            || self.offer.is_none_or(|offer| offer.taken.load(Ordering::Relaxed));
        wanted && may_nest(self.depth)
    }
}

/// Goes over a source. The second part of the result says why the loop ended. If it is `Stop::No`,
/// the loop has gone over all items; otherwise the output covers some parts only.
#[inline]
#[track_caller]
pub(super) fn run<S: Source, B: Body<S>>(
    what: &str,
    source: S,
    body: &B,
) -> Result<(B::Out, Stop), Cancelled> {
    with_caller(what, |caller, workers| {
        let this = Loop::new(caller, workers);
        let start = Start { pace: Pace::START, offer: None, spine: this.spine, depth: 0 };
        let out = drive(&this, body, source, body.begin(), start);
        (out, this.stopped())
    })
}

/// Like [`run`], for loops that do not search.
#[inline]
#[track_caller]
pub(super) fn run_all<S: Source, B: Body<S>>(
    what: &str,
    source: S,
    body: &B,
) -> Result<B::Out, Cancelled> {
    let (out, stop) = run(what, source, body)?;
    if stop == Stop::No { Ok(out) } else { Err(Cancelled::here()) }
}

/// Goes over a part. Never inlined: it calls itself by way of `fork`, and the closures in `body`
/// are to be compiled once.
#[inline(never)]
fn drive<S: Source, B: Body<S>>(
    this: &Loop<'_>,
    body: &B,
    mut rest: S,
    mut out: B::Out,
    mut start: Start<'_>,
) -> B::Out {
    let guard = StopOnPanic(this);
    let least = rest.at_least();
    let mut left = rest.size();
    let mut since = None;
    // This part has not seen a request for work yet.
    let mut requested = false;
    while left > 0 && body.wants(&rest) {
        if this.is_shared() {
            if start.wants_fork(requested, left, least) {
                out = fork(this, body, rest, out, start);
                forget(guard);
                return out;
            }
            if requested {
                boundary::serve();
            }
        }
        let n = start.pace.next(left, least);
        if since.is_none() && start.pace.wants_time(n, left) {
            since = Some(now());
        }
        let (chunk, behind) = rest.split_at(n);
        rest = behind;
        match body.chunk(out, chunk) {
            ControlFlow::Continue(so_far) => out = so_far,
            ControlFlow::Break(found) => {
                this.stop(Stop::Found);
                out = found;
                break;
            }
        }
        left = rest.size();
        if left == 0 {
            break;
        }
        match since {
            Some(before) => {
                computed(n);
                let time = now();
                start.pace.learn(n, time - before);
                since = Some(time);
            }
            None => start.pace.grow(),
        }
        match this.pass() {
            Pass::On => requested = false,
            Pass::Interrupted { others_ran, requested: asked } => {
                requested = asked;
                if others_ran {
                    // The time of other tasks does not count.
                    since = None;
                }
            }
            Pass::End => break,
        }
    }
    if let Some(offer) = start.offer {
        offer.pace.store(start.pace.to_word(), Ordering::Relaxed);
    }
    drop(rest);
    forget(guard);
    out
}

/// Goes over the halves of a part, the second one possibly on another worker.
#[inline(never)]
fn fork<S: Source, B: Body<S>>(
    this: &Loop<'_>,
    body: &B,
    part: S,
    out: B::Out,
    start: Start<'_>,
) -> B::Out {
    let size = part.size();
    let (first, second) = part.split_at(size - size / 2);
    let offer =
        Offer { taken: AtomicBool::new(false), pace: AtomicUsize::new(start.pace.to_word()) };
    let here = boundary::worker_addr();
    let depth = start.depth + 1;
    let (first, second) = join(
        || {
            let spine = start.spine.saturating_sub(1);
            drive(this, body, first, out, Start { offer: Some(&offer), spine, depth, ..start })
        },
        || {
            // Relaxed, both: these are hints that publish nothing else.
            let pace = Pace::from_word(offer.pace.load(Ordering::Relaxed));
            let start = if boundary::worker_addr() == here {
                Start { pace, spine: 0, depth, ..start }
            } else {
                offer.taken.store(true, Ordering::Relaxed);
                Start { pace, spine: this.spine, offer: None, depth: 0 }
            };
            let guard = StopOnPanic(this);
            let out = body.begin();
            forget(guard);
            if this.stopped() == Stop::No {
                drive(this, body, second, out, start)
            } else {
                drop(second);
                out
            }
        },
    );
    match this.stopped() {
        Stop::No | Stop::Found => body.merge(first, second),
        Stop::Cancelled | Stop::Panicked => {
            drop(second);
            first
        }
    }
}
