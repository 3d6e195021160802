//! A cancel at the same moment as something else: each task ends once, and in order.

use crate::common::prelude::*;

/// Counts the captures of tasks, the locals between their starts and their ends, and the ends.
#[derive(Clone, Default)]
struct Ledger {
    ended: Arc<AtomicUsize>,
    captures: Drops,
    locals: Drops,
}

impl Ledger {
    /// A child with captures and locals that are counted.
    fn child(&self, body: impl FnOnce() + Send + 'static) -> Task<()> {
        let (ledger, captured) = (self.clone(), self.captures.guard());
        spawn(move || {
            let _captured = captured;
            let _local = ledger.locals.guard();
            body();
            ledger.ended.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// To be called after the end of the parent of all children.
    fn settle(&self) {
        assert_eq!(self.ended.load(Ordering::Relaxed), self.locals.made(), "started and ended");
        assert_eq!(self.locals.left(), 0, "locals are dropped before the parent goes on");
        assert_eq!(self.captures.left(), 0, "and captures");
    }
}

/// Runs `body` in the leaves of a tree of tasks, which another thread cancels at any moment.
fn three_levels(body: fn()) {
    with_each_and_many(|rt| {
        let (give, handles) = channel::<CancelHandle>();
        let foreign = thread::spawn(move || handles.iter().for_each(|handle| handle.cancel("now")));
        for round in 0..scaled_in_debug(300) {
            let ledger = Ledger::default();
            let task = rt.spawn({
                let (ledger, give) = (ledger.clone(), give.clone());
                move || {
                    let outcome = scope(|s| {
                        if round % 3 == 0 {
                            give.send(s.cancel_handle()).unwrap();
                        }
                        let tops: Vec<_> = (0..3)
                            .map(|n| {
                                let (ledger, give) = (ledger.clone(), give.clone());
                                ledger.clone().child(move || {
                                    let leaves = [(); 2].map(|()| ledger.child(body));
                                    if round % 3 == 1 && n == 1 {
                                        give.send(cygnet::cancel_handle()).unwrap();
                                    }
                                    for leaf in leaves {
                                        let joined = leaf.join();
                                        assert!(is_ended_once(&joined), "{joined:?}");
                                    }
                                })
                            })
                            .collect();
                        if round % 3 == 2 {
                            give.send(cygnet::cancel_handle()).unwrap();
                        }
                        tops.into_iter().all(|top| is_ended_once(&top.join()))
                    });
                    ledger.settle();
                    outcome
                }
            });
            assert!(task.join().unwrap());
        }
        drop(give);
        foreign.join().unwrap();
    });
}

fn is_ended_once(joined: &Result<(), JoinError>) -> bool {
    matches!(joined, Ok(()) | Err(JoinError::Cancelled(_) | JoinError::NotStarted(_)))
}

/// C53.
#[test]
fn a_cancel_races_the_start_and_the_completion() {
    three_levels(|| ());
}

#[test]
fn a_cancel_races_the_first_wait_of_a_task() {
    three_levels(|| {
        let me = cygnet::unparker();
        let waker = spawn(move || me.unpark());
        let _ = park();
        let _ = waker.join();
    });
}

#[test]
fn a_cancel_races_yields_and_checkpoints() {
    three_levels(|| {
        for _ in 0..5 {
            let _ = (yield_now(), checkpoint());
        }
    });
}

#[test]
fn a_cancel_races_the_entry_and_the_exit_of_an_ignoring_section() {
    three_levels(|| {
        for _ in 0..3 {
            let section = ignore_cancellation(|| {
                let me = cygnet::unparker();
                let waker = cygnet::spawn_unscoped(move || me.unpark());
                // The waker is in no scope, so no cancel reaches it.
                park().unwrap();
                waker.join().unwrap();
                checkpoint().unwrap();
            });
            if section.is_err() {
                assert!(checkpoint().is_err(), "entering fails only if it is cancelled");
                break;
            }
        }
    });
}
