//! Tests of the switch, one behaviour for each test.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use crate::retire::rerun::{rerun, role};

use super::{external, leave, prepare, set_thread_word, stack_pointer, switch, thread_word};

mod cold_call;
#[cfg(cygnet_inline_switch)]
mod pair;
mod registers;
mod unwinding;

/// A coroutine in its plainest form: a stack, its context, and the context of its resumer. It lives
/// in a box, so that both sides can reach it by a pointer.
struct Coroutine {
    stack: Box<[u128]>,
    body: fn(*mut Coroutine, usize) -> usize,
    own: *mut u8,
    resumer: *mut u8,
}

// SAFETY: a test moves the box to another thread only between two resumptions, and the bodies in
// these tests hold nothing that belongs to a thread.
unsafe impl Send for Coroutine {}

impl Coroutine {
    /// 64 KiB, and more where unoptimised code needs it.
    const STACK: usize = 256 * 1024;

    fn new(body: fn(*mut Coroutine, usize) -> usize) -> Box<Coroutine> {
        let mut this = Box::new(Coroutine {
            stack: vec![0; Self::STACK / 16].into(),
            body,
            own: std::ptr::null_mut(),
            resumer: std::ptr::null_mut(),
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
        unsafe { switch(&raw mut (*this).resumer, (*this).own, message) }
    }
}

/// Goes back to the resumer with `message`. Returns the message of the next resumption.
///
/// # Safety
///
/// Called on the stack of `this`.
unsafe fn suspend(this: *mut Coroutine, message: usize) -> usize {
    // SAFETY: this code runs, so the resumer waits in `resume`.
    unsafe { switch(&raw mut (*this).own, (*this).resumer, message) }
}

/// The root of each [`Coroutine`]: runs the body and leaves with its result.
unsafe extern "C" fn run(data: *mut u8, message: usize) {
    let this: *mut Coroutine = data.cast();
    // SAFETY: `new` passed the coroutine, which outlives its stack.
    unsafe {
        let result = ((*this).body)(this, message);
        leave((*this).resumer, result)
    }
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
fn a_first_frame_fits_below_any_top() {
    unsafe extern "C" fn entry(data: *mut u8, message: usize) {
        let at_entry = stack_pointer();
        // The compiler aligns this by its assumption about the stack pointer at the entry.
        let aligned = 0u128;
        let address = black_box(&raw const aligned).addr();
        let back: *mut [usize; 4] = data.cast();
        // SAFETY: the test passes its array, and the context to go back to as the first word.
        unsafe {
            (*back)[1] = message;
            (*back)[2] = at_entry;
            (*back)[3] = address;
            leave((*back)[0] as *mut u8, 7)
        }
    }
    for odd in 0..33 {
        let mut stack: Vec<u128> = vec![u128::MAX; 4096];
        let end = stack.as_mut_ptr_range().end.cast::<u8>();
        let mut back = [0usize; 4];
        let data: *mut [usize; 4] = &mut back;
        // SAFETY: the stack is unused, its end is taken back by a few bytes, and `entry` gets what
        // it expects.
        let answer = unsafe {
            let context = prepare(end.sub(odd), entry, data.cast());
            assert!(context.addr() + super::FIRST_FRAME + 15 >= end.addr() - odd);
            switch(data.cast(), context, 42)
        };
        assert_eq!((answer, back[1]), (7, 42));
        assert!(stack.as_ptr_range().contains(&(back[2] as *const u128)));
        assert_eq!(back[3] % 16, 0, "the stack is aligned at the entry");
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
fn straight_from_one_coroutine_to_the_next() {
    // A ring: each passes control on to its neighbour, the last one back to the start.
    struct Ring {
        contexts: [*mut u8; 4],
        hops: usize,
    }
    unsafe extern "C" fn station(data: *mut u8, mut message: usize) {
        let ring: *mut Ring = data.cast();
        // SAFETY: the ring outlives the stations; one of them runs at a time, and the context of
        // the next one was prepared or saved when it last passed control on.
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
        // SAFETY: the ring is alive and no station runs.
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

    if role().is_some() {
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
    let output = rerun(name, "victim");
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
    // would read the word of the first thread.
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
