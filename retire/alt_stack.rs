//! Alternate signal stacks: a signal handler runs on one when the current stack has overflowed.

use crate::shim::real::Mutex;
use std::marker::PhantomData;
use std::{io, ptr};

use memmap2::{MmapOptions, MmapRaw};

use super::guard::{GUARD, GuardKind, Pages, page_size};

/// Room for the handlers that ours passes faults on to: some print stack traces.
const ROOM: usize = 64 << 10;

/// The number of unused alternate stacks that stay mapped for later threads: mapping and unmapping
/// one interrupts every processor that runs the process. Their pages are not resident unless a
/// handler has run on them.
const SPARE: usize = 64;

static SPARES: Mutex<Vec<MmapRaw>> = Mutex::new(Vec::new());

/// The calling thread's alternate signal stack, with a guard of its own.
///
/// Threads made by std already have one, but it is large enough only for std's handler. It is
/// restored on drop.
#[must_use = "the alternate stack goes when this is dropped"]
pub(crate) struct AltStack {
    /// `None` only during the drop.
    map: Option<MmapRaw>,
    /// The thread's alternate stack before this one.
    before: libc::stack_t,
    /// The stack belongs to the thread that installed it.
    not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Installs an alternate stack for the calling thread.
    ///
    /// # Errors
    /// If memory is short, or if the thread is running on an alternate stack.
    pub(crate) fn install() -> io::Result<AltStack> {
        let spare = SPARES.lock().pop();
        let map = spare.map_or_else(map, Ok)?;
        let bottom = map.as_mut_ptr().wrapping_add(GUARD).cast();
        let size = map.len() - GUARD;
        let before = exchange(Some(libc::stack_t { ss_sp: bottom, ss_flags: 0, ss_size: size }))?;
        Ok(AltStack { map: Some(map), before, not_send: PhantomData })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let Some(map) = self.map.as_ref() else { return };
        let ours = map.as_mut_ptr().wrapping_add(GUARD).cast();
        let installed = exchange(None)
            .is_ok_and(|now| now.ss_sp == ours && now.ss_flags & libc::SS_DISABLE == 0);
        let map = self.map.take();
        if !installed || exchange(Some(self.before)).is_err() {
            // Another stack has been installed over ours, and its owner may restore ours later. So
            // ours stays mapped.
            std::mem::forget(map);
            return;
        }
        let mut spares = SPARES.lock();
        if spares.len() < SPARE {
            spares.extend(map);
        }
    }
}

/// Maps a stack and installs its guard.
fn map() -> io::Result<MmapRaw> {
    // The kernel's signal frame grows with the registers of the processor.
    // SAFETY: a query without pointers; for an unknown key it returns 0.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    let size = (frame.max(libc::SIGSTKSZ) + ROOM).next_multiple_of(page_size());
    let map = MmapOptions::new().len(GUARD + size).stack().no_reserve_swap().map_anon()?;
    let map = MmapRaw::from(map);
    // SAFETY: the range is the start of the mapping made above. The alternate stack begins above
    // it.
    let guard = unsafe { Pages::new(map.as_mut_ptr(), GUARD) };
    guard.install(GuardKind::of_this_kernel()).map_err(io::Error::from_raw_os_error)?;
    Ok(map)
}

/// Calls sigaltstack(2): sets `new` if there is one, and returns the previous stack.
fn exchange(new: Option<libc::stack_t>) -> io::Result<libc::stack_t> {
    let mut old = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let new = new.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the pointers are null or to live descriptions. A stack that this module describes
    // stays mapped as long as it is installed. Any other description came from an earlier call, so
    // the memory is its owner's to keep mapped.
    match unsafe { libc::sigaltstack(new, &mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_drop_restores_the_previous_stack() {
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
    fn alternate_stacks_nest() {
        let before = exchange(None).unwrap();
        let outer = AltStack::install().unwrap();
        let inner = AltStack::install().unwrap();
        let address =
            |stack: &AltStack| stack.map.as_ref().unwrap().as_mut_ptr().wrapping_add(GUARD).cast();
        drop(inner);
        assert_eq!(exchange(None).unwrap().ss_sp, address(&outer));
        drop(outer);
        assert_eq!(exchange(None).unwrap().ss_sp, before.ss_sp);
    }

    #[test]
    fn a_stack_that_another_has_replaced_stays_mapped() {
        let before = exchange(None).unwrap();
        let ours = AltStack::install().unwrap();
        let bottom = exchange(None).unwrap().ss_sp.cast::<u8>();
        exchange(Some(before)).unwrap();
        drop(ours);
        assert_eq!(exchange(None).unwrap().ss_sp, before.ss_sp);
        assert!(!super::super::guard::tests::faults(bottom));
    }
}
