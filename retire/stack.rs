//! One stack: its size class, its handle, and why there may be none.

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::guard::GUARD;

/// The sizes a user may ask for.
pub(crate) const SMALLEST: usize = 16 << 10;
pub(crate) const LARGEST: usize = 1 << 30;
/// What a task gets that asks for nothing.
pub(crate) const DEFAULT_SIZE: usize = 64 << 10;

/// A guard that takes at most this part of the stride is taken out of the size asked for; a larger
/// one is added to it.
const GUARD_SHARE: usize = 4;

/// A size of stack: its stride, always a power of two.
///
/// Sizes that end up with the same stride are the same class, so that their stacks are shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StackClass(u8); // log2 of the stride

impl StackClass {
    const FIRST: StackClass = StackClass::holding(SMALLEST);
    const LAST: StackClass = StackClass::holding(LARGEST);
    /// How many classes there are.
    pub(crate) const COUNT: usize = StackClass::LAST.index() + 1;
    pub(crate) const DEFAULT: StackClass = StackClass::holding(DEFAULT_SIZE);

    /// The smallest class whose [`size`](StackClass::size) is at least `bytes`.
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

    /// A number other than 0 that stands for the class.
    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }

    /// The class that a number from [`StackClass::to_byte`] stands for.
    pub(crate) const fn from_byte(byte: u8) -> StackClass {
        StackClass(byte)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const fn from_index(index: usize) -> StackClass {
        StackClass(StackClass::FIRST.0 + index as u8)
    }

    /// 0 for the smallest class, up to `COUNT - 1`.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        (self.0 - StackClass::FIRST.0) as usize
    }

    /// Bytes from one stack to the next: guard and usable part.
    #[inline]
    pub(crate) const fn stride(self) -> usize {
        1 << self.0
    }

    /// Bytes between the guard and the end of the stack.
    #[inline]
    pub(crate) const fn usable(self) -> usize {
        self.stride() - GUARD
    }

    /// What the user is told: as for a thread, a small guard counts as part of the stack.
    pub(crate) const fn size(self) -> usize {
        if GUARD <= self.stride() / GUARD_SHARE { self.stride() } else { self.usable() }
    }
}

/// The tops of neighbours are this far apart, so that they fall into different cache sets.
const COLOUR_STEP: usize = 64;
const COLOURS: usize = 16;

/// A stack, owned.
///
/// It names memory that stays mapped and that nobody else uses until the handle goes back to the
/// [`StackMemory`](super::memory::StackMemory) it came from. Dropping a handle leaks the stack: that
/// is what happens to a stack which still holds frames.
#[must_use = "a stack that is dropped is leaked"]
#[derive(Debug)]
pub(crate) struct Stack {
    /// Start of the guard.
    base: NonNull<u8>,
    /// Number of the slab within its class, the class, and whether it is shallow. One word and not
    /// three fields: two words travel in registers, and a pool reads them as it has written them
    /// (a wide load after narrow stores waits for the cache).
    tag: u64,
}

const CLASS_SHIFT: u32 = 32;
const SHALLOW: u64 = 1 << 40;

// SAFETY: a stack is a range of memory that belongs to whoever holds the handle; neither the memory
// nor the bookkeeping behind it is tied to a thread.
unsafe impl Send for Stack {}
// SAFETY: a shared handle only tells addresses.
unsafe impl Sync for Stack {}

impl Stack {
    pub(super) fn new(base: NonNull<u8>, slab: u32, class: StackClass) -> Stack {
        Stack { base, tag: u64::from(slab) | u64::from(class.0) << CLASS_SHIFT | SHALLOW }
    }

    /// Start of the guard, which is the start of the stride.
    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[inline]
    pub(super) fn slab(&self) -> u32 {
        self.tag as u32
    }

    /// Whether only the top pages can be resident.
    pub(super) fn is_shallow(&self) -> bool {
        self.tag & SHALLOW != 0
    }

    /// Somebody has run on it, or has stopped to.
    #[inline]
    pub(super) fn set_shallow(&mut self, shallow: bool) {
        self.tag = if shallow { self.tag | SHALLOW } else { self.tag & !SHALLOW };
    }

    /// The lowest address that may be used.
    #[inline]
    pub(crate) fn bottom(&self) -> *mut u8 {
        self.base().wrapping_add(GUARD)
    }

    /// Where frames start, a multiple of 64 bytes; differs from neighbour to neighbour by up to 960 bytes.
    ///
    /// Without this the tops of all stacks would compete for the same few cache sets.
    #[inline]
    pub(crate) fn top(&self) -> *mut u8 {
        let colour = (self.base.as_ptr() as usize >> self.class().0) % COLOURS;
        self.limit_top().wrapping_sub(colour * COLOUR_STEP)
    }

    /// The end of the stack.
    #[inline]
    pub(crate) fn limit_top(&self) -> *mut u8 {
        self.base().wrapping_add(self.class().stride())
    }

    /// The addresses of the guard.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.base() as usize..self.bottom() as usize
    }

    /// Forgets the frames of the stack's earlier life.
    #[cfg(cygnet_asan)]
    pub(super) fn unpoison(&self) {
        unpoison(self.bottom(), self.class().usable());
    }

    /// The size class.
    #[inline]
    pub(crate) fn class(&self) -> StackClass {
        StackClass((self.tag >> CLASS_SHIFT) as u8)
    }
}

/// Lets code touch memory again that frames of an earlier life have marked as out of bounds.
#[cfg(cygnet_asan)]
pub(super) fn unpoison(at: *mut u8, len: usize) {
    // SAFETY: whoever calls this owns the memory, and no frame lives there.
    unsafe { crate::asm::sanitizer::address::unpoison(at, len) };
}

/// A stack size out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackSizeError {
    asked: usize,
}

impl fmt::Display for StackSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a stack of {} bytes is out of bounds: it takes at least {SMALLEST} bytes (16 KiB) and at \
             most {LARGEST} (1 GiB)",
            self.asked
        )
    }
}

impl std::error::Error for StackSizeError {}

/// Why there is no stack to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StackExhausted {
    /// All that `Builder::max_stacks` allows exist; other workers may keep some of them warm.
    Limit {
        /// The bound.
        max_stacks: usize,
    },
    /// The kernel refused the memory.
    Memory {
        /// Its answer.
        errno: i32,
    },
    /// The process has as many mappings as it may have.
    MapCount,
}

impl fmt::Display for StackExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StackExhausted::Limit { max_stacks } => write!(
                f,
                "all {max_stacks} stacks that Builder::max_stacks allows exist already; raise it, or \
                 let fewer tasks be started at the same time"
            ),
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
}

impl std::error::Error for StackExhausted {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_the_size_that_was_asked_for_and_the_next_smaller_one_does_not() {
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
    fn a_handle_is_two_words_also_when_it_is_optional() {
        assert_eq!(size_of::<Stack>(), 16);
        assert_eq!(size_of::<Option<Stack>>(), 16);
    }

    #[test]
    fn the_tops_of_sixteen_neighbours_fall_into_sixteen_cache_lines() {
        let class = StackClass::DEFAULT;
        let mut lines: Vec<usize> = (0..16)
            .map(|slot| {
                let base = NonNull::new((0x7000_1000 + slot * class.stride()) as *mut u8).unwrap();
                let stack = Stack::new(base, 0, class);
                assert_eq!(stack.top() as usize % 16, 0);
                assert!(stack.top() <= stack.limit_top());
                stack.top() as usize % class.stride() / COLOUR_STEP
            })
            .collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 16);
    }

    #[test]
    fn each_reason_names_the_knob_that_helps() {
        let said = StackExhausted::Limit { max_stacks: 77 }.to_string();
        assert!(said.contains("77") && said.contains("Builder::max_stacks"), "{said}");
        let said = StackExhausted::Memory { errno: libc::ENOMEM }.to_string();
        assert!(said.contains("ulimit -v") && said.contains("Builder::stack_size"), "{said}");
        assert!(StackExhausted::MapCount.to_string().contains("vm.max_map_count"));
    }
}
