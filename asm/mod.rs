//! The context switch, and what else cannot be said in Rust.
//!
//! A *context* is everything that a suspended flow of control needs to go on, laid on its own stack;
//! the pointer to it (the stack pointer at that moment) names it. [`switch`] leaves one behind and
//! continues another, [`prepare`] makes the first one of a new stack, [`leave`] abandons the current
//! one. [`call_aside`] is a call that keeps the caller's registers. The routines are in `x86_64.S` and `aarch64.S`; `README.md` next to them draws the stacks and
//! argues for the choices.
//!
//! This module knows nothing of tasks, of pools or of threads. Who may continue a context, and when,
//! is the caller's business: a context is continued exactly once, and not before the switch that saved
//! it has left its stack. (`*save` is written while the processor is still on that stack, so the next
//! thread must learn of the context from code that runs after the switch.)

use std::arch::asm;

mod aside;
pub(crate) mod sanitizer;

pub(crate) use aside::call_aside;

#[cfg(test)]
mod tests;

/// The name of a symbol of ours, as a literal.
macro_rules! symbol {
    ($name:literal) => {
        concat!(env!("CYGNET_SYMBOL_PREFIX"), $name)
    };
}

/// What is defined outside Rust. The only block of its kind in the library.
mod external {
    #[cfg(any(cygnet_asan, cygnet_tsan))]
    use std::ffi::c_void;

    // SAFETY: the first four are labels of the assembly source, which build.rs links in under these
    // very names. They follow no C calling convention and are declared without arguments: Rust code
    // takes their addresses and never calls them. The others have the signatures that
    // sanitizer/common_interface_defs.h, asan_interface.h and tsan_interface.h give them.
    unsafe extern "C" {
        #[link_name = symbol!("switch")]
        pub(super) fn switch();
        #[link_name = symbol!("leave")]
        pub(super) fn leave();
        #[link_name = symbol!("trampoline")]
        pub(super) fn trampoline();
        #[cfg(target_arch = "x86_64")]
        #[link_name = symbol!("aside")]
        pub(super) fn aside();

        #[cfg(cygnet_asan)]
        pub(super) fn __sanitizer_start_switch_fiber(
            fake_stack_save: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        #[cfg(cygnet_asan)]
        pub(super) fn __sanitizer_finish_switch_fiber(
            fake_stack_save: *mut c_void,
            bottom_old: *mut *const c_void,
            size_old: *mut usize,
        );
        #[cfg(cygnet_asan)]
        pub(super) fn __asan_unpoison_memory_region(address: *const c_void, size: usize);

        #[cfg(cygnet_tsan)]
        pub(super) fn __tsan_get_current_fiber() -> *mut c_void;
        #[cfg(cygnet_tsan)]
        pub(super) fn __tsan_create_fiber(flags: libc::c_uint) -> *mut c_void;
        #[cfg(cygnet_tsan)]
        pub(super) fn __tsan_destroy_fiber(fiber: *mut c_void);
        #[cfg(cygnet_tsan)]
        pub(super) fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: libc::c_uint);
    }
}

/// What a coroutine runs. Must not return, and unwinding stops the process at its edge.
pub(crate) type Entry = unsafe extern "C" fn(data: *mut u8, message: usize);

/// Saves the callee-saved state of the caller on its stack, stores the stack pointer to `*save`,
/// continues the context `to` and hands it `message`. Returns when somebody switches to the saved stack
/// pointer, with the message of that switch.
///
/// Costs about as much as an indirect call. Neither the floating-point control words nor the signal
/// mask are part of a context.
///
/// # Safety
///
/// * `save` is valid for a write.
/// * `to` came from [`prepare`], or was saved by a `switch` that has left its stack; it
///   has not been continued since, and the memory of its stack is still there.
/// * The code that was suspended there may go on at this moment on this thread: nothing that it
///   borrowed has ended, and if it was suspended on another thread it does not mind.
/// * Whoever continues the context saved here promises the same.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut *mut u8, to: *mut u8, message: usize) -> usize {
    let answer;
    // SAFETY: by contract `to` is a complete frame as the routine expects it. The routine pushes the
    // registers that the compiler may keep values in and that are not listed as clobbered here, on a
    // stack that is aligned and has no red zone (neither `nostack` nor `nomem` is given), and whoever
    // switches back pops them: after the landing pad the machine is as the compiler left it, apart
    // from what is declared. Jumping instead of calling leaves the stack pointer and with it the
    // unwinding rules of the surrounding function alone.
    #[cfg(target_arch = "x86_64")]
    unsafe {
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
    }
    // SAFETY: as above. The routine saves no vector register; d8 to d15, whose low halves a C function
    // would keep, are declared clobbered with the rest, so that the compiler saves them if it must.
    #[cfg(target_arch = "aarch64")]
    unsafe {
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

/// Switches without saving: the caller's context is never continued.
///
/// # Safety
///
/// `to` as for [`switch`]. Nothing on the current stack is used any more: no destructor of a frame on
/// it will run, and once the other side knows that this stack was left, it may free it.
pub(crate) unsafe fn leave(to: *mut u8, message: usize) -> ! {
    // SAFETY: by contract `to` is a complete frame as the routine expects it; the address of the trap
    // is for unwinders only, which look for a caller there.
    #[cfg(target_arch = "x86_64")]
    unsafe {
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
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
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

/// The words of the first frame of a stack, from the context's stack pointer upwards, and which of
/// them the trampoline expects where. The layout is that of `switch`; above it come two zero words, the
/// end of the stack for those who walk it without unwinding rules.
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
/// `top` is the end of the stack and may have any alignment; what does not fill 16 bytes is left unused.
/// If `entry` returns, the process is aborted with a message.
///
/// # Safety
///
/// * The `FIRST_FRAME + 15` bytes below `top` are valid for writes, and nothing else lives there.
/// * Switching to the context calls `entry(data, message)`: that call must be sound then.
pub(crate) unsafe fn prepare(top: *mut u8, entry: Entry, data: *mut u8) -> *mut u8 {
    // `wrapping_*` as a stack may be handed out by its address; the pointer keeps its provenance.
    let top = top.wrapping_sub(top.addr() % 16);
    let context = top.wrapping_sub(FIRST_FRAME);

    let mut words = [0usize; frame::WORDS];
    words[frame::CONTINUE] = external::trampoline as *const () as usize;
    words[frame::ENTRY] = entry as *const () as usize;
    words[frame::PROTECTOR] = protector as *const () as usize;
    // The address alone: the routine that pops it back into a register knows nothing of provenance.
    words[frame::DATA] = data.expose_provenance();

    // SAFETY: the words end at most 15 bytes below `top` and are as long as the contract says; the
    // frame is a multiple of 8 bytes below an address that is a multiple of 16.
    unsafe { context.cast::<[usize; frame::WORDS]>().write(words) };
    context
}

/// Where the trampoline goes when an entry function has returned: there is no frame to return to.
///
/// Its address travels in the first frame, so the assembly needs no symbol of Rust's, which a linker
/// might export, rename or drop.
extern "C" fn protector() -> ! {
    const MESSAGE: &[u8] = b"cygnet: control ran past the root of a coroutine; aborting\n";
    // SAFETY: the pointer and the length are those of a constant. `write` instead of `eprintln!`, which
    // takes a lock that the code gone astray may hold.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    std::process::abort()
}

/// Reads one of the two words that this library keeps for each thread, at the given offset.
macro_rules! read_thread_word {
    ($offset:literal) => {{
        let word: *mut u8;
        // SAFETY: reads a word of the thread's own static TLS block, at the offset that the linker or
        // loader put into the GOT. The assembly is not `pure`, so it is executed each time it is reached.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                concat!("mov {word}, qword ptr [rip + ", symbol!("thread_words"), "@gottpoff]"),
                concat!("mov {word}, qword ptr fs:[{word} + ", $offset, "]"),
                word = out(reg) word,
                options(nostack, readonly, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                concat!("adrp {offset}, :gottprel:", symbol!("thread_words")),
                concat!("ldr {offset}, [{offset}, :gottprel_lo12:", symbol!("thread_words"), "]"),
                "mrs {word}, tpidr_el0",
                "add {word}, {word}, {offset}",
                concat!("ldr {word}, [{word}, ", $offset, "]"),
                offset = out(reg) _,
                word = out(reg) word,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }};
}

/// Writes one of them.
macro_rules! write_thread_word {
    ($offset:literal, $value:expr) => {{
        let value: *mut u8 = $value;
        // SAFETY: writes a word of the thread's own static TLS block that nothing but these two macros
        // touches; otherwise as there.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                concat!("mov {offset}, qword ptr [rip + ", symbol!("thread_words"), "@gottpoff]"),
                concat!("mov qword ptr fs:[{offset} + ", $offset, "], {value}"),
                offset = out(reg) _,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                concat!("adrp {offset}, :gottprel:", symbol!("thread_words")),
                concat!("ldr {offset}, [{offset}, :gottprel_lo12:", symbol!("thread_words"), "]"),
                "mrs {base}, tpidr_el0",
                "add {base}, {base}, {offset}",
                concat!("str {value}, [{base}, ", $offset, "]"),
                offset = out(reg) _,
                base = out(reg) _,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }};
}

/// The first word that this library keeps for each thread (null at first): the worker.
///
/// Read anew at each call, thread pointer included. A `thread_local!` would not do: the compiler may
/// compute its address once for a function, and a function that switches can go on on another thread.
#[inline(always)]
pub(crate) fn thread_word() -> *mut u8 {
    read_thread_word!("0")
}

/// Sets the first word of the current thread.
#[inline(always)]
pub(crate) fn set_thread_word(value: *mut u8) {
    write_thread_word!("0", value);
}

/// The second word, likewise: the innermost bare coroutine.
#[inline(always)]
pub(crate) fn chain_word() -> *mut u8 {
    read_thread_word!("8")
}

/// Sets the second word of the current thread.
#[inline(always)]
pub(crate) fn set_chain_word(value: *mut u8) {
    write_thread_word!("8", value);
}

/// Both words at once, after which the second has another value.
#[inline(always)]
pub(crate) fn swap_chain_word(value: *mut u8) -> (*mut u8, *mut u8) {
    let (first, second);
    // SAFETY: as for one of them.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            concat!("mov {first}, qword ptr [rip + ", symbol!("thread_words"), "@gottpoff]"),
            "mov {second}, qword ptr fs:[{first} + 8]",
            "mov qword ptr fs:[{first} + 8], {value}",
            "mov {first}, qword ptr fs:[{first}]",
            value = in(reg) value,
            first = out(reg) first,
            second = out(reg) second,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            concat!("adrp {first}, :gottprel:", symbol!("thread_words")),
            concat!("ldr {first}, [{first}, :gottprel_lo12:", symbol!("thread_words"), "]"),
            "mrs {base}, tpidr_el0",
            "add {base}, {base}, {first}",
            "ldp {first}, {second}, [{base}]",
            "str {value}, [{base}, 8]",
            value = in(reg) value,
            base = out(reg) _,
            first = out(reg) first,
            second = out(reg) second,
            options(nostack, preserves_flags),
        );
    }
    (first, second)
}

/// The stack pointer somewhere in the calling function.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let address;
    // SAFETY: copies a register and touches nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, rsp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: copies a register and touches nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mov {}, sp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    address
}
