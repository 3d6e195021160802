//! Stops by signals: Ctrl-C, and what a service manager sends.
//!
//! The handlers of signal-hook note the number of a signal and write a byte into a pipe. One thread
//! reads the bytes, and waits no longer than until the next grace is over. So all that a signal
//! leads to happens on that thread.

use super::Swansong;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{slice, thread};

/// Shuts `swansong` down when the process is told to end, by SIGINT (Ctrl-C) or SIGTERM (which
/// service managers send).
///
/// * The first signal [shuts down](Swansong::shut_down). When `grace` has passed, what is left is
///   cancelled, as by [`shut_down_within`](Swansong::shut_down_within).
/// * The second one cancels it at once: [`shut_down_now`](Swansong::shut_down_now).
/// * The third one has its default action: it ends the process. So has any signal when the shutdown
///   is complete.
///
/// A program may call this several times, for several `Swansong`s. Each signal is for all of them,
/// the earlier signals too. The call keeps a handle until the shutdown is complete, so dropping the
/// other handles stops nothing.
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
    if !stops.listening {
        listen()?;
        stops.listening = true;
    }
    let over = if stops.heard > 0 { after(grace) } else { None };
    stops.all.push(Stop { swansong: swansong.clone(), grace, over });
    let heard = stops.heard;
    drop(stops);
    act(heard, slice::from_ref(swansong));
    Ok(())
}

/// What the signals stop.
struct Stops {
    listening: bool,
    /// Signals so far, while there was something to stop.
    heard: usize,
    all: Vec<Stop>,
}

struct Stop {
    swansong: Swansong,
    grace: Duration,
    /// When the grace is over, from the first signal to the cancel.
    over: Option<Instant>,
}

static STOPS: Mutex<Stops> = Mutex::new(Stops { listening: false, heard: 0, all: Vec::new() });

/// No stop happens under the lock, as a stop calls wakers.
fn lock() -> MutexGuard<'static, Stops> {
    STOPS.lock().expect("nothing panics under the lock")
}

fn after(grace: Duration) -> Option<Instant> {
    Instant::now().checked_add(grace)
}

/// Does to Swansongs what the latest of `heard` signals demands.
fn act(heard: usize, to: &[Swansong]) {
    for swansong in to {
        match heard {
            0 => {}
            1 => drop(swansong.shut_down()),
            _ => drop(swansong.shut_down_now()),
        }
    }
}

/// A signal has come. Returns whether it is to have its default action.
fn hear() -> bool {
    let mut stops = lock();
    stops.all.retain(|stop| !stop.swansong.state().is_complete());
    stops.heard += usize::from(!stops.all.is_empty());
    let heard = stops.heard;
    if stops.all.is_empty() || heard > 2 {
        return true;
    }
    stops.all.iter_mut().for_each(|stop| stop.over = after(stop.grace).filter(|_| heard == 1));
    let all: Vec<_> = stops.all.iter().map(|stop| stop.swansong.clone()).collect();
    drop(stops);
    act(heard, &all);
    false
}

/// Cancels what has had its grace. Returns how long the rest has at most.
fn look_at_the_clock() -> Option<Duration> {
    let mut stops = lock();
    stops.all.retain(|stop| !stop.swansong.state().is_complete());
    let now = Instant::now();
    let is_over = |stop: &&mut Stop| stop.over.is_some_and(|over| over <= now);
    let late = stops.all.iter_mut().filter(is_over).map(|stop| {
        stop.over = None;
        stop.swansong.clone()
    });
    let late: Vec<_> = late.collect();
    let next = stops.all.iter().filter_map(|stop| stop.over).min();
    drop(stops);
    act(2, &late);
    next.map(|over| over.saturating_duration_since(now))
}

/// Installs the handlers, and starts the thread.
fn listen() -> io::Result<()> {
    let (told, tell) = UnixStream::pair()?;
    let last = Arc::new(AtomicUsize::new(0));
    let mut handlers = Vec::new();
    let install = |handlers: &mut Vec<_>| -> io::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            // First, as handlers run in this order.
            handlers.push(flag::register_usize(signal, Arc::clone(&last), signal as usize)?);
            handlers.push(low_level::pipe::register(signal, tell.try_clone()?)?);
        }
        let last = Arc::clone(&last);
        let thread = thread::Builder::new().name("cygnet-signals".to_owned());
        thread.spawn(move || serve(told, &last)).map(drop)
    };
    install(&mut handlers).inspect_err(|_| {
        for handler in handlers.iter() {
            low_level::unregister(*handler);
        }
    })
}

/// The body of the thread. Returns if no handler has the other end of the pipe.
fn serve(mut told: UnixStream, last: &AtomicUsize) {
    loop {
        // The system does not take a time of zero, nor one that it cannot count.
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(1 << 20));
        let time = look_at_the_clock().map(|time| time.clamp(least, most));
        told.set_read_timeout(time).expect("a time within the bounds is accepted");
        match told.read(&mut [0]) {
            Ok(0) => return,
            Ok(_) if hear() => end(last.load(Ordering::SeqCst)),
            Ok(_) => {}
            Err(error) => {
                let kind = error.kind();
                debug_assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted));
            }
        }
    }
}

/// Ends the process as a signal does that has no handler.
fn end(signal: usize) {
    let signal = i32::try_from(signal).expect("a signal has a small number");
    let _ = low_level::emulate_default_handler(signal);
    // Not reached: the default action of both signals ends the process.
    std::process::exit(128 + signal);
}
