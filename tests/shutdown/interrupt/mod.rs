//! `Interrupt` and `Guarded` around each kind of value.

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

/// Stops, and asks for no completion.
fn stop(swansong: &Swansong) {
    let _completion = swansong.shut_down();
}
