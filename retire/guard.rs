//! The guard below a stack: memory that faults when it is touched.
//!
//! There are two kinds. A *marker* (`MADV_GUARD_INSTALL`, Linux 6.13) lives in the page tables: a
//! million guarded stacks are still one mapping. *Protection* (`mprotect` to no access) works
//! everywhere, but each guard splits the mapping in two, and `vm.max_map_count` limits the number
//! of mappings. The kernel is asked once per process which kind it has.

use std::io;
use std::sync::OnceLock;

/// Bytes of guard below each stack.
///
/// One page on x86_64. On ARM64, C compilers probe the stack in steps of 64 KiB, so a frame could
/// jump over a smaller guard. 64 KiB is also a multiple of every page size of that architecture.
pub(crate) const GUARD: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

// From linux/mman.h; not every version of libc has it.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// The way in which guards are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GuardKind {
    /// A marker in the page tables.
    Marker,
    /// A range without access rights.
    Protection,
}

impl GuardKind {
    /// Returns the best kind that this kernel has. Asks the kernel once per process.
    pub(crate) fn of_this_kernel() -> GuardKind {
        static KIND: OnceLock<GuardKind> = OnceLock::new();
        *KIND.get_or_init(|| if markers_work() { GuardKind::Marker } else { GuardKind::Protection })
    }

    /// Makes `at..at + GUARD` fault from now on. Falls back to protection if the kernel refuses a
    /// marker.
    ///
    /// # Errors
    /// With an errno, if the kernel refuses.
    ///
    /// # Safety
    /// The range is page-aligned and lies in a private anonymous mapping that the caller owns.
    /// Nothing that lives there is used again before the mapping is gone.
    pub(crate) unsafe fn install(self, at: *mut u8) -> Result<(), i32> {
        // The kernel may refuse a single marker, in locked memory (`mlockall`) or because of a
        // filter of system calls.
        // SAFETY: by contract the caller owns the range, and nothing that lives there is used
        // again.
        let advise = || unsafe { libc::madvise(at.cast(), GUARD, MADV_GUARD_INSTALL) };
        if self == GuardKind::Marker && advise() == 0 {
            return Ok(());
        }
        // SAFETY: by contract the caller owns the range, and nothing that lives there is used
        // again.
        errno_of(unsafe { libc::mprotect(at.cast(), GUARD, libc::PROT_NONE) })
    }
}

/// From linux/pidfd.h, since Linux 6.14: refers to this process without a file descriptor, which a
/// fork would carry over to the child.
const PIDFD_SELF_PROCESS: libc::c_int = -10_001;

/// Installs markers at all these places by one system call. Returns how many places have a marker
/// now, counted from the first. The number is smaller than that of the places if the kernel does
/// not know the call or refuses.
///
/// # Safety
/// Each place fulfils the conditions of [`GuardKind::install`].
pub(crate) unsafe fn install_markers(places: &[*mut u8]) -> usize {
    let ranges: Vec<libc::iovec> =
        places.iter().map(|&at| libc::iovec { iov_base: at.cast(), iov_len: GUARD }).collect();
    // SAFETY: by contract the caller owns the ranges, and nothing that lives there is used again
    // before the mapping is gone.
    let advised = unsafe { advise_all(&ranges, MADV_GUARD_INSTALL) };
    advised / GUARD
}

/// Advises the kernel about all these ranges by one system call. Returns for how many bytes the
/// kernel has taken the advice, counted from the start of the first range. The number is smaller
/// than the sum of the lengths if the kernel does not know the call or refuses.
///
/// # Safety
/// For each range, a call of `madvise` with this advice is sound.
unsafe fn advise_all(ranges: &[libc::iovec], advice: libc::c_int) -> usize {
    // SAFETY: the slice of ranges outlives the call. By contract the advice is sound for each
    // range.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            PIDFD_SELF_PROCESS,
            ranges.as_ptr(),
            ranges.len(),
            advice,
            0,
        )
    };
    // The kernel returns a number of bytes, or -1.
    usize::try_from(advised).unwrap_or(0)
}

/// Returns the size of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: a query without pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("sysconf knows the page size")
}

/// Gives the memory of `from..from + len` back to the kernel. The memory stays mapped and reads as
/// zeroes when it is touched again. Guards inside the range stay.
///
/// # Safety
/// The range is page-aligned and lies in private anonymous mappings that the caller owns, and its
/// contents are not needed.
pub(crate) unsafe fn discard(from: *mut u8, len: usize) {
    // If the kernel refuses (locked memory), this costs memory but not correctness: no code relies
    // on the zeroes.
    // SAFETY: by contract the caller owns the range and does not need its contents.
    let _ = unsafe { libc::madvise(from.cast(), len, libc::MADV_DONTNEED) };
}

/// Does for many ranges what [`discard`] does for one. Each range is given by its start and its
/// length. If the kernel can, this takes one system call for each [`MOST`] ranges, which flushes
/// the processor's address translations only once.
///
/// # Safety
/// Each range fulfils the conditions of [`discard`].
pub(crate) unsafe fn discard_all(ranges: impl IntoIterator<Item = (*mut u8, usize)>) {
    let vector =
        |(from, len): (*mut u8, usize)| libc::iovec { iov_base: from.cast(), iov_len: len };
    let ranges: Vec<libc::iovec> = ranges.into_iter().map(vector).collect();
    // A kernel without markers is too old to know `process_madvise` for the own process.
    let at_once = GuardKind::of_this_kernel() == GuardKind::Marker;
    for some in ranges.chunks(MOST) {
        // SAFETY: by contract the caller owns the ranges and does not need their contents.
        let mut done = if at_once { unsafe { advise_all(some, libc::MADV_DONTNEED) } } else { 0 };
        for range in some {
            if done >= range.iov_len {
                done -= range.iov_len;
                continue;
            }
            // SAFETY: by contract the caller owns the range and does not need its contents, so that
            // discarding part of it twice does no harm.
            unsafe { discard(range.iov_base.cast(), range.iov_len) };
            done = 0;
        }
    }
}

/// The largest number of ranges that the kernel takes in one call.
const MOST: usize = 1024;

/// Returns whether the kernel can write to the page at `at`. Tries it, so the page's contents are
/// lost.
///
/// # Safety
/// `at` is the start of a page that faults, or that the caller owns and has no live data in.
unsafe fn kernel_can_write(at: *mut u8) -> bool {
    // uname copies out a few hundred bytes, and reports a fault as EFAULT instead of a signal.
    // SAFETY: by contract the page faults or its contents are not needed. A utsname is smaller than
    // a page.
    unsafe { libc::syscall(libc::SYS_uname, at) == 0 }
}

/// Installs a marker and checks that it works: emulators answer unknown advice with success.
fn markers_work() -> bool {
    let Ok(map) = memmap2::MmapOptions::new().len(GUARD).map_anon() else { return false };
    let map = memmap2::MmapRaw::from(map);
    let at = map.as_mut_ptr();
    // SAFETY: the range is the mapping made above, which only this function knows.
    let installed = unsafe { libc::madvise(at.cast(), GUARD, MADV_GUARD_INSTALL) } == 0;
    // SAFETY: the page is the start of the mapping made above, which holds no data.
    installed && !unsafe { kernel_can_write(at) }
}

/// Translates the status of a system call into a result.
fn errno_of(status: libc::c_int) -> Result<(), i32> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// Returns whether the page at `at` faults. Other modules' tests use this too.
    pub(crate) fn faults(at: *mut u8) -> bool {
        // SAFETY: the tests ask this only about guards and about stacks that they own, and they do
        // not need what is written there.
        !unsafe { kernel_can_write(at) }
    }

    fn guarded_map(kind: GuardKind) -> (memmap2::MmapRaw, *mut u8, *mut u8) {
        let map = memmap2::MmapOptions::new().len(3 * GUARD).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let guard = map.as_mut_ptr().wrapping_add(GUARD);
        // SAFETY: the range lies in the mapping made above, which holds no data.
        unsafe { kind.install(guard) }.unwrap();
        let above = guard.wrapping_add(GUARD);
        (map, guard, above)
    }

    #[test]
    fn a_guard_faults_on_all_its_pages_and_its_neighbours_do_not() {
        for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
            let (_map, guard, above) = guarded_map(kind);
            assert!(faults(guard));
            assert!(faults(above.wrapping_sub(page_size())));
            assert!(!faults(guard.wrapping_sub(page_size())));
            assert!(!faults(above));
        }
    }

    #[test]
    fn a_guard_survives_a_discard_of_the_memory_around_it() {
        for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
            let (map, guard, above) = guarded_map(kind);
            // SAFETY: the page above the guard belongs to the mapping made above.
            unsafe { above.write(7) };
            // SAFETY: the test owns the whole mapping, and does not need the 7.
            unsafe { discard(map.as_mut_ptr(), map.len()) };
            assert!(faults(guard));
            // SAFETY: the page above the guard belongs to the mapping made above.
            assert_eq!(unsafe { above.read() }, 0);
        }
    }

    #[test]
    fn markers_installed_by_one_call_fault_and_their_neighbours_do_not() {
        if GuardKind::of_this_kernel() != GuardKind::Marker {
            return;
        }
        let map = memmap2::MmapOptions::new().len(8 * GUARD).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let place = |index: usize| map.as_mut_ptr().wrapping_add(index * GUARD);
        let places = [place(1), place(3), place(6)];
        // SAFETY: the places lie in the mapping made above, which holds no data.
        let installed = unsafe { install_markers(&places) };
        // Kernels before 6.14 install none.
        assert!(installed == 0 || installed == places.len());
        for index in 0..8 {
            let guarded = installed > 0 && [1, 3, 6].contains(&index);
            assert_eq!(faults(place(index)), guarded, "{index}");
        }
    }

    #[test]
    fn ranges_discarded_together_are_all_discarded() {
        let page = page_size();
        let many = 2 * MOST + 10;
        let map = memmap2::MmapOptions::new().len(2 * many * page).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let place = |index: usize| map.as_mut_ptr().wrapping_add(index * page);
        // SAFETY: the page lies in the mapping made above.
        (0..2 * many).for_each(|index| unsafe { place(index).write(7) });
        // SAFETY: every second page of the mapping made above, with contents that the test does not
        // need.
        unsafe { discard_all((0..many).map(|index| (place(2 * index), page))) };
        for index in 0..2 * many {
            // SAFETY: the page lies in the mapping made above.
            let found = unsafe { place(index).read() };
            assert_eq!(found, if index % 2 == 0 { 0 } else { 7 }, "{index}");
        }
    }

    #[test]
    fn a_guard_is_a_whole_number_of_pages() {
        assert_eq!(GUARD % page_size(), 0);
    }
}
