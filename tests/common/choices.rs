//! Choices from bytes, which a fuzzer mutates, a generator of proptest shrinks, and a file keeps.
//!
//! The fuzz targets include this file by `#[path]`, so it names nothing outside of itself.

/// Takes choices from bytes. When they are used up each choice is the first one. So every string of
/// bytes has a meaning, and a shorter string a simpler one.
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices(bytes)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number below `n`, which is 256 at most.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!((1..=256).contains(&n));
        usize::from(self.byte()) % n
    }

    /// Returns `true` one time in `n`, and never when the bytes are used up.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// Whether the fault of that name is planted, which a fuzz target must find: see ci/fuzz.sh.
pub(crate) fn planted(name: &str) -> bool {
    static PLANT: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
    let plant = PLANT.get_or_init(|| std::env::var_os("CYGNET_PLANT"));
    plant.as_ref().is_some_and(|plant| plant == name)
}
