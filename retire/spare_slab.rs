//! A slab that a runtime has left behind for the next one of the process.
//!
//! To map a slab, to install the first guards, to touch the first pages, and to unmap it all, with an
//! interrupt on every processor that runs the process, takes longer than all the rest that a short-lived
//! runtime does with memory. So one slab of the default class stays mapped when a runtime ends, if
//! only few of its stacks have ever been used: it holds a few resident pages at most.

use super::slab::Slab;
use super::stack::StackClass;
use std::sync::{Mutex, PoisonError};

/// A slab with more guards, thus with more stacks that were in use, is not kept.
const FEW: usize = 16;

// Not the shim's: it belongs to the process and not to a model.
static SPARE: Mutex<Option<Slab>> = Mutex::new(None);

/// The spare slab, if there is one and the class is its.
pub(super) fn take(class: StackClass) -> Option<Slab> {
    if class != StackClass::DEFAULT {
        return None;
    }
    SPARE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Keeps one of the slabs of a runtime that has ended, if there is none yet. They are of the default
/// class, and guarded by markers.
pub(super) fn keep(slabs: impl Iterator<Item = Slab>) {
    let mut left = Vec::new();
    {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        for slab in slabs {
            if spare.is_none() && slab.is_idle() && slab.guards() <= FEW {
                *spare = Some(slab);
            } else {
                left.push(slab);
            }
        }
    }
    // Unmapping takes its time, so the lock is free by now.
    drop(left);
}
