//! A value that is made once: [`OnceCell`] and [`Lazy`].

use super::mutex::Mutex;
use crate::runtime::Cancelled;
use crate::shim::const_fn;
use std::fmt;
use std::sync::OnceLock;

/// A cell that is written once, by the first caller, while other callers wait.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// static TABLE: cygnet::sync::OnceCell<Vec<u32>> = cygnet::sync::OnceCell::new();
/// let last = rt.block_on(|| {
///     let table = TABLE.get_or_init(|| (0..10).map(|i| i * i).collect()).unwrap();
///     *table.last().unwrap()
/// });
/// assert_eq!(last, 81);
/// ```
pub struct OnceCell<T> {
    value: OnceLock<T>,
    /// Locked by the caller that initialises the cell.
    making: Mutex<()>,
}

impl<T> OnceCell<T> {
    const_fn! {
        /// Creates an empty cell.
        pub const fn new() -> OnceCell<T> {
            OnceCell { value: OnceLock::new(), making: Mutex::new(()) }
        }
    }

    /// Returns the value if it is set. Costs a load.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value, and calls `f` to make it if the cell is empty.
    ///
    /// One caller at a time runs `f`, and the others wait. If `f` panics, the next caller tries.
    /// Suspends while another caller initialises the cell, and where `f` suspends. If the value is
    /// set, the call costs a load and ignores cancellation.
    ///
    /// # Errors
    /// [`Cancelled`] if the cell is empty and the calling task is cancelled.
    ///
    /// # Panics
    /// If `f` panics. If `f` asks for the value of the same cell, and would wait for itself.
    /// Otherwise as [`Mutex::lock`].
    #[track_caller]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> Result<&T, Cancelled> {
        self.get_or_try_init(|| Ok(f()))
    }

    /// Returns the value, and calls the fallible `f` to make it if the cell is empty. If `f` fails,
    /// the cell stays empty, and the next caller tries. See [`get_or_init`](OnceCell::get_or_init).
    ///
    /// # Errors
    /// The error of `f`. [`Cancelled`] if the cell is empty and the calling task is cancelled.
    ///
    /// # Panics
    /// Same as [`get_or_init`](OnceCell::get_or_init).
    #[track_caller]
    pub fn get_or_try_init<E: From<Cancelled>>(
        &self,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _making = self.making.lock()?;
        if self.value.get().is_none() {
            let value = f()?;
            // The only other writer is `set`, which locks too.
            let _ = self.value.set(value);
        }
        Ok(self.value.get().expect("just set"))
    }

    /// Sets the value, unless the cell is set or another caller is initialising it.
    ///
    /// Does not suspend.
    ///
    /// # Errors
    /// Returns `value` if it was not stored.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.making.try_lock() {
            Some(_making) => self.value.set(value),
            None => Err(value),
        }
    }

    /// Returns a mutable reference to the value if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Consumes the cell and returns the value if it is set.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

default! { impl<T> OnceCell<T> }

debug! { impl<T: fmt::Debug> OnceCell<T> as this (this.get()) }

/// A value that is made at its first use, by a function stored with it.
///
/// ```
/// use cygnet::sync::Lazy;
///
/// static GREETING: Lazy<String> = Lazy::new(|| "hello".to_owned());
/// assert_eq!(GREETING.get().unwrap(), "hello");
/// ```
pub struct Lazy<T, F = fn() -> T> {
    cell: OnceCell<T>,
    make: F,
}

impl<T, F> Lazy<T, F> {
    const_fn! {
        /// Creates a value that `make` initialises. If `make` panics, the next caller runs it
        /// again.
        pub const fn new(make: F) -> Lazy<T, F> {
            Lazy { cell: OnceCell::new(), make }
        }
    }
}

impl<T, F: Fn() -> T> Lazy<T, F> {
    /// Returns the value, and makes it at the first call. See [`OnceCell::get_or_init`].
    ///
    /// # Errors
    /// [`Cancelled`] if the value has not been made and the calling task is cancelled.
    ///
    /// # Panics
    /// Same as [`OnceCell::get_or_init`].
    #[track_caller]
    pub fn get(&self) -> Result<&T, Cancelled> {
        self.cell.get_or_init(&self.make)
    }
}

debug! { impl<T: fmt::Debug, F> Lazy<T, F> as this (this.cell.get()) }
