use super::mutex::Mutex;
use crate::runtime::Cancelled;
use crate::shim::const_fn;
use std::fmt;
use std::sync::OnceLock;

/// A value that is written once, by whoever comes first, while the others wait for it.
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
    /// Who makes it.
    making: Mutex<()>,
}

impl<T> OnceCell<T> {
    const_fn! {
        /// A cell without a value.
        pub const fn new() -> OnceCell<T> {
            OnceCell { value: OnceLock::new(), making: Mutex::new(()) }
        }
    }

    /// The value, if it is there. A load.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, made by `f` if it is not there: by one at a time, for whom the others wait. If `f` panics the next one tries.
    ///
    /// Suspends, if another one is about to make it, and as `f` does. If it is there it costs a load, and nobody
    /// asks whether the task is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`] if it is not there and the calling task is cancelled.
    ///
    /// # Panics
    /// With the panic of `f`. If `f` asks for the value itself, and would wait for itself. As
    /// [`Mutex::lock`].
    #[track_caller]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> Result<&T, Cancelled> {
        self.get_or_try_init(|| Ok(f()))
    }

    /// As [`get_or_init`](OnceCell::get_or_init), of what may fail: then the cell stays as it was, and the next one tries.
    ///
    /// # Errors
    /// That of `f`; and [`Cancelled`] as `get_or_init` says.
    ///
    /// # Panics
    /// As `get_or_init`.
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
            // Nobody else has set it but by `set`, which locks too.
            let _ = self.value.set(value);
        }
        Ok(self.value.get().expect("just set"))
    }

    /// Sets the value, unless it is there or somebody is about to make it: then it is given back.
    ///
    /// Does not suspend.
    ///
    /// # Errors
    /// `value`.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.making.try_lock() {
            Some(_making) => self.value.set(value),
            None => Err(value),
        }
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// The value, if it is there.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> OnceCell<T> {
        OnceCell::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}

/// A value that is made when it is asked for first, by a function that goes with it.
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
        /// A value that `make` makes. If it panics it is called again for the next one who asks.
        pub const fn new(make: F) -> Lazy<T, F> {
            Lazy { cell: OnceCell::new(), make }
        }
    }
}

impl<T, F: Fn() -> T> Lazy<T, F> {
    /// The value. See [`OnceCell::get_or_init`].
    ///
    /// # Errors
    /// [`Cancelled`] if it is not there and the calling task is cancelled.
    ///
    /// # Panics
    /// As [`OnceCell::get_or_init`].
    #[track_caller]
    pub fn get(&self) -> Result<&T, Cancelled> {
        self.cell.get_or_init(&self.make)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.cell.get()).finish()
    }
}
