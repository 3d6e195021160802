//! The stack that a signal handler runs on when the one in use has overflowed.

use std::io;
use std::marker::PhantomData;
use std::ptr;

use memmap2::{MmapOptions, MmapRaw};

use super::guard::{GUARD, GuardKind, page_size};

/// Room for the handlers that ours passes faults on to: some print stack traces.
const ROOM: usize = 64 << 10;

/// The calling thread's alternate signal stack, with a guard of its own.
///
/// Threads made by std have one already, but of a size that fits only std's handler; it is put back
/// on drop.
#[must_use = "the alternate stack goes when this is dropped"]
pub(crate) struct AltStack {
    /// `None` only while it is dropped.
    map: Option<MmapRaw>,
    before: libc::stack_t,
    /// It belongs to the thread that installed it.
    not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Fails if memory is short, or if the thread is running on an alternate stack right now.
    pub(crate) fn install() -> io::Result<AltStack> {
        // The kernel's frame grows with the registers of the processor.
        // SAFETY: a query without pointers; an unknown key is answered with 0.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let size = (frame.max(libc::SIGSTKSZ) + ROOM).next_multiple_of(page_size());
        let map = MmapOptions::new().len(GUARD + size).stack().no_reserve_swap().map_anon()?;
        let map = MmapRaw::from(map);
        // SAFETY: the range is the start of the mapping made above, and it is not used as stack.
        unsafe { GuardKind::of_this_kernel().install(map.as_mut_ptr()) }
            .map_err(io::Error::from_raw_os_error)?;
        let bottom = map.as_mut_ptr().wrapping_add(GUARD).cast();
        let before = exchange(Some(libc::stack_t { ss_sp: bottom, ss_flags: 0, ss_size: size }))?;
        Ok(AltStack { map: Some(map), before, not_send: PhantomData })
    }

    fn is_installed(&self) -> bool {
        let Some(map) = &self.map else { return false };
        let bottom = map.as_mut_ptr().wrapping_add(GUARD).cast();
        exchange(None).is_ok_and(|now| now.ss_sp == bottom && now.ss_flags & libc::SS_DISABLE == 0)
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        if self.is_installed() && exchange(Some(self.before)).is_ok() {
            return;
        }
        // Somebody has put another one over ours and may put ours back: it stays mapped.
        std::mem::forget(self.map.take());
    }
}

/// sigaltstack(2): sets a stack, if there is one, and returns the one before.
fn exchange(new: Option<libc::stack_t>) -> io::Result<libc::stack_t> {
    let mut old = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let new = new.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the pointers are null or to live descriptions. The memory described is a mapping that
    // is unmapped only after another stack has been set, or was set by somebody else before.
    match unsafe { libc::sigaltstack(new, &mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_stack_before_is_put_back() {
        let before = exchange(None).unwrap();
        let ours = AltStack::install().unwrap();
        let now = exchange(None).unwrap();
        assert_ne!(now.ss_sp, before.ss_sp);
        assert!(now.ss_size >= 16 << 10);
        drop(ours);
        let after = exchange(None).unwrap();
        assert_eq!((after.ss_sp, after.ss_flags), (before.ss_sp, before.ss_flags));
    }

    #[test]
    fn they_nest() {
        let before = exchange(None).unwrap();
        let outer = AltStack::install().unwrap();
        let inner = AltStack::install().unwrap();
        drop(inner);
        assert!(outer.is_installed());
        drop(outer);
        assert_eq!(exchange(None).unwrap().ss_sp, before.ss_sp);
    }

    #[test]
    fn one_that_somebody_has_covered_stays_mapped() {
        let before = exchange(None).unwrap();
        let ours = AltStack::install().unwrap();
        let bottom = exchange(None).unwrap().ss_sp.cast::<u8>();
        exchange(Some(before)).unwrap();
        drop(ours);
        assert_eq!(exchange(None).unwrap().ss_sp, before.ss_sp);
        assert!(!super::super::guard::tests::faults(bottom));
    }
}
