//! The limit of a scope: when its time is up.

use super::tick::Tick;
use super::timer::Timer;
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::ptr::NonNull;

/// When the time of a scope is up. Lives in the frame of the call that opened the scope.
///
/// A limit needs no timer if an outer limit of the same task comes first: the task cannot begin to
/// ignore the cancel of the outer scope before it has left the inner one. Another task may begin
/// to ignore it at any time. So a limit relies only on limits of its own task ([`Limit::sure`]),
/// but looks at all of them ([`Limit::outer`]).
pub(crate) struct Limit {
    pub(super) at: Tick,
    pub(crate) place: &'static Location<'static>,
    pub(super) timer: OnceCell<Timer>,
    /// The nearest known outer limit, if it or one further out comes first.
    pub(super) outer: Cell<Option<NonNull<Limit>>>,
    /// When the first of this limit and the known outer ones comes.
    pub(super) first: Cell<Tick>,
    /// When the scope is cancelled at the latest, whatever other tasks do.
    pub(super) sure: Cell<Tick>,
    /// There may be outer limits that this one does not know.
    pub(super) ignorant: Cell<bool>,
}

impl Limit {
    pub(crate) fn new(at: Tick, place: &'static Location<'static>) -> Limit {
        Limit {
            at,
            place,
            timer: OnceCell::new(),
            outer: Cell::new(None),
            first: Cell::new(at),
            sure: Cell::new(at),
            ignorant: Cell::new(false),
        }
    }

    /// The nearest known outer limit, if it or one further out comes first.
    pub(super) fn outer(&self) -> Option<&Limit> {
        // SAFETY: outer scopes end later, and their limits with them.
        self.outer.get().map(|limit| unsafe { limit.as_ref() })
    }
}
