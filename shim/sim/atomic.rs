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
    ($name:ident $(<$t:ident>)?, $value:ty: $($update:ident),*) => {
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

            $(
                #[track_caller]
                pub(crate) fn $update(&self, value: $value, order: Ordering) -> $value {
                    access(Access::Update, self.as_ptr().addr());
                    self.0.$update(value, order)
                }
            )*

            loops! { $value }

            pub(crate) const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                $name(Default::default())
            }
        }
    };
}

atomic!(AtomicPtr<T>, *mut T: swap);
atomic!(AtomicBool, bool: swap, fetch_or, fetch_and);
atomic!(AtomicU8, u8: swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
atomic!(AtomicU32, u32: swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
atomic!(AtomicU64, u64: swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
atomic!(AtomicUsize, usize: swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
