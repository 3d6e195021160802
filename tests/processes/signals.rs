//! Stops by signals. Each test is a process of its own.

// ThreadSanitizer keeps a signal until the thread that got it calls into its runtime, which a thread
// that waits does not.
#![cfg(not(cygnet_tsan))]

use crate::common::prelude::*;
use cygnet::shutdown::{Swansong, on_signals};
use std::os::unix::process::ExitStatusExt;

fn raise(signal: i32) {
    // SAFETY: sends a signal to this process, which has a handler for it.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

/// Runs a test in a process of its own, and returns what ended that by a signal.
fn signal_that_ends(body: impl FnOnce()) -> Option<i32> {
    let output = in_child(body)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let signal = output.status.signal();
    assert!(signal.is_some(), "it ended by itself: {said}");
    signal
}

/// S99.
#[test]
fn the_first_signal_stops_the_second_cancels_and_the_third_kills() {
    let ended_by = signal_that_ends(|| {
        let rt = runtime(2);
        let (first, second) = (Swansong::new(), rt.swansong());
        on_signals(&first, Duration::MAX).unwrap();
        on_signals(&second, Duration::MAX).unwrap();
        // A guard of the thread, which no cancel ends.
        let (_guard, stuck) = (first.guard(), task().guard(&second).spawn_in(&rt, park));
        raise(libc::SIGINT);
        second.shutting_down().block();
        eventually("both are stopped", || first.state().is_shutting_down());
        let late = Swansong::new();
        on_signals(&late, Duration::MAX).unwrap();
        assert!(late.state().is_complete(), "the signal is not for what comes later");
        // Its grace ends, though the thread that waits for signals knew of none.
        let soon = Swansong::new();
        let late = task().guard(&soon).spawn_in(&rt, park);
        on_signals(&soon, Duration::from_millis(20)).unwrap();
        assert!(!matches!(late.join(), Ok(Ok(()))));
        assert!(!stuck.is_finished());
        raise(libc::SIGTERM);
        let waited = stuck.join().unwrap();
        assert_eq!(*waited.unwrap_err().reason(), Reason::GraceOver);
        // The other is not complete.
        raise(libc::SIGTERM);
        loop {
            thread::park();
        }
    });
    assert!(ended_by.is_none_or(|signal| signal == libc::SIGTERM), "{ended_by:?}");
}

/// S99.
#[test]
fn the_grace_begins_with_the_first_signal_and_then_all_is_cancelled() {
    let ended_by = signal_that_ends(|| {
        let rt = runtime(1);
        let [soon, later] = [Duration::from_millis(30), Duration::MAX].map(|grace| {
            let swansong = Swansong::new();
            on_signals(&swansong, grace).unwrap();
            swansong
        });
        let [stuck, waits] =
            [&soon, &later].map(|swansong| task().guard(swansong).spawn_in(&rt, park));
        // No time has passed for them.
        thread::sleep(Duration::from_millis(60));
        assert!(soon.state().is_running());
        raise(libc::SIGTERM);
        assert!(stuck.join().unwrap().is_err());
        soon.block_on_shutdown_completion();
        assert!(later.state().is_shutting_down() && !waits.is_finished());
        drop(waits);
        later.block_on_shutdown_completion();
        // All is complete: the next signal ends the process.
        raise(libc::SIGINT);
        loop {
            thread::park();
        }
    });
    assert!(ended_by.is_none_or(|signal| signal == libc::SIGINT), "{ended_by:?}");
}

/// S99. The process is stuck in a waker that the stop calls.
#[test]
fn the_third_signal_kills_a_process_whose_wakers_do_not_return() {
    let ended_by = signal_that_ends(|| {
        let swansong = Swansong::new();
        on_signals(&swansong, Duration::MAX).unwrap();
        let _guard = swansong.guard();
        let (stuck, is_stuck) = channel();
        let waker = Waker::from(Arc::new(Stuck(stuck)));
        let _stopped = begun_by(swansong.shutting_down(), &waker);
        raise(libc::SIGINT);
        is_stuck.recv().unwrap();
        // Two that come at the same time may be one for the process.
        loop {
            raise(libc::SIGINT);
            thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(ended_by.is_none_or(|signal| signal == libc::SIGINT), "{ended_by:?}");
}

struct Stuck(common::mpsc::Sender<()>);

impl Wake for Stuck {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
        loop {
            thread::park();
        }
    }
}

/// S99. Ctrl-C goes to the forked process too, which is to end and not to count.
#[test]
fn a_forked_process_ends_by_the_first_signal_and_does_not_stop_its_parent() {
    // An emulator that forks while another of its threads runs may hang.
    if emulated() {
        return;
    }
    in_own_process_leaking(|| {
        let swansong = Swansong::new();
        on_signals(&swansong, Duration::MAX).unwrap();
        // SAFETY: the child calls nothing but pause.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        }
        assert!(child > 0);
        // SAFETY: a signal to the child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(child, libc::SIGTERM) }, 0);
        let mut status = 0;
        // SAFETY: waits for the child, and writes to an integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM, "{status}");
        thread::sleep(Duration::from_millis(20));
        assert!(swansong.state().is_running());
    });
}
