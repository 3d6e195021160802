//! The context switch, and the other code that cannot be written in Rust.
//!
//! A *context* is the state that a suspended flow of control needs to go on. It lies on the flow's
//! own stack, and the stack pointer at the moment of suspension names it. [`switch`] saves the
//! current context and continues another one, [`prepare`] makes the first context of a new stack,
//! [`leave`] abandons the current one. [`call_cold`] is a call that keeps the caller's registers.
//! The routines are in `x86_64.S` and `aarch64.S`; `README.md` next to them draws the stacks and
//! gives the reasons for the choices.
//!
//! This module knows nothing of tasks, pools or threads. The caller decides which context is
//! continued, and when. A context must be continued exactly once, and not before the switch that
//! saved it has left its stack. (`*save` is written while the processor is still on that stack, so
//! the next thread must learn of the context from code that runs after the switch.)

use std::arch::asm;

/// The full name of a symbol of this library, as a literal.
macro_rules! symbol {
    ($name:literal) => {
        concat!(env!("CYGNET_SYMBOL_PREFIX"), $name)
    };
}

mod cold_call;
#[cfg(cygnet_inline_switch)]
pub(crate) mod pair;
pub(crate) mod sanitizer;
mod words;

pub(crate) use cold_call::call_cold;
pub(crate) use words::{Words, mark_thread_as_special, set_thread_word, thread_word};

// The tests switch without telling a sanitizer.
#[cfg(all(test, not(any(loom, cygnet_asan, cygnet_tsan))))]
mod tests;

/// Declarations of the routines that are written in assembly.
mod external {
    // SAFETY: the symbols are labels of the assembly source, which build.rs links in under
    // these names. They follow no C calling convention and are declared without arguments: Rust
    // code takes their addresses and never calls them.
    unsafe extern "C" {
        #[link_name = symbol!("switch")]
        pub(super) fn switch();
        #[link_name = symbol!("leave")]
        pub(super) fn leave();
        #[link_name = symbol!("trampoline")]
        pub(super) fn trampoline();
        #[cfg(cygnet_inline_switch)]
        #[link_name = symbol!("start")]
        pub(super) fn start();
        #[cfg(target_arch = "x86_64")]
        #[link_name = symbol!("cold_call")]
        pub(super) fn cold_call();
    }
}

/// The function that a coroutine runs. It must not return, and unwinding out of it aborts the
/// process.
pub(crate) type Entry = unsafe extern "C" fn(data: *mut u8, message: usize);

/// How a coroutine that is resumed by hand has come back to its resumer.
pub(crate) enum Return {
    /// It is suspended.
    Suspended,
    /// It has left its stack for ever, or is suspended and wants its resumer to know that it has not
    /// suspended in the usual way. Which of the two, its owner knows.
    Otherwise,
}

/// How a coroutine that is resumed by hand is continued.
pub(crate) enum Continuation {
    GoOn,
    /// It is to unwind its stack and end.
    Unwind,
}

/// Saves the current context and continues another one.
///
/// Pushes the callee-saved registers of the caller on its stack, stores the stack pointer to
/// `*save`, continues the context `to` and passes `message` to it. Returns when a later switch
/// continues the saved stack pointer, with the message of that switch.
///
/// Costs about as much as an indirect call. Neither the floating-point control words nor the signal
/// mask are part of a context.
///
/// # Safety
///
/// * `save` is valid for a write.
/// * `to` came from [`prepare`], or was saved by a `switch` that has left its stack; it
///   has not been continued since, and the memory of its stack is still there.
/// * The code that was suspended there may go on now and on this thread: nothing that it borrowed
///   has ended, and if it was suspended on another thread it tolerates the move.
/// * The code that continues the context saved here keeps the same promises.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut *mut u8, to: *mut u8, message: usize) -> usize {
    let answer;
    // SAFETY: by contract `to` is a complete frame as the routine expects it. The routine pushes
    // the registers in which the compiler may keep values and which are not listed as clobbered
    // here. The stack is aligned and has no red zone, as neither `nostack` nor `nomem` is given.
    // The switch that comes back pops these registers, so after the landing pad the machine is as
    // the compiler left it, apart from what is declared. Because the routine is jumped to and not
    // called, the stack pointer and the unwinding rules of the surrounding function stay unchanged.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "lea rcx, [rip + 2f]",
            "jmp {routine}",
            "2:",
            "endbr64",
            routine = sym external::switch,
            inlateout("rax") message => answer,
            inlateout("rdi") save => _,
            inlateout("rsi") to => _,
            clobber_abi("C"),
        );
        // This routine saves x19 to x29, and no vector register. A C function would keep d8 to d15.
        // Here they are declared clobbered, so that the compiler saves them if necessary.
        #[cfg(target_arch = "aarch64")]
        asm!(
            "adr x30, 2f",
            "b {routine}",
            "2:",
            "hint #36", // bti j
            routine = sym external::switch,
            inlateout("x0") message => answer,
            inlateout("x1") to => _,
            inlateout("x2") save => _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
    answer
}

/// Continues another context without saving the current one, which can never be continued.
///
/// # Safety
///
/// `to` as for [`switch`]. Nothing on the current stack is used any more: no destructor of a frame
/// on it will run. Once the other side knows that this stack was left, it may free it.
pub(crate) unsafe fn leave(to: *mut u8, message: usize) -> ! {
    // SAFETY: by contract `to` is a complete frame as the routine expects it. The address of the
    // trap serves only unwinders, which look for a caller there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "lea rcx, [rip + 2f]",
            "jmp {routine}",
            "2:",
            "ud2",
            routine = sym external::leave,
            in("rax") message,
            in("rsi") to,
            options(noreturn),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "adr x30, 2f",
            "b {routine}",
            "2:",
            "brk #1",
            routine = sym external::leave,
            in("x0") message,
            in("x1") to,
            options(noreturn),
        );
    }
}

/// The words of the first frame of a stack, from the context's stack pointer upwards, and the
/// indices of the words that the trampoline expects. The layout is that of `switch`. Above it come
/// two zero words, which end the stack for tools that walk it without unwinding rules.
mod frame {
    #[cfg(target_arch = "x86_64")]
    mod words {
        pub(crate) const WORDS: usize = 9;
        pub(crate) const PROTECTOR: usize = 2; // r13
        pub(crate) const ENTRY: usize = 3; // r12
        pub(crate) const DATA: usize = 4; // rbx
        pub(crate) const CONTINUE: usize = 6; // rip
    }
    #[cfg(target_arch = "aarch64")]
    mod words {
        pub(crate) const WORDS: usize = 14;
        pub(crate) const CONTINUE: usize = 1; // x30
        pub(crate) const DATA: usize = 2; // x19
        pub(crate) const ENTRY: usize = 3; // x20
        pub(crate) const PROTECTOR: usize = 4; // x21
    }
    pub(crate) use words::*;
}

/// Bytes that [`prepare`] uses below the aligned top.
pub(crate) const FIRST_FRAME: usize = frame::WORDS * size_of::<usize>();

/// Lays the first frame below `top`, so that the first switch to the returned context runs
/// `entry(data, message)` on that stack.
///
/// `top` is the end of the stack and may have any alignment; the bytes above the last multiple of
/// 16 are left unused. If `entry` returns, the process is aborted with a message.
///
/// # Safety
///
/// * The `FIRST_FRAME + 15` bytes below `top` are valid for writes, and nothing else lives there.
/// * Switching to the context calls `entry(data, message)`: that call must be sound then.
pub(crate) unsafe fn prepare(top: *mut u8, entry: Entry, data: *mut u8) -> *mut u8 {
    // `wrapping_*`, as the caller may have made the pointer from an address; it keeps its
    // provenance.
    let top = top.wrapping_sub(top.addr() % 16);
    let context = top.wrapping_sub(FIRST_FRAME);

    let mut words = [0usize; frame::WORDS];
    words[frame::CONTINUE] = external::trampoline as *const () as usize;
    words[frame::ENTRY] = entry as *const () as usize;
    words[frame::PROTECTOR] = protector as *const () as usize;
    // The address alone: the routine that pops it into a register knows nothing of provenance.
    words[frame::DATA] = data.expose_provenance();

    // SAFETY: the frame ends at most 15 bytes below `top` and is `FIRST_FRAME` bytes long, which
    // the contract covers. It starts at a multiple of 8 bytes below a multiple of 16, so it is
    // aligned.
    unsafe { context.cast::<[usize; frame::WORDS]>().write(words) };
    context
}

/// The function that the trampoline calls if an entry function has returned: there is no frame to
/// return to.
///
/// Its address is stored in the first frame, so the assembly needs no Rust symbol, which a linker
/// might export, rename or drop.
extern "C" fn protector() -> ! {
    const MESSAGE: &[u8] = b"cygnet: control ran past the root of a coroutine; aborting\n";
    // SAFETY: the pointer and the length are those of a constant. `write` is used rather than
    // `eprintln!`, which takes a lock that the stray code may hold.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    std::process::abort()
}

/// Returns the stack pointer at some point in the calling function.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let address;
    // SAFETY: copies a register and touches nothing.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, rsp", out(reg) address, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mov {}, sp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    address
}
