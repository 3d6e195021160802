//! What tasks, threads and futures wait for together: the order, cancellation, time limits, and
//! that nothing is lost. `contract` checks what all primitives have in common.

mod broadcast;
mod channel;
#[path = "../common/mod.rs"]
mod common;
mod condvar;
mod contract;
mod event;
mod foreign;
mod meeting;
mod mutex;
mod oneshot;
mod passing;
mod races;
mod rwlock;
mod semaphore;
mod storm;
mod watch;

use common::prelude::*;
use cygnet::sync::{Receiver, Sender};
use std::fmt::{self, Debug, Formatter};

/// A guard of any type. Its drop gives back what the holder has.
trait Held {}

impl<T> Held for T {}

/// A channel that one value goes round in: its holder has received it, and sends it back.
struct Values {
    back: Sender<()>,
    from: Receiver<()>,
    /// A second handle, so that the end is shared.
    _other: Receiver<()>,
}

impl Values {
    fn empty((back, from): (Sender<()>, Receiver<()>)) -> Values {
        Values { back, _other: from.clone(), from }
    }

    /// Returns a guard that sends the value.
    fn taken(&self) -> OnDrop<impl FnMut()> {
        OnDrop(|| self.back.try_send(()).unwrap())
    }
}

impl Debug for Values {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.from.fmt(f)
    }
}

/// A channel with room for one value: its holder has filled the place, and frees it again.
struct Places {
    to: Sender<()>,
    /// A second handle, so that the end is shared.
    _other: Sender<()>,
    back: Receiver<()>,
}

impl Places {
    fn free() -> Places {
        let (to, back) = bounded(1);
        Places { _other: to.clone(), to, back }
    }

    /// Returns a guard that frees the place.
    fn filled(&self) -> OnDrop<impl FnMut()> {
        OnDrop(|| self.back.try_recv().unwrap())
    }
}

impl Debug for Places {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}
