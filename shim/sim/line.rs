//! Cache lines of structures in other crates, for a machine model that charges for them.

use super::charge;
use crate::shim::Access;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The cache line of a structure in another crate. The caller declares the accesses. Clones stand
/// for the same line.
#[derive(Clone)]
pub(crate) struct Line(Arc<CachePadded<u8>>);

impl Line {
    pub(crate) fn new() -> Line {
        Line(Arc::default())
    }

    #[track_caller]
    pub(crate) fn access(&self, access: Access) {
        charge(access, Arc::as_ptr(&self.0).addr());
    }
}
