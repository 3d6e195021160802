//! The limit of a scope: when its time is up.

use super::tick::Tick;
use super::timer::{Timer, Timers};
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::ptr::NonNull;

/// When the time of a scope is up. On the frame of the call that has opened it.
///
/// One below another that comes first needs no timer, if both are of the same task: that cannot begin to ignore the
/// cancel of the outer scope before it has left the inner one. Another task may, at any time; so a limit relies on none
/// but those of its own task ([`Limit::sure`]), and looks at all ([`Limit::outer`]).
pub(crate) struct Limit {
    pub(super) at: Tick,
    pub(crate) place: &'static Location<'static>,
    /// The timer, and the wheel where it was set.
    pub(super) timer: OnceCell<(Timer, *const Timers)>,
    /// An outer limit, if this one knows of any that comes first; and when the first of all those is.
    pub(super) outer: Cell<Option<NonNull<Limit>>>,
    pub(super) first: Cell<Tick>,
    /// When its scope is cancelled at the latest, whatever other tasks do.
    pub(super) sure: Cell<Tick>,
    /// There may be outer ones that it does not know of.
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
}
