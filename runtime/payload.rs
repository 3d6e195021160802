//! Panic payloads as a part of an error.

use crate::task::outcome::{Payload, panic_text};
use std::any::Any;

/// The payload of a panic, in [`JoinError::Panicked`](crate::JoinError::Panicked).
///
/// Unlike the `Box<dyn Any + Send>` inside, a `PanicPayload` is `Sync`, so errors that hold one can
/// be boxed as `Box<dyn Error + Send + Sync>`. [`into_inner`](PanicPayload::into_inner) returns the
/// value. A reference to the value is either exclusive, or requires the value's type to be `Sync`.
///
/// ```
/// use cygnet::JoinError;
///
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let error = cygnet::spawn(|| -> u32 { std::panic::panic_any(404_u16) }).join().unwrap_err();
///     let JoinError::Panicked(payload) = error else { unreachable!() };
///     assert_eq!(payload.downcast_ref::<u16>(), Some(&404));
///     assert_eq!(payload.into_inner().downcast::<u16>().unwrap(), Box::new(404));
/// });
/// ```
pub struct PanicPayload(Payload);

// SAFETY: a shared reference gives access to the value's type, which does not read the value, and
// to the value only as a type that is `Sync`: by its bound in `downcast_ref`, and as a `&'static
// str` or a `String` in `message` and `Debug`. Only `get_mut` and `into_inner` reach a value that
// is not `Sync`, so one thread at a time does, and the value may go to that thread because it is
// `Send`.
unsafe impl Sync for PanicPayload {}

impl PanicPayload {
    pub(crate) fn new(payload: Payload) -> PanicPayload {
        PanicPayload(payload)
    }

    /// Returns the payload, for example for [`resume_unwind`](std::panic::resume_unwind).
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Any + Send + 'static> {
        self.0
    }

    /// Returns the payload by an exclusive reference, to be downcast.
    pub fn get_mut(&mut self) -> &mut (dyn Any + Send + 'static) {
        &mut *self.0
    }

    /// Returns whether the payload is a `T`.
    #[must_use]
    pub fn is<T: Any>(&self) -> bool {
        self.0.is::<T>()
    }

    /// Returns the payload if it is a `T`. For a `T` that is not `Sync`, use
    /// [`get_mut`](PanicPayload::get_mut) or [`into_inner`](PanicPayload::into_inner).
    ///
    /// ```compile_fail,E0277
    /// fn cell(payload: &cygnet::PanicPayload) -> Option<&std::cell::Cell<u8>> {
    ///     payload.downcast_ref() // two threads could have it
    /// }
    /// ```
    #[must_use]
    pub fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        self.0.downcast_ref::<T>()
    }

    /// The panic's text, or a placeholder in brackets if the payload is not text.
    #[must_use]
    pub fn message(&self) -> &str {
        panic_text(&self.0)
    }
}

debug! { impl PanicPayload as this (this.message()) }
