//! The report of a stack overflow.
//!
//! A frame that does not fit touches the guard, and the kernel sends SIGSEGV. There is no stack left
//! to handle it on, so each worker has an [`AltStack`]. The handler asks `describe` whose guard the
//! address belongs to; if it is one of ours it says so on stderr and aborts, and every other fault
//! goes on to the handler that was there before, as if ours were not in between.
//!
//! Everything that runs in the handler is async-signal-safe: it reads atomics, formats into a buffer
//! on its own stack, and calls write, sigaction, raise and abort. It takes no lock and allocates
//! nothing. The atomics are std's and not the shim's: a model checker has no signals.
//!
//! The chain of handlers is a list that each program edits without looking at the others, so:
//!
//! * the one before ours is remembered when ours is installed, and its signal mask is taken over;
//! * one that is installed after ours is left alone, and may call ours as its own predecessor;
//! * when the last user goes, ours is taken out if it is still in front. Otherwise it stays, passes
//!   every fault on, and is not installed a second time, which would tie the chain into a loop.

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ops::Range;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) use super::alt_stack::AltStack;

/// Finds out whose guard an address belongs to. Runs in a signal handler, on the thread that
/// faulted: it reads what that thread has at hand, without locks and without allocation.
pub(crate) type Describe = fn(fault_address: usize) -> Option<Description>;

/// The owner of a guard.
pub(crate) struct Description {
    /// What it is: "task", "root task".
    pub(crate) kind: &'static str,
    /// Its name, `name_len` bytes that stay readable until the process has ended; may be empty.
    pub(crate) name: *const u8,
    pub(crate) name_len: usize,
    pub(crate) id: u64,
    /// Where a task was spawned.
    pub(crate) spawned_at: Option<&'static Location<'static>>,
    /// What the user knows as the size of its stack.
    pub(crate) stack_size: usize,
    /// The addresses of its guard.
    pub(crate) guard: Range<usize>,
}

/// Linux reports a guard by SIGSEGV; SIGBUS is what some emulators make of it.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What the handler of one signal was before ours, as much as our handler needs to know.
struct Previous {
    action: AtomicUsize,
    flags: AtomicI32,
}

static PREVIOUS: [Previous; 2] =
    [const { Previous { action: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0) } }; 2];

/// A `Describe`, or null.
static DESCRIBE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Who uses the handlers, and what to put back.
struct Users {
    count: usize,
    /// For each of `SIGNALS`: the whole action before ours, while ours is in the chain.
    before: [Option<libc::sigaction>; 2],
}

static USERS: Mutex<Users> = Mutex::new(Users { count: 0, before: [None; 2] });

/// Keeps the handlers installed.
#[must_use = "the handlers go when this is dropped"]
pub(crate) struct Reporter(());

/// Installs the handlers, unless an earlier user has.
///
/// All users of a process share one `describe`: it is a function of this library.
pub(crate) fn install(describe: Describe) -> io::Result<Reporter> {
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    // Release: pairs with the handler's load.
    DESCRIBE.store(describe as *mut (), Ordering::Release);
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        if users.before[index].is_none() {
            users.before[index] = Some(put_in_front(index, signal)?);
        }
    }
    users.count += 1;
    Ok(Reporter(()))
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        users.count -= 1;
        if users.count > 0 {
            return;
        }
        // From here on a handler of ours that somebody still calls passes everything on.
        DESCRIBE.store(ptr::null_mut(), Ordering::Release);
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let in_front = exchange(signal, None).is_ok_and(|now| now.sa_sigaction == ours());
            if in_front && let Some(before) = users.before[index].take() {
                // An error would leave our handler there, which is harmless.
                let _ = exchange(signal, Some(&before));
            }
        }
    }
}

/// Puts our handler before the present one and returns that.
fn put_in_front(index: usize, signal: libc::c_int) -> io::Result<libc::sigaction> {
    // The handler may run as soon as it is installed, so it is told first what to pass faults to.
    let before = exchange(signal, None)?;
    remember(index, &before);
    let replaced = exchange(signal, Some(&our_action(&before)))?;
    // The same again, unless somebody else has installed one in between.
    remember(index, &replaced);
    Ok(replaced)
}

fn remember(index: usize, before: &libc::sigaction) {
    // Release: a handler that sees the action sees the flags that belong to it.
    PREVIOUS[index].flags.store(before.sa_flags, Ordering::Relaxed);
    PREVIOUS[index].action.store(before.sa_sigaction, Ordering::Release);
}

fn ours() -> usize {
    on_fault as *const () as usize
}

/// Our action in front of another: with that one's mask, so that it runs under the mask it asked
/// for when it is called from ours.
fn our_action(before: &libc::sigaction) -> libc::sigaction {
    let mut action = *before;
    action.sa_sigaction = ours();
    let inherited = match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => 0,
        _ => before.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART),
    };
    action.sa_flags = inherited | libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

fn default_action() -> libc::sigaction {
    // SAFETY: a sigaction is integers, and zeroes are SIG_DFL with an empty mask and no flags.
    let action: libc::sigaction = unsafe { mem::zeroed() };
    debug_assert_eq!(action.sa_sigaction, libc::SIG_DFL);
    action
}

/// sigaction(2): sets an action, if there is one, and returns the one before.
fn exchange(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut old = default_action();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both pointers are null or to live actions; a handler in `new` is ours or was there.
    match unsafe { libc::sigaction(signal, new, &mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

unsafe extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: every thread has an errno.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a siginfo, as the action asked for one.
    let code = unsafe { (*info).si_code };
    // A code above zero is the kernel's own, and only then is there an address.
    let from_kernel = code > 0;
    if from_kernel {
        // SAFETY: as above; both signals carry an address.
        report_overflow(unsafe { (*info).si_addr() } as usize);
    }
    // SAFETY: as above. Those who are called next may look at errno.
    unsafe { *libc::__errno_location() = errno };
    // SAFETY: the arguments are those that the kernel passed.
    unsafe { pass_on(signal, info, context, from_kernel) };
}

/// Returns if the address is in no guard of ours.
fn report_overflow(address: usize) {
    // Acquire: pairs with the store in `install`.
    let describe = DESCRIBE.load(Ordering::Acquire);
    if describe.is_null() {
        return;
    }
    // SAFETY: a `Describe` is all that is ever stored there, apart from null.
    let describe: Describe = unsafe { mem::transmute::<*mut (), Describe>(describe) };
    let Some(task) = describe(address).filter(|task| task.guard.contains(&address)) else {
        return;
    };
    let mut line = Line::new();
    line.text(b"cygnet: ");
    line.text(task.kind.as_bytes());
    if task.name_len > 0 {
        // SAFETY: `describe` promises readable bytes.
        let name = unsafe { std::slice::from_raw_parts(task.name, task.name_len) };
        line.text(b" \"");
        line.name(name);
        line.text(b"\"");
    }
    line.text(b" (id ");
    line.number(task.id, 10);
    if let Some(place) = task.spawned_at {
        line.text(b", spawned at ");
        line.place(place);
    }
    line.text(b") has overflowed its stack of ");
    line.number(task.stack_size as u64, 10);
    line.text(b" bytes (fault at 0x");
    line.number(address as u64, 16);
    line.text(b"); give it more with Builder::stack_size or TaskBuilder::stack_size\n");
    line.write_to_stderr();
    // SAFETY: no precondition, and async-signal-safe.
    unsafe { libc::abort() }
}

/// Does what would have happened without us.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    from_kernel: bool,
) {
    let previous = &PREVIOUS[usize::from(signal != SIGNALS[0])];
    // Acquire: pairs with `remember`.
    let action = previous.action.load(Ordering::Acquire);
    let flags = previous.flags.load(Ordering::Relaxed);
    match action {
        libc::SIG_IGN if !from_kernel => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction is executed again when we return, and faults under the action that
            // was there before. (The kernel ends a process that ignores a real fault.)
            let mut before = default_action();
            before.sa_sigaction = action;
            let _ = exchange(signal, Some(&before));
            if !from_kernel {
                // Somebody sent the signal: no instruction will repeat it.
                // SAFETY: no precondition. It stays pending until this handler has returned.
                unsafe { libc::raise(signal) };
            }
        }
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                previous.action.store(libc::SIG_DFL, Ordering::Release);
            }
            if flags & libc::SA_SIGINFO != 0 {
                type Full = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: it was installed as a handler with three arguments.
                let handler = unsafe { mem::transmute::<usize, Full>(action) };
                // SAFETY: it is called with the kernel's own arguments.
                unsafe { handler(signal, info, context) };
            } else {
                type Plain = unsafe extern "C" fn(libc::c_int);
                // SAFETY: it was installed as a handler with one argument.
                let handler = unsafe { mem::transmute::<usize, Plain>(action) };
                // SAFETY: as above.
                unsafe { handler(signal) };
            }
        }
    }
}

/// A line of text in a buffer of its own. What does not fit is left out.
struct Line {
    bytes: [u8; Line::ROOM],
    len: usize,
}

impl Line {
    const ROOM: usize = 768;
    /// Longer names are cut, so that the rest of the line always fits.
    const LONGEST_NAME: usize = 128;
    /// Longer paths are cut too, at their beginning: the file's name stands at the end.
    const LONGEST_PATH: usize = 256;

    fn new() -> Line {
        Line { bytes: [0; Line::ROOM], len: 0 }
    }

    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(free) = self.bytes.get_mut(self.len) {
                *free = byte;
                self.len += 1;
            }
        }
    }

    /// A name is somebody else's text: control characters would reach a terminal.
    fn name(&mut self, name: &[u8]) {
        for &byte in name.iter().take(Line::LONGEST_NAME) {
            self.text(&[if byte.is_ascii_control() { b'?' } else { byte }]);
        }
        if name.len() > Line::LONGEST_NAME {
            self.text(b"...");
        }
    }

    /// File, line and column. Reads three fields of a constant.
    fn place(&mut self, place: &Location<'_>) {
        self.path(place.file().as_bytes());
        self.text(b":");
        self.number(place.line().into(), 10);
        self.text(b":");
        self.number(place.column().into(), 10);
    }

    fn path(&mut self, path: &[u8]) {
        let cut = path.len().saturating_sub(Line::LONGEST_PATH);
        if cut > 0 {
            self.text(b"...");
        }
        // Not from within a character of several bytes.
        let begins = |byte: &u8| byte & 0xC0 != 0x80;
        let first = path[cut..].iter().position(begins).unwrap_or(0);
        self.text(&path[cut + first..]);
    }

    fn number(&mut self, mut number: u64, base: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[(number % base) as usize];
            number /= base;
            if number == 0 {
                break;
            }
        }
        self.text(&digits[first..]);
    }

    fn write_to_stderr(&self) {
        let mut rest = &self.bytes[..self.len];
        while !rest.is_empty() {
            // SAFETY: the pointer and length are those of a slice.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                // SAFETY: every thread has an errno.
                Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => {}
                // Nobody listens; the abort that follows must not wait for it.
                _ => return,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "overflow_tests.rs"]
mod tests;
