//! What becomes of a fault: a task that overflows its stack is named before the process aborts, and every
//! other fault goes where it went before. Each test ends a process, so it runs itself again.

// The sanitizers handle these signals themselves, and their frames need larger stacks.
#![cfg(not(any(cygnet_asan, cygnet_tsan)))]

use crate::common::rerun::{rerun, role};
use cygnet::coroutine::Coroutine;
use cygnet::{Runtime, yield_now};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// An address that nobody has mapped.
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
    // std has a handler of its own for its threads, whose report is another.
    // SAFETY: the default action.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

const PARSER_LINE: u32 = line!() + 2;
fn spawn_parser() -> cygnet::Task<u64> {
    cygnet::task().name("parser").spawn(|| recurse(0))
}

/// Child: ends the process in the way of its role.
fn act(role: &str) {
    let with = |workers| Runtime::builder().workers(workers).build().unwrap();
    match role {
        "nameless" => drop(with(1).block_on(|| cygnet::spawn(|| recurse(0)).join())),
        "nameless, of many workers" => drop(with(8).block_on(|| {
            let tasks: Vec<_> = (0..8).map(|_| cygnet::spawn(|| yield_now().is_ok())).collect();
            tasks.into_iter().for_each(|task| drop(task.join()));
            cygnet::spawn(|| recurse(0)).join()
        })),
        "named" => drop(with(2).block_on(|| spawn_parser().join())),
        "in a coroutine" => with(1).block_on(|| {
            let coroutine = Coroutine::<(), (), u64>::new(|_, ()| recurse(0));
            assert!(coroutine.resume(()).is_err());
        }),
        "own size" => drop(with(2).block_on(|| {
            let task = cygnet::task().name("roomy").stack_size(1 << 20).unwrap();
            task.spawn(|| recurse(0)).join()
        })),
        "builder's size" => {
            let rt = Runtime::builder().workers(1).stack_size(256 << 10).build().unwrap();
            rt.block_on(|| recurse(0));
        }
        "after a wait" => drop(with(2).block_on(|| {
            let task = cygnet::task().name("woken").spawn(|| {
                (0..100).for_each(|_| yield_now().unwrap());
                recurse(0)
            });
            yield_now().unwrap();
            task.join()
        })),
        "migratable" => drop(with(2).block_on(|| {
            // SAFETY: it holds nothing over a suspension.
            unsafe { cygnet::spawn_migratable(|| recurse(0)) }.join()
        })),
        "foreign thread" => {
            let _rt = with(2);
            drop(
                std::thread::Builder::new()
                    .name("bare".into())
                    .spawn(|| recurse(0))
                    .unwrap()
                    .join(),
            );
        }
        "earlier handler, in a task" => {
            install_earlier_handler();
            with(2).block_on(touch_wild_address);
        }
        "earlier handler, on a thread" => {
            install_earlier_handler();
            let _rt = with(2);
            touch_wild_address();
        }
        "no handler, in a task" => {
            plain_segv();
            with(2).block_on(touch_wild_address);
        }
        "report off" => {
            plain_segv();
            let rt = Runtime::builder().workers(1).overflow_report(false).build().unwrap();
            rt.block_on(|| recurse(0));
        }
        "after the runtime" => {
            install_earlier_handler();
            drop(with(2));
            touch_wild_address();
        }
        other => panic!("no such role: {other}"),
    }
    println!("came back");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Shows one behaviour, or in the child of the test `name` does what the role says.
fn in_child(name: &str, show: impl Fn(&dyn Fn(&str) -> Output)) {
    if let Some(role) = role() {
        return act(&role);
    }
    show(&|role| {
        let output = rerun(&format!("overflow::{name}"), role);
        assert!(!String::from_utf8_lossy(&output.stdout).contains("came back"), "{role}");
        output
    });
}

/// The report of an overflow: which task, spawned where, with what stack, and which knob helps.
fn assert_reported(output: &Output, who: &str, size: usize) {
    let said = said(output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains(&format!("cygnet: task{who} (id ")), "{said}");
    assert!(said.contains(&format!(", spawned at {}:", file!())), "{said}");
    assert!(said.contains(&format!("has overflowed its stack of {size} bytes")), "{said}");
    assert!(said.contains("Builder::stack_size or TaskBuilder::stack_size"), "{said}");
    assert_eq!(said.matches("has overflowed").count(), 1, "{said}");
}

#[test]
fn an_overflow_is_reported_with_size_and_knob() {
    in_child("an_overflow_is_reported_with_size_and_knob", |child| {
        assert_reported(&child("nameless"), "", 64 << 10);
        assert_reported(&child("nameless, of many workers"), "", 64 << 10);
    });
}

#[test]
fn an_overflow_is_reported_with_the_task_s_name() {
    in_child("an_overflow_is_reported_with_the_task_s_name", |child| {
        assert_reported(&child("named"), " \"parser\"", 64 << 10);
        assert_reported(&child("after a wait"), " \"woken\"", 64 << 10);
    });
}

#[test]
fn an_overflow_is_reported_with_the_place_where_the_task_was_spawned() {
    in_child("an_overflow_is_reported_with_the_place_where_the_task_was_spawned", |child| {
        let said = said(&child("named"));
        let place = said.split(", spawned at ").nth(1).and_then(|rest| rest.split(')').next());
        let column = place.and_then(|at| at.strip_prefix(&format!("{}:{PARSER_LINE}:", file!())));
        assert!(column.is_some_and(|column| column.parse::<u32>().is_ok()), "{said}");
    });
}

/// A coroutine runs where somebody resumes it, and keeps no place.
#[test]
fn a_coroutine_s_overflow_is_reported_without_a_place() {
    in_child("a_coroutine_s_overflow_is_reported_without_a_place", |child| {
        let said = said(&child("in a coroutine"));
        assert!(said.contains("cygnet: coroutine (id ") && !said.contains("spawned at"), "{said}");
    });
}

#[test]
fn the_size_in_the_report_is_the_one_that_was_asked_for() {
    in_child("the_size_in_the_report_is_the_one_that_was_asked_for", |child| {
        assert_reported(&child("own size"), " \"roomy\"", 1 << 20);
        assert_reported(&child("builder's size"), "", 256 << 10);
    });
}

#[test]
fn a_migratable_task_s_overflow_is_reported_too() {
    in_child("a_migratable_task_s_overflow_is_reported_too", |child| {
        assert_reported(&child("migratable"), "", 64 << 10);
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "the sanitizer has a report of its own")]
fn a_bare_thread_s_overflow_is_not_called_a_task_s() {
    in_child("a_bare_thread_s_overflow_is_not_called_a_task_s", |child| {
        let output = child("foreign thread");
        let said = said(&output);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(
            said.contains("has overflowed its stack") && !said.contains("cygnet: task"),
            "{said}"
        );
    });
}

#[test]
fn a_fault_elsewhere_reaches_the_handler_that_was_installed_before() {
    in_child("a_fault_elsewhere_reaches_the_handler_that_was_installed_before", |child| {
        for role in
            ["earlier handler, in a task", "earlier handler, on a thread", "after the runtime"]
        {
            let output = child(role);
            assert_eq!(output.status.code(), Some(41), "{role}: {}", said(&output));
            assert!(!said(&output).contains("overflowed"));
        }
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "the sanitizer has a report of its own")]
fn a_fault_elsewhere_ends_the_process_as_ever_if_there_was_no_handler() {
    in_child("a_fault_elsewhere_ends_the_process_as_ever_if_there_was_no_handler", |child| {
        let output = child("no handler, in a task");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", said(&output));
        assert!(!said(&output).contains("overflowed"));
    });
}

#[test]
fn without_the_report_an_overflow_is_a_plain_fault() {
    in_child("without_the_report_an_overflow_is_a_plain_fault", |child| {
        let output = child("report off");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", said(&output));
        assert!(!said(&output).contains("overflowed"), "{}", said(&output));
    });
}
