//! What the guards of a mutex and of a reader-writer lock have in common.

/// Implements the traits of a guard that reaches the value through its field `lock`.
macro_rules! guard {
    (shared $guard:ident) => {
        // SAFETY: a shared guard gives out only shared references to the value, and `T: Sync`.
        unsafe impl<T: ?Sized + Sync> Sync for $guard<'_, T> {}

        impl<T: ?Sized> std::ops::Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: this guard holds the lock, so no other guard writes the value.
                unsafe { &*self.lock.value.get() }
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
    (exclusive $guard:ident) => {
        guard!(shared $guard);

        impl<T: ?Sized> std::ops::DerefMut for $guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: this guard excludes all other guards, and is borrowed exclusively.
                unsafe { &mut *self.lock.value.get() }
            }
        }
    };
}

pub(super) use guard;
