//! Faults planted on purpose: the negative controls of the scripts under `ci/`.
//!
//! Each must be reported by the tool that it is named after, else that tool sees nothing. They are
//! ignored, and sleep unless `CYGNET_PLANT` names them, so that `cargo test -- --ignored` is
//! harmless.

#[cfg(feature = "sim")]
mod common;

/// Whether the fault of that name is called for.
fn planted(name: &str) -> bool {
    std::env::var_os("CYGNET_PLANT").is_some_and(|plant| plant == name)
}

#[test]
fn no_fault_is_awake_in_an_ordinary_run() {
    for name in ["arm64", "asan", "leak", "simulation", "tsan"] {
        assert!(!planted(name), "CYGNET_PLANT={name} is for the ignored tests of this file");
    }
}

/// ci/arm64.sh: fails in ARM64 code only, with a number that only its processor computes so.
#[test]
#[ignore = "a planted fault"]
fn planted_arm64() {
    #[cfg(target_arch = "aarch64")]
    if planted("arm64") {
        let mut bits: u64 = 1;
        // SAFETY: the instruction reverses the bits of one register and touches nothing else.
        unsafe {
            std::arch::asm!(
                "rbit {0}, {0}",
                inout(reg) bits,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        panic!("planted fault in ARM64 code: rbit(1) = {bits:#018x}");
    }
}

/// ci/asan.sh: reads memory that was freed.
#[test]
#[ignore = "a planted fault"]
fn planted_asan() {
    if !planted("asan") {
        return;
    }
    let freed: *const u64 = {
        let live = Box::new(7);
        &raw const *live
    };
    // SAFETY: there is none: the box is gone. This is the fault.
    let read = unsafe { std::ptr::read_volatile(freed) };
    println!("read {read} from freed memory");
}

/// ci/asan.sh: loses the only pointer to an allocation.
#[test]
#[ignore = "a planted fault"]
fn planted_leak() {
    if !planted("leak") {
        return;
    }
    // Many, since a copy of one pointer may linger in a register or a dead frame.
    for i in 0..64 {
        std::mem::forget(std::hint::black_box(vec![i; 1024]));
    }
}

/// ci/tsan.sh: some threads write the same word, and nothing orders them.
#[test]
#[ignore = "a planted fault"]
fn planted_tsan() {
    if !planted("tsan") {
        return;
    }
    struct Word(std::cell::UnsafeCell<u64>);
    // SAFETY: there is none: nothing guards the word. This is the fault.
    unsafe impl Sync for Word {}
    impl Word {
        fn increment(&self) {
            // SAFETY: there is none: nothing guards the word. This is the fault.
            unsafe { *self.0.get() += 1 };
        }
    }

    let word = Word(std::cell::UnsafeCell::new(0));
    // All threads write at the same time, and the counter orders nothing.
    let here = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                here.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                while here.load(std::sync::atomic::Ordering::Relaxed) < 4 {
                    std::thread::yield_now();
                }
                for _ in 0..1_000 {
                    word.increment();
                    std::thread::yield_now();
                }
            });
        }
    });
    println!("counted {} of 4,000", word.0.into_inner());
}

/// ci/simulation.sh: loses an update, if the two tasks run at the same time.
#[cfg(feature = "sim")]
#[test]
#[ignore = "a planted fault"]
fn planted_simulation() {
    use std::sync::atomic::{AtomicU32, Ordering};
    if !planted("simulation") {
        return;
    }
    common::with(&[2], |rt| {
        let visits = AtomicU32::new(0);
        rt.block_on(|| {
            common::crowd(2, |_| {
                let before = visits.load(Ordering::Relaxed);
                common::thread::yield_now();
                visits.store(before + 1, Ordering::Relaxed);
            });
        });
        assert_eq!(visits.into_inner(), 2, "a visit was not counted");
    });
}
