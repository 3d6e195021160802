//! The standard library's count of a thread's panics, one for each virtual thread.
//!
//! `std` counts the panics in progress on an OS thread. [`std::thread::panicking`] and the
//! poisoning of locks read that count. The virtual threads of a simulation share one OS thread. If
//! one of them is left in the middle of an unwind, each of the others would count as panicking, and
//! two unwinding threads could not be told apart. So the count is exchanged at each switch.
//!
//! `std` has no function for that, so [`find`] looks for the count: it begins and ends a few
//! panics, and takes the one word among this thread's thread-locals that has counted all of them.
//! If no word has, or more than one, a simulation could not be right, and does not start.
//!
//! While `std` formats the message of a panic and calls the hook, it sets a second flag, which
//! stays with the OS thread. A panic of another virtual thread would then abort the process. So a
//! panicking virtual thread is left only where it waits or gives way, not at a
//! [point](crate::shim::point). A hook or a message that waits or gives way itself cannot be
//! simulated.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// The address of this thread's count, once it has been found.
    static COUNT: Cell<Option<*mut usize>> = const { Cell::new(None) };
}

/// Finds the count of this thread. Must be called before [`exchange`].
///
/// # Panics
/// If the count cannot be found.
pub(super) fn find() {
    if cfg!(panic = "abort") || COUNT.get().is_some() {
        return;
    }
    let words = thread_local_words();
    let mut fits = vec![true; words.len()];
    let read = |word: &*mut usize| {
        // SAFETY: the pointer is to an aligned word of this thread's own thread-locals, which live
        // as long as the thread. No other code runs on this thread during the access, so no other
        // code writes the word. Its value may be uninitialised for its owner, but the loader has
        // written it.
        unsafe { word.read_volatile() }
    };
    let before: Vec<usize> = words.iter().map(read).collect();
    let mut compare = |more: usize| {
        // Twice, with different numbers of allocations: a program may count its live allocations in
        // a thread-local, and a panic in progress is one.
        let mut extra = Vec::with_capacity(2);
        for _ in 0..2 {
            for (index, word) in words.iter().enumerate() {
                fits[index] &= read(word) == before[index].wrapping_add(more);
            }
            extra.push(Box::new(more));
        }
    };
    nest_panics(1, &mut compare);
    compare(0);
    let mut found = words.iter().zip(&fits).filter(|(_, fits)| **fits).map(|(word, _)| *word);
    match (found.next(), found.next()) {
        (Some(word), None) => COUNT.set(Some(word)),
        _ => panic!(
            "cygnet: cannot find the standard library's count of panics in this program, so a \
             simulation could not tell which of its threads is panicking"
        ),
    }
}

/// Panics three deep: each panic happens in a destructor that the one before has called. Calls
/// `look` with the number of panics in progress, at the beginning and at the end of each.
fn nest_panics(depth: usize, look: &mut dyn FnMut(usize)) {
    struct Inside<'a>(usize, &'a mut dyn FnMut(usize));
    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            (self.1)(self.0);
            if self.0 < 3 {
                nest_panics(self.0 + 1, self.1);
            }
            (self.1)(self.0);
        }
    }
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _inside = Inside(depth, look);
        // No panic hook runs.
        resume_unwind(Box::new(()));
    }));
    debug_assert!(caught.is_err());
}

/// Returns the words of all thread-locals of the program and of its loaded libraries.
fn thread_local_words() -> Vec<*mut usize> {
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        words: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a description that is valid during this call, and our own
        // vector.
        let (info, words) = unsafe { (&*info, &mut *words.cast::<Vec<*mut usize>>()) };
        if info.dlpi_tls_data.is_null() {
            return 0;
        }
        // SAFETY: the loader's table has `dlpi_phnum` headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_TLS) {
            let bytes = header.p_memsz as usize;
            let first = info.dlpi_tls_data.cast::<u8>();
            let skip = first.align_offset(align_of::<usize>());
            let whole = bytes.saturating_sub(skip) / size_of::<usize>();
            words.extend(
                (0..whole).map(|n| first.wrapping_add(skip).cast::<usize>().wrapping_add(n)),
            );
        }
        0
    }
    let mut words: Vec<*mut usize> = Vec::new();
    // SAFETY: `add` has the required type, and `words` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut words).cast()) };
    words
}

/// Sets this thread's number of panics in progress to `count`, and returns the number before.
pub(super) fn exchange(count: usize) -> usize {
    // If a panic ends the process, there is nothing to count.
    let Some(word) = COUNT.get() else { return count };
    // SAFETY: the word is an aligned thread-local of this thread, which is alive. `std` reads and
    // writes it only in calls on this thread, all of which have returned. The caller exchanges the
    // stack too, so the count is again the one that `std` has counted for that stack.
    unsafe { word.replace(count) }
}
