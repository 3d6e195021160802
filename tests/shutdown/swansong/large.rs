//! Trees as wide and as deep as memory allows: nothing recurses, and no operation on one node looks
//! at the whole tree.

use super::{Watched, completion_of, is_stopped, waiting};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;

/// Runs on a thread with a stack for fewer than a thousand nested calls.
fn with_a_small_stack(show: impl FnOnce() + Send) {
    if leaves_out("a thread with a stack of another size") {
        return;
    }
    // Under a sanitizer the same functions take several times as much.
    let size = if SANITIZED { 256 << 10 } else { 64 << 10 };
    watchdog::within_seconds(60, || {
        std::thread::scope(|s| {
            std::thread::Builder::new().stack_size(size).spawn_scoped(s, show).unwrap();
        });
    });
}

/// A root and a line of descendants, a hundred thousand nodes in all.
fn line() -> Vec<Swansong> {
    let mut line = vec![Swansong::new()];
    (1..scaled_in_debug(100_000)).for_each(|_| line.push(line.last().unwrap().child()));
    line
}

/// S45.
#[test]
fn a_line_of_a_hundred_thousand_is_guarded_at_its_end_stopped_and_completes() {
    with_a_small_stack(|| {
        let line = line();
        let (root, lowest) = (&line[0], &line[line.len() - 1]);
        let mut waits = waiting(lowest);
        for _ in 0..3 {
            let guard = lowest.guard();
            assert_eq!((root.guard_count(), line[line.len() / 2].guard_count()), (1, 1));
            drop(guard);
            assert_eq!(root.guard_count(), 0);
        }
        let guard = lowest.guard();
        let mut completion = Watched::new(root.shut_down());
        assert!(completion.poll().is_none());
        assert!(waits.is_woken() && line.iter().all(is_stopped));
        assert_eq!((waits.poll(), root.state()), (Some(None), ShuttingDown));
        drop(guard);
        assert!(completion.is_resolved());
        assert!(line.iter().all(|it| it.state() == Complete));
        drop(lowest.guard());
    });
}

#[test]
fn a_line_of_a_hundred_thousand_is_dropped_from_the_top() {
    with_a_small_stack(|| {
        let line = line();
        let (lowest, guard) = (line.last().unwrap().clone(), line.last().unwrap().guard());
        let mut completion = Watched::new(completion_of(&line[0]));
        assert!(completion.poll().is_none());
        // The drop of the root stops them all.
        line.into_iter().for_each(drop);
        assert!(is_stopped(&lowest) && completion.poll().is_none());
        drop(guard);
        assert!(completion.is_resolved());
        drop(completion);
        // The last handle takes the whole line along.
        drop(lowest);
    });
}

#[test]
fn a_line_of_a_hundred_thousand_is_dropped_from_the_bottom() {
    with_a_small_stack(|| {
        let mut line = line();
        let guard = line.last().unwrap().guard();
        let root = line[0].clone();
        while line.pop().is_some() {}
        assert_eq!((root.state(), root.guard_count()), (Running, 1));
        root.shut_down();
        drop(guard);
        assert_eq!(root.state(), Complete);
    });
}

#[test]
fn a_line_of_a_hundred_thousand_that_one_guard_keeps_goes_with_it() {
    for stops in [false, true] {
        with_a_small_stack(|| {
            let mut line = line();
            let guard = line.last().unwrap().guard();
            line.truncate(1);
            let root = line.pop().unwrap();
            assert_eq!(root.guard_count(), 1);
            if stops {
                root.shut_down();
            }
            drop(guard);
            assert_eq!((root.guard_count(), is_stopped(&root)), (0, stops));
        });
    }
}

#[test]
fn a_line_of_a_hundred_thousand_that_one_handle_keeps_is_stopped() {
    with_a_small_stack(|| {
        let lowest = line().pop().unwrap();
        assert!(is_stopped(&lowest), "its root has no handle left");
        assert_eq!(lowest.child().state(), Complete);
        drop(lowest);
        // A completion alone keeps a line, too.
        let completion = completion_of(&line().pop().unwrap());
        completion.block();
    });
}

#[test]
fn a_line_of_a_hundred_thousand_is_dropped_in_a_mixed_order() {
    with_a_small_stack(|| {
        let line = line();
        let (root, n) = (line[0].clone(), line.len());
        let mut guards: Vec<_> = (0..10).map(|part| line[n / 10 * part].guard()).collect();
        let mut line: Vec<_> = line.into_iter().map(Some).collect();
        // Every seventh handle, then the rest.
        for step in [7, 1] {
            (0..n).step_by(step).for_each(|at| drop(line[at].take()));
            assert_eq!(root.guard_count(), guards.len());
            guards.truncate(5);
            assert_eq!(root.guard_count(), 5);
        }
        root.shut_down();
        assert_eq!(root.state(), ShuttingDown);
        guards.clear();
        assert_eq!(root.state(), Complete);
    });
}

/// S45.
#[test]
fn a_million_children_are_made_guarded_stopped_and_dropped() {
    let width = scaled_in_debug(1_000_000);
    with_a_small_stack(|| {
        let root = Swansong::new();
        let mut children: Vec<_> = (0..width).map(|_| root.child()).collect();
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
        let mut guards: Vec<_> = children.iter().map(Swansong::guard).collect();
        assert_eq!(root.guard_count(), width);
        // Half of them lose their handles; their guards keep them.
        children.truncate(width / 2);
        guards.drain(..width / 4);
        assert_eq!(root.guard_count(), width - width / 4);
        let mut completion = Watched::new(root.shut_down());
        assert!(children.iter().all(is_stopped));
        assert_eq!(children.iter().filter(|it| it.state() == Complete).count(), width / 4);
        let last = guards.pop();
        drop(guards);
        assert!(completion.poll().is_none());
        drop(last);
        assert!(completion.is_resolved());
        assert_eq!(root.guard_count(), 0);
    });
}

#[test]
fn a_million_children_come_and_go_one_after_the_other() {
    let number = scaled_in_debug(1_000_000);
    within(|| {
        let root = Swansong::new();
        let standing: Vec<_> = (0..100).map(|_| root.child()).collect();
        for n in 0..number {
            let child = root.child();
            if n % 3 == 0 {
                drop(child.guard());
            }
        }
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
        root.shut_down().block();
        assert!(standing.iter().all(is_stopped));
    });
}

#[test]
fn a_million_interrupts_of_one_are_all_woken() {
    let number = scaled_in_debug(1_000_000);
    within(|| {
        let root = Swansong::new();
        let mut waits: Vec<_> =
            (0..number).map(|_| Box::pin(root.interrupt(pending::<()>()))).collect();
        let called = crate::Called::new();
        let mut cx = called.cx();
        assert!(waits.iter_mut().all(|it| it.as_mut().poll(&mut cx).is_pending()));
        // One half gives up before.
        waits.truncate(number / 2);
        block_on(root.shut_down());
        assert_eq!(called.count(), number / 2);
        assert!(waits.iter_mut().all(|it| it.as_mut().poll(&mut cx).is_ready()));
    });
}
