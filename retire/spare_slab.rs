//! A slab that an ended runtime leaves behind for the next one in the process.
//!
//! Mapping a slab, installing the first guards, touching the first pages and unmapping it all takes
//! longer than everything else that a short-lived runtime does with memory: unmapping alone
//! interrupts every processor that runs the process. So one slab of the default class stays mapped
//! when a runtime ends, if only a few of its stacks have ever been used. Such a slab holds at most
//! a few resident pages.

use super::slab::Slab;
use super::stack::StackClass;
use crate::shim::real::Mutex;

/// A slab with more guards is not kept. A slot gets its guard at its first use, so the guards count
/// the stacks that have ever been used.
const FEW: usize = 16;

// A std mutex and not the shim's: the slab belongs to the process, not to a model's run.
static SPARE: Mutex<Option<Slab>> = Mutex::new(None);

/// Takes the spare slab, if there is one and `class` is the default class.
pub(super) fn take(class: StackClass) -> Option<Slab> {
    if class != StackClass::DEFAULT {
        return None;
    }
    SPARE.lock().take()
}

/// Keeps one of the slabs of a runtime that has ended, unless there is a spare slab already.
///
/// All of `slabs` must be of the default class and have markers as guards.
pub(super) fn keep(slabs: impl Iterator<Item = Slab>) {
    let mut slabs: Vec<_> = slabs.collect();
    let fits = |slab: &Slab| slab.is_idle() && slab.guards() <= FEW;
    let mut spare = SPARE.lock();
    if spare.is_none() {
        *spare = slabs.iter().position(fits).map(|fit| slabs.swap_remove(fit));
    }
    drop(spare);
    // Unmapping is slow, so it happens after the lock is released.
    drop(slabs);
}
