//! Which mutant runs, and the weakened operations. `ci/mutate` adds this file to the shim of its
//! copy of the library; the library itself does not contain it.

#![allow(dead_code, reason = "which of these are called depends on the marks")]

use super::atomic::{self, Ordering};
use super::{TotalOrder, load_in_total_order};
use std::sync::OnceLock;

/// Whether this mutant runs. CYGNET_MUTANT holds the number of the running mutant, if there is
/// one.
pub(crate) fn is(number: u32) -> bool {
    // A std type and not the shim's, so that it is invisible to models and simulations.
    static CHOSEN: OnceLock<u32> = OnceLock::new();
    let chosen = || {
        std::env::var("CYGNET_MUTANT")
            .map_or(0, |n| n.parse().expect("CYGNET_MUTANT must be a number"))
    };
    *CHOSEN.get_or_init(chosen) == number
}

/// Weakens an ordering to `Relaxed`.
pub(crate) fn relaxed(number: u32, order: Ordering) -> Ordering {
    if !is(number) {
        return order;
    }
    if order == Ordering::SeqCst {
        total_order::leave();
    }
    Ordering::Relaxed
}

/// Leaving the total order. Loom has no accesses in the total order, so `load_in_total_order` is
/// a fence before a relaxed load. The same fence puts the update before it, whatever its
/// ordering, into the total order. If the mutant weakens that update, the fence must go.
#[cfg(loom)]
mod total_order {
    use std::cell::Cell;

    loom::thread_local! {
        static LEFT: Cell<bool> = Cell::new(false);
    }

    pub(super) fn leave() {
        LEFT.with(|left| left.set(true));
    }

    pub(super) fn was_left() -> bool {
        LEFT.with(|left| left.replace(false))
    }
}

#[cfg(not(loom))]
mod total_order {
    pub(super) fn leave() {}

    pub(super) fn was_left() -> bool {
        false
    }
}

/// The fence of `load_in_total_order`, left out once after a mutant has left the total order.
#[track_caller]
pub(crate) fn fence_of_total_order() {
    if !total_order::was_left() {
        atomic::fence(Ordering::SeqCst);
    }
}

/// Keeps only the acquire half of an ordering.
pub(crate) fn acquire(number: u32, order: Ordering) -> Ordering {
    match order {
        _ if !is(number) => order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst => Ordering::Acquire,
        _ => Ordering::Relaxed,
    }
}

/// Keeps only the release half of an ordering.
pub(crate) fn release(number: u32, order: Ordering) -> Ordering {
    match order {
        _ if !is(number) => order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst => Ordering::Release,
        _ => Ordering::Relaxed,
    }
}

/// An atomic that also has a relaxed load.
pub(crate) trait Weaker: TotalOrder {
    fn load_relaxed(&self) -> Self::Value;
}

macro_rules! weaker {
    ($($name:ident $(<$t:ident>)?;)*) => {$(
        impl $(<$t>)? Weaker for atomic::$name $(<$t>)? {
            #[track_caller]
            fn load_relaxed(&self) -> Self::Value {
                self.load(Ordering::Relaxed)
            }
        }
    )*};
}

weaker! {
    AtomicBool;
    AtomicU32;
    AtomicU64;
    AtomicPtr<T>;
}

/// Loads outside the total order if the mutant runs.
#[track_caller]
pub(crate) fn load_weaker<A: Weaker>(number: u32, atomic: &A) -> A::Value {
    if is(number) { atomic.load_relaxed() } else { load_in_total_order(atomic) }
}

/// The orderings of the load and of the store that an update is split into.
fn halves(order: Ordering) -> (Ordering, Ordering) {
    match order {
        Ordering::Acquire => (Ordering::Acquire, Ordering::Relaxed),
        Ordering::Release => (Ordering::Relaxed, Ordering::Release),
        Ordering::AcqRel => (Ordering::Acquire, Ordering::Release),
        Ordering::SeqCst => (Ordering::SeqCst, Ordering::SeqCst),
        _ => (Ordering::Relaxed, Ordering::Relaxed),
    }
}

/// Updates split into a load and a store, so that several of them may see the same value.
pub(crate) trait Split<T: Copy + PartialEq> {
    fn one_load(&self, order: Ordering) -> T;
    fn one_store(&self, value: T, order: Ordering);
    fn whole_swap(&self, value: T, order: Ordering) -> T;
    fn whole_exchange(&self, from: T, to: T, orders: [Ordering; 2]) -> Result<T, T>;

    #[track_caller]
    fn two_steps(&self, order: Ordering, to: impl FnOnce(T) -> T) -> T {
        let (load, store) = halves(order);
        let before = self.one_load(load);
        self.one_store(to(before), store);
        before
    }

    #[track_caller]
    fn split_swap(&self, number: u32, value: T, order: Ordering) -> T {
        if !is(number) {
            return self.whole_swap(value, order);
        }
        self.two_steps(order, |_| value)
    }

    #[track_caller]
    fn split_compare_exchange(
        &self,
        number: u32,
        from: T,
        to: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        if !is(number) {
            return self.whole_exchange(from, to, [success, failure]);
        }
        let (load, store) = halves(success);
        let now = self.one_load(load);
        if now != from {
            return Err(now);
        }
        self.one_store(to, store);
        Ok(now)
    }

    #[track_caller]
    fn split_compare_exchange_weak(
        &self,
        number: u32,
        from: T,
        to: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        self.split_compare_exchange(number, from, to, success, failure)
    }

    #[track_caller]
    fn split_fetch_update(
        &self,
        number: u32,
        set: Ordering,
        fetch: Ordering,
        mut to: impl FnMut(T) -> Option<T>,
    ) -> Result<T, T> {
        let mut from = self.one_load(fetch);
        while let Some(to) = to(from) {
            match self.split_compare_exchange(number, from, to, set, fetch) {
                Ok(before) => return Ok(before),
                Err(now) => from = now,
            }
        }
        Err(from)
    }
}

macro_rules! split {
    ($($name:ident $(<$t:ident>)? : $value:ty;)*) => {$(
        impl $(<$t>)? Split<$value> for atomic::$name $(<$t>)? {
            #[track_caller]
            fn one_load(&self, order: Ordering) -> $value {
                self.load(order)
            }
            #[track_caller]
            fn one_store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            #[track_caller]
            fn whole_swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }
            #[track_caller]
            fn whole_exchange(&self, from: $value, to: $value, orders: [Ordering; 2]) -> Result<$value, $value> {
                self.compare_exchange(from, to, orders[0], orders[1])
            }
        }
    )*};
}

split! {
    AtomicBool: bool;
    AtomicU8: u8;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
    AtomicPtr<T>: *mut T;
}

/// Split updates by operations that only integers have.
pub(crate) trait SplitNumber<T> {
    fn split_fetch_add(&self, number: u32, value: T, order: Ordering) -> T;
    fn split_fetch_sub(&self, number: u32, value: T, order: Ordering) -> T;
    fn split_fetch_or(&self, number: u32, value: T, order: Ordering) -> T;
    fn split_fetch_and(&self, number: u32, value: T, order: Ordering) -> T;
    fn split_fetch_max(&self, number: u32, value: T, order: Ordering) -> T;
}

macro_rules! split_number {
    ($($name:ident: $value:ty;)*) => {$(
        impl SplitNumber<$value> for atomic::$name {
            #[track_caller]
            fn split_fetch_add(&self, number: u32, value: $value, order: Ordering) -> $value {
                if !is(number) {
                    return self.fetch_add(value, order);
                }
                self.two_steps(order, |before| before.wrapping_add(value))
            }
            #[track_caller]
            fn split_fetch_sub(&self, number: u32, value: $value, order: Ordering) -> $value {
                if !is(number) {
                    return self.fetch_sub(value, order);
                }
                self.two_steps(order, |before| before.wrapping_sub(value))
            }
            #[track_caller]
            fn split_fetch_or(&self, number: u32, value: $value, order: Ordering) -> $value {
                if !is(number) {
                    return self.fetch_or(value, order);
                }
                self.two_steps(order, |before| before | value)
            }
            #[track_caller]
            fn split_fetch_and(&self, number: u32, value: $value, order: Ordering) -> $value {
                if !is(number) {
                    return self.fetch_and(value, order);
                }
                self.two_steps(order, |before| before & value)
            }
            #[track_caller]
            fn split_fetch_max(&self, number: u32, value: $value, order: Ordering) -> $value {
                if !is(number) {
                    return self.fetch_max(value, order);
                }
                self.two_steps(order, |before| before.max(value))
            }
        }
    )*};
}

split_number! {
    AtomicU8: u8;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}

/// Negative control of the whole program: a mutant without consequence, which must survive, and a
/// mutant that must be caught.
#[cfg(test)]
mod tests {
    #[test]
    fn loom_control_of_the_mutants() {
        let mut value = 0;
        // MUTANT(control.harmful): skip
        value += 1;
        // MUTANT(control.harmless): false
        if value > 5 {
            value = 1;
        }
        assert_eq!(value, 1);
    }
}
