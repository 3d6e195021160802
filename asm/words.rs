//! The words that this library keeps for each thread.
//!
//! A `thread_local!` would not do: the compiler may compute its address once for a function, and a
//! function that switches may go on on another thread. So the words are a variable of the assembly
//! source, and [`Words::here`] reads the thread pointer, or an offset from it, each time.

use std::arch::asm;

/// The place of the current thread's words. It must not be kept across a switch.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// On x86-64 the offset from the thread pointer, on AArch64 the address.
    place: usize,
}

/// Offsets of the words.
const WORKER: usize = 0;
const NESTING: usize = 8;
const SPECIAL: usize = 16;

impl Words {
    /// Returns the words of the current thread.
    #[inline(always)]
    pub(crate) fn here() -> Words {
        let place;
        // SAFETY: reads the GOT, where the linker or the loader has put the offset of the words.
        // The assembly is not `pure`, so it runs each time it is reached.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                concat!("mov {place}, qword ptr [rip + ", symbol!("thread_words"), "@gottpoff]"),
                place = out(reg) place,
                options(nostack, readonly, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                concat!("adrp {offset}, :gottprel:", symbol!("thread_words")),
                concat!("ldr {offset}, [{offset}, :gottprel_lo12:", symbol!("thread_words"), "]"),
                "mrs {place}, tpidr_el0",
                "add {place}, {place}, {offset}",
                offset = out(reg) _,
                place = out(reg) place,
                options(nostack, readonly, preserves_flags),
            );
        }
        Words { place }
    }

    #[inline(always)]
    fn read<const OFFSET: usize>(self) -> *mut u8 {
        let word;
        // SAFETY: reads a word of the thread's own static TLS block.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {word}, qword ptr fs:[{place} + {offset}]",
                place = in(reg) self.place,
                offset = const OFFSET,
                word = lateout(reg) word,
                options(nostack, readonly, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "ldr {word}, [{place}, {offset}]",
                place = in(reg) self.place,
                offset = const OFFSET,
                word = lateout(reg) word,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }

    #[inline(always)]
    fn write<const OFFSET: usize>(self, value: *mut u8) {
        // SAFETY: writes a word of the thread's own static TLS block, which only this module
        // touches.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov qword ptr fs:[{place} + {offset}], {value}",
                place = in(reg) self.place,
                offset = const OFFSET,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "str {value}, [{place}, {offset}]",
                place = in(reg) self.place,
                offset = const OFFSET,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns the first word, the worker; null at first.
    #[inline(always)]
    pub(crate) fn worker(self) -> *mut u8 {
        self.read::<WORKER>()
    }

    /// Returns the second word, the innermost bare coroutine; null at first.
    #[inline(always)]
    pub(crate) fn nesting(self) -> *mut u8 {
        self.read::<NESTING>()
    }

    /// Sets the second word.
    #[inline(always)]
    pub(crate) fn set_nesting(self, value: *mut u8) {
        self.write::<NESTING>(value);
    }

    /// Makes the second word null.
    #[inline(always)]
    pub(crate) fn clear_nesting(self) {
        // SAFETY: writes a word of the thread's own static TLS block, which only this module
        // touches.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov qword ptr fs:[{place} + {offset}], 0",
                place = in(reg) self.place,
                offset = const NESTING,
                options(nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "str xzr, [{place}, {offset}]",
                place = in(reg) self.place,
                offset = const NESTING,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns the third word. It is 0 if the thread has never been a worker's and has not begun to
    /// destroy its thread-local values.
    #[inline(always)]
    pub(crate) fn special(self) -> usize {
        self.read::<SPECIAL>().addr()
    }

    /// Returns the bitwise or of the second and the third word.
    #[inline(always)]
    pub(crate) fn nesting_or_special(self) -> usize {
        let bits;
        // SAFETY: reads two words of the thread's own static TLS block.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {bits}, qword ptr fs:[{place} + {nesting}]",
                "or {bits}, qword ptr fs:[{place} + {special}]",
                place = in(reg) self.place,
                nesting = const NESTING,
                special = const SPECIAL,
                bits = out(reg) bits,
                options(nostack, readonly),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "ldp {bits}, {special}, [{place}, {nesting}]",
                "orr {bits}, {bits}, {special}",
                place = in(reg) self.place,
                nesting = const NESTING,
                special = out(reg) _,
                bits = out(reg) bits,
                options(nostack, readonly, preserves_flags),
            );
        }
        bits
    }
}

/// Returns the worker of the current thread; null at first. Every call reads the word anew.
#[inline(always)]
pub(crate) fn thread_word() -> *mut u8 {
    // In one piece and in one register: the compiler puts other code between two pieces.
    #[cfg(target_arch = "x86_64")]
    {
        let word;
        // SAFETY: reads a word of the thread's own static TLS block, at the offset that the linker
        // or the loader has put into the GOT. The assembly is not `pure`, so it runs each time it
        // is reached.
        unsafe {
            asm!(
                concat!("mov {word}, qword ptr [rip + ", symbol!("thread_words"), "@gottpoff]"),
                "mov {word}, qword ptr fs:[{word} + {offset}]",
                offset = const WORKER,
                word = out(reg) word,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }
    #[cfg(target_arch = "aarch64")]
    Words::here().worker()
}

/// Sets the worker of the current thread.
pub(crate) fn set_thread_word(value: *mut u8) {
    let words = Words::here();
    words.write::<WORKER>(value);
    mark_thread_as_special();
}

/// Makes the third of the [`Words`] non-zero, for as long as the current thread lives.
pub(crate) fn mark_thread_as_special() {
    Words::here().write::<SPECIAL>(std::ptr::without_provenance_mut(1));
}
