//! The guard below a stack: memory that faults when it is touched.
//!
//! There are two kinds. A *marker* (`MADV_GUARD_INSTALL`, Linux 6.13) lives in the page tables: a
//! million guarded stacks are still one mapping. *Protection* (`mprotect` to no access) works
//! everywhere, but each guard splits the mapping in two, and `vm.max_map_count` limits the number
//! of mappings. The kernel is asked once per process which kind it has.

use std::io;
use std::marker::PhantomData;
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
}

/// Whole pages of private anonymous mappings. The holder may do with them what `U` says.
#[repr(transparent)]
pub(super) struct Pages<U>(libc::iovec, PhantomData<U>);

/// The right to make the pages a guard: nothing that lives there is used again before the mapping
/// is gone.
pub(super) enum Guard {}

/// The right to give the memory of the pages back to the kernel: their contents are not needed.
pub(super) enum Unused {}

/// The advice given to the kernel for the pages.
pub(super) trait Use {
    const ADVICE: libc::c_int;
}

impl Use for Guard {
    const ADVICE: libc::c_int = MADV_GUARD_INSTALL;
}

impl Use for Unused {
    const ADVICE: libc::c_int = libc::MADV_DONTNEED;
}

/// From linux/pidfd.h, since Linux 6.14: refers to this process without a file descriptor, which a
/// fork would carry over to the child.
const PIDFD_SELF_PROCESS: libc::c_int = -10_001;

impl<U: Use> Pages<U> {
    /// # Safety
    /// The range from `from` is page-aligned and lies in private anonymous mappings that the caller
    /// owns for as long as the value is used. The caller has the right `U` to all of it.
    pub(super) unsafe fn new(from: *mut u8, len: usize) -> Pages<U> {
        Pages(libc::iovec { iov_base: from.cast(), iov_len: len }, PhantomData)
    }

    /// Advises the kernel. Returns `false` if the kernel refuses.
    fn advise(&self) -> bool {
        // SAFETY: the holder owns the pages, and has the right to do this to them.
        unsafe { libc::madvise(self.0.iov_base, self.0.iov_len, U::ADVICE) == 0 }
    }

    /// Advises the kernel about all these ranges by one system call. Returns for how many bytes the
    /// kernel has taken the advice, counted from the start of the first range. The number is
    /// smaller than the sum of the lengths if the kernel does not know the call or refuses.
    fn advise_all(ranges: &[Pages<U>]) -> usize {
        let (ranges, count) = (ranges.as_ptr(), ranges.len());
        let (call, advice) = (libc::SYS_process_madvise, U::ADVICE);
        // SAFETY: the slice outlives the call, and each element is laid out as an `iovec`. The
        // holder owns the pages, and has the right to do this to them.
        let advised = unsafe { libc::syscall(call, PIDFD_SELF_PROCESS, ranges, count, advice, 0) };
        // The kernel returns a number of bytes, or -1.
        usize::try_from(advised).unwrap_or(0)
    }
}

impl Pages<Guard> {
    /// Makes the pages fault from now on. Falls back to protection if the kernel refuses a marker.
    ///
    /// # Errors
    /// With an errno, if the kernel refuses.
    pub(super) fn install(self, kind: GuardKind) -> Result<(), i32> {
        // The kernel may refuse a single marker, in locked memory (`mlockall`) or because of a
        // filter of system calls.
        if kind == GuardKind::Marker && self.advise() {
            return Ok(());
        }
        // SAFETY: the holder owns the pages, and nothing that lives there is used again.
        match unsafe { libc::mprotect(self.0.iov_base, self.0.iov_len, libc::PROT_NONE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    }

    /// Installs markers at all these places, of [`GUARD`] bytes each, by one system call. Returns
    /// how many places have a marker now, counted from the first. The number is smaller than that
    /// of the places if the kernel does not know the call or refuses.
    pub(super) fn install_markers(places: &[Pages<Guard>]) -> usize {
        Pages::advise_all(places) / GUARD
    }

    /// Returns whether the first page faults. Tries it.
    fn faults(&self) -> bool {
        // uname copies out a few hundred bytes, and reports a fault as EFAULT instead of a signal.
        // SAFETY: the page faults or its contents are not needed. A utsname is smaller than a page.
        unsafe { libc::syscall(libc::SYS_uname, self.0.iov_base) != 0 }
    }
}

impl Pages<Unused> {
    /// Gives the memory back to the kernel. It stays mapped and reads as zeroes when it is touched
    /// again. Guards inside the range stay.
    pub(super) fn discard(&self) {
        // If the kernel refuses (locked memory), this costs memory but not correctness: no code
        // relies on the zeroes.
        let _ = self.advise();
    }

    /// Does for many ranges what [`discard`](Pages::discard) does for one. If the kernel can, this
    /// takes one system call for each [`MOST`] ranges, which flushes the processor's address
    /// translations only once.
    pub(super) fn discard_all(ranges: &[Pages<Unused>]) {
        // A kernel without markers is too old to know `process_madvise` for the own process.
        let at_once = GuardKind::of_this_kernel() == GuardKind::Marker;
        for some in ranges.chunks(MOST) {
            let mut done = if at_once { Pages::advise_all(some) } else { 0 };
            for range in some {
                if done >= range.0.iov_len {
                    done -= range.0.iov_len;
                    continue;
                }
                // Discarding part of it twice does no harm.
                range.discard();
                done = 0;
            }
        }
    }
}

/// The largest number of ranges that the kernel takes in one call.
const MOST: usize = 1024;

/// Returns the size of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: a query without pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("sysconf knows the page size")
}

/// Installs a marker and checks that it works: emulators answer unknown advice with success.
fn markers_work() -> bool {
    let Ok(map) = memmap2::MmapOptions::new().len(GUARD).map_anon() else { return false };
    let map = memmap2::MmapRaw::from(map);
    // SAFETY: the pages are the mapping made above, which only this function knows and which holds
    // no data.
    let pages = unsafe { Pages::<Guard>::new(map.as_mut_ptr(), GUARD) };
    pages.advise() && pages.faults()
}

#[cfg(all(test, not(loom)))]
#[path = "guard_tests.rs"]
pub(crate) mod tests;
