//! Ctrl-C: the run ends after the round that it is in, with its report. A second one ends the process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Has SIGINT and SIGTERM noted, each once; after that they do what they did by default.
pub(crate) fn install() -> io::Result<()> {
    // SAFETY: all bits zero are a valid `sigaction`: an empty mask, no flags, the default handler.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = note;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the action lives across the call, which copies it; its handler only stores into an atomic, which a handler may
        // do at any moment; the old action is not asked for.
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
