//! A test that hangs fails, and says where it hangs.
//!
//! The closure runs on a thread of its own. If it has not ended in time, every thread of the
//! process is made to capture its stack by a signal, one after the other; what they were doing is
//! printed, and the process aborts, since threads that hang cannot be ended.

use std::backtrace::Backtrace;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a closure may take in general. A test takes a small part of it.
pub(crate) fn patience() -> Duration {
    let slow = super::SANITIZED || super::emulated();
    Duration::from_secs(if slow { 300 } else { 60 })
}

/// Runs `f`, which must end within `seconds` (more where the machine is known to be slow).
pub(crate) fn within_seconds<R: Send>(seconds: u64, f: impl FnOnce() -> R + Send) -> R {
    let factor = (patience().as_secs() / 60) as u32;
    let (mut f, mut result) = (Some(f), None);
    within_time(Duration::from_secs(seconds) * factor, &mut || {
        result = f.take().map(|f| f());
    });
    result.expect("it has ended")
}

fn within_time(limit: Duration, f: &mut (dyn FnMut() + Send)) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::scope(|scope| {
        let (done, ended) = channel();
        let builder = std::thread::Builder::new().name(name.clone());
        let thread = builder
            .spawn_scoped(scope, move || {
                f();
                // The receiver waits until it comes, or has aborted.
                let _ = done.send(());
            })
            .unwrap();
        // A panic drops the sender, which ends the wait too.
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            bark(&name, limit);
        }
        thread.join().unwrap_or_else(|payload| resume_unwind(payload));
    });
}

fn bark(name: &str, limit: Duration) -> ! {
    // The harness captures the output of a test, and would never show it.
    let say = |line: String| super::proc::write_to_stderr(&(line + "\n"));
    say(format!("\nwatchdog: {name} has not ended within {limit:?}; its threads:"));
    // SAFETY: no precondition.
    let me = unsafe { libc::gettid() };
    for thread in super::proc::threads() {
        let what = super::proc::thread_state(thread);
        let stack = if thread == me { None } else { stack_of(thread) };
        let stack = stack.map_or_else(String::new, |stack| format!("\n{stack}"));
        say(format!("--- {what}{stack}"));
    }
    std::process::abort()
}

static CAPTURED: Mutex<Option<Backtrace>> = Mutex::new(None);

unsafe extern "C" fn capture(_: libc::c_int) {
    // Neither this nor the lock is safe in a signal handler in general; a process that is about to
    // abort can take the risk, and the caller waits for a limited time.
    if let Ok(mut captured) = CAPTURED.try_lock() {
        *captured = Some(Backtrace::force_capture());
    }
}

/// The stack of another thread, if it answers.
fn stack_of(thread: libc::pid_t) -> Option<Backtrace> {
    let handler = capture as *const () as libc::sighandler_t;
    // SAFETY: a handler for a signal that is not used otherwise here.
    unsafe { libc::signal(libc::SIGUSR2, handler) };
    // SAFETY: a thread of this process; if it has ended meanwhile the call fails.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(5));
        if let Ok(mut captured) = CAPTURED.try_lock()
            && let Some(stack) = captured.take()
        {
            return Some(stack);
        }
    }
    None
}
