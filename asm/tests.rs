//! What the switch promises, one behaviour for each test.

use std::arch::asm;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use super::{external, leave, prepare, set_thread_word, stack_pointer, switch, thread_word};

#[cfg(not(any(cygnet_asan, cygnet_tsan)))]
mod unwinding;

/// A coroutine in its plainest form: a stack, its context, and the context of whoever resumed it.
/// It lives in a box, so that both sides can reach it by a pointer.
struct Coroutine {
    stack: Box<[u128]>,
    body: fn(*mut Coroutine, usize) -> usize,
    own: *mut u8,
    resumer: *mut u8,
    #[cfg(cygnet_asan)]
    bounds: (*const u8, usize),
    #[cfg(cygnet_tsan)]
    fibers: (*mut std::ffi::c_void, *mut std::ffi::c_void),
}

// SAFETY: between two resumptions a test moves the box to another thread, and the bodies that these
// tests run hold nothing that belongs to a thread.
unsafe impl Send for Coroutine {}

impl Coroutine {
    /// 64 KiB, and more where sanitizers and unoptimised code need it.
    const STACK: usize = 256 * 1024;

    fn new(body: fn(*mut Coroutine, usize) -> usize) -> Box<Coroutine> {
        let mut this = Box::new(Coroutine {
            stack: vec![0; Self::STACK / 16].into(),
            body,
            own: std::ptr::null_mut(),
            resumer: std::ptr::null_mut(),
            #[cfg(cygnet_asan)]
            bounds: (std::ptr::null(), 0),
            #[cfg(cygnet_tsan)]
            fibers: (super::sanitizer::thread::create(), std::ptr::null_mut()),
        });
        let data: *mut Coroutine = &mut *this;
        let top = this.stack.as_mut_ptr_range().end.cast();
        // SAFETY: the stack is ours and unused; `run` gets the coroutine it belongs to.
        this.own = unsafe { prepare(top, run, data.cast()) };
        this
    }

    fn holds(&self, address: usize) -> bool {
        let range = self.stack.as_ptr_range();
        (range.start.addr()..range.end.addr()).contains(&address)
    }

    /// Runs the coroutine until it suspends or ends.
    fn resume(&mut self, message: usize) -> usize {
        let this: *mut Coroutine = self;
        // SAFETY: `own` is the context that `prepare` made or the last `suspend` saved. Only one
        // side runs at a time, and each goes through the pointer.
        unsafe {
            #[cfg(cygnet_tsan)]
            {
                (*this).fibers.1 = super::sanitizer::thread::current();
                super::sanitizer::thread::switch_to((*this).fibers.0);
            }
            #[cfg(cygnet_asan)]
            let mut saved = std::ptr::null_mut();
            #[cfg(cygnet_asan)]
            super::sanitizer::address::start_switch(
                Some(&mut saved),
                (*this).stack.as_ptr().cast(),
                Self::STACK,
            );
            let answer = switch(&raw mut (*this).resumer, (*this).own, message);
            #[cfg(cygnet_asan)]
            super::sanitizer::address::finish_switch(saved);
            answer
        }
    }
}

#[cfg(cygnet_tsan)]
impl Drop for Coroutine {
    fn drop(&mut self) {
        // SAFETY: tests drop a coroutine from outside, and do not resume it again.
        unsafe { super::sanitizer::thread::destroy(self.fibers.0) };
    }
}

/// Goes back to the resumer with `message`; returns what the next resumption brings.
///
/// # Safety
///
/// Called on the stack of `this`.
unsafe fn suspend(this: *mut Coroutine, message: usize) -> usize {
    // SAFETY: this code runs, so somebody has resumed it and waits in `resume`.
    unsafe {
        #[cfg(cygnet_tsan)]
        super::sanitizer::thread::switch_to((*this).fibers.1);
        #[cfg(cygnet_asan)]
        let mut saved = std::ptr::null_mut();
        #[cfg(cygnet_asan)]
        super::sanitizer::address::start_switch(
            Some(&mut saved),
            (*this).bounds.0,
            (*this).bounds.1,
        );
        let answer = switch(&raw mut (*this).own, (*this).resumer, message);
        #[cfg(cygnet_asan)]
        {
            (*this).bounds = super::sanitizer::address::finish_switch(saved);
        }
        answer
    }
}

/// The root of each [`Coroutine`]: runs the body and leaves with its result.
unsafe extern "C" fn run(data: *mut u8, message: usize) {
    let this: *mut Coroutine = data.cast();
    // SAFETY: `new` passed the coroutine, which outlives its stack.
    unsafe {
        #[cfg(cygnet_asan)]
        {
            (*this).bounds = super::sanitizer::address::finish_switch(std::ptr::null_mut());
        }
        let result = ((*this).body)(this, message);
        #[cfg(cygnet_tsan)]
        super::sanitizer::thread::switch_to((*this).fibers.1);
        #[cfg(cygnet_asan)]
        super::sanitizer::address::start_switch(None, (*this).bounds.0, (*this).bounds.1);
        leave((*this).resumer, result)
    }
}

/// This test binary once more, for one test that is expected to die or to be left alone.
///
/// An emulated binary cannot simply be executed; the runner that cargo was told of can.
fn myself(test: &str, role: &str) -> Command {
    let binary = std::env::current_exe().unwrap();
    let runner = std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER")
        .ok()
        .filter(|_| cfg!(target_arch = "aarch64"));
    let mut words = runner.iter().flat_map(|r| r.split_whitespace());
    let mut command = match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(binary);
            command
        }
        None => Command::new(binary),
    };
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

const ROLE: &str = "CYGNET_ASM_TEST_ROLE";

fn role() -> String {
    std::env::var(ROLE).unwrap_or_default()
}

#[test]
fn messages_pass_both_ways() {
    let mut doubler = Coroutine::new(|this, mut message| {
        while message != 0 {
            // SAFETY: on its own stack.
            message = unsafe { suspend(this, 2 * message) };
        }
        usize::MAX
    });
    for i in 1..100 {
        assert_eq!(doubler.resume(i), 2 * i);
    }
    assert_eq!(doubler.resume(0), usize::MAX, "the result comes with the last switch");
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "switches without telling the sanitizer")]
fn a_first_frame_fits_below_any_top() {
    unsafe extern "C" fn entry(data: *mut u8, message: usize) {
        let at_entry = stack_pointer();
        let back: *mut [usize; 3] = data.cast();
        // SAFETY: the test passes its array, and the context to go back to as the first word.
        unsafe {
            (*back)[1] = message;
            (*back)[2] = at_entry;
            leave((*back)[0] as *mut u8, 7)
        }
    }
    for odd in 0..33 {
        let mut stack: Vec<u128> = vec![u128::MAX; 4096];
        let end = stack.as_mut_ptr_range().end.cast::<u8>();
        let mut back = [0usize; 3];
        let data: *mut [usize; 3] = &mut back;
        // SAFETY: the stack is unused, its end is taken back by a few bytes, and `entry` gets what
        // it expects.
        let answer = unsafe {
            let context = prepare(end.sub(odd), entry, data.cast());
            assert!(context.addr() + super::FIRST_FRAME + 15 >= end.addr() - odd);
            switch(data.cast(), context, 42)
        };
        assert_eq!((answer, back[1]), (7, 42));
        assert!(stack.as_ptr_range().contains(&(back[2] as *const u128)));
        // What lies above the top was not touched.
        // SAFETY: the last bytes of the vector.
        let above = unsafe { std::slice::from_raw_parts(end.sub(odd), odd) };
        assert!(above.iter().all(|byte| *byte == 0xff));
    }
}

#[test]
fn coroutines_nest() {
    fn level(_: *mut Coroutine, depth: usize) -> usize {
        if depth == 0 { 0 } else { 1 + Coroutine::new(level).resume(depth - 1) }
    }
    assert_eq!(Coroutine::new(level).resume(30), 30);
}

#[test]
fn many_switches_between_several_stacks() {
    fn sum(this: *mut Coroutine, first: usize) -> usize {
        let mut total = first;
        loop {
            // SAFETY: on its own stack.
            total += unsafe { suspend(this, total) };
        }
    }
    let mut all: Vec<_> = (0..7).map(|_| Coroutine::new(sum)).collect();
    let mut expected = [0; 7];
    for i in 0..10_000 {
        let n = (i * i) % 7;
        expected[n] += i;
        assert_eq!(all[n].resume(i), expected[n]);
    }
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "switches without telling the sanitizer")]
fn straight_from_one_coroutine_to_the_next() {
    // A ring: each passes control on to its neighbour, the last one back to the start.
    struct Ring {
        contexts: [*mut u8; 4],
        hops: usize,
    }
    unsafe extern "C" fn station(data: *mut u8, mut message: usize) {
        let ring: *mut Ring = data.cast();
        // SAFETY: the ring outlives the stations; one of them runs at a time, and the context of the
        // next one was prepared or saved when it last passed control on.
        unsafe {
            loop {
                let next = (message + 1) % 4;
                (*ring).hops += 1;
                let to = (&raw const (*ring).contexts[next]).read();
                message = switch(&raw mut (*ring).contexts[message], to, next);
            }
        }
    }
    let mut stacks: Vec<Box<[u128]>> = (0..3).map(|_| vec![0; 4096].into()).collect();
    let mut ring = Ring { contexts: [std::ptr::null_mut(); 4], hops: 0 };
    let data: *mut Ring = &mut ring;
    for (i, stack) in stacks.iter_mut().enumerate() {
        // SAFETY: an unused stack.
        let context = unsafe { prepare(stack.as_mut_ptr_range().end.cast(), station, data.cast()) };
        // SAFETY: the ring is alive and nobody runs.
        unsafe { (*data).contexts[i] = context };
    }
    for _ in 0..1000 {
        // SAFETY: station 0 was prepared or has passed control on; we are number 3.
        unsafe {
            let to = (&raw const (*data).contexts[0]).read();
            assert_eq!(switch(&raw mut (*data).contexts[3], to, 0), 3);
        }
    }
    assert_eq!(ring.hops, 3000);
}

/// Values in all registers that a function must keep, a switch, and a comparison: returns which bits
/// of any of them were different afterwards.
///
/// # Safety
///
/// As for [`switch`].
#[inline(never)]
unsafe fn switch_with_registers(
    save: *mut *mut u8,
    to: *mut u8,
    message: usize,
    values: &[usize; 11],
) -> usize {
    let differences: usize;
    // SAFETY: what is changed is declared or put back; the switch in the middle is that of `switch`.
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
    // SAFETY: as above.
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

/// Eleven values that no two sides share.
fn values(side: usize) -> [usize; 11] {
    std::array::from_fn(|i| 0x0101_0101_0101_0101 * (16 * side + i + 1))
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "switches without telling the sanitizer")]
fn callee_saved_registers_survive() {
    let mut other = Coroutine::new(|this, _| {
        for round in 0.. {
            // SAFETY: on the stack of `this`, like `suspend`.
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
        // SAFETY: like `resume`.
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
            // SAFETY: on its own stack.
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

/// The lower halves of v8 to v15 are a C function's to keep, and a function that switches is one.
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
        // SAFETY: everything that the call or the loads change is declared.
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

#[test]
fn a_panic_is_caught_inside() {
    let mut coroutine = Coroutine::new(|this, message| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: on its own stack.
            let message = unsafe { suspend(this, message + 1) };
            std::panic::resume_unwind(Box::new(message));
        }));
        *caught.unwrap_err().downcast::<usize>().unwrap()
    });
    assert_eq!(coroutine.resume(1), 2);
    assert_eq!(coroutine.resume(30), 30, "the payload arrived");
}

#[test]
fn running_past_the_root_aborts_with_a_message() {
    unsafe extern "C" fn returns(_: *mut u8, _: usize) {}

    if role() == "victim" {
        let mut stack: Vec<u128> = vec![0; 4096];
        let mut save = std::ptr::null_mut();
        // SAFETY: the stack is unused; that the entry returns is what is tested.
        unsafe {
            let top = stack.as_mut_ptr_range().end.cast();
            switch(&mut save, prepare(top, returns, std::ptr::null_mut()), 0);
        }
        unreachable!("nobody switches back");
    }
    use std::os::unix::process::ExitStatusExt;
    let name = "asm::tests::running_past_the_root_aborts_with_a_message";
    let output = myself(name, "victim").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("cygnet: control ran past the root of a coroutine"), "{text}");
}

#[test]
fn each_thread_has_its_word() {
    assert!(thread_word().is_null());
    let threads: Vec<_> = (1..5usize)
        .map(|i| {
            thread::spawn(move || {
                assert!(thread_word().is_null(), "null at first");
                set_thread_word(std::ptr::without_provenance_mut(i));
                thread::yield_now();
                thread_word().addr()
            })
        })
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), i + 1);
    }
    assert!(thread_word().is_null());
}

#[test]
fn the_word_is_that_of_the_thread_a_context_is_continued_on() {
    // Both reads are in one function: a compiler that kept the address of the word over the switch
    // would answer with that of the first thread.
    let mut coroutine = Coroutine::new(|this, _| {
        let mut word = thread_word().addr();
        loop {
            // SAFETY: on its own stack.
            unsafe { suspend(this, word) };
            word = thread_word().addr();
        }
    });
    let (to_other, from_here) = mpsc::channel::<Box<Coroutine>>();
    let (to_here, from_other) = mpsc::channel();
    let other = thread::spawn(move || {
        set_thread_word(std::ptr::without_provenance_mut(2));
        for mut coroutine in from_here {
            let word = coroutine.resume(0);
            to_here.send((coroutine, word)).unwrap();
        }
    });
    thread::spawn(move || {
        set_thread_word(std::ptr::without_provenance_mut(1));
        for _ in 0..100 {
            assert_eq!(coroutine.resume(0), 1);
            to_other.send(coroutine).unwrap();
            let (back, word) = from_other.recv().unwrap();
            assert_eq!(word, 2);
            coroutine = back;
        }
    })
    .join()
    .unwrap();
    other.join().unwrap();
}
