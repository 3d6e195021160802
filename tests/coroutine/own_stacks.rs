//! Coroutines on stacks that users bring.

use crate::common::prelude::*;
use crate::stack::recurse;
use crate::{Log, Plain, Tell, again, assert_aborted};
use cygnet::coroutine::{Builder, Coroutine, CreateError, Resumed, Stack, Yielder};
use std::mem;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::ptr::NonNull;

const SMALLEST: usize = 16 << 10;
const USUAL: usize = 64 << 10;

/// A buffer from the heap, with an end of some alignment, and a value that is dropped with it.
struct Buffer<T> {
    memory: NonNull<[u8]>,
    /// The bytes left out at the end.
    odd: usize,
    _with: T,
}

impl<T> Buffer<T> {
    /// The tests pass bodies that need less than 16 KiB, or as much as they ask for.
    fn new(len: usize, with: T) -> Buffer<T> {
        let memory = NonNull::from(Box::leak(vec![0xa5; len].into_boxed_slice()));
        Buffer { memory, odd: 0, _with: with }
    }

    fn range(&self) -> Range<usize> {
        let start = self.memory.addr().get();
        start..start + self.memory.len()
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box, and no coroutine uses the memory any more.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

// SAFETY: the buffer is on the heap, and nothing else uses it. It is large enough: see `new`.
unsafe impl<T> Stack for Buffer<T> {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.memory.cast(), self.memory.len() - self.odd)
    }
}

fn on<T: 'static, Ret: 'static>(
    stack: Buffer<T>,
    body: impl FnOnce(&Yielder<(), (), Ret>, ()) -> Ret + 'static,
) -> Coroutine<(), (), Ret> {
    Builder::new().create_on(stack, body).unwrap()
}

fn suspends(yielder: &Yielder<(), (), usize>, (): ()) -> usize {
    let local = std::hint::black_box(0_u8);
    yielder.suspend(());
    (&raw const local).addr()
}

#[test]
fn the_body_runs_on_the_memory_which_goes_back_at_its_end() {
    let log = Log::default();
    let buffer = Buffer::new(USUAL, Tell(1, log.clone()));
    let range = buffer.range();
    let co = on(buffer, suspends);
    assert_eq!(co.stack_size(), USUAL);
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
    assert!(log.borrow().is_empty());
    assert!(range.contains(&co.resume(()).unwrap().returned().unwrap()));
    assert_eq!(*log.borrow(), [1]);
    drop(co);
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn one_that_is_dropped_gives_the_memory_back_after_its_frames() {
    let log = Log::default();
    drop(on(Buffer::new(USUAL, Tell(1, log.clone())), suspends));
    assert_eq!(*log.borrow(), [1]);
    let tell = Tell(2, log.clone());
    let co = on(Buffer::new(USUAL, Tell(3, log.clone())), move |yielder, ()| {
        yielder.suspend(());
        drop(tell);
    });
    co.resume(()).unwrap();
    drop(co);
    assert_eq!(*log.borrow(), [1, 2, 3]);
}

#[test]
fn one_that_panics_gives_the_memory_back() {
    let log = Log::default();
    let co = on(Buffer::new(USUAL, Tell(1, log.clone())), |_, ()| {
        resume_unwind(Box::new("planted"));
    });
    let _: &Plain = &co;
    assert_eq!(panic_of(|| co.resume(())), "planted");
    assert_eq!(*log.borrow(), [1]);
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn one_that_is_forgotten_never_gives_the_memory_back() {
    let log = Log::default();
    let co = on(Buffer::new(USUAL, Tell(1, log.clone())), suspends);
    co.resume(()).unwrap();
    mem::forget(co);
    assert!(log.borrow().is_empty());
}

#[test]
fn memory_that_has_come_back_serves_the_next_coroutine() {
    /// Memory that is used in turn.
    struct Turn(Rc<Buffer<()>>);
    // SAFETY: that of the buffer, as only one coroutine has it at a time.
    unsafe impl Stack for Turn {
        fn memory(&self) -> NonNull<[u8]> {
            self.0.memory()
        }
    }
    let buffer = Rc::new(Buffer::new(USUAL, ()));
    for _ in 0..10 {
        assert_eq!(Rc::strong_count(&buffer), 1);
        let co = Builder::new().create_on(Turn(buffer.clone()), suspends).unwrap();
        co.resume(()).unwrap();
        assert!(buffer.range().contains(&co.resume(()).unwrap().returned().unwrap()));
    }
}

#[test]
fn memory_that_is_too_small_is_refused_with_the_least_size_and_dropped() {
    let log = Log::default();
    for bytes in [0, 1, SMALLEST - 1] {
        let tell = Tell(1, log.clone());
        let refused = Builder::new()
            .create_on(Buffer::new(bytes, Tell(2, log.clone())), move |_, ()| drop(tell));
        let refused: Result<Plain, _> = refused;
        let error = refused.unwrap_err();
        assert_eq!(error, CreateError::StackTooSmall { bytes, needed: SMALLEST });
        let said = error.to_string();
        assert!(said.contains(&format!("{bytes} bytes")) && said.contains("16 KiB"), "{said}");
        assert_eq!(mem::take(&mut *log.borrow_mut()).len(), 2);
    }
    assert!(Builder::new().create_on(Buffer::new(SMALLEST, ()), suspends).is_ok());
}

#[test]
fn large_values_need_more_memory() {
    type Large = [u8; 4 << 10];
    let create = |bytes| {
        let made = Builder::new()
            .create_on(Buffer::new(bytes, ()), |yielder, first: Large| yielder.suspend(first));
        let made: Result<Coroutine<Large, Large, Large>, _> = made;
        made
    };
    let Err(CreateError::StackTooSmall { needed, .. }) = create(USUAL) else { panic!() };
    assert!(needed >= SMALLEST + 3 * size_of::<Large>());
    let co = create(needed).unwrap();
    assert!(matches!(co.resume([1; 4 << 10]), Ok(Resumed::Yielded([1, ..]))));
    assert!(matches!(co.resume([2; 4 << 10]), Ok(Resumed::Returned([2, ..]))));
}

#[test]
fn memory_may_have_any_alignment() {
    for odd in 0..33 {
        let mut buffer = Buffer::new(SMALLEST + odd, ());
        buffer.odd = odd;
        let end = buffer.range().end;
        let co = on(buffer, |_, ()| {
            let aligned = std::hint::black_box(0_u128);
            (&raw const aligned).addr()
        });
        let address = co.resume(()).unwrap().returned().unwrap();
        assert!(address.is_multiple_of(align_of::<u128>()) && address < end - odd);
    }
}

#[test]
fn a_panic_of_the_destructor_goes_where_the_body_has_ended() {
    let bomb = || Buffer::new(USUAL, OnDrop(|| panic!("planted")));
    let log = Log::default();
    let co = on(bomb(), {
        let log = log.clone();
        move |_, ()| Tell(1, log)
    });
    assert_eq!(panic_of(|| co.resume(()).unwrap().returned().is_some()), "planted");
    assert_eq!(*log.borrow(), [1], "what the body has returned is dropped");
    assert!(co.is_finished());
    drop(co);
    assert_eq!(panic_of(|| drop(on(bomb(), suspends))), "planted");
    let co = on(bomb(), suspends);
    co.resume(()).unwrap();
    assert_eq!(panic_of(|| drop(co)), "planted");
}

#[test]
fn the_destructor_may_use_other_coroutines() {
    let log = Log::default();
    let inner = log.clone();
    let uses = OnDrop(move || {
        let tell = Tell(1, inner.clone());
        Plain::new(move |_, ()| drop(tell)).resume(()).unwrap();
    });
    let co = on(Buffer::new(USUAL, uses), suspends);
    co.resume(()).unwrap();
    co.resume(()).unwrap();
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn tasks_may_wait_on_a_stack_of_the_user_s() {
    runtime(2).block_on(|| {
        crowd(20, |_| {
            let co = on(Buffer::new(USUAL, ()), |yielder, ()| {
                yield_now().unwrap();
                yielder.suspend(());
                spawn(|| 7).join().unwrap()
            });
            co.resume(()).unwrap();
            assert_eq!(co.resume(()), Ok(Resumed::Returned(7)));
        });
    });
}

/// A mapping with a guard below.
pub(crate) struct Guarded(NonNull<u8>);

impl Guarded {
    /// A multiple of all sizes of pages, and of the steps in which compilers probe.
    const GUARD: usize = 64 << 10;

    pub(crate) fn new() -> Guarded {
        let len = Guarded::GUARD + USUAL;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever there is room.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        // SAFETY: the start of that mapping, which nobody uses yet.
        assert_eq!(unsafe { libc::mprotect(map, Guarded::GUARD, libc::PROT_NONE) }, 0);
        Guarded(NonNull::new(map.cast()).unwrap())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` has made. No frame is on it.
        let unmapped = unsafe { libc::munmap(self.0.as_ptr().cast(), Guarded::GUARD + USUAL) };
        assert_eq!(unmapped, 0);
    }
}

// SAFETY: the mapping is this value's alone, and has a guard of that size below the memory.
unsafe impl Stack for Guarded {
    fn memory(&self) -> NonNull<[u8]> {
        // SAFETY: the guard is the start of the mapping.
        NonNull::slice_from_raw_parts(unsafe { self.0.add(Guarded::GUARD) }, USUAL)
    }

    fn guard(&self) -> usize {
        Guarded::GUARD
    }
}

fn overflow() {
    let co = Builder::new().name("abyss").create_on(Guarded::new(), |_, ()| recurse(0)).unwrap();
    let _: &Coroutine<(), (), u64> = &co;
    let _ = co.resume(());
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "the sanitizer has a report of its own")]
fn an_overflow_into_a_guard_ends_the_process_by_a_signal() {
    let co = Builder::new().create_on(Guarded::new(), suspends).unwrap();
    co.resume(()).unwrap();
    drop(co);
    let output = again(|| {
        overflow();
    });
    assert!(matches!(output.status.signal(), Some(libc::SIGSEGV | libc::SIGABRT)), "{output:?}");
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn the_report_of_an_overflow_names_the_coroutine_and_the_size_of_the_memory() {
    let output = again(|| runtime(1).block_on(overflow));
    assert_aborted(&output, "coroutine \"abyss\"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("its stack of 65536 bytes"));
}
