//! Reports stack overflows.
//!
//! A frame that does not fit touches the guard, and the kernel sends SIGSEGV. No stack is left to
//! handle the signal on, so each worker has an [`AltStack`]. The handler asks its [`Describe`]
//! function for the owner of the guard at the fault address. If the guard is one of ours, the
//! handler writes a report to stderr and aborts. It passes every other fault to the previous
//! handler, as if ours were not installed.
//!
//! Everything that runs in the handler is async-signal-safe: it reads atomics, formats into a
//! buffer on its own stack, and calls write, sigaction, raise and abort. It takes no lock and does
//! not allocate. The atomics are std's and not the shim's, as a model checker has no signals.
//!
//! The handlers of a process form a chain, and each library edits it without knowing the others.
//! Therefore:
//!
//! * Installing our handler records the previous action and takes over its signal mask.
//! * A handler that is installed after ours is left alone. It may call ours as its own predecessor.
//! * When the last user goes, our handler is removed if it is still the first of the chain.
//!   Otherwise it stays and passes every fault on. It is not installed a second time, which would
//!   close the chain into a loop.

use crate::shim::real::Mutex;
use std::ops::Range;
use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::{io, mem, ptr};

pub(crate) use super::alt_stack::AltStack;

/// Returns the owner of the guard at an address. Runs in a signal handler, on the thread that
/// faulted: it reads that thread's own state, takes no lock and does not allocate.
pub(crate) type Describe = fn(fault_address: usize) -> Option<Description>;

/// The owner of a guard.
pub(crate) struct Description {
    /// The kind of owner, such as "task".
    pub(crate) kind: &'static str,
    /// The name, `name_len` bytes that stay readable until the process has ended. May be empty.
    pub(crate) name: *const u8,
    pub(crate) name_len: usize,
    pub(crate) id: u64,
    /// The place where a task was spawned.
    pub(crate) spawned_at: Option<&'static Location<'static>>,
    /// The stack size as the user knows it.
    pub(crate) stack_size: usize,
    /// The addresses of the guard.
    pub(crate) guard: Range<usize>,
}

/// Linux reports an access to a guard as SIGSEGV, and some emulators report it as SIGBUS.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The part of the previous action of one signal that our handler needs.
struct Previous {
    action: AtomicUsize,
    flags: AtomicI32,
}

static PREVIOUS: [Previous; 2] =
    [const { Previous { action: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0) } }; 2];

/// The function of all users.
static DESCRIBE: OnceLock<Describe> = OnceLock::new();

/// Whether there are users, so that faults are reported.
static REPORTS: AtomicBool = AtomicBool::new(false);

/// The users of the handlers, and the actions to restore after the last one.
struct Users {
    count: usize,
    /// For each of `SIGNALS`: the whole previous action, while our handler is in the chain.
    before: [Option<libc::sigaction>; 2],
}

static USERS: Mutex<Users> = Mutex::new(Users { count: 0, before: [None; 2] });

/// Keeps the handlers installed until it is dropped.
#[must_use = "the handlers go when this is dropped"]
pub(crate) struct Reporter(());

/// Installs the handlers, unless an earlier user has done so.
///
/// All users in a process share one `describe`, a function of this library.
pub(crate) fn install(describe: Describe) -> io::Result<Reporter> {
    let mut users = USERS.lock();
    DESCRIBE.get_or_init(|| describe);
    // Release: a handler that sees this sees the function, too.
    REPORTS.store(true, Ordering::Release);
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
        let mut users = USERS.lock();
        users.count -= 1;
        if users.count > 0 {
            return;
        }
        // From here on, our handler passes everything on if a later handler still calls it.
        REPORTS.store(false, Ordering::Release);
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let in_front = exchange(signal, None).is_ok_and(|now| now.sa_sigaction == ours());
            if in_front && let Some(before) = users.before[index].take() {
                // After an error our handler stays installed, which is harmless.
                let _ = exchange(signal, Some(&before));
            }
        }
    }
}

/// Installs our handler for a signal and returns the previous action.
fn put_in_front(index: usize, signal: libc::c_int) -> io::Result<libc::sigaction> {
    // The handler may run as soon as it is installed, so `PREVIOUS` must be set before.
    let before = exchange(signal, None)?;
    remember(index, &before);
    let replaced = exchange(signal, Some(&our_action(&before)))?;
    // The same action again, unless another handler was installed in between.
    remember(index, &replaced);
    Ok(replaced)
}

/// Stores the action to which our handler passes faults.
fn remember(index: usize, before: &libc::sigaction) {
    // Release: a handler that sees this action sees its flags, too.
    PREVIOUS[index].flags.store(before.sa_flags, Ordering::Relaxed);
    PREVIOUS[index].action.store(before.sa_sigaction, Ordering::Release);
}

/// Returns the address of our handler.
fn ours() -> usize {
    on_fault as *const () as usize
}

/// Returns the action that installs our handler in front of `before`. It has the signal mask of
/// `before`, so that the previous handler runs under the mask that it asked for when ours calls it.
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
    // SAFETY: a sigaction consists of integers, for which zeroes are valid: SIG_DFL, an empty mask
    // and no flags.
    let action: libc::sigaction = unsafe { mem::zeroed() };
    debug_assert_eq!(action.sa_sigaction, libc::SIG_DFL);
    action
}

/// Calls sigaction(2): sets `new` if there is one, and returns the previous action.
fn exchange(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut old = default_action();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or points to a live action, and `old` is a live action. A handler in
    // `new` is ours, or one that was installed before.
    match unsafe { libc::sigaction(signal, new, &mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Our handler: reports an overflow, or passes the fault on. Our action has SA_SIGINFO, so the
/// kernel passes a valid siginfo and a context.
extern "C" fn on_fault(
    number: libc::c_int,
    info: &mut libc::siginfo_t,
    context: &mut libc::ucontext_t,
) {
    let before = errno(|errno| *errno);
    // The kernel's own codes are above zero. Only these come with an address.
    let from_kernel = info.si_code > 0;
    if from_kernel {
        // SAFETY: the siginfo is one that the kernel gives to these two signals, with an address.
        report_overflow(unsafe { info.si_addr() } as usize);
    }
    // The previous handler may read errno.
    errno(|errno| *errno = before);
    Signal { number, info, context }.pass_on(from_kernel);
}

/// Calls `f` with the errno of this thread.
fn errno<R>(f: impl FnOnce(&mut libc::c_int) -> R) -> R {
    // SAFETY: every thread has an errno, and `f`, a load or a store, is its only user meanwhile.
    f(unsafe { &mut *libc::__errno_location() })
}

/// Reports an overflow and aborts, if `address` is in a guard of ours. Otherwise returns.
fn report_overflow(address: usize) {
    // Acquire: pairs with the store in `install`.
    let describe = DESCRIBE.get().filter(|_| REPORTS.load(Ordering::Acquire));
    let described = describe.and_then(|describe| describe(address));
    let Some(task) = described.filter(|task| task.guard.contains(&address)) else { return };
    let mut line = Line::new();
    line.text(b"cygnet: ");
    line.text(task.kind.as_bytes());
    if task.name_len > 0 {
        // SAFETY: by the contract of `Description`, `name_len` bytes at `name` are readable.
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
    // No more than the abort of libc, which is async-signal-safe.
    std::process::abort()
}

/// The arguments that the kernel has passed to our handler.
struct Signal<'a> {
    number: libc::c_int,
    info: &'a mut libc::siginfo_t,
    context: &'a mut libc::ucontext_t,
}

impl Signal<'_> {
    /// Handles the signal as the previous action would have handled it.
    fn pass_on(self, from_kernel: bool) {
        let previous = &PREVIOUS[usize::from(self.number != SIGNALS[0])];
        // Acquire: pairs with `remember`.
        let action = previous.action.load(Ordering::Acquire);
        let flags = previous.flags.load(Ordering::Relaxed);
        match action {
            libc::SIG_IGN if !from_kernel => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // The faulting instruction is executed again when this handler returns, and then
                // faults under the previous action. (If that ignores the signal, the kernel ends
                // the process.)
                let mut before = default_action();
                before.sa_sigaction = action;
                let _ = exchange(self.number, Some(&before));
                if !from_kernel {
                    // The signal was sent, so no instruction will repeat it.
                    // SAFETY: `raise` has no precondition. The signal stays pending until this
                    // handler has returned.
                    unsafe { libc::raise(self.number) };
                }
            }
            _ => {
                if flags & libc::SA_RESETHAND != 0 {
                    previous.action.store(libc::SIG_DFL, Ordering::Release);
                }
                self.call(action, flags & libc::SA_SIGINFO != 0);
            }
        }
    }

    /// Calls the handler at the address `action`, which was installed with SA_SIGINFO or without.
    fn call(self, action: libc::sighandler_t, with_info: bool) {
        type Full = extern "C" fn(libc::c_int, &mut libc::siginfo_t, &mut libc::ucontext_t);
        type Plain = extern "C" fn(libc::c_int);
        if with_info {
            // SAFETY: the action has SA_SIGINFO, so it was installed as a function of three
            // arguments, which is sound to call with what the kernel passes to a handler.
            let handler = unsafe { mem::transmute::<usize, Full>(action) };
            handler(self.number, self.info, self.context);
        } else {
            // SAFETY: the action has no SA_SIGINFO, so it was installed as a function of one
            // argument, which is sound to call with the number of a signal that is being handled.
            let handler = unsafe { mem::transmute::<usize, Plain>(action) };
            handler(self.number);
        }
    }
}

/// A line of text in a buffer of its own. Text beyond the end of the buffer is dropped.
struct Line {
    bytes: [u8; Line::ROOM],
    len: usize,
}

impl Line {
    const ROOM: usize = 768;
    /// Longer names are cut, so that the rest of the line always fits.
    const LONGEST_NAME: usize = 128;
    /// Longer paths are cut at their beginning: the end has the name of the file.
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

    /// Appends a name. Replaces control characters, as the text comes from the user and goes to a
    /// terminal.
    fn name(&mut self, name: &[u8]) {
        for &byte in name.iter().take(Line::LONGEST_NAME) {
            self.text(&[if byte.is_ascii_control() { b'?' } else { byte }]);
        }
        if name.len() > Line::LONGEST_NAME {
            self.text(b"...");
        }
    }

    /// Appends file, line and column. Reads only three fields of a constant.
    fn place(&mut self, place: &Location<'_>) {
        self.path(place.file().as_bytes());
        self.text(b":");
        self.number(place.line().into(), 10);
        self.text(b":");
        self.number(place.column().into(), 10);
    }

    /// Appends a path, or the end of a long one.
    fn path(&mut self, path: &[u8]) {
        let cut = path.len().saturating_sub(Line::LONGEST_PATH);
        if cut > 0 {
            self.text(b"...");
        }
        // The text must not begin inside a multi-byte character.
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
            // SAFETY: pointer and length describe the slice `rest`.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(_) if errno(|errno| *errno) == libc::EINTR => {}
                // The line cannot be written, and the abort must not wait for it.
                _ => return,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "overflow_tests.rs"]
mod tests;
