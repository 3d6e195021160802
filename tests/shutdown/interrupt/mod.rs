//! What a stop interrupts, and what it guards: `Interrupt` and `Guarded`, around each kind of value.

mod channels;
mod guarded;
mod io_std;
mod iterators;
mod kinds;
mod polls;
#[cfg(feature = "tokio")]
mod sockets;
mod traits;
mod values;

use cygnet::shutdown::Swansong;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Stops, and asks for no completion.
fn stop(swansong: &Swansong) {
    let _completion = swansong.shut_down();
}

/// A waker that counts its calls, and that knows how many hold it.
struct Called(Arc<Calls>, Waker);

struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Called {
    fn new() -> Called {
        let calls = Arc::new(Calls(AtomicUsize::new(0)));
        Called(Arc::clone(&calls), Waker::from(calls))
    }

    fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    /// How many clones of the waker there are.
    fn kept(&self) -> usize {
        Arc::strong_count(&self.0) - 2
    }
}
