//! A cold call is a call, and the registers of its caller are unchanged after it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::call_cold;
use super::*;

/// Changes all registers that a C function may change.
unsafe extern "C" fn scribble(argument: *mut u8) {
    // SAFETY: the caller passes a pointer to an `AtomicUsize`.
    let calls = unsafe { &*argument.cast::<AtomicUsize>() };
    calls.fetch_add(1, Ordering::Relaxed);
    let zero = 0.0f64;
    // SAFETY: all changed registers are declared.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov rcx, -1", "mov rdx, -1", "mov rsi, -1", "mov rdi, -1",
            "mov r8, -1", "mov r9, -1", "mov r10, -1", "mov r11, -1",
            "movapd xmm1, xmm0", "movapd xmm7, xmm0", "movapd xmm15, xmm0",
            in("xmm0") zero,
            clobber_abi("C"),
        );
    }
    // SAFETY: all changed registers are declared.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mov x0, #-1", "mov x1, #-1", "mov x8, #-1", "mov x9, #-1", "mov x15, #-1",
            "fmov d1, d0", "fmov d16, d0", "fmov d31, d0",
            in("d0") zero,
            clobber_abi("C"),
        );
    }
}

#[test]
fn what_lives_across_a_cold_call_survives() {
    /// More values than there are callee-saved registers.
    #[inline(never)]
    fn hold(
        ints: [usize; 14],
        floats: [f64; 12],
        calls: &mut AtomicUsize,
    ) -> ([usize; 14], [f64; 12]) {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = black_box(ints);
        let [o, p, q, r, s, t, u, v, w, x, y, z] = black_box(floats);
        // SAFETY: the argument is of the type that the function expects.
        unsafe { call_cold(scribble, std::ptr::from_mut(calls).cast()) };
        ([a, b, c, d, e, f, g, h, i, j, k, l, m, n], [o, p, q, r, s, t, u, v, w, x, y, z])
    }
    let ints = std::array::from_fn(|i| 0x0123_4567_89ab_cdef * (i + 1));
    let floats = std::array::from_fn(|i| 1.5 + i as f64);
    let mut calls = AtomicUsize::new(0);
    for _ in 0..3 {
        assert_eq!(hold(ints, floats, &mut calls), (ints, floats));
    }
    assert_eq!(calls.into_inner(), 3);
}

#[test]
fn the_stack_of_a_cold_call_is_aligned() {
    #[repr(align(16))]
    struct Aligned(u8);
    unsafe extern "C" fn look(argument: *mut u8) {
        let local = Aligned(1);
        let address = black_box(&raw const local.0).addr();
        // SAFETY: the caller passes a place for the stack pointer.
        unsafe { argument.cast::<usize>().write(address) };
    }
    let mut address = 1usize;
    // SAFETY: the argument is a place for the stack pointer.
    unsafe { call_cold(look, (&raw mut address).cast()) };
    assert_eq!(address % 16, 0);
}

/// Checks every register that the compiler relies on, whether or not it happens to use it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_cold_call_keeps_each_general_register() {
    let values: [usize; 7] = std::array::from_fn(|i| 0x1111_1111_1111_1111 * (i + 1));
    let mut found = [0usize; 9];
    let calls = AtomicUsize::new(0);
    let argument = &raw const calls;
    let function: unsafe extern "C" fn(*mut u8) = scribble;
    // SAFETY: the call is the one that `call_cold` makes, with an argument that the function
    // expects. All changed registers are declared.
    unsafe {
        std::arch::asm!(
            "mov rcx, [r13]", "mov rdx, [r13 + 8]", "mov rsi, [r13 + 16]",
            "mov r8, [r13 + 24]", "mov r9, [r13 + 32]", "mov r10, [r13 + 40]", "mov r11, [r13 + 48]",
            "call {routine}",
            "mov [r12], rcx", "mov [r12 + 8], rdx", "mov [r12 + 16], rsi",
            "mov [r12 + 24], r8", "mov [r12 + 32], r9", "mov [r12 + 40], r10", "mov [r12 + 48], r11",
            "mov [r12 + 56], rax", "mov [r12 + 64], rdi",
            routine = sym external::cold_call,
            inout("rax") function => _,
            inout("rdi") argument => _,
            inout("r12") found.as_mut_ptr() => _,
            in("r13") values.as_ptr(),
            clobber_abi("C"),
        );
    }
    assert_eq!(found[..7], values);
    assert_eq!(found[7], scribble as *const () as usize);
    assert_eq!(found[8], argument.addr());
    assert_eq!(calls.into_inner(), 1);
}
