//! A handle of a task tells of cancels of its ancestors while the task computes and does not ask.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;
use crate::watching::{begun, explicit, why};

/// Runs a chain of tasks, each joined by its parent. The last one computes until it may end. No
/// task asks for a cancel, and the tasks that are called in place never wait.
fn compute_below(depth: usize, give: &Sender<CancelHandle>, may_end: Flag) {
    if depth > 0 {
        let below = spawn(own(give, move |theirs| compute_below(depth - 1, &theirs, may_end)));
        give.send(below.cancel_handle()).unwrap();
        let _ = below.join();
    } else {
        may_end.spin();
    }
}

/// Starts a chain of `depth` tasks, and calls `look` with their handles and a cancel of the first.
fn with_computing(depth: usize, look: impl Fn(&[CancelHandle], &dyn Fn()) + Sync) {
    with_each(|rt| {
        let ((give, handles), may_end) = (channel(), Flag::new());
        let top = rt.spawn(move || compute_below(depth, &give, may_end));
        let handles: Vec<_> = (0..depth).map(|_| handles.recv().unwrap()).collect();
        look(&handles, &|| top.cancel("enough"));
        may_end.set();
        let _ = top.join();
        for handle in &handles {
            assert!(handle.is_cancelled(), "also after the end");
            assert_eq!(why(handle.cancelled_async()), explicit("enough"));
        }
    });
}

/// C42.
#[test]
fn a_watcher_is_told_of_a_cancel_of_an_ancestor_while_the_task_computes() {
    for depth in [1, 2, 20] {
        with_computing(depth, |handles, cancel| {
            let mut watched: Vec<_> = handles.iter().map(CancelHandle::cancelled_async).collect();
            assert!(watched.iter_mut().rev().all(|watched| poll_once(watched).is_pending()));
            cancel();
            for watched in watched {
                assert_eq!(why(watched), explicit("enough"));
            }
        });
    }
}

#[test]
fn a_first_poll_after_the_cancel_of_an_ancestor_is_ready() {
    with_computing(1, |handles, cancel| {
        cancel();
        match poll_once(&mut handles[0].cancelled_async()) {
            Poll::Ready(told) => assert_eq!(told.unwrap().reason(), &Reason::from("enough")),
            Poll::Pending => panic!("its parent is cancelled"),
        }
    });
    with_computing(20, |handles, cancel| {
        cancel();
        // Another thread may be telling the tasks in between now.
        for handle in handles.iter().rev() {
            assert_eq!(why(handle.cancelled_async()), explicit("enough"));
        }
    });
}

#[test]
fn a_handle_says_that_an_ancestor_is_cancelled_while_the_task_computes() {
    for looks_before in [true, false] {
        with_computing(1, |handles, cancel| {
            assert!(!looks_before || !handles[0].is_cancelled());
            cancel();
            assert!(handles[0].is_cancelled());
        });
        with_computing(20, |handles, cancel| {
            assert!(!looks_before || !handles.iter().any(CancelHandle::is_cancelled));
            cancel();
            // Another thread may be telling the tasks in between now.
            for handle in handles.iter().rev() {
                eventually("it is told", || handle.is_cancelled());
            }
        });
    }
}

#[test]
fn a_task_that_has_not_started_is_watched_too() {
    with_each(|rt| {
        let ((give, handles), may_end) = (channel(), Flag::new());
        let top = rt.spawn(move || {
            let fresh: Vec<_> = (0..20).map(|_| spawn(|| ())).collect();
            fresh.iter().for_each(|task| give.send(task.cancel_handle()).unwrap());
            may_end.spin();
        });
        let watched: Vec<_> = (0..20)
            .map(|_| {
                let handle = handles.recv().unwrap();
                let watched = begun(handle.cancelled_async());
                (handle, watched)
            })
            .collect();
        top.cancel("enough");
        for (handle, watched) in watched {
            // Another worker may have run the task before.
            let told = watched();
            assert!(told.is_none() || told == explicit("enough"));
            assert_eq!(handle.is_cancelled(), told.is_some(), "the answers differ");
        }
        may_end.set();
    });
}

/// Tasks end in many ways while their first watchers come and their ancestor is cancelled.
#[test]
fn all_queries_agree_whenever_the_task_ends() {
    with_each(|rt| {
        let mut random = Random(3);
        for _ in 0..scaled_in_debug(400) {
            let (kind, turns) = (random.below(5), random.below(40));
            let (give, handles) = channel();
            let top = rt.spawn(move || {
                let computes = move || (0..turns).for_each(|_| spin_loop());
                match kind {
                    0 => {
                        let child = spawn(computes);
                        give.send(child.cancel_handle()).unwrap();
                        let _ = child.join();
                    }
                    1 => {
                        let child = spawn(computes);
                        give.send(child.cancel_handle()).unwrap();
                        child.detach();
                    }
                    2 => scope(|s| give.send(s.spawn(computes).cancel_handle()).unwrap()),
                    3 => {
                        let computes = || {
                            give.send(cancel_handle()).unwrap();
                            computes();
                        };
                        let _ = cygnet::join(|| (), computes);
                    }
                    _ => {
                        let child = spawn(move || {
                            computes();
                            spawn(|| drop(yield_now())).detach();
                        });
                        give.send(child.cancel_handle()).unwrap();
                        let _ = yield_now();
                        let _ = child.join();
                    }
                }
            });
            let Ok(handle) = handles.recv() else { continue };
            let looks = thread::spawn(own(&handle, |same| {
                let early = same.is_cancelled();
                let told = why(same.cancelled_async());
                assert!(!early || told.is_some(), "it was said to be cancelled");
                told
            }));
            let early = random.below(2) == 0;
            let mut watched = early.then(|| begun(handle.cancelled_async()));
            if random.below(3) > 0 {
                top.cancel("enough");
            }
            let watched = watched.take().unwrap_or_else(|| begun(handle.cancelled_async()));
            let told = watched();
            assert_eq!(looks.join().unwrap(), told);
            assert_eq!(handle.is_cancelled(), told.is_some());
            assert!(told.is_none() || told == explicit("enough"), "{told:?}");
            drop(top);
        }
    });
}

#[test]
fn watchers_that_leave_or_stay_do_not_disturb_tasks_that_end() {
    with_each(|rt| {
        for leave in [true, false] {
            let ((give, handles), may_end) = (channel(), Flag::new());
            let top = rt.spawn(move || compute_below(3, &give, may_end));
            let handles: Vec<_> = (0..3).map(|_| handles.recv().unwrap()).collect();
            let mut watched: Vec<_> = handles.iter().map(CancelHandle::cancelled_async).collect();
            watched.iter_mut().for_each(|watched| assert!(poll_once(watched).is_pending()));
            if leave {
                watched.clear();
            }
            may_end.set();
            watched.into_iter().for_each(|watched| assert_eq!(why(watched), None));
            top.join().unwrap();
            assert!(handles.iter().all(|handle| !handle.is_cancelled()));
        }
    });
}
