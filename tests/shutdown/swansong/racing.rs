//! 5.6, and other races: ordered events are seen, and the tree stays consistent in any case.

use super::{Start, Watched, beside, completion_of, is_stopped, now, race, waiting};
use crate::common::prelude::*;
use crate::common::thread::yield_now;
use cygnet::shutdown::ShutdownState::{Complete, Running};
use cygnet::shutdown::Swansong;

/// S39.
#[test]
fn a_child_made_before_the_stop_eventually_sees_it() {
    rounds(500, |round| {
        let root = Swansong::new();
        let parent = if round % 2 == 0 { root.clone() } else { root.child() };
        let child = thread::scope(|s| s.spawn(|| parent.child()).join().unwrap());
        let mut waits = waiting(&child);
        // One of the stopping threads goes down the tree, and the others do not wait for it.
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| root.shut_down());
            }
            block_on(child.shutting_down());
        });
        assert!(is_stopped(&child) && waits.is_woken());
        assert_eq!(waits.poll(), Some(None));
    });
}

#[test]
fn a_child_made_after_the_stop_is_stopped_from_birth() {
    rounds(500, |_| {
        let (root, told) = (Swansong::new(), AtomicBool::new(false));
        thread::scope(|s| {
            s.spawn(|| {
                root.shut_down();
                told.store(true, Ordering::Release);
            });
            loop {
                let after = told.load(Ordering::Acquire);
                let child = root.child();
                if after {
                    assert_eq!(child.state(), Complete);
                    return;
                }
                yield_now();
            }
        });
    });
}

/// S38.
#[test]
fn only_guards_of_children_made_during_the_stop_delay_it() {
    rounds(1000, |round| {
        let (root, start) = (Swansong::new(), Start::of(3));
        thread::scope(|s| {
            let deep = s.spawn(|| {
                start.wait();
                let mut line = vec![root.child()];
                (0..round % 5).for_each(|_| line.push(line.last().unwrap().child()));
                line
            });
            let wide = s.spawn(|| {
                start.wait();
                (0..5).map(|_| root.child()).collect::<Vec<_>>()
            });
            start.wait();
            let mut completion = Watched::new(root.shut_down());
            assert!(completion.poll().is_some(), "there was no guard");
            let children = [deep.join().unwrap(), wide.join().unwrap()].concat();
            for child in &children {
                assert_eq!(child.state(), Complete);
                assert_eq!(now(&mut child.interrupt(pending::<()>())), Some(None));
                let guard = child.guard();
                assert_eq!((root.guard_count(), root.state().is_complete()), (1, false));
                drop(guard);
            }
        });
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    });
}

#[test]
fn the_completion_resolves_whenever_a_racing_guard_comes() {
    rounds(1000, |round| {
        let root = Swansong::new();
        let child = if round % 2 == 0 { root.child() } else { root.child().child() };
        let take_guards = |_| (0..5).for_each(|_| drop(child.guard()));
        race(2, take_guards, || root.shut_down().block());
        assert_eq!([root.state(), child.state()], [Complete; 2]);
        assert_eq!([root.guard_count(), child.guard_count()], [0; 2]);
        assert!(now(&mut root.shut_down()).is_some());
    });
}

/// S44.
#[test]
fn parents_and_children_that_are_stopped_at_once_all_complete() {
    rounds(500, |_| {
        let root = Swansong::new();
        let line = [root.child(), root.child().child(), root.clone()];
        let guard = line[1].guard();
        let stop = |n: usize| line[n].shut_down().block();
        race(line.len(), stop, || {
            root.shutting_down().block();
            drop(guard);
        });
        assert!(line.iter().all(|it| it.state() == Complete));
    });
}

#[test]
fn dropping_the_last_two_handles_of_a_root_at_once_stops_it() {
    rounds(1000, |_| {
        let root = Swansong::new();
        let (waits, child) = (waiting(&root), root.child());
        let (mut completion, guard) = (Watched::new(completion_of(&root)), root.guard());
        assert!(completion.poll().is_none());
        let other = root.clone();
        beside(|| drop(other), || drop(root));
        assert!(is_stopped(&child) && waits.is_woken() && completion.poll().is_none());
        drop(guard);
        assert!(completion.is_resolved());
    });
}

#[test]
fn no_guard_cloned_during_the_drop_of_the_last_handle_is_lost() {
    rounds(1000, |round| {
        let root = Swansong::new();
        let above = if round % 2 == 0 { None } else { Some(root.clone()) };
        let last = if above.is_some() { root.child() } else { root };
        let (guard, mut completion) =
            (last.guard(), completion_of(above.as_ref().unwrap_or(&last)));
        let clone = || {
            let guards: Vec<_> = (0..4).map(|_| guard.clone()).collect();
            drop(guard);
            guards
        };
        let guards = beside(clone, || drop(last));
        if let Some(root) = &above {
            assert_eq!((root.state(), root.guard_count()), (Running, 4));
            root.shut_down();
        }
        for guard in guards {
            assert!(now(&mut completion).is_none());
            drop(guard);
        }
        assert!(now(&mut completion).is_some());
    });
}

#[test]
fn an_interrupt_guarded_while_its_child_goes_holds_a_guard_or_ends() {
    rounds(1000, |_| {
        let root = Swansong::new();
        let child = root.child();
        let waits = child.interrupt(pending::<()>());
        let mut waits = beside(|| waits.guarded(), || drop(child));
        // With a guard the node goes on, and without a guard it has gone.
        assert_eq!(root.guard_count(), usize::from(now(&mut waits).is_none()));
        drop(waits);
        assert_eq!((root.state(), root.guard_count()), (Running, 0));
    });
}

#[test]
fn guards_of_another_thread_end_a_blocking_wait_and_an_awaited_one() {
    rounds(1000, |round| {
        let root = Swansong::new();
        let guards = [root.guard(), root.child().guard(), root.child().child().guard()];
        let start = Start::of(guards.len() + 2);
        thread::scope(|s| {
            let (start, completion) = (&start, root.shut_down());
            for guard in guards {
                s.spawn(move || {
                    start.wait();
                    drop(guard);
                });
            }
            s.spawn(|| {
                start.wait();
                completion_of(&root).block();
            });
            start.wait();
            if round % 2 == 0 {
                // A wait that is given up takes nothing from the others.
                let mut given_up = Watched::new(root.shut_down());
                given_up.poll();
            }
            block_on(completion);
        });
        assert_eq!(root.state(), Complete);
    });
}

#[test]
fn no_stop_is_missed_by_threads_that_begin_to_wait() {
    rounds(2000, |round| {
        let root = Swansong::new();
        let child = if round % 2 == 0 { root.clone() } else { root.child() };
        let (start, mut random) = (Start::of(3), Random(round as u64 + 1));
        let mut delay = || {
            let turns = random.below(200);
            move || (0..turns).for_each(|_| spin_loop())
        };
        thread::scope(|s| {
            for own_executor in [true, false] {
                let (interrupt, start, delay) = (child.interrupt(pending::<()>()), &start, delay());
                s.spawn(move || {
                    start.wait();
                    delay();
                    let ended =
                        if own_executor { Ok(block_on(interrupt)) } else { wait(interrupt) };
                    assert_eq!(ended, Ok(None));
                });
            }
            let delay = delay();
            start.wait();
            delay();
            root.shut_down();
        });
    });
}

/// S68.
#[test]
fn interrupts_that_are_dropped_while_it_stops_leave_nothing() {
    rounds(500, |_| {
        let root = Swansong::new();
        let waits: Vec<_> = (0..8).map(|_| waiting(&root)).collect();
        let calls: Vec<_> = waits.iter().map(|it| it.called.calls.clone()).collect();
        beside(|| drop(waits), || drop(root.shut_down()));
        // Each waker was called at most once, and no clone of it is left.
        for calls in calls {
            assert!(calls.count.load(Ordering::Acquire) <= 1);
            assert_eq!(std::sync::Arc::strong_count(&calls), 1);
        }
    });
}

/// Makes, uses and drops a child for each request, as a server does, while the parent stops.
#[test]
fn children_that_come_and_go_while_the_parent_stops_leave_it_complete() {
    rounds(300, |_| {
        let (root, served) = (Swansong::new(), AtomicUsize::new(0));
        let serve = |_| {
            while !is_stopped(&root) {
                let request = root.child();
                let guard = request.child().guard();
                drop(request);
                assert!(root.guard_count() >= 1 && root.state() != Complete);
                drop(guard);
                served.fetch_add(1, Ordering::Relaxed);
                yield_now();
            }
        };
        race(2, serve, || {
            while served.load(Ordering::Relaxed) < 4 {
                yield_now();
            }
            root.shut_down().block();
        });
        assert_eq!((root.state(), root.guard_count()), (Complete, 0));
    });
}
