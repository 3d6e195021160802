//! Atomic types and fences of `std`. Each access is reported to the controller before it is made.

pub(crate) use std::sync::atomic::Ordering;

use super::access;
use crate::shim::Access;

#[track_caller]
pub(crate) fn fence(order: Ordering) {
    access(Access::Fence, 0);
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        #[repr(transparent)]
        pub(crate) struct $name $(<$t>)? (std::sync::atomic::$name $(<$t>)?);

        #[allow(dead_code, reason = "each type is used by some protocol, no protocol uses all")]
        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                access(Access::Load, self.as_ptr().addr());
                self.0.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                access(Access::Store, self.as_ptr().addr());
                self.0.store(value, order);
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                access(Access::Update, self.as_ptr().addr());
                self.0.swap(value, order)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access(Access::Update, self.as_ptr().addr());
                self.0.compare_exchange(from, to, success, failure)
            }

            /// Does not fail spuriously, as every caller would only try again.
            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(from, to, success, failure)
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub(crate) fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            pub(crate) const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty: $($update:ident),*) => {
        atomic!($name, $value);

        #[allow(dead_code, reason = "as above")]
        impl $name {
            $(
                #[track_caller]
                pub(crate) fn $update(&self, value: $value, order: Ordering) -> $value {
                    access(Access::Update, self.as_ptr().addr());
                    self.0.$update(value, order)
                }
            )*

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut to: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut from = self.load(fetch);
                while let Some(to) = to(from) {
                    match self.compare_exchange(from, to, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(now) => from = now,
                    }
                }
                Err(from)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new(Default::default())
            }
        }
    };
}

atomic!(AtomicPtr<T>, *mut T);
number!(AtomicBool, bool: fetch_or, fetch_and);
number!(AtomicU8, u8: fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
number!(AtomicU32, u32: fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
number!(AtomicU64, u64: fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
number!(AtomicUsize, usize: fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
