//! A call that costs the hot path around it nothing.

/// Calls `function(argument)`, and keeps all general registers of the caller.
///
/// For a call that is almost never made, in the middle of a path where every instruction counts.
/// Values that live across an ordinary call must be in callee-saved registers, so the surrounding
/// function saves and restores these registers each time, even if the call is not made. On AArch64,
/// where registers are saved in pairs, this is an ordinary call.
///
/// # Safety
///
/// It is sound to call `function` with `argument`.
#[inline(always)]
pub(crate) unsafe fn call_cold(function: unsafe extern "C" fn(*mut u8), argument: *mut u8) {
    // SAFETY: the caller promises that the call is sound. The routine keeps all general registers,
    // on a stack that is aligned and has no red zone (`nostack` is not given). All other registers
    // that a C function may change are declared clobbered.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "call {routine}",
            routine = sym super::external::cold_call,
            in("rax") function,
            in("rdi") argument,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
            out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
            out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _,
            out("xmm28") _, out("xmm29") _, out("xmm30") _, out("xmm31") _,
            out("k0") _, out("k1") _, out("k2") _, out("k3") _,
            out("k4") _, out("k5") _, out("k6") _, out("k7") _,
            out("mm0") _, out("mm1") _, out("mm2") _, out("mm3") _,
            out("mm4") _, out("mm5") _, out("mm6") _, out("mm7") _,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
        );
        #[cfg(target_arch = "aarch64")]
        function(argument);
    }
}
