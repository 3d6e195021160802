//! Stops by signals: Ctrl-C, and what a service manager sends.
//!
//! The handler counts the signals, lets the third one end the process, and writes a byte into a
//! pipe. One thread reads the bytes, and waits no longer than until the next grace is over. So all
//! else that a signal leads to happens on that thread. It does what the count demands: a byte says
//! only that there is something to look at.

use super::Swansong;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{process, ptr, thread};

/// Shuts `swansong` down when the process is told to end, by SIGINT (Ctrl-C) or SIGTERM (which
/// service managers send).
///
/// * The first signal [shuts down](Swansong::shut_down). When `grace` has passed, what is left is
///   cancelled, as by [`shut_down_within`](Swansong::shut_down_within).
/// * The second one cancels it at once: [`shut_down_now`](Swansong::shut_down_now).
/// * The third one has its default action: it ends the process, even if wakers or hooks that the
///   stop calls do not return. So has any signal when the shutdown is complete.
///
/// A program may call this several times, for several `Swansong`s. Each signal is for all of them,
/// the earlier signals too. The call keeps a handle until the shutdown is complete, so dropping the
/// other handles stops nothing. A signal that the process ignores at the first call, as `nohup` and
/// the background of a script have it, stays ignored. In a process forked from this one without an
/// `exec` the signals have their default action.
///
/// The program goes on until it has seen the stop, and ends as it likes. To tell the user about a
/// signal, wait for [`shutting_down`](Swansong::shutting_down).
///
/// Does not suspend. The first call installs two handlers, which stay, and starts a thread, which
/// waits for signals as long as the process lives.
///
/// ```no_run
/// use cygnet::{Runtime, shutdown};
/// use std::time::Duration;
///
/// let rt = Runtime::new()?;
/// shutdown::on_signals(&rt.swansong(), Duration::from_secs(30))?;
/// rt.block_on(|| {
///     let requests = cygnet::shutdown::current().interrupt(0..); // ends at the first signal
///     for request in requests {
///         cygnet::task().guard(&shutdown::current()).spawn(move || request + 1).detach();
///     }
/// });
/// println!("{}", rt.shutdown(Duration::MAX));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the system refuses a pipe, a handler or the thread. Then a signal that had its default action
/// before the first call is ignored.
pub fn on_signals(swansong: &Swansong, grace: Duration) -> io::Result<()> {
    let mut stops = lock();
    if stops.listener.is_none() {
        stops.listener = Some(listen()?);
    }
    stops.all.push(Stop { swansong: swansong.clone(), grace, told: 0, over: None });
    drop(stops);
    act();
    // The thread may wait longer than this grace.
    lock().listener.iter_mut().try_for_each(|listener| listener.write_all(&[0]))
}

/// Signals so far.
static HEARD: AtomicUsize = AtomicUsize::new(0);
/// The latest of them.
static LATEST: AtomicI32 = AtomicI32::new(0);

/// What the signals stop.
struct Stops {
    /// The pipe to the thread.
    listener: Option<UnixStream>,
    all: Vec<Stop>,
}

struct Stop {
    swansong: Swansong,
    grace: Duration,
    /// The signals that the Swansong has been told of. The end of the grace counts as the second.
    told: usize,
    /// When the grace is over, from the first signal to the cancel.
    over: Option<Instant>,
}

static STOPS: Mutex<Stops> = Mutex::new(Stops { listener: None, all: Vec::new() });

/// No stop happens under the lock, as a stop calls wakers.
fn lock() -> MutexGuard<'static, Stops> {
    STOPS.lock().expect("nothing panics under the lock")
}

impl Stop {
    /// What the Swansong is to be told now, if it has not been.
    fn next(&mut self, heard: usize, now: Instant) -> Option<(Swansong, usize)> {
        let is_over = self.over.is_some_and(|over| over <= now);
        let tell = if is_over { 2 } else { heard.min(2) };
        if tell <= self.told {
            return None;
        }
        self.told = tell;
        self.over = if tell == 1 { now.checked_add(self.grace) } else { None };
        Some((self.swansong.clone(), tell))
    }
}

/// Does what the signals so far, and the clock, demand. Returns how long there is nothing to do.
fn act() -> Option<Duration> {
    let mut stops = lock();
    // Before the clock and after the push of a stop: what is not seen here comes with a byte.
    let (heard, now) = (HEARD.load(Ordering::SeqCst), Instant::now());
    stops.all.retain(|stop| !stop.swansong.state().is_complete());
    let due: Vec<_> = stops.all.iter_mut().filter_map(|stop| stop.next(heard, now)).collect();
    let next = stops.all.iter().filter_map(|stop| stop.over).min();
    drop(stops);
    for (swansong, tell) in due {
        drop(if tell == 1 { swansong.shut_down() } else { swansong.shut_down_now() });
    }
    next.map(|over| over.saturating_duration_since(now))
}

/// Whether nothing is left to stop.
fn is_complete() -> bool {
    lock().all.iter().all(|stop| stop.swansong.state().is_complete())
}

/// Installs the handlers, and starts the thread. Returns the end of the pipe that tells it to look.
fn listen() -> io::Result<UnixStream> {
    let (told, tell) = UnixStream::pair()?;
    let mut handlers = Vec::new();
    let installed = [SIGINT, SIGTERM].into_iter().try_for_each(|signal| {
        if is_ignored(signal)? {
            return Ok(());
        }
        let own = process::id();
        let count = move || {
            let forked = process::id() != own;
            if forked || HEARD.fetch_add(1, Ordering::SeqCst) >= 2 {
                let _ = low_level::emulate_default_handler(signal);
            }
            LATEST.store(signal, Ordering::SeqCst);
        };
        // SAFETY: the action calls getpid, changes two atomics, and calls a function that may be
        // called in a handler.
        handlers.push(unsafe { low_level::register(signal, count) }?);
        // Afterwards, as the actions of a signal run in this order.
        handlers.push(low_level::pipe::register(signal, tell.try_clone()?)?);
        Ok(())
    });
    let serves = installed.and_then(|()| {
        thread::Builder::new().name("cygnet-signals".to_owned()).spawn(move || serve(told))
    });
    match serves {
        Ok(_) => Ok(tell),
        Err(error) => {
            for handler in handlers {
                low_level::unregister(handler);
            }
            Err(error)
        }
    }
}

/// Whether the process ignores a signal.
fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: a structure of integers and a set of bits, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the action, which is written to a structure that lives across the call.
    if unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// The body of the thread.
fn serve(mut told: UnixStream) {
    let mut seen = 0;
    loop {
        let heard = HEARD.load(Ordering::SeqCst);
        if heard > seen && is_complete() {
            end(LATEST.load(Ordering::SeqCst));
        }
        seen = heard;
        // The system does not take a time of zero, nor one that it cannot count.
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(1 << 20));
        let time = act().map(|time| time.clamp(least, most));
        told.set_read_timeout(time).expect("a time within the bounds is accepted");
        match told.read(&mut [0; 16]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                let kind = error.kind();
                debug_assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted));
            }
        }
    }
}

/// Ends the process as a signal does that has no handler.
fn end(signal: i32) {
    let _ = low_level::emulate_default_handler(signal);
    // Not reached: the default action of both signals ends the process.
    process::exit(128 + signal);
}
