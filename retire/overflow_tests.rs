//! Each test ends a process, so it runs itself again and looks at how that one ended.

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

/// An address nobody has mapped.
const WILD: usize = 0x1000;

fn touch(address: usize) {
    // SAFETY: none: the access faults, which is what the test is about.
    unsafe { ptr::write_volatile(address as *mut u8, 1) };
}

/// A guard that `describe` knows, and one byte below its end.
fn deepest_frame() -> usize {
    static MEMORY: OnceLock<StackMemory> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| StackMemory::new(None));
    let stack = STACK.get_or_init(|| memory.take(StackClass::DEFAULT).unwrap());
    stack.bottom() as usize - 1
}

fn set(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    let mut action = default_action();
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    exchange(signal, Some(&action)).unwrap();
}

/// What a handler of another library might be.
unsafe extern "C" fn with_info(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: a handler with SA_SIGINFO gets a siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    let right = address == WILD && !context.is_null();
    // SAFETY: async-signal-safe, no precondition.
    unsafe { libc::_exit(if right { 41 } else { 1 }) };
}

unsafe extern "C" fn without_info(signal: libc::c_int) {
    // SAFETY: async-signal-safe, no precondition.
    unsafe { libc::_exit(if signal == libc::SIGSEGV { 42 } else { 1 }) };
}

/// Tells on whether its own signal is blocked, which the kernel would have done unless asked not to.
unsafe extern "C" fn tell_mask(signal: libc::c_int) {
    // SAFETY: a sigset is integers.
    let mut mask: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set outlives the call; without a new mask it is a query.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask) };
    // SAFETY: as above.
    let blocked = unsafe { libc::sigismember(&mask, signal) };
    // SAFETY: async-signal-safe, no precondition.
    unsafe { libc::_exit(50 + blocked) };
}

fn recurse(depth: u64) -> u64 {
    let filler = std::hint::black_box([depth; 32]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + filler[0] }
}

/// Child: does what the role says and should not come back.
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
            // Ours is not tied in a second time, before a handler that may call it.
            let _third = install(describe).unwrap();
            touch(WILD);
        }
        "all gone" => {
            drop(second);
            touch(deepest_frame());
        }
        "sent" | "sent, ignored" => {
            // SAFETY: no precondition.
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

/// A test that is its own child.
macro_rules! in_children {
    ($(#[$meta:meta])* fn $name:ident($child:ident) $body:block) => {
        #[test]
        $(#[$meta])*
        fn $name() {
            if let Some(role) = role() {
                return act(&role);
            }
            let $child = |role: &str| child(stringify!($name), role);
            $body
        }
    };
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
}

in_children! {
    fn any_other_fault_reaches_the_handler_that_was_there_before(child) {
        assert_eq!(child("with info").status.code(), Some(41));
        assert_eq!(child("without info").status.code(), Some(42));
    }
}

in_children! {
    #[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
    fn the_handler_before_runs_under_the_mask_it_asked_for(child) {
        assert_eq!(child("mask").status.code(), Some(51));
        assert_eq!(child("mask, nodefer").status.code(), Some(50));
    }
}

in_children! {
    fn without_a_handler_before_a_fault_ends_the_process_as_ever(child) {
        for role in ["default", "ignored", "sent"] {
            let output = child(role);
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{role}");
            assert!(!stderr(&output).contains("cygnet"), "{role}");
        }
    }
}

in_children! {
    fn a_signal_that_somebody_sends_stays_ignored(child) {
        assert!(child("sent, ignored").status.success());
    }
}

in_children! {
    fn a_handler_installed_later_is_left_in_front(child) {
        assert_eq!(child("later").status.code(), Some(41));
    }
}

in_children! {
    fn when_the_last_user_has_gone_nothing_is_reported(child) {
        let output = child("all gone");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
        assert!(!stderr(&output).contains("cygnet"));
    }
}

in_children! {
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
fn a_place_is_written_as_a_panic_writes_it() {
    let place = Location::caller();
    let mut line = Line::new();
    line.place(place);
    assert_eq!(&line.bytes[..line.len], place.to_string().as_bytes());
}

#[test]
fn of_a_long_path_the_end_is_kept_from_a_whole_character_on() {
    let mut line = Line::new();
    line.path(format!("/ä{}/x.rs", "y".repeat(250)).as_bytes());
    let said = str::from_utf8(&line.bytes[..line.len]).expect("no character is cut in two");
    assert_eq!(said, format!("...{}/x.rs", "y".repeat(250)));
}
