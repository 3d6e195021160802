//! Thread-local values of real and virtual threads.

use super::controller;
use std::ptr;
use std::thread::{AccessError, LocalKey};

/// A thread-local value of the library, made by [`thread_local`].
pub(crate) struct Key<T: 'static> {
    real: &'static LocalKey<T>,
    make: fn() -> T,
}

impl<T: 'static> Key<T> {
    pub(crate) const fn new(real: &'static LocalKey<T>, make: fn() -> T) -> Key<T> {
        Key { real, make }
    }

    pub(crate) fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        match controller() {
            Some(controller) => {
                let key = ptr::from_ref(self).addr();
                Ok(f(&controller.current().local(key, self.make)))
            }
            None => self.real.try_with(f),
        }
    }

    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).expect("thread-locals are there")
    }
}

#[allow(dead_code, reason = "as that of `std`")]
impl<T: 'static> Key<std::cell::Cell<T>> {
    pub(crate) fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub(crate) fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(std::cell::Cell::get)
    }
}

/// Defines one thread-local value, with the syntax of `std`'s macro.
macro_rules! local_value {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $t:ty = const $make:block $(;)?) => {
        $crate::shim::thread_local!($(#[$attribute])* $visibility static $name: $t = $make);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $t:ty = $make:expr $(;)?) => {
        $(#[$attribute])*
        $visibility static $name: $crate::shim::Key<$t> = {
            fn make() -> $t {
                $make
            }
            std::thread_local!(static REAL: $t = make());
            $crate::shim::Key::new(&REAL, make)
        };
    };
}

pub(crate) use local_value as thread_local;
