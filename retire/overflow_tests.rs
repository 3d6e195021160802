//! Tests of the overflow report. Each test ends a process, so it runs itself again as a child and
//! checks how the child ended.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::OnceLock;

use super::super::memory::StackMemory;
use super::super::rerun::{rerun, role};
use super::super::stack::{Stack, StackClass};
use super::*;

static NAME: &str = "leaf\n17";
static STACK: OnceLock<Stack> = OnceLock::new();

fn describe(address: usize) -> Option<Description> {
    let stack = STACK.get()?;
    stack.guard().contains(&address).then(|| Description {
        kind: "task",
        name: NAME.as_ptr(),
        name_len: NAME.len(),
        id: 17,
        spawned_at: None,
        stack_size: stack.class().size(),
        guard: stack.guard(),
    })
}

/// An unmapped address.
const WILD: usize = 0x1000;

fn touch(address: usize) {
    // SAFETY: in these tests the address is unmapped or in a guard. The access faults without
    // touching any memory, and the handler does not resume the test.
    unsafe { ptr::write_volatile(address as *mut u8, 1) };
}

/// Returns the highest address of a guard that `describe` knows.
fn deepest_frame() -> usize {
    static MEMORY: OnceLock<StackMemory> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| StackMemory::new(None));
    let stack = STACK.get_or_init(|| memory.take(StackClass::DEFAULT).unwrap());
    stack.bottom() as usize - 1
}

/// Installs a handler.
fn set(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    let mut action = default_action();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    exchange(signal, Some(&action)).unwrap();
}

/// Stands for another library's handler with three arguments.
unsafe extern "C" fn with_info(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the handler is installed with SA_SIGINFO, so the kernel passes a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    let right = address == WILD && !context.is_null();
    // SAFETY: `_exit` is async-signal-safe and has no precondition.
    unsafe { libc::_exit(if right { 41 } else { 1 }) };
}

/// Stands for another library's handler with one argument.
unsafe extern "C" fn without_info(signal: libc::c_int) {
    // SAFETY: `_exit` is async-signal-safe and has no precondition.
    unsafe { libc::_exit(if signal == libc::SIGSEGV { 42 } else { 1 }) };
}

/// Exits with a status that tells whether the handler's own signal is blocked. The kernel blocks it
/// unless the action has SA_NODEFER.
unsafe extern "C" fn tell_mask(signal: libc::c_int) {
    // SAFETY: a sigset consists of integers, for which zeroes are valid.
    let mut mask: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set outlives the call. With a null pointer for the new mask, the call is a query.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask) };
    // SAFETY: the call has filled in the set, which is alive.
    let blocked = unsafe { libc::sigismember(&mask, signal) };
    // SAFETY: `_exit` is async-signal-safe and has no precondition.
    unsafe { libc::_exit(50 + blocked) };
}

fn recurse(depth: u64) -> u64 {
    let filler = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + filler[0] }
}

/// Plays `role` in the child, which normally ends by that.
fn act(role: &str) {
    match role {
        "with info" => set(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO),
        "without info" => set(libc::SIGSEGV, without_info as *const () as usize, 0),
        "mask" => set(libc::SIGSEGV, tell_mask as *const () as usize, 0),
        "mask, nodefer" => set(libc::SIGSEGV, tell_mask as *const () as usize, libc::SA_NODEFER),
        "default" | "sent" | "all gone" => set(libc::SIGSEGV, libc::SIG_DFL, 0),
        "ignored" | "sent, ignored" => set(libc::SIGSEGV, libc::SIG_IGN, 0),
        _ => {}
    }
    let first = install(describe).unwrap();
    let second = install(describe).unwrap();
    drop(first);
    let _alt = AltStack::install().unwrap();
    match role {
        "guard" => touch(deepest_frame()),
        "later" => {
            set(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO);
            drop(second);
            // A later handler may call ours, so a second installation must not put ours in front of
            // it.
            let _third = install(describe).unwrap();
            touch(WILD);
        }
        "all gone" => {
            drop(second);
            touch(deepest_frame());
        }
        "sent" | "sent, ignored" => {
            // SAFETY: `raise` has no precondition.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        "own thread" => {
            recurse(0);
        }
        _ => touch(WILD),
    }
}

fn child(test: &str, role: &str) -> Output {
    rerun(&format!("retire::overflow::tests::{test}"), role)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Defines tests that run themselves as children, in one or more roles.
macro_rules! in_children {
    ($($(#[$meta:meta])* fn $name:ident($child:ident) $body:block)+) => {$(
        #[test]
        $(#[$meta])*
        fn $name() {
            if let Some(role) = role() {
                return act(&role);
            }
            let $child = |role: &str| child(stringify!($name), role);
            $body
        }
    )+};
}

in_children! {
    fn an_overflow_names_the_task_its_stack_size_and_the_knob(child) {
        let output = child("guard");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        let said = stderr(&output);
        assert!(said.contains("cygnet: task \"leaf?17\" (id 17) has overflowed"), "{said}");
        assert!(said.contains("its stack of 65536 bytes (fault at 0x"), "{said}");
        assert!(said.contains("fff); give it more with Builder::stack_size"), "{said}");
    }

    fn any_other_fault_reaches_the_previous_handler(child) {
        assert_eq!(child("with info").status.code(), Some(41));
        assert_eq!(child("without info").status.code(), Some(42));
    }

    #[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
    fn the_previous_handler_runs_under_its_own_mask(child) {
        assert_eq!(child("mask").status.code(), Some(51));
        assert_eq!(child("mask, nodefer").status.code(), Some(50));
    }

    fn without_a_previous_handler_a_fault_ends_the_process(child) {
        for role in ["default", "ignored", "sent"] {
            let output = child(role);
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{role}");
            assert!(!stderr(&output).contains("cygnet"), "{role}");
        }
    }

    fn a_sent_signal_stays_ignored(child) {
        assert!(child("sent, ignored").status.success());
    }

    fn a_handler_installed_later_is_left_in_front(child) {
        assert_eq!(child("later").status.code(), Some(41));
    }

    fn nothing_is_reported_after_the_last_user_has_gone(child) {
        let output = child("all gone");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
        assert!(!stderr(&output).contains("cygnet"));
    }

    #[cfg_attr(cygnet_asan, ignore = "the sanitizer has a report of its own")]
    #[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
    fn a_thread_that_overflows_its_own_stack_is_still_reported_by_std(child) {
        let output = child("own thread");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        let said = stderr(&output);
        assert!(said.contains("has overflowed its stack") && !said.contains("cygnet"), "{said}");
    }
}

#[test]
fn a_long_name_is_cut_and_the_rest_of_the_line_still_fits() {
    let mut line = Line::new();
    line.name(&[b'x'; 10_000]);
    line.number(u64::MAX, 10);
    line.number(u64::MAX, 16);
    let expected = format!("{}...{}{:x}", "x".repeat(128), u64::MAX, u64::MAX);
    assert_eq!(&line.bytes[..line.len], expected.as_bytes());
    line.text(&[b'y'; 10_000]);
    assert_eq!(line.len, line.bytes.len());
}

#[test]
fn a_place_is_written_as_in_a_panic_message() {
    let place = Location::caller();
    let mut line = Line::new();
    line.place(place);
    assert_eq!(&line.bytes[..line.len], place.to_string().as_bytes());
}

#[test]
fn a_long_path_keeps_its_end_and_cuts_no_character() {
    let mut line = Line::new();
    line.path(format!("/ä{}/x.rs", "y".repeat(250)).as_bytes());
    let said = str::from_utf8(&line.bytes[..line.len]).expect("no character is cut in two");
    assert_eq!(said, format!("...{}/x.rs", "y".repeat(250)));
}
