//! Two contexts that take turns, and a switch that is inlined where it is called.
//!
//! A coroutine that is resumed by hand always goes back to its resumer, so the contexts of both can
//! lie side by side, in a [`Pair`]. The routine `switch` must save every register that a C function
//! keeps. Here the compiler is told instead that the switch changes all of them, and it saves the
//! few that it needs. Only rbx and rbp, which inline assembly cannot declare, are saved by hand.
//!
//! # The words of a context
//!
//! A context is four words of the pair, and nothing lies on the stack:
//!
//! ```text
//!     +0   the stack pointer
//!     +8   where to continue: the main entrance
//!    +16   rbp
//!    +24   rbx
//! ```
//!
//! The pair begins with a word of its owner's. Then come the coroutine's context, at +8, and the
//! resumer's, at +40. While one side runs, the words of the other say how to continue it. rdx is
//! the address of the pair when a switch leaves, and need not be anything when it arrives.
//!
//! # Two entrances
//!
//! Each switch can be continued in two ways: a resumer learns whether the coroutine has suspended
//! or come back for another reason, and a coroutine whether it goes on or is to be unwound. A flag
//! would have to be stored, loaded and compared each time. Instead each switch has two entrances.
//! The main one is the usual way. The other one lies [`OTHER_ENTRANCE`] bytes before it, and leads
//! to other code.
//!
//! # Unwinding rules
//!
//! The switch pushes nothing, so the rules of the surrounding function hold up to the instruction
//! that loads the stack pointer. From there to the jump they are replaced: the caller of the
//! present function is then the other side, at its main entrance, with the registers that lie in
//! its context. These rules go by rsp and the words of the pair, so they are right at each
//! instruction in between. A caller is looked up by the byte before its address: that byte is an
//! `int3` or the end of a jump, under the rules of the surrounding function.
//!
//! The directives need a function that has rules. A compiler that is told to emit none
//! (`-C force-unwind-tables=no`) gets the routine of `switch` instead: see `build.rs`.

use std::arch::asm;
use std::cell::Cell;
use std::ptr;

use super::{Continuation, Entry, Return, external, protector};

/// A suspended flow of control; the layout is known to the assembly.
#[repr(C)]
struct Words {
    sp: Cell<*mut u8>,
    continue_at: Cell<usize>,
    bp: Cell<usize>,
    bx: Cell<usize>,
}

/// The contexts of a coroutine and of its resumer.
#[repr(C)]
pub(crate) struct Pair<Head> {
    /// A word of the owner's. It comes first, so that a pointer to it is one to the pair: the
    /// switch and the owner's other code can then use the same register.
    pub(crate) head: Head,
    coroutine: Words,
    resumer: Words,
}

/// How many bytes before the main entrance of a switch the other one lies: those of an `endbr64`
/// and a jump.
const OTHER_ENTRANCE: usize = 9;

/// The word of the pair at offset `$of + $word`, for inline assembly with the pair in rdx.
macro_rules! word {
    ($of:literal + $word:literal) => {
        concat!("qword ptr [rdx + ", $of, " + ", $word, "]")
    };
}

/// The hinge: continues the context at offset `$to` of the pair in rdx, by the instruction `$jump`.
macro_rules! hinge {
    ($to:literal, $($jump:tt)*) => {
        concat!(
            "mov rsp, ", word!($to + 0), "\n",
            ".cfi_remember_state\n",
            ".cfi_def_cfa rsp, 0\n",
            // The return address, rbp and rbx are at rdx + to + 8, 16 and 24. The distance takes
            // two bytes, seven bits in each, as one would be negative from 64 upwards.
            ".cfi_escape 0x10, 16, 3, 0x71, 128 + ", $to, " + 8, 0\n",
            ".cfi_escape 0x10, 6, 3, 0x71, 128 + ", $to, " + 16, 0\n",
            ".cfi_escape 0x10, 3, 3, 0x71, 128 + ", $to, " + 24, 0\n",
            // The other side expects nothing in these.
            ".cfi_undefined r12\n",
            ".cfi_undefined r13\n",
            ".cfi_undefined r14\n",
            ".cfi_undefined r15\n",
            "mov rbp, ", word!($to + 16), "\n",
            "mov rbx, ", word!($to + 24), "\n",
            $($jump)*, "\n",
            ".cfi_restore_state\n",
            "int3",
        )
    };
}

/// Switches from the side with the context at offset `$save` of the pair to that at `$to`. Runs the
/// block if the switch that comes back uses the other entrance.
macro_rules! switch {
    ($pair:expr, $save:literal to $to:literal, $($mark:literal,)? otherwise $other:block) => {
        asm!(
            "lea rax, [rip + 3f]",
            concat!("mov ", word!($save + 8), ", rax"),
            concat!("mov ", word!($save + 0), ", rsp"),
            concat!("mov ", word!($save + 16), ", rbp"),
            concat!("mov ", word!($save + 24), ", rbx"),
            hinge!($to, $($mark, "\n",)? "jmp ", word!($to + 8)),
            // Nine bytes, so the jump is written out: an assembler might choose its short form.
            "endbr64",
            ".byte 0xe9",
            ".long {other} - . - 4",
            "3:",
            "endbr64",
            other = label $other,
            inlateout("rdx") ptr::from_ref($pair) => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        )
    };
}

impl<Head> Pair<Head> {
    /// Makes the pair of a new coroutine, with a first frame below `top`, so that the first
    /// [`resume`](Pair::resume) runs `entry(data, _)` on that stack.
    ///
    /// `top` is the end of the stack and may have any alignment; the bytes above the last multiple
    /// of 16 are left unused. If `entry` returns, the process is aborted with a message.
    ///
    /// # Safety
    ///
    /// * The 47 bytes below `top` are valid for writes, and nothing else lives there.
    /// * The first `resume` calls `entry(data, _)`: that call must be sound then.
    pub(crate) unsafe fn prepare(
        head: Head,
        top: *mut u8,
        entry: Entry,
        data: *mut u8,
    ) -> Pair<Head> {
        const { assert!(size_of::<Head>() == 8 && align_of::<Head>() <= 8) };
        let top = top.wrapping_sub(top.addr() % 16);
        // What `start` expects on the stack, and two zero words above it, which end the stack for
        // tools that walk it without unwinding rules.
        let words = [entry as *const () as usize, protector as *const () as usize, 0, 0];
        let sp = top.wrapping_sub(size_of_val(&words));
        // SAFETY: the frame ends at most 15 bytes below `top` and is 32 bytes long, which the
        // contract covers. Its length is a multiple of 16, so it is aligned.
        unsafe { sp.cast::<[usize; 4]>().write(words) };
        let words = |sp, continue_at, bx| Words {
            sp: Cell::new(sp),
            continue_at: Cell::new(continue_at),
            bp: Cell::new(0),
            bx: Cell::new(bx),
        };
        Pair {
            head,
            // The address alone: the routine that loads it knows nothing of provenance.
            coroutine: words(sp, external::start as *const () as usize, data.expose_provenance()),
            resumer: words(ptr::null_mut(), 0, 0),
        }
    }

    /// Returns 0 if the coroutine neither runs nor has ended, so that it can be continued.
    #[inline(always)]
    pub(crate) fn occupied(&self) -> usize {
        // Written by each switch to the coroutine, and cleared by each `suspend`.
        self.resumer.sp.get().addr()
    }

    /// Makes a coroutine that is new or suspended count as occupied or, after that, no longer.
    #[inline]
    pub(crate) fn set_occupied(&self, occupied: bool) {
        self.resumer.sp.set(ptr::without_provenance_mut(usize::from(occupied)));
    }

    /// Returns rbx and rbp of the coroutine and of its resumer when each last switched.
    #[cfg(all(test, not(loom)))]
    pub(super) fn kept(&self) -> [[usize; 2]; 2] {
        [&self.coroutine, &self.resumer].map(|words| [words.bx.get(), words.bp.get()])
    }

    /// Continues the coroutine, or starts it. Returns when it suspends or ends.
    ///
    /// # Safety
    ///
    /// * The coroutine is new, or is suspended, and has not been continued since. Its stack is
    ///   still there, and the code that was suspended may go on now.
    /// * The caller runs on another stack than the coroutine's.
    /// * The pair stays at its address until this returns.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) -> Return {
        // SAFETY: by contract the coroutine's context is complete: `prepare` has made it, or a
        // switch in `suspend`, which has left its stack. This switch saves rsp, rbx and rbp, and
        // all other registers in which the compiler may keep values are declared as changed. The
        // stack is aligned and has no red zone, as neither `nostack` nor `nomem` is given. The
        // coroutine comes back by the hinge of `suspend` or `leave`, which restores the three
        // registers and continues at one of the two entrances here. The pair is alive until then,
        // by contract.
        unsafe { switch!(self, 40 to 8, otherwise { return Return::Otherwise }) };
        Return::Suspended
    }

    /// Continues the suspended coroutine by its other entrance: its [`suspend`](Pair::suspend)
    /// returns [`Continuation::Unwind`].
    ///
    /// # Safety
    ///
    /// That of [`resume`](Pair::resume), and the coroutine is not new.
    pub(crate) unsafe fn unwind(&self) -> Return {
        let words = &self.coroutine;
        words.continue_at.set(words.continue_at.get() - OTHER_ENTRANCE);
        // SAFETY: the coroutine is suspended and the caller on another stack, by contract. It waits
        // in a `switch!`, where this address is the other entrance, which expects the same
        // registers as the main one.
        unsafe { self.resume() }
    }

    /// Suspends the coroutine and continues its resumer. Returns when the coroutine is continued.
    ///
    /// # Safety
    ///
    /// * The caller runs on the coroutine's stack, or on one that it has called functions on, and
    ///   the resumer waits in [`resume`](Pair::resume).
    /// * The pair stays at its address until this returns.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self) -> Continuation {
        // SAFETY: by contract the resumer waits in `resume`, so its context is complete, and has
        // not been continued since. This switch saves rsp, rbx and rbp, and all other registers in
        // which the compiler may keep values are declared as changed. The stack is aligned and has
        // no red zone, as neither `nostack` nor `nomem` is given. The resumer comes back by the
        // hinge of `resume`, which restores the three registers and continues at one of the two
        // entrances here. The pair is alive until then, by contract.
        unsafe {
            switch!(self, 8 to 40, "mov qword ptr [rdx + 40], 0", otherwise { return Continuation::Unwind })
        };
        Continuation::GoOn
    }

    /// Suspends the coroutine and continues its resumer, whose `resume` returns
    /// [`Return::Otherwise`].
    ///
    /// # Safety
    ///
    /// That of [`suspend`](Pair::suspend).
    #[inline(always)]
    pub(crate) unsafe fn suspend_otherwise(&self) -> Continuation {
        let words = &self.resumer;
        words.continue_at.set(words.continue_at.get() - OTHER_ENTRANCE);
        // SAFETY: the caller is on the coroutine's stack, and the pair stays, by contract. The
        // resumer waits in the `switch!` of `resume`, where this address is the other entrance,
        // which expects the same registers as the main one.
        unsafe { self.suspend() }
    }

    /// Ends the coroutine and continues its resumer, whose `resume` returns [`Return::Otherwise`].
    ///
    /// # Safety
    ///
    /// The caller runs on the coroutine's stack, and the resumer waits in [`resume`](Pair::resume).
    /// Nothing on the coroutine's stack is used any more: no destructor of a frame on it will run.
    pub(crate) unsafe fn leave(&self) -> ! {
        // SAFETY: by contract the resumer waits in `resume`, so its context is complete, and has
        // not been continued since. The address before its main entrance is its other one, which
        // expects the same registers. Nothing is used here after the jump, by contract.
        unsafe {
            asm!(
                concat!("mov rax, ", word!(40 + 8)),
                "sub rax, {distance}",
                hinge!(40, "jmp rax"),
                distance = const OTHER_ENTRANCE,
                in("rdx") ptr::from_ref(self),
                options(noreturn),
            )
        }
    }
}
