//! The guard below a stack: memory that faults when it is touched.
//!
//! There are two kinds. A *marker* (`MADV_GUARD_INSTALL`, Linux 6.13) lives in the page tables: a
//! million guarded stacks are still one mapping. *Protection* (`mprotect` to no access) works
//! everywhere, but splits the mapping in two for each stack, and the number of mappings is limited
//! by `vm.max_map_count`. Which one the kernel has is found out once per process.

use std::io;
use std::sync::OnceLock;

/// Bytes of guard below each stack.
///
/// One page on x86_64. On ARM64, C compilers probe the stack in steps of 64 KiB, so a smaller guard
/// could be jumped over; 64 KiB is also a multiple of every page size that architecture knows.
pub(crate) const GUARD: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

// linux/mman.h; not in every libc yet.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// How guards are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GuardKind {
    /// By a marker in the page tables.
    Marker,
    /// By taking the access rights away.
    Protection,
}

impl GuardKind {
    /// The best kind this kernel has. Asks it once per process.
    pub(crate) fn of_this_kernel() -> GuardKind {
        static KIND: OnceLock<GuardKind> = OnceLock::new();
        *KIND.get_or_init(|| if markers_work() { GuardKind::Marker } else { GuardKind::Protection })
    }

    /// Makes `at .. at + GUARD` fault from now on; the error is an errno.
    ///
    /// # Safety
    /// The range is page-aligned, lies in a private anonymous mapping that the caller owns, and
    /// nothing that lives there is used again before the mapping is gone.
    pub(crate) unsafe fn install(self, at: *mut u8) -> Result<(), i32> {
        // A kernel may refuse a single marker: in locked memory (`mlockall`), or by a filter of system calls.
        // SAFETY: the caller's: nobody uses the range.
        let advise = || unsafe { libc::madvise(at.cast(), GUARD, MADV_GUARD_INSTALL) };
        if self == GuardKind::Marker && advise() == 0 {
            return Ok(());
        }
        // SAFETY: the same.
        errno_of(unsafe { libc::mprotect(at.cast(), GUARD, libc::PROT_NONE) })
    }
}

/// linux/pidfd.h, since Linux 6.14: this process, without a descriptor that a fork could carry over to
/// the child.
const PIDFD_SELF_PROCESS: libc::c_int = -10_001;

/// Installs markers at all these places by one call; says how many of them, from the first, have one
/// now. Fewer than all if the kernel does not know the call, or refuses.
///
/// # Safety
/// As for [`GuardKind::install`], for each.
pub(crate) unsafe fn install_markers(places: &[*mut u8]) -> usize {
    let ranges: Vec<libc::iovec> =
        places.iter().map(|&at| libc::iovec { iov_base: at.cast(), iov_len: GUARD }).collect();
    // SAFETY: passed on.
    let advised = unsafe { advise_all(&ranges, MADV_GUARD_INSTALL) };
    advised / GUARD
}

/// Advises the kernel about all these ranges by one call; says about how many bytes, from the first, it has taken that.
/// Fewer than all if it does not know the call, or refuses.
///
/// # Safety
/// As for `madvise` with that advice, of each.
unsafe fn advise_all(ranges: &[libc::iovec], advice: libc::c_int) -> usize {
    // SAFETY: the ranges are there during the call; the rest is the caller's.
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
    // Bytes, or -1.
    usize::try_from(advised).unwrap_or(0)
}

/// The size of a page of this machine.
pub(crate) fn page_size() -> usize {
    // SAFETY: a query without pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("sysconf knows the page size")
}

/// Gives the memory of `from .. from + len` back to the kernel. It stays mapped, reads as zeroes
/// when it is touched again, and guards inside it stay.
///
/// # Safety
/// The range is page-aligned, lies in private anonymous mappings that the caller owns, and nobody
/// needs what is written there.
pub(crate) unsafe fn discard(from: *mut u8, len: usize) {
    // A refusal (locked memory) costs memory, never correctness: nobody relies on the zeroes.
    // SAFETY: the caller owns the range and has given up its contents.
    let _ = unsafe { libc::madvise(from.cast(), len, libc::MADV_DONTNEED) };
}

/// As `discard`, of many ranges, each given by where it begins and its length. By one call for each [`MOST`], which
/// flushes the processor's translations once, if the kernel can.
///
/// # Safety
/// As for `discard`, of each.
pub(crate) unsafe fn discard_all(ranges: impl IntoIterator<Item = (*mut u8, usize)>) {
    let vector =
        |(from, len): (*mut u8, usize)| libc::iovec { iov_base: from.cast(), iov_len: len };
    let ranges: Vec<libc::iovec> = ranges.into_iter().map(vector).collect();
    // A kernel without markers is too old to be asked for this.
    let at_once = GuardKind::of_this_kernel() == GuardKind::Marker;
    for some in ranges.chunks(MOST) {
        // SAFETY: the caller owns the ranges and has given up their contents.
        let mut done = if at_once { unsafe { advise_all(some, libc::MADV_DONTNEED) } } else { 0 };
        for range in some {
            if done >= range.iov_len {
                done -= range.iov_len;
                continue;
            }
            // SAFETY: as above; to do it twice does no harm.
            unsafe { discard(range.iov_base.cast(), range.iov_len) };
            done = 0;
        }
    }
}

/// Ranges of one call; the kernel takes no more.
const MOST: usize = 1024;

/// Whether the kernel could write to the page at `at`. It tries, so what is there is lost.
///
/// # Safety
/// `at` is the start of a page which the caller owns, or which faults.
unsafe fn kernel_can_write(at: *mut u8) -> bool {
    // uname copies out a few hundred bytes and reports a fault as EFAULT instead of a signal.
    // SAFETY: the caller gave up the contents of the page, which is larger than a utsname.
    unsafe { libc::syscall(libc::SYS_uname, at) == 0 }
}

/// Installs a marker and looks whether it holds: emulators answer unknown advice with success.
fn markers_work() -> bool {
    let Ok(map) = memmap2::MmapOptions::new().len(GUARD).map_anon() else { return false };
    let map = memmap2::MmapRaw::from(map);
    let at = map.as_mut_ptr();
    // SAFETY: the range is the mapping made above, which nobody else knows.
    let installed = unsafe { libc::madvise(at.cast(), GUARD, MADV_GUARD_INSTALL) } == 0;
    // SAFETY: as above.
    installed && !unsafe { kernel_can_write(at) }
}

fn errno_of(status: libc::c_int) -> Result<(), i32> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// For the tests of the neighbours.
    pub(crate) fn faults(at: *mut u8) -> bool {
        // SAFETY: tests ask this only about guards and about stacks that they own.
        !unsafe { kernel_can_write(at) }
    }

    fn guarded_map(kind: GuardKind) -> (memmap2::MmapRaw, *mut u8, *mut u8) {
        let map = memmap2::MmapOptions::new().len(3 * GUARD).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let guard = map.as_mut_ptr().wrapping_add(GUARD);
        // SAFETY: the range lies in the mapping made above.
        unsafe { kind.install(guard) }.unwrap();
        let above = guard.wrapping_add(GUARD);
        (map, guard, above)
    }

    #[test]
    fn a_guard_faults_from_its_first_to_its_last_page_and_its_neighbours_do_not() {
        for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
            let (_map, guard, above) = guarded_map(kind);
            assert!(faults(guard));
            assert!(faults(above.wrapping_sub(page_size())));
            assert!(!faults(guard.wrapping_sub(page_size())));
            assert!(!faults(above));
        }
    }

    #[test]
    fn a_guard_outlives_the_memory_around_it_being_discarded() {
        for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
            let (map, guard, above) = guarded_map(kind);
            // SAFETY: the page above the guard belongs to the mapping.
            unsafe { above.write(7) };
            // SAFETY: the whole mapping is ours, and nobody needs the 7.
            unsafe { discard(map.as_mut_ptr(), map.len()) };
            assert!(faults(guard));
            // SAFETY: as above.
            assert_eq!(unsafe { above.read() }, 0);
        }
    }

    #[test]
    fn markers_that_are_installed_together_fault_like_others() {
        if GuardKind::of_this_kernel() != GuardKind::Marker {
            return;
        }
        let map = memmap2::MmapOptions::new().len(8 * GUARD).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let place = |index: usize| map.as_mut_ptr().wrapping_add(index * GUARD);
        let places = [place(1), place(3), place(6)];
        // SAFETY: the places lie in the mapping made above.
        let installed = unsafe { install_markers(&places) };
        // None on kernels before 6.14.
        assert!(installed == 0 || installed == places.len());
        for index in 0..8 {
            let guarded = installed > 0 && [1, 3, 6].contains(&index);
            assert_eq!(faults(place(index)), guarded, "{index}");
        }
    }

    #[test]
    fn ranges_that_are_discarded_together_are_discarded_one_and_all() {
        let page = page_size();
        let many = 2 * MOST + 10;
        let map = memmap2::MmapOptions::new().len(2 * many * page).map_anon().unwrap();
        let map = memmap2::MmapRaw::from(map);
        let place = |index: usize| map.as_mut_ptr().wrapping_add(index * page);
        // SAFETY: in the mapping made above.
        (0..2 * many).for_each(|index| unsafe { place(index).write(7) });
        // SAFETY: every second page of the mapping, which is ours.
        unsafe { discard_all((0..many).map(|index| (place(2 * index), page))) };
        for index in 0..2 * many {
            // SAFETY: in the mapping made above.
            let found = unsafe { place(index).read() };
            assert_eq!(found, if index % 2 == 0 { 0 } else { 7 }, "{index}");
        }
    }

    #[test]
    fn a_guard_is_a_whole_number_of_pages() {
        assert_eq!(GUARD % page_size(), 0);
    }
}
