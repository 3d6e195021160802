//! A fence whose cost is paid by one side only.
//!
//! Two threads that each store a flag and then load the other's must not both miss. Usually both
//! run `fence(SeqCst)` between the store and the load (about 20 cycles). Where one side runs
//! millions of times more often than the other, the frequent side uses [`light`], which only keeps
//! the compiler from reordering, and the rare side [`heavy`], which makes every running thread of
//! the process execute a full barrier (`membarrier(2)`, `PRIVATE_EXPEDITED`).
//!
//! `heavy` costs 2 to 3 us for its caller and about as much for every thread it interrupts. If the
//! kernel refuses membarrier, both sides run the full fence: [`prepare`] finds out, once, before
//! the first use. If the kernel refuses it later, the process aborts with a message. Under loom
//! both are `fence(SeqCst)` too: the model is the symmetric protocol.

use crate::shim;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

// linux/membarrier.h
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// True until the kernel has agreed to the barrier: both sides then run the full fence.
static SYMMETRIC: AtomicBool = AtomicBool::new(true);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes two integers and touches no memory of the process. An unknown
    // command is an error return.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}

/// Asks the kernel for the barrier. To be called before the start of the threads that use the
/// fences.
pub(crate) fn prepare() {
    if cfg!(loom) {
        return;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let refused = std::env::var_os("CYGNET_NO_MEMBARRIER").is_some()
            || !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        SYMMETRIC.store(refused, Ordering::Release);
    });
}

/// Returns whether the frequent side pays nothing. Final after [`prepare`].
#[inline(always)]
pub(crate) fn is_one_sided() -> bool {
    cfg!(loom) || !SYMMETRIC.load(Ordering::Relaxed)
}

/// The frequent side. Suffices only if [`is_one_sided`]; otherwise the caller runs a fence,
/// too.
#[inline(always)]
#[cfg_attr(any(loom, feature = "sim"), track_caller)]
pub(crate) fn light() {
    if cfg!(loom) {
        return shim::atomic::fence(Ordering::SeqCst);
    }
    shim::point();
    // Orders nothing in hardware; only keeps the compiler from reordering.
    compiler_fence(Ordering::SeqCst);
}

/// The rare side: a full barrier in every running thread of this process.
#[cfg_attr(any(loom, feature = "sim"), track_caller)]
pub(crate) fn heavy() {
    if cfg!(loom) {
        return shim::atomic::fence(Ordering::SeqCst);
    }
    if shim::barrier_is_simulated() {
        return;
    }
    fence(Ordering::SeqCst);
    if SYMMETRIC.load(Ordering::Relaxed) {
        return;
    }
    if !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        abort_refused();
    }
    fence(Ordering::SeqCst);
}

/// Aborts the process because a registered `membarrier` was refused.
///
/// After a successful registration the command fails if a filter of system calls (seccomp) has
/// been installed since. By then the frequent sides run without a fence, so going on would lose
/// tasks.
///
/// Nothing else can serve as the barrier. Removing a page's write permission interrupts the
/// other processors on some kernels only: ARM64 and recent x86 processors (INVLPGB, Linux 6.14)
/// invalidate their translations without an interrupt. Nor would it help to move this thread
/// over all processors: it would not reach threads in another cpuset.
#[cold]
#[inline(never)]
fn abort_refused() -> ! {
    let error = std::io::Error::last_os_error();
    shim::abort_with(&format!(
        "the kernel refuses membarrier(2) ({error}), which it has allowed before, most likely \
         because of a seccomp filter: install such a filter before the first runtime is built, \
         or let it allow membarrier"
    ))
}
