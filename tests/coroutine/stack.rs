//! Sizes of stacks, memory that runs out, and overflows.

use crate::common::proc::resident;
use crate::{Plain, again};
use cygnet::coroutine::{Builder, Coroutine, CreateError, Resumed};
use std::os::unix::process::ExitStatusExt;

/// Overflows any stack.
pub(crate) fn recurse(depth: u64) -> u64 {
    let filler = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + filler[0] }
}

fn with_size(bytes: usize) -> Result<Plain, CreateError> {
    Builder::new().stack_size(bytes).create(|yielder, ()| yielder.suspend(()))
}

#[test]
fn a_stack_has_at_least_the_size_asked_for() {
    for size in [16 << 10, 64 << 10, 100_000, 1 << 20, 1 << 30] {
        let co = with_size(size).unwrap();
        assert!(co.stack_size() >= size);
        assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
    }
}

#[test]
fn a_size_out_of_bounds_is_refused_with_the_bounds() {
    for asked in [0, (16 << 10) - 1, (1 << 30) + 1, usize::MAX] {
        let error = with_size(asked).unwrap_err();
        assert_eq!(error, CreateError::StackSize { asked });
        let said = error.to_string();
        assert!(said.contains(&asked.to_string()), "{said}");
        assert!(said.contains("16 KiB") && said.contains("1 GiB"), "{said}");
    }
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer takes all address space")]
fn exhausted_memory_is_an_error_that_says_so_and_nothing_is_lost() {
    let output = again(|| {
        let limit = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
        // SAFETY: the pointer is to a live limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let mut all = Vec::new();
        let error = loop {
            match with_size(1 << 30) {
                Ok(co) if all.len() < 8 => all.push(co),
                Ok(_) => {
                    println!("an emulator, which accepts ulimit -v and forgets it");
                    return;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, CreateError::OutOfMemory { .. }), "{error}");
        assert!((1..8).contains(&all.len()));
        assert_eq!(all.pop().unwrap().resume(()), Ok(Resumed::Yielded(())));
        all.push(with_size(1 << 30).unwrap());
        println!("{error}");
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("ulimit -v"), "{output:?}");
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "the sanitizer has a report of its own")]
fn an_overflow_ends_the_process_by_a_signal() {
    let output = again(|| {
        let co = Coroutine::<(), (), u64>::new(|_, ()| recurse(0));
        let _ = co.resume(());
    });
    assert!(matches!(output.status.signal(), Some(libc::SIGSEGV | libc::SIGABRT)), "{output:?}");
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer's shadow counts as resident")]
fn memory_is_given_back_when_many_have_ended() {
    let output = again(|| {
        let touch = || {
            Plain::new(|yielder, ()| {
                let deep = [std::hint::black_box(1_u8); 16 << 10];
                std::hint::black_box(&deep);
                yielder.suspend(());
            })
        };
        let all: Vec<_> = (0..2000).map(|_| touch()).collect();
        let before = resident();
        for co in &all {
            co.resume(()).unwrap();
        }
        assert!(resident() > before + (24 << 20));
        drop(all);
        assert!(resident() < before + (8 << 20));
    });
    assert!(output.status.success(), "{output:?}");
}
