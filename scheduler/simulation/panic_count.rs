//! The standard library's count of a thread's panics, one for each virtual thread.
//!
//! `std` counts the panics that are under way on an OS thread. [`std::thread::panicking`] and the
//! poisoning of locks ask that count. The virtual threads of a simulation share one OS thread: while
//! one of them is left in the middle of an unwinding, each of the others would count as panicking,
//! and two that unwind at once could not be told apart. So the count is exchanged at each switch.
//!
//! `std` has no function for that. [`find`] looks for the count instead: it begins and ends a few
//! panics, and takes the one word among this thread's thread-locals that has counted them all. If no
//! word has, or more than one, a simulation cannot be right and does not start.
//!
//! While `std` makes the text of a panic and calls the hook, it has a second flag up, which stays with the OS thread: a panic of another virtual
//! thread would abort the process then. So a virtual thread that is panicking is not left [where it could go on](crate::shim::point), only where it waits or
//! gives way. A hook, or a text, that does so itself is beyond what can be simulated.

#[cfg(panic = "unwind")]
use std::cell::Cell;
#[cfg(panic = "unwind")]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[cfg(panic = "unwind")]
thread_local! {
    /// Where this thread's count lies, once it has been found.
    static COUNT: Cell<Option<*mut usize>> = const { Cell::new(None) };
}

/// Finds the count of this thread. To be called before [`exchange`].
///
/// # Panics
/// If it cannot be told.
#[cfg(panic = "unwind")]
pub(super) fn find() {
    if COUNT.get().is_some() {
        return;
    }
    let words = thread_local_words();
    let mut fits = vec![true; words.len()];
    let read = |word: &*mut usize| {
        // SAFETY: an aligned word of this thread's own thread-locals, which live as long as the thread. No
        // other code runs on this thread meanwhile, so nobody writes it during the access. What lies
        // there may be uninitialised for its owner, but has been written by the loader.
        unsafe { word.read_volatile() }
    };
    let before: Vec<usize> = words.iter().map(read).collect();
    let mut compare = |more: usize| {
        // Twice, with another number of allocations: a program may count those that are alive, and a panic that is under way is one.
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
            "cygnet: the standard library of this program does not show its count of panics, \
             without which a simulation cannot tell which of its threads is panicking"
        ),
    }
}

/// Panics three deep, each one in a destructor that the one before has called; tells `look` how many
/// are under way, at each beginning and each end.
#[cfg(panic = "unwind")]
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

/// The words of all thread-locals that were there when the program was linked or its libraries loaded.
#[cfg(panic = "unwind")]
fn thread_local_words() -> Vec<*mut usize> {
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        words: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a description that is valid during this call, and our own vector.
        let (info, words) = unsafe { (&*info, &mut *words.cast::<Vec<*mut usize>>()) };
        if info.dlpi_tls_data.is_null() {
            return 0;
        }
        // SAFETY: the loader's own table of that many headers.
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
    // SAFETY: `add` is of the type that is asked for, and `words` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut words).cast()) };
    words
}

/// Makes `count` this thread's number of panics under way, and returns the number before.
#[cfg(panic = "unwind")]
pub(super) fn exchange(count: usize) -> usize {
    let word = COUNT.get().expect("found when the simulation began");
    // SAFETY: as in `find`. `std` reads and writes the word only in calls on this thread, each of which
    // has ended. The caller exchanges the stack as well, so the count is again what `std` has counted for it.
    unsafe { word.replace(count) }
}

/// A panic ends the process, so there is nothing to count.
#[cfg(not(panic = "unwind"))]
pub(super) fn find() {}

/// A panic ends the process, so there is nothing to count.
#[cfg(not(panic = "unwind"))]
pub(super) fn exchange(count: usize) -> usize {
    count
}
