//! A switch keeps every register that a call keeps.

use std::arch::asm;

use super::*;

/// Fills all callee-saved registers, switches, and compares: returns the bits in which any of them
/// differed afterwards.
///
/// # Safety
///
/// The contract of [`switch`].
#[inline(never)]
pub(super) unsafe fn switch_with_registers(
    save: *mut *mut u8,
    to: *mut u8,
    message: usize,
    values: &[usize; 11],
) -> usize {
    let differences: usize;
    // SAFETY: all changed registers are declared or restored. The switch in the middle is that of
    // `switch`, and by contract it is sound.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push r8",
            "mov rbx, [r8]",
            "mov rbp, [r8 + 8]",
            "mov r12, [r8 + 16]",
            "mov r13, [r8 + 24]",
            "mov r14, [r8 + 32]",
            "mov r15, [r8 + 40]",
            "lea rcx, [rip + 2f]",
            "jmp {routine}",
            "2:",
            "endbr64",
            "pop r8",
            "xor rbx, [r8]",
            "xor rbp, [r8 + 8]",
            "xor r12, [r8 + 16]",
            "xor r13, [r8 + 24]",
            "xor r14, [r8 + 32]",
            "xor r15, [r8 + 40]",
            "or rbx, rbp",
            "or rbx, r12",
            "or rbx, r13",
            "or rbx, r14",
            "or rbx, r15",
            "mov r8, rbx",
            "pop rbp",
            "pop rbx",
            routine = sym external::switch,
            inlateout("rax") message => _,
            inlateout("rdi") save => _,
            inlateout("rsi") to => _,
            inlateout("r8") values.as_ptr() => differences,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    // SAFETY: all changed registers are declared or restored. The switch in the middle is that of
    // `switch`, and by contract it is sound.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-32]!",
            "str x8, [sp, #16]",
            "ldp x19, x20, [x8]",
            "ldp x21, x22, [x8, #16]",
            "ldp x23, x24, [x8, #32]",
            "ldp x25, x26, [x8, #48]",
            "ldp x27, x28, [x8, #64]",
            "ldr x29, [x8, #80]",
            "adr x30, 2f",
            "b {routine}",
            "2:",
            "hint #36",
            "ldr x9, [sp, #16]",
            "mov x8, #0",
            "ldp x10, x11, [x9]", "eor x10, x10, x19", "eor x11, x11, x20",
            "orr x8, x8, x10", "orr x8, x8, x11",
            "ldp x10, x11, [x9, #16]", "eor x10, x10, x21", "eor x11, x11, x22",
            "orr x8, x8, x10", "orr x8, x8, x11",
            "ldp x10, x11, [x9, #32]", "eor x10, x10, x23", "eor x11, x11, x24",
            "orr x8, x8, x10", "orr x8, x8, x11",
            "ldp x10, x11, [x9, #48]", "eor x10, x10, x25", "eor x11, x11, x26",
            "orr x8, x8, x10", "orr x8, x8, x11",
            "ldp x10, x11, [x9, #64]", "eor x10, x10, x27", "eor x11, x11, x28",
            "orr x8, x8, x10", "orr x8, x8, x11",
            "ldr x10, [x9, #80]", "eor x10, x10, x29", "orr x8, x8, x10",
            "ldp x19, x29, [sp], #32",
            routine = sym external::switch,
            inlateout("x0") message => _,
            inlateout("x1") to => _,
            inlateout("x2") save => _,
            inlateout("x8") values.as_ptr() => differences,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
    differences
}

/// Eleven values that differ between any two sides.
pub(super) fn values(side: usize) -> [usize; 11] {
    std::array::from_fn(|i| 0x0101_0101_0101_0101 * (16 * side + i + 1))
}

#[test]
fn callee_saved_registers_survive() {
    let mut other = Coroutine::new(|this, _| {
        for round in 0.. {
            // SAFETY: runs on the stack of `this`, as `suspend` does.
            let differences = unsafe {
                switch_with_registers(
                    &raw mut (*this).own,
                    (*this).resumer,
                    round,
                    &values(1 + round % 2),
                )
            };
            assert_eq!(differences, 0, "in the coroutine, round {round}");
        }
        0
    });
    let this: *mut Coroutine = &mut *other;
    for round in 0..10 {
        // SAFETY: continues the context that `new` prepared or the body saved, as `resume` does.
        let differences = unsafe {
            switch_with_registers(
                &raw mut (*this).resumer,
                (*this).own,
                round,
                &values(4 + round % 3),
            )
        };
        assert_eq!(differences, 0, "on the thread, round {round}");
    }
}

#[test]
fn live_doubles_survive_bit_for_bit() {
    /// Holds eight doubles across a resumption and hands them back.
    #[inline(never)]
    fn hold(seed: [u64; 8], other: impl FnOnce()) -> [u64; 8] {
        let [a, b, c, d, e, f, g, h] = black_box(seed).map(f64::from_bits);
        other();
        [a, b, c, d, e, f, g, h].map(f64::to_bits)
    }
    // A quiet NaN with a payload, a negative zero, a subnormal, and ordinary numbers.
    let ours = [
        0x7ff8_0000_dead_beef,
        0x8000_0000_0000_0000,
        1,
        1.5f64.to_bits(),
        (-2.25f64).to_bits(),
        f64::INFINITY.to_bits(),
        f64::MAX.to_bits(),
        std::f64::consts::PI.to_bits(),
    ];
    let mut other = Coroutine::new(|this, _| {
        let theirs = std::array::from_fn(|i| 0x4000_0000_0000_0000 + i as u64);
        loop {
            // SAFETY: called on the stack of `this`.
            let after = hold(theirs, || unsafe {
                suspend(this, 0);
            });
            assert_eq!(after, theirs);
        }
    });
    for _ in 0..10 {
        let after = hold(ours, || {
            other.resume(0);
        });
        assert_eq!(after, ours);
    }
}

/// A C function must keep the lower halves of v8 to v15, and a function that switches is a C
/// function.
#[cfg(target_arch = "aarch64")]
#[test]
fn callee_saved_vector_registers_survive() {
    unsafe extern "C" fn resume(coroutine: *mut Coroutine) {
        // SAFETY: the caller passes a live coroutine.
        unsafe { (*coroutine).resume(0) };
    }
    unsafe extern "C" fn go_back(coroutine: *mut Coroutine) {
        // SAFETY: called on the stack of the coroutine.
        unsafe { suspend(coroutine, 0) };
    }
    /// Loads d8 to d15, calls `routine`, stores them.
    #[inline(never)]
    fn around(
        routine: unsafe extern "C" fn(*mut Coroutine),
        coroutine: *mut Coroutine,
        before: [f64; 8],
    ) -> [u64; 8] {
        let mut after = [0.0; 8];
        // SAFETY: all registers that the call or the loads change are declared.
        unsafe {
            asm!(
                "ldp d8, d9, [x20]",
                "ldp d10, d11, [x20, #16]",
                "ldp d12, d13, [x20, #32]",
                "ldp d14, d15, [x20, #48]",
                "blr x9",
                "stp d8, d9, [x21]",
                "stp d10, d11, [x21, #16]",
                "stp d12, d13, [x21, #32]",
                "stp d14, d15, [x21, #48]",
                in("x0") coroutine,
                in("x9") routine,
                in("x20") before.as_ptr(),
                in("x21") after.as_mut_ptr(),
                clobber_abi("C"),
            );
        }
        after.map(f64::to_bits)
    }
    fn numbers(side: u64) -> [f64; 8] {
        std::array::from_fn(|i| f64::from_bits(0x7ff8_0000_0000_0000 + 16 * side + i as u64))
    }
    let mut other = Coroutine::new(|this, _| {
        loop {
            assert_eq!(around(go_back, this, numbers(1)), numbers(1).map(f64::to_bits));
        }
    });
    let this: *mut Coroutine = &mut *other;
    for round in 2..12 {
        assert_eq!(around(resume, this, numbers(round)), numbers(round).map(f64::to_bits));
    }
}
