//! Ctrl-C: the run ends after its current round, with its report. A second Ctrl-C ends the
//! process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Installs a handler for SIGINT and SIGTERM. It runs once per signal, which then gets its
/// default action back.
pub(crate) fn install() -> io::Result<()> {
    // SAFETY: all bits zero are a valid `sigaction`: an empty mask, no flags, the default handler.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = note;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the action lives across the call, which copies it, and a null pointer is
        // allowed for the old action. The handler only stores into an atomic, which is
        // async-signal-safe.
        let status = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
