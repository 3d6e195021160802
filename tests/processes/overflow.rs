//! Faults: a task that overflows its stack is named before the process aborts, and every other
//! fault goes to the handler that was there before. Each test ends a process, so it runs itself
//! again.

// The sanitizers handle these signals themselves, and their frames need larger stacks.
#![cfg(not(any(cygnet_asan, cygnet_tsan)))]

use crate::common::prelude::*;
use cygnet::coroutine::Coroutine;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// An address that is not mapped.
const WILD: usize = 0x1000;

fn recurse(depth: u64) -> u64 {
    let filler = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + filler[0] }
}

fn touch_wild_address() {
    // SAFETY: none: the access faults, which is what the test is about.
    unsafe { std::ptr::write_volatile(std::hint::black_box(WILD) as *mut u8, 1) };
}

unsafe extern "C" fn earlier_handler(
    _: libc::c_int,
    info: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: a handler with SA_SIGINFO gets a siginfo.
    let right = unsafe { (*info).si_addr() } as usize == WILD;
    // SAFETY: async-signal-safe, no precondition.
    unsafe { libc::_exit(if right { 41 } else { 1 }) };
}

fn install_earlier_handler() {
    // SAFETY: a sigaction is integers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = earlier_handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) };
}

fn plain_segv() {
    // std has a handler for its threads, with a report of its own.
    // SAFETY: the default action.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

/// Runs the calling test again for each case, in a process that calls the case's function. `show`
/// is given the case's expectation, how the process ended, and its standard error.
#[track_caller]
fn in_child<F: Fn(), T>(cases: &[(&str, F, T)], show: impl Fn(&T, ExitStatus, String)) {
    let role = rerun::role();
    for (case, fault, expected) in cases {
        match &role {
            Some(role) if role == case => {
                fault();
                println!("came back");
            }
            Some(_) => {}
            None => {
                let output = rerun::rerun(rerun::test_of(&show), case);
                assert!(!String::from_utf8_lossy(&output.stdout).contains("came back"), "{case}");
                println!("{case}");
                show(expected, output.status, String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
    }
}

const PARSER_LINE: u32 = line!() + 2;
fn spawn_parser() -> Task<u64> {
    task().name("parser").spawn(|| recurse(0))
}

#[test]
fn an_overflow_is_reported_with_name_place_size_and_knob() {
    /// Workers, the size of stacks if it is not the usual one, and a call that overflows. Then the
    /// name and the size in the report.
    type Case = (&'static str, usize, Option<usize>, fn() -> JoinResult, &'static str, usize);
    type JoinResult = Result<u64, JoinError>;
    const USUAL: usize = 64 << 10;
    const LARGE: usize = 256 << 10;
    let cases: [Case; 7] = [
        ("nameless", 1, None, || spawn(|| recurse(0)).join(), "", USUAL),
        (
            "nameless, of many workers",
            8,
            None,
            || {
                let tasks: Vec<_> = (0..8).map(|_| spawn(|| yield_now().is_ok())).collect();
                tasks.into_iter().for_each(|task| drop(task.join()));
                spawn(|| recurse(0)).join()
            },
            "",
            USUAL,
        ),
        ("named", 2, None, || spawn_parser().join(), " \"parser\"", USUAL),
        (
            "after a wait",
            2,
            None,
            || {
                let task = task().name("woken").spawn(|| {
                    (0..100).for_each(|_| yield_now().unwrap());
                    recurse(0)
                });
                yield_now().unwrap();
                task.join()
            },
            " \"woken\"",
            USUAL,
        ),
        (
            "of the task's own size",
            2,
            None,
            || task().name("roomy").stack_size(1 << 20).unwrap().spawn(|| recurse(0)).join(),
            " \"roomy\"",
            1 << 20,
        ),
        ("of the builder's size", 1, Some(LARGE), || Ok(recurse(0)), "", LARGE),
        (
            "migratable",
            2,
            None,
            // SAFETY: the task holds nothing over a suspension.
            || unsafe { task().migratable() }.spawn(|| recurse(0)).join(),
            "",
            USUAL,
        ),
    ];
    let cases = cases.map(|(case, workers, stack, overflow, name, size)| {
        let fault = move || {
            let builder = stack.into_iter().fold(Runtime::builder(), Builder::stack_size);
            drop(builder.workers(workers).build().unwrap().block_on(overflow));
        };
        (case, fault, (name, size))
    });
    in_child(&cases, |(name, size), status, said| {
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains(&format!("cygnet: task{name} (id ")), "{said}");
        assert!(said.contains(&format!(", spawned at {}:", file!())), "{said}");
        assert!(said.contains(&format!("has overflowed its stack of {size} bytes")), "{said}");
        assert!(said.contains("Builder::stack_size or TaskBuilder::stack_size"), "{said}");
        assert_eq!(said.matches("has overflowed").count(), 1, "{said}");
        if *name == " \"parser\"" {
            let place = said.split(", spawned at ").nth(1).and_then(|rest| rest.split(')').next());
            let parser = format!("{}:{PARSER_LINE}:", file!());
            let column = place.and_then(|place| place.strip_prefix(&parser));
            assert!(column.is_some_and(|column| column.parse::<u32>().is_ok()), "{said}");
        }
    });
}

/// A coroutine runs where it is resumed, and keeps no place.
#[test]
fn a_coroutine_s_overflow_is_reported_without_a_place() {
    let overflow = || {
        let coroutine = Coroutine::<(), (), u64>::new(|_, ()| recurse(0));
        assert!(coroutine.resume(()).is_err());
    };
    in_child(&[("in a coroutine", || runtime(1).block_on(overflow), ())], |(), _, said| {
        assert!(said.contains("cygnet: coroutine (id ") && !said.contains("spawned at"), "{said}");
    });
}

#[test]
fn a_bare_thread_s_overflow_is_not_called_a_task_s() {
    let overflow = || {
        let _rt = runtime(2);
        let bare = std::thread::Builder::new().name("bare".into());
        let _ = bare.spawn(|| recurse(0)).unwrap().join();
    };
    in_child(&[("a foreign thread", overflow, ())], |(), status, said| {
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("has overflowed its stack"), "{said}");
        assert!(!said.contains("cygnet: task"), "{said}");
    });
}

fn fault_in_a_task() {
    runtime(2).block_on(touch_wild_address);
}

fn fault_on_a_thread() {
    let _rt = runtime(2);
    touch_wild_address();
}

fn fault_after_the_runtime() {
    drop(runtime(2));
    touch_wild_address();
}

#[test]
fn a_fault_elsewhere_reaches_the_handler_that_was_installed_before() {
    let cases: [(&str, fn(), ()); 3] = [
        ("in a task", fault_in_a_task, ()),
        ("on a thread", fault_on_a_thread, ()),
        ("after the runtime", fault_after_the_runtime, ()),
    ];
    if rerun::role().is_some() {
        install_earlier_handler();
    }
    in_child(&cases, |(), status, said| {
        assert_eq!(status.code(), Some(41), "{said}");
        assert!(!said.contains("overflowed"), "{said}");
    });
}

#[test]
fn without_a_handler_or_a_report_a_fault_ends_the_process_as_ever() {
    fn overflow_without_a_report() {
        let builder = Runtime::builder().workers(1).overflow_report(false);
        builder.build().unwrap().block_on(|| recurse(0));
    }
    let cases: [(&str, fn(), ()); 2] =
        [("elsewhere", fault_in_a_task, ()), ("unreported", overflow_without_a_report, ())];
    if rerun::role().is_some() {
        plain_segv();
    }
    in_child(&cases, |(), status, said| {
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{said}");
        assert!(!said.contains("overflowed"), "{said}");
    });
}
