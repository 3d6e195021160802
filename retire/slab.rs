//! A slab: a large mapping cut into stacks of one class.

use std::mem;
use std::ptr::NonNull;

use memmap2::{Advice, MmapOptions, MmapRaw};

use super::stack::StackClass;

/// Bytes of a slab, unless a single stack of its class is larger.
const SLAB: usize = 64 << 20;
/// When address space is short, slabs become smaller, down to this size.
const SMALLEST_SLAB: usize = 1 << 20;

/// A mapping of `slots` strides, and the record of which slots are vacant and which have a guard.
pub(super) struct Slab {
    /// `None` only while the slab is dropped.
    map: Option<MmapRaw>,
    class: StackClass,
    vacant: u32,
    slots: u32,
    /// No word of `free` below this index has a bit set.
    hint: u32,
    /// One bit for each vacant slot.
    free: Box<[u64]>,
    /// One bit for each slot that has its guard.
    guarded: Box<[u64]>,
}

impl Slab {
    /// Maps a slab. None of it is resident, and it counts against the commit limit only under the
    /// strictest setting (`vm.overcommit_memory=2`).
    ///
    /// # Errors
    /// With an errno, if the kernel refuses even the smallest slab.
    pub(super) fn map(class: StackClass) -> Result<Slab, i32> {
        let mut bytes = SLAB.max(class.stride());
        let smallest = SMALLEST_SLAB.max(class.stride());
        let map = loop {
            match MmapOptions::new().len(bytes).stack().no_reserve_swap().map_anon() {
                Ok(map) => break MmapRaw::from(map),
                Err(_) if bytes > smallest => bytes /= 2,
                Err(error) => return Err(error.raw_os_error().unwrap_or(libc::ENOMEM)),
            }
        };
        // With a huge page, the first touch of one stack would make 32 stacks resident. A kernel
        // without huge pages refuses the advice and does not need it.
        let _ = map.advise(Advice::NoHugePage);
        let slots = (bytes / class.stride()) as u32;
        let words = slots.div_ceil(64) as usize;
        let mut free = vec![u64::MAX; words].into_boxed_slice();
        if !slots.is_multiple_of(64) {
            free[words - 1] = (1 << (slots % 64)) - 1;
        }
        let guarded = vec![0; words].into_boxed_slice();
        Ok(Slab { map: Some(map), class, vacant: slots, slots, hint: 0, free, guarded })
    }

    /// Takes the lowest vacant slot. Returns its base and whether it has a guard already. From now
    /// on the slot counts as guarded: the caller installs a missing guard, or returns the slot by
    /// [`put_bare`](Slab::put_bare). Low slots go first, so that a few stacks in use share few page
    /// tables and few slabs.
    pub(super) fn take(&mut self) -> Option<(NonNull<u8>, bool)> {
        let hint = self.hint as usize;
        let word = hint + self.free[hint..].iter().position(|&bits| bits != 0)?;
        let bit = self.free[word].trailing_zeros();
        let mask = 1 << bit;
        self.free[word] &= !mask;
        let guarded = self.guarded[word] & mask != 0;
        self.guarded[word] |= mask;
        self.hint = word as u32;
        self.vacant -= 1;
        let slot = word * 64 + bit as usize;
        let base = self.start().wrapping_add(slot * self.class.stride());
        Some((NonNull::new(base).expect("a mapping does not contain address 0"), guarded))
    }

    /// Makes a slot vacant again.
    pub(super) fn put(&mut self, base: *mut u8) {
        let (word, mask) = self.place_of(base);
        self.free[word] |= mask;
        self.hint = self.hint.min(word as u32);
        self.vacant += 1;
    }

    /// Makes a slot vacant again after its guard could not be installed.
    pub(super) fn put_bare(&mut self, base: *mut u8) {
        let (word, mask) = self.place_of(base);
        self.guarded[word] &= !mask;
        self.put(base);
    }

    /// Returns the word and the bit of a slot in use.
    ///
    /// # Panics
    /// If `base` is not the start of a slot of this slab, or if the slot is vacant.
    fn place_of(&self, base: *mut u8) -> (usize, u64) {
        let offset = (base as usize).wrapping_sub(self.start() as usize);
        let slot = offset / self.class.stride();
        assert!(
            slot < self.slots as usize && offset.is_multiple_of(self.class.stride()),
            "a stack was given back to memory it was not cut from"
        );
        let (word, mask) = (slot / 64, 1 << (slot % 64));
        assert!(self.free[word] & mask == 0, "a stack was given back twice");
        (word, mask)
    }

    fn start(&self) -> *mut u8 {
        self.map.as_ref().expect("a slab is mapped until it is dropped").as_mut_ptr()
    }

    /// Returns whether no slot is vacant.
    pub(super) fn is_full(&self) -> bool {
        self.vacant == 0
    }

    /// Returns whether all slots are vacant.
    pub(super) fn is_idle(&self) -> bool {
        self.vacant == self.slots
    }

    /// Returns the number of slots that have a guard.
    pub(super) fn guards(&self) -> usize {
        self.guarded.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Returns the number of bytes mapped.
    pub(super) fn bytes(&self) -> usize {
        self.slots as usize * self.class.stride()
    }
}

impl Drop for Slab {
    /// Unmaps the slab with its page tables and guards, or leaks it if one of its stacks is in use.
    fn drop(&mut self) {
        if !self.is_idle() {
            mem::forget(self.map.take());
        } else {
            #[cfg(cygnet_asan)]
            super::stack::unpoison(self.start(), self.bytes());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_lowest_first_and_once_each() {
        let class = StackClass::DEFAULT;
        let mut slab = Slab::map(class).unwrap();
        let start = slab.start();
        let last = SLAB / class.stride() - 1;
        for slot in 0..=last {
            let (base, guarded) = slab.take().unwrap();
            assert_eq!(base.as_ptr(), start.wrapping_add(slot * class.stride()));
            assert!(!guarded);
        }
        assert!(slab.is_full());
        assert!(slab.take().is_none());
        for slot in [last, 3, 64] {
            slab.put(start.wrapping_add(slot * class.stride()));
        }
        for slot in [3, 64, last] {
            let (base, guarded) = slab.take().unwrap();
            assert_eq!(base.as_ptr(), start.wrapping_add(slot * class.stride()));
            assert!(guarded);
        }
        // A slab with stacks in use would be leaked.
        for slot in 0..=last {
            slab.put(start.wrapping_add(slot * class.stride()));
        }
        assert!(slab.is_idle());
    }

    #[test]
    fn the_largest_class_has_a_slab_for_each_stack() {
        let class = StackClass::from_index(StackClass::COUNT - 1);
        let mut slab = Slab::map(class).unwrap();
        let (base, _) = slab.take().unwrap();
        assert!(slab.is_full());
        slab.put(base.as_ptr());
        assert!(slab.is_idle());
    }

    #[test]
    fn a_slot_put_back_bare_needs_a_guard_again() {
        let mut slab = Slab::map(StackClass::DEFAULT).unwrap();
        let (base, _) = slab.take().unwrap();
        assert_eq!(slab.guards(), 1);
        slab.put_bare(base.as_ptr());
        assert_eq!(slab.guards(), 0);
        assert_eq!(slab.take(), Some((base, false)));
        slab.put(base.as_ptr());
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn a_stack_cannot_be_given_back_twice() {
        let mut slab = Slab::map(StackClass::DEFAULT).unwrap();
        let (base, _) = slab.take().unwrap();
        slab.put(base.as_ptr());
        slab.put(base.as_ptr());
    }
}
