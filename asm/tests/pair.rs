//! The inlined switch between a coroutine and its resumer.

use std::arch::asm;
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;

use super::super::pair::Pair;
use super::super::{Continuation, Return};
use super::*;

/// A coroutine with an inlined switch, in its plainest form.
pub(super) struct Twin {
    stack: Box<[u128]>,
    body: fn(&Twin),
    pair: Option<Pair<usize>>,
    pub(super) passed: Cell<usize>,
}

impl Twin {
    pub(super) fn new(body: fn(&Twin)) -> Box<Twin> {
        Twin::on_top(body, 0)
    }

    /// The top of the stack is taken back by `odd` bytes.
    fn on_top(body: fn(&Twin), odd: usize) -> Box<Twin> {
        let stack = vec![u128::MAX; Coroutine::STACK / 16].into();
        let mut this = Box::new(Twin { stack, body, pair: None, passed: Cell::new(0) });
        let top = this.stack.as_mut_ptr_range().end.cast::<u8>();
        let data: *mut Twin = &mut *this;
        // SAFETY: the stack is unused; `root` gets the coroutine that it belongs to.
        this.pair = Some(unsafe { Pair::prepare(0, top.sub(odd), root, data.cast()) });
        this
    }

    pub(super) fn holds(&self, address: usize) -> bool {
        let range = self.stack.as_ptr_range();
        (range.start.addr()..range.end.addr()).contains(&address)
    }

    #[inline(always)]
    pub(super) fn pair(&self) -> &Pair<usize> {
        // SAFETY: `on_top` has filled it.
        unsafe { self.pair.as_ref().unwrap_unchecked() }
    }

    /// # Safety
    /// The coroutine is new or suspended.
    #[inline(always)]
    pub(super) unsafe fn resume(&self) -> Return {
        // SAFETY: the coroutine may run, by contract. The test keeps the box.
        unsafe { self.pair().resume() }
    }

    /// # Safety
    /// Called on the coroutine's own stack.
    #[inline(always)]
    pub(super) unsafe fn suspend(&self) -> Continuation {
        // SAFETY: this code runs, so the resumer waits. The test keeps the box.
        unsafe { self.pair().suspend() }
    }
}

pub(super) unsafe extern "C" fn root(data: *mut u8, _: usize) {
    // SAFETY: `on_top` passed the coroutine, which outlives its stack.
    let this = unsafe { &*data.cast::<Twin>() };
    (this.body)(this);
    // SAFETY: the resumer waits, and nothing is left on this stack.
    unsafe { this.pair().leave() }
}

#[test]
fn each_side_learns_how_it_is_continued() {
    let twin = Twin::new(|this| {
        // SAFETY: on its own stack.
        while let Continuation::GoOn = unsafe { this.suspend() } {
            this.passed.update(|n| n + 1);
        }
        this.passed.set(100);
    });
    assert_eq!(twin.pair().occupied(), 0);
    for n in 0..10 {
        // SAFETY: new or suspended.
        assert!(matches!(unsafe { twin.resume() }, Return::Suspended));
        assert_eq!((twin.passed.get(), twin.pair().occupied()), (n, 0));
    }
    // SAFETY: suspended.
    assert!(matches!(unsafe { twin.pair().unwind() }, Return::Otherwise));
    assert_eq!(twin.passed.get(), 100);
    assert_ne!(twin.pair().occupied(), 0, "it cannot be continued after its end");
}

#[test]
fn a_coroutine_may_come_back_by_the_other_entrance_and_go_on() {
    let twin = Twin::new(|this| {
        for _ in 0..10 {
            this.passed.update(|n| n + 1);
            // SAFETY: on its own stack.
            unsafe { this.pair().suspend_otherwise() };
            this.passed.update(|n| n + 1);
            // SAFETY: on its own stack.
            unsafe { this.suspend() };
        }
    });
    for n in 0..10 {
        // SAFETY: new or suspended.
        assert!(matches!(unsafe { twin.resume() }, Return::Otherwise));
        assert_eq!((twin.passed.get(), twin.pair().occupied()), (2 * n + 1, 0));
        // SAFETY: suspended.
        assert!(matches!(unsafe { twin.resume() }, Return::Suspended));
        assert_eq!((twin.passed.get(), twin.pair().occupied()), (2 * n + 2, 0));
    }
    // SAFETY: suspended.
    assert!(matches!(unsafe { twin.pair().unwind() }, Return::Otherwise));
}

#[test]
fn a_running_coroutine_is_occupied() {
    let twin = Twin::new(|this| this.passed.set(this.pair().occupied()));
    // SAFETY: new.
    assert!(matches!(unsafe { twin.resume() }, Return::Otherwise));
    assert_ne!(twin.passed.get(), 0);
}

#[test]
fn a_first_frame_of_a_pair_fits_below_any_top() {
    for odd in 0..33 {
        let twin = Twin::on_top(
            |this| {
                let aligned = 0u128;
                this.passed.set(black_box(&raw const aligned).addr() % 16 + 1);
            },
            odd,
        );
        // SAFETY: new.
        assert!(matches!(unsafe { twin.resume() }, Return::Otherwise));
        assert_eq!(twin.passed.get(), 1, "the stack is aligned at the entry");
        let end = twin.stack.as_ptr_range().end.cast::<u8>();
        // SAFETY: the last bytes of the stack.
        let above = unsafe { std::slice::from_raw_parts(end.sub(odd), odd) };
        assert!(above.iter().all(|byte| *byte == 0xff));
    }
}

/// Calls `function(twin)` with these values in all registers that a C function keeps. Returns the
/// bits in which any of them differs afterwards.
fn around(function: unsafe extern "C" fn(&Twin), twin: &Twin, values: &[usize; 6]) -> usize {
    let differences;
    // SAFETY: all changed registers are declared or restored. The callers pass a function that is
    // sound to call with this twin. Three words are pushed on an aligned stack, and a fourth one
    // aligns it again.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push r8",
            "push r8",
            "mov rbx, [r8]",
            "mov rbp, [r8 + 8]",
            "mov r12, [r8 + 16]",
            "mov r13, [r8 + 24]",
            "mov r14, [r8 + 32]",
            "mov r15, [r8 + 40]",
            "call rax",
            "pop r8",
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
            inlateout("rax") function => _,
            inlateout("rdi") twin => _,
            inlateout("r8") values.as_ptr() => differences,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    differences
}

#[test]
fn a_function_with_an_inlined_switch_keeps_what_a_c_function_keeps() {
    unsafe extern "C" fn resume(twin: &Twin) {
        // SAFETY: the test calls this for a suspended coroutine.
        unsafe { twin.resume() };
    }
    unsafe extern "C" fn suspend(twin: &Twin) {
        // SAFETY: the body calls this.
        unsafe { twin.suspend() };
    }
    fn values(side: usize) -> [usize; 6] {
        std::array::from_fn(|i| 0x0101_0101_0101_0101 * (16 * side + i + 1))
    }
    let twin = Twin::new(|this| {
        for round in 0.. {
            let differences = around(suspend, this, &values(1 + round % 2));
            assert_eq!(differences, 0, "in the coroutine, round {round}");
        }
    });
    for round in 0..10 {
        let differences = around(resume, &twin, &values(4 + round % 3));
        assert_eq!(differences, 0, "on the thread, round {round}");
    }
}

#[test]
fn what_lives_across_an_inlined_switch_survives() {
    /// More values of each kind than there are registers.
    #[inline(always)]
    fn hold<T>(seed: usize, switch: impl Fn() -> T) {
        for _ in 0..3 {
            let ints: [usize; 18] = black_box(std::array::from_fn(|i| seed * (i + 1)));
            let floats: [f64; 18] = black_box(std::array::from_fn(|i| (seed + i) as f64 / 3.0));
            let wide: [u128; 6] = black_box(std::array::from_fn(|i| (seed as u128) << (i + 64)));
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = ints;
            let sums = floats.map(|x| x * 2.0);
            switch();
            let again = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r];
            assert_eq!(again, std::array::from_fn(|i| seed * (i + 1)));
            assert_eq!(sums, std::array::from_fn(|i| (seed + i) as f64 / 3.0 * 2.0));
            assert_eq!(wide, std::array::from_fn(|i| (seed as u128) << (i + 64)));
        }
    }
    let twin = Twin::new(|this| {
        // SAFETY: on its own stack.
        (0..9).for_each(|seed| hold(seed, || unsafe { this.suspend() }));
    });
    // SAFETY: new or suspended.
    (100..109).for_each(|seed| hold(seed, || unsafe { twin.resume() }));
}

#[test]
fn coroutines_with_inlined_switches_nest_and_panic_inside() {
    fn level(this: &Twin) {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: on its own stack.
            unsafe { this.suspend() };
            std::panic::resume_unwind(Box::new(this.passed.get()));
        }));
        let depth = *caught.unwrap_err().downcast::<usize>().unwrap();
        if depth > 0 {
            let inner = Twin::new(level);
            inner.passed.set(depth - 1);
            // SAFETY: new, then suspended.
            unsafe { inner.resume() };
            // SAFETY: suspended.
            unsafe { inner.resume() };
            this.passed.set(1 + inner.passed.get());
        }
    }
    let outer = Twin::new(level);
    outer.passed.set(10);
    // SAFETY: new.
    unsafe { outer.resume() };
    // SAFETY: suspended.
    unsafe { outer.resume() };
    assert_eq!(outer.passed.get(), 10);
}

#[test]
fn running_past_the_root_of_a_pair_aborts_with_a_message() {
    unsafe extern "C" fn returns(_: *mut u8, _: usize) {}

    if role().is_some() {
        let mut stack: Vec<u128> = vec![0; 4096];
        // SAFETY: the stack is unused; that the entry returns is what is tested.
        unsafe {
            let top = stack.as_mut_ptr_range().end.cast();
            Pair::prepare(0usize, top, returns, std::ptr::null_mut()).resume();
        }
        unreachable!("nobody switches back");
    }
    let name = "asm::tests::pair::running_past_the_root_of_a_pair_aborts_with_a_message";
    let output = rerun(name, "victim");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("cygnet: control ran past the root of a coroutine"), "{text}");
}
