//! Locks that a panic does not poison. The library keeps what a lock guards whole by itself: what
//! it calls that may panic, it calls without the lock, or with nothing half done.

/// Defines `Mutex` and `Condvar` by those of a module that has the names of `std::sync`. loom's
/// cannot be made in a `const`.
macro_rules! locks {
    ([$($constness:tt)?] $($real:ident)::+) => {
        pub(crate) use $($real)::+::MutexGuard;
        use std::sync::{PoisonError, TryLockError};

        #[derive(Default, Debug)]
        pub(crate) struct Mutex<T>($($real)::+::Mutex<T>);

        #[allow(dead_code, reason = "a face need not use all of them")]
        impl<T> Mutex<T> {
            pub(crate) $($constness)? fn new(value: T) -> Mutex<T> {
                Mutex($($real)::+::Mutex::new(value))
            }

            #[inline]
            pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner)
            }

            /// Returns `None` if the lock is taken.
            #[inline]
            pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
                match self.0.try_lock() {
                    Ok(guard) => Some(guard),
                    Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) => None,
                }
            }

            pub(crate) fn get_mut(&mut self) -> &mut T {
                self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
            }

            pub(crate) fn into_inner(self) -> T {
                self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
            }
        }

        #[derive(Default, Debug)]
        pub(crate) struct Condvar($($real)::+::Condvar);

        #[allow(dead_code, reason = "a face need not use all of them")]
        impl Condvar {
            pub(crate) $($constness)? fn new() -> Condvar {
                Condvar($($real)::+::Condvar::new())
            }

            pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
                self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
            }

            /// Returns the guard and whether the time was up.
            pub(crate) fn wait_timeout<'a, T>(
                &self,
                guard: MutexGuard<'a, T>,
                time: std::time::Duration,
            ) -> (MutexGuard<'a, T>, bool) {
                let waited = self.0.wait_timeout(guard, time);
                let (guard, end) = waited.unwrap_or_else(PoisonError::into_inner);
                (guard, end.timed_out())
            }

            pub(crate) fn notify_one(&self) {
                self.0.notify_one();
            }

            pub(crate) fn notify_all(&self) {
                self.0.notify_all();
            }
        }
    };
}

pub(crate) use locks;

/// The locks of `std`, on all faces, for data that no model and no simulation looks at.
pub(crate) mod real {
    super::locks!([const] std::sync);
}
