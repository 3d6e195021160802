//! A stack: its size class, its handle, and the reasons why none is available.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::guard::{GUARD, Guard, Pages};

/// The bounds of the size that a user may ask for.
pub(crate) const SMALLEST: usize = 16 << 10;
pub(crate) const LARGEST: usize = 1 << 30;
/// The stack size of a task that does not ask for one.
pub(crate) const DEFAULT_SIZE: usize = 64 << 10;

/// A guard of at most `stride / GUARD_SHARE` bytes is part of the requested size. A larger guard is
/// added to it.
const GUARD_SHARE: usize = 4;

/// A size class of stacks, identified by its stride, which is a power of two.
///
/// Requested sizes with the same stride belong to the same class and share their stacks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StackClass(u8); // log2 of the stride

impl StackClass {
    const FIRST: StackClass = StackClass::holding(SMALLEST);
    const LAST: StackClass = StackClass::holding(LARGEST);
    /// The number of classes.
    pub(crate) const COUNT: usize = StackClass::LAST.index() + 1;
    pub(crate) const DEFAULT: StackClass = StackClass::holding(DEFAULT_SIZE);

    /// Returns the smallest class with a [`size`](StackClass::size) of at least `bytes`.
    pub(crate) fn for_size(bytes: usize) -> Result<StackClass, StackSizeError> {
        if (SMALLEST..=LARGEST).contains(&bytes) {
            Ok(StackClass::holding(bytes))
        } else {
            Err(StackSizeError { asked: bytes })
        }
    }

    const fn holding(bytes: usize) -> StackClass {
        let size = bytes.next_power_of_two();
        let stride =
            if GUARD <= size / GUARD_SHARE { size } else { (size + GUARD).next_power_of_two() };
        StackClass(stride.ilog2() as u8)
    }

    /// Returns a number that stands for the class. It is never 0.
    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }

    /// Returns the class of a number from [`StackClass::to_byte`].
    pub(crate) const fn from_byte(byte: u8) -> StackClass {
        StackClass(byte)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const fn from_index(index: usize) -> StackClass {
        StackClass(StackClass::FIRST.0 + index as u8)
    }

    /// Returns the position among the classes: 0 for the smallest, `COUNT - 1` for the largest.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        (self.0 - StackClass::FIRST.0) as usize
    }

    /// Returns the distance in bytes from one stack to the next: guard and usable part.
    #[inline]
    pub(crate) const fn stride(self) -> usize {
        1 << self.0
    }

    /// Returns the number of bytes between the guard and the end of the stack.
    #[inline]
    pub(crate) const fn usable(self) -> usize {
        self.stride() - GUARD
    }

    /// Returns the size as reported to the user. As for a thread, a small guard counts as part of
    /// it.
    pub(crate) const fn size(self) -> usize {
        if GUARD <= self.stride() / GUARD_SHARE { self.stride() } else { self.usable() }
    }
}

/// The tops of adjacent stacks are this far apart, so that they fall into different cache sets.
const COLOUR_STEP: usize = 64;
const COLOURS: usize = 16;

/// An owned stack.
///
/// The memory stays mapped, and the handle's holder has exclusive use of it, until the handle goes
/// back to the [`StackMemory`](super::memory::StackMemory) that it came from. Dropping a handle
/// leaks the stack, which is the right thing for a stack that still holds frames.
#[must_use = "a stack that is dropped is leaked"]
#[derive(Debug)]
pub(crate) struct Stack {
    /// Start of the guard.
    base: NonNull<u8>,
    /// Number of the slab within its class, the class, and the shallow flag. They share one word,
    /// so that the handle travels in two registers, and so that a pool reads what it wrote with
    /// loads of the same width: a wide load after narrow stores would have to wait for them to
    /// reach the cache.
    tag: u64,
}

const CLASS_SHIFT: u32 = 32;
const SHALLOW: u64 = 1 << 40;

// SAFETY: a stack is a range of memory that its handle owns. Neither the memory nor the bookkeeping
// of `StackMemory` is tied to a thread.
unsafe impl Send for Stack {}
// SAFETY: a shared handle gives out addresses and flags, and modifies nothing.
unsafe impl Sync for Stack {}

impl Stack {
    pub(super) fn new(base: NonNull<u8>, slab: u32, class: StackClass) -> Stack {
        Stack { base, tag: u64::from(slab) | u64::from(class.0) << CLASS_SHIFT | SHALLOW }
    }

    /// Returns the start of the guard, which is the start of the slot.
    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the number of the slab within its class.
    #[inline]
    pub(super) fn slab(&self) -> u32 {
        self.tag as u32
    }

    /// Returns `false` if pages below the top may be resident: the stack was put into a pool, and
    /// its depth has not been discarded since.
    pub(super) fn is_shallow(&self) -> bool {
        self.tag & SHALLOW != 0
    }

    /// Records whether the pages below the top are known to be discarded.
    #[inline]
    pub(super) fn set_shallow(&mut self, shallow: bool) {
        self.tag = if shallow { self.tag | SHALLOW } else { self.tag & !SHALLOW };
    }

    /// Returns the lowest usable address.
    #[inline]
    pub(crate) fn bottom(&self) -> *mut u8 {
        self.base().wrapping_add(GUARD)
    }

    /// Returns the address where frames start, a multiple of 64 bytes.
    ///
    /// It lies 0 to 960 bytes below the end, at a different distance for each of 16 adjacent
    /// stacks. Otherwise the tops of all stacks would compete for the same few cache sets.
    #[inline]
    pub(crate) fn top(&self) -> *mut u8 {
        let colour = (self.base.as_ptr() as usize >> self.class().0) % COLOURS;
        self.limit_top().wrapping_sub(colour * COLOUR_STEP)
    }

    /// Returns the end of the stack.
    #[inline]
    pub(crate) fn limit_top(&self) -> *mut u8 {
        self.base().wrapping_add(self.class().stride())
    }

    /// Returns the addresses of the guard.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.base() as usize..self.bottom() as usize
    }

    /// Returns the pages of the guard.
    pub(super) fn guard_pages(&self) -> Pages<Guard> {
        // SAFETY: the guard is the start of a slot that only this handle owns, in a private
        // anonymous mapping. The handle never gives it out as usable memory.
        unsafe { Pages::new(self.base(), GUARD) }
    }

    /// Tells AddressSanitizer to forget the frames that earlier users left on the stack.
    #[cfg(cygnet_asan)]
    pub(super) fn unpoison(&self) {
        unpoison(self.bottom(), self.class().usable());
    }

    /// Returns the size class.
    #[inline]
    pub(crate) fn class(&self) -> StackClass {
        StackClass((self.tag >> CLASS_SHIFT) as u8)
    }
}

/// Tells AddressSanitizer that memory may be accessed again which earlier frames have poisoned.
#[cfg(cygnet_asan)]
pub(crate) fn unpoison(at: *mut u8, len: usize) {
    // SAFETY: the callers pass mapped memory that they own: a stack that is being handed out, a
    // slab that is about to be unmapped, the unused part of a suspended host's stack, or the stack
    // of a user's before its first frame or after its last one. No live frame lies in it.
    unsafe { crate::asm::sanitizer::address::unpoison(at, len) };
}

/// A requested stack size is out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackSizeError {
    asked: usize,
}

error! {
    impl StackSizeError: |this, f| write!(
        f,
        "a stack of {} bytes is out of bounds: it takes at least {SMALLEST} bytes (16 KiB) and at \
         most {LARGEST} (1 GiB)",
        this.asked
    )
}

/// The reason why no stack is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StackExhausted {
    /// All stacks that `Builder::max_stacks` allows exist. Other workers may keep some of them
    /// warm.
    Limit,
    /// The kernel refused the memory.
    Memory {
        /// The kernel's answer.
        errno: i32,
    },
    /// The process has reached the limit on its number of mappings.
    MapCount,
}

error! {
    impl StackExhausted: |this, f| match *this {
        StackExhausted::Limit => f.write_str("all stacks that Builder::max_stacks allows exist"),
        StackExhausted::Memory { errno } => write!(
            f,
            "the kernel refused memory for another stack ({}): the address space (ulimit -v), \
             the overcommit limit (vm.overcommit_memory) or memory itself is used up; a smaller \
             Builder::stack_size or a bound by Builder::max_stacks helps",
            io::Error::from_raw_os_error(errno)
        ),
        StackExhausted::MapCount => write!(
            f,
            "no mapping is left for another stack: raise vm.max_map_count with sysctl, set \
             Builder::max_stacks below half of it, or use Linux 6.13 or newer, where the guard of \
             a stack takes no mapping"
        ),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_class_is_the_smallest_that_holds_the_requested_size() {
        let mut asked = SMALLEST;
        while asked <= LARGEST {
            let class = StackClass::for_size(asked).unwrap();
            assert!(class.size() >= asked);
            assert!(class.size() < 16 * asked);
            assert_eq!(class.usable() + GUARD, class.stride());
            assert!(class.usable() >= asked - asked / GUARD_SHARE);
            assert_eq!(StackClass::from_index(class.index()), class);
            if class.index() > 0 && asked > DEFAULT_SIZE {
                assert!(StackClass::from_index(class.index() - 1).size() < asked);
            }
            asked += asked / 3;
        }
        assert_eq!(StackClass::for_size(LARGEST).unwrap().index() + 1, StackClass::COUNT);
    }

    #[test]
    fn the_default_class_is_64_kib() {
        let class = StackClass::DEFAULT;
        assert_eq!(class, StackClass::for_size(DEFAULT_SIZE).unwrap());
        assert_eq!(class.size(), 64 << 10);
        if cfg!(target_arch = "x86_64") {
            assert_eq!((class.stride(), class.usable()), (64 << 10, 60 << 10));
        } else {
            assert_eq!((class.stride(), class.usable()), (128 << 10, 64 << 10));
        }
    }

    #[test]
    fn a_size_out_of_bounds_is_refused_with_the_bounds() {
        for asked in [0, SMALLEST - 1, LARGEST + 1, usize::MAX] {
            let said = StackClass::for_size(asked).unwrap_err().to_string();
            assert!(said.contains(&asked.to_string()), "{said}");
            assert!(said.contains("16 KiB") && said.contains("1 GiB"), "{said}");
        }
    }

    #[test]
    fn a_handle_and_an_optional_handle_are_two_words() {
        assert_eq!(size_of::<Stack>(), 16);
        assert_eq!(size_of::<Option<Stack>>(), 16);
    }

    #[test]
    fn the_tops_of_sixteen_neighbours_fall_into_sixteen_cache_lines() {
        let class = StackClass::DEFAULT;
        let lines: HashSet<usize> = (0..16)
            .map(|slot| {
                let base = NonNull::new((0x7000_1000 + slot * class.stride()) as *mut u8).unwrap();
                let stack = Stack::new(base, 0, class);
                assert_eq!(stack.top() as usize % 16, 0);
                assert!(stack.top() <= stack.limit_top());
                stack.top() as usize % class.stride() / COLOUR_STEP
            })
            .collect();
        assert_eq!(lines.len(), 16);
    }

    #[test]
    fn each_reason_names_the_knob_that_helps() {
        let said = StackExhausted::Memory { errno: libc::ENOMEM }.to_string();
        assert!(said.contains("ulimit -v") && said.contains("Builder::stack_size"), "{said}");
        assert!(StackExhausted::MapCount.to_string().contains("vm.max_map_count"));
    }
}
