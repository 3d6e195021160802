//! Moves values beyond the ring of a channel and back. [`overflow`](super::super::overflow) has the
//! rules.

use super::{Channel, State};
use crate::scheduler::wait::waiters::Wakes;
use crate::sync::channel::errors::{Refused, Tried};
use crate::sync::channel::line::{Receivers, Senders};

impl<T> Channel<T> {
    /// Moves values from the overflow into the ring, as far as there is room, and serves the
    /// receivers. Closes the ring of a closed channel whose overflow is empty.
    pub(super) fn refill(&self, state: &mut State<T>, wakes: &mut Wakes) {
        let Some(ring) = self.ring.as_ref().filter(|ring| ring.overflows()) else { return };
        let mut moved = 0;
        loop {
            moved += ring.put_all(&mut state.overflow.values);
            let is_empty = state.overflow.values.is_empty();
            if is_empty && state.overflow.is_closed {
                ring.close();
            }
            self.with_side::<Senders, _>(state, |line, supply| line.serve(supply, wakes));
            // Something may have become free before the announcement.
            // MUTANT(overflow.look): true
            if is_empty || !ring.has_room() {
                break;
            }
        }
        state.overflow.shrink();
        // MUTANT(overflow.receivers): false
        if (moved > 0 || ring.is_closed()) && ring.receivers_wait() {
            self.serve_in::<Receivers>(state, wakes);
        }
    }

    /// Takes a value for a receiver that has found all values of the ring promised, and others
    /// beyond it. `Missed` if the receiver is to try again.
    pub(super) fn take_beyond(&self, state: &mut State<T>, wakes: &mut Wakes) -> Tried<T> {
        self.refill(state, wakes);
        let Some(ring) = &self.ring else { return Err(Refused::Later) };
        match ring.why::<Receivers>() {
            Refused::Beyond if !state.overflow.values.is_empty() => {}
            why => return Err(why),
        }
        let value = ring.exchange(&mut state.overflow.values)?;
        self.refill(state, wakes);
        Ok(value)
    }

    /// Puts a value behind those in the overflow, or into the ring after all.
    #[cold]
    #[inline(never)]
    pub(super) fn put_beyond(&self, cell: &mut Option<T>, by_permit: bool) -> Tried<()> {
        self.locked(|state, wakes| {
            let may_put = self.with_side::<Senders, _>(state, |line, supply| {
                if by_permit {
                    supply.take_back();
                }
                let refused = match supply.free() {
                    _ if supply.is_over() => Refused::Closed,
                    _ if by_permit => return Ok(()),
                    0 => Refused::Later,
                    _ if line.is_strict(supply) => Refused::Behind,
                    _ => return Ok(()),
                };
                // The caller may have claimed a place of the ring in vain, and hidden it from
                // others.
                line.serve(supply, wakes);
                Err(refused)
            });
            may_put?;
            state.overflow.values.push_back(cell.take().expect("a value is put once"));
            // Those before it are announced, and wait for room.
            let waits = self.receivers_wait();
            // MUTANT(overflow.put.waits): false
            if state.overflow.values.len() == 1 || by_permit || waits {
                self.refill(state, wakes);
            }
            // Again: one that has come meanwhile may not have seen that there are values here.
            if self.receivers_wait() {
                self.serve_in::<Receivers>(state, wakes);
            }
            Ok(())
        })
    }
}
