//! What a task can wait for: permits, turns, other tasks, calls that block their thread, other runtimes;
//! and sections in which it must not wait.

mod common;

use common::{
    eventually, give_way_until, parks, scaled, text, with, with_each, with_each_and_many,
};
use cygnet::{
    Unparker, YieldTo, blocking, checkpoint, no_suspend, park, spawn, spawn_blocking, unparker,
    yield_now, yield_to,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};

// --- park and unpark ------------------------------------------------------------------------------

#[test]
fn an_unpark_before_the_park_is_kept_and_two_count_as_one() {
    with_each(|rt| {
        rt.block_on(|| {
            let me = unparker();
            me.unpark();
            me.unpark();
            park().unwrap();
            // The second would have been kept as another permit: this park must wait for the third.
            let (third, before) = (Arc::new(AtomicBool::new(false)), parks(rt));
            let waker = spawn({
                let (third, handle) = (third.clone(), rt.handle());
                move || {
                    give_way_until(|| {
                        handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>() > before
                    });
                    third.store(true, Ordering::Relaxed);
                    me.unpark();
                }
            });
            park().unwrap();
            assert!(third.load(Ordering::Relaxed));
            waker.join().unwrap();
        });
    });
}

#[test]
fn a_foreign_thread_wakes_a_parked_task() {
    with_each_and_many(|rt| {
        let (tell, unparkers) = channel::<Unparker>();
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let tell = tell.clone();
                rt.spawn(move || {
                    tell.send(unparker()).unwrap();
                    park().is_ok()
                })
            })
            .collect();
        let unparkers: Vec<_> = unparkers.iter().take(100).collect();
        eventually("all are parked", || parks(rt) >= 100);
        unparkers.iter().for_each(Unparker::unpark);
        assert!(tasks.into_iter().all(|task| task.join().unwrap()));
    });
}

#[test]
fn every_permit_of_many_foreign_threads_at_once_is_seen() {
    with_each(|rt| {
        let each = scaled(2_000);
        let sent = Arc::new(AtomicUsize::new(0));
        let (tell, unparkers) = channel();
        let task = rt.spawn({
            let sent = sent.clone();
            move || {
                tell.send(unparker()).unwrap();
                // A count that was stored before an unpark is seen after the park that it ends.
                while sent.load(Ordering::Relaxed) < 3 * each {
                    park().unwrap();
                }
            }
        });
        let unparker = unparkers.recv().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (sent, unparker) = (&sent, unparker.clone());
                scope.spawn(move || {
                    for _ in 0..each {
                        sent.fetch_add(1, Ordering::Relaxed);
                        unparker.unpark();
                    }
                });
            }
        });
        task.join().unwrap();
    });
}

#[test]
fn two_tasks_wake_each_other_many_times() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let rounds = scaled(5_000);
            let me = unparker();
            let (tell, other) = channel();
            let turn = Arc::new(AtomicUsize::new(0));
            let partner = spawn({
                let turn = turn.clone();
                move || {
                    tell.send(unparker()).unwrap();
                    for round in 0..rounds {
                        while turn.load(Ordering::Acquire) != 2 * round + 1 {
                            park().unwrap();
                        }
                        turn.store(2 * round + 2, Ordering::Release);
                        me.unpark();
                    }
                }
            });
            let mut found = None;
            give_way_until(|| {
                found = other.try_recv().ok();
                found.is_some()
            });
            let other = found.unwrap();
            for round in 0..rounds {
                turn.store(2 * round + 1, Ordering::Release);
                other.unpark();
                while turn.load(Ordering::Acquire) != 2 * round + 2 {
                    park().unwrap();
                }
            }
            partner.join().unwrap();
        });
    });
}

#[test]
fn an_unpark_after_the_task_s_end_and_after_the_runtime_s_does_nothing() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let task = rt.spawn(unparker);
            let id = task.id();
            let unparker = task.join().unwrap();
            unparker.unpark();
            let copy = unparker.clone();
            assert_eq!(copy.id(), id);
            drop(rt);
            copy.unpark();
            unparker.unpark();
        });
    }
}

#[test]
fn an_unpark_does_not_end_a_wait_of_another_kind_and_is_kept() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            blocking(move || gate.recv().unwrap());
            tell.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = told.recv().unwrap();
        eventually("it waits for the blocking call", || parks(rt) == 1);
        unparker.unpark();
        assert!(told.try_recv().is_err());
        open.send(()).unwrap();
        task.join().unwrap();
        assert_eq!(parks(rt), 1, "the permit was kept for the park");
    });
}

#[test]
fn a_park_outside_a_task_says_where_to_call_it() {
    let said = common::panic_of(park);
    assert!(said.contains("outside a task") && said.contains("block_on"), "{said}");
    assert!(common::panic_of(|| spawn(|| ()).detach()).contains("outside a task"));
    assert!(common::panic_of(yield_now).contains("outside a task"));
    assert!(common::panic_of(unparker).contains("outside a task"));
    assert!(common::panic_of(cygnet::Handle::current).contains("outside a runtime"));
}

// --- turns ----------------------------------------------------------------------------------------

#[test]
fn yield_now_lets_every_ready_task_run_once() {
    with(&[1], |rt| {
        let order = rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let started = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..3)
                .map(|i| {
                    let (order, started) = (order.clone(), started.clone());
                    spawn(move || {
                        started.fetch_add(1, Ordering::Relaxed);
                        give_way_until(|| started.load(Ordering::Relaxed) == 3);
                        for _ in 0..4 {
                            order.lock().unwrap().push(i);
                            yield_now().unwrap();
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            Arc::into_inner(order).unwrap().into_inner().unwrap()
        });
        assert_eq!(order.len(), 12);
        for round in order.chunks(3).skip(1).take(2) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2], "{order:?}");
        }
    });
}

#[test]
fn a_thousand_tasks_yield_a_thousand_times() {
    let (tasks, turns) =
        (scaled(1_000), scaled(1_000) / if cfg!(debug_assertions) { 10 } else { 1 });
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..tasks)
                .map(|_| spawn(move || (0..turns).for_each(|_| yield_now().unwrap())))
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_fresh_task_starts_it_before_the_others() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..5)
                .map(|i| {
                    let order = order.clone();
                    spawn(move || order.lock().unwrap().push(i))
                })
                .collect();
            assert_eq!(yield_to(&tasks[2]), Ok(YieldTo::Ran));
            assert_eq!(order.lock().unwrap()[0], 2);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_ready_task_brings_it_forward() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let started = Arc::new(AtomicUsize::new(0));
            let go = Arc::new(AtomicBool::new(false));
            let tasks: Vec<_> = (0..5)
                .map(|i| {
                    let (order, started, go) = (order.clone(), started.clone(), go.clone());
                    spawn(move || {
                        started.fetch_add(1, Ordering::Relaxed);
                        give_way_until(|| go.load(Ordering::Relaxed));
                        order.lock().unwrap().push(i);
                    })
                })
                .collect();
            give_way_until(|| started.load(Ordering::Relaxed) == 5);
            go.store(true, Ordering::Relaxed);
            assert_eq!(yield_to(&tasks[3]), Ok(YieldTo::Ran));
            assert_eq!(order.lock().unwrap()[0], 3);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn yield_to_a_parked_a_finished_and_the_calling_task_yields_to_others_instead() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (tell, told) = channel();
            let before = parks(rt);
            let parked = spawn(move || {
                tell.send(unparker()).unwrap();
                park().unwrap();
            });
            give_way_until(|| parks(rt) > before);
            let finished = spawn(|| ());
            give_way_until(|| finished.is_finished());
            let turns = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let other = spawn({
                let (turns, stop) = (turns.clone(), stop.clone());
                move || {
                    give_way_until(|| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        stop.load(Ordering::Relaxed)
                    });
                }
            });
            give_way_until(|| turns.load(Ordering::Relaxed) > 0);
            let before = turns.load(Ordering::Relaxed);
            assert_eq!(yield_to(&parked), Ok(YieldTo::Parked));
            assert_eq!(turns.load(Ordering::Relaxed), before + 1);
            assert_eq!(yield_to(&finished), Ok(YieldTo::Finished));
            assert_eq!(turns.load(Ordering::Relaxed), before + 2);
            stop.store(true, Ordering::Relaxed);
            told.recv().unwrap().unpark();
            for task in [parked, finished, other] {
                task.join().unwrap();
            }
            // A task whose handle is in its own hand.
            let place = Arc::new(Mutex::new(None::<cygnet::Task<()>>));
            let answer = Arc::new(Mutex::new(None));
            let (mine, told) = (place.clone(), answer.clone());
            *place.lock().unwrap() = Some(spawn(move || {
                give_way_until(|| mine.lock().unwrap().is_some());
                let own = mine.lock().unwrap().take().unwrap();
                *told.lock().unwrap() = Some(yield_to(&own));
                own.detach();
            }));
            give_way_until(|| answer.lock().unwrap().is_some());
            assert_eq!(*answer.lock().unwrap(), Some(Ok(YieldTo::Itself)));
        });
    });
}

#[test]
fn yield_to_a_task_of_another_worker_says_that_it_is_elsewhere() {
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            let here = std::thread::current().id();
            let (started, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
            let elsewhere = spawn({
                let (started, stop) = (started.clone(), stop.clone());
                move || {
                    *started.lock().unwrap() = Some(std::thread::current().id());
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            });
            // Without giving way here, so that it can start on another worker only.
            while started.lock().unwrap().is_none() {
                checkpoint_without_a_turn();
            }
            assert_ne!(*started.lock().unwrap(), Some(here));
            assert_eq!(yield_to(&elsewhere), Ok(YieldTo::Elsewhere));
            stop.store(true, Ordering::Relaxed);
            elsewhere.join().unwrap();
        });
    });
}

/// Lets others take work from this worker, and stays.
fn checkpoint_without_a_turn() {
    no_suspend(checkpoint).unwrap();
    std::thread::yield_now();
}

#[test]
fn a_checkpoint_gives_way_only_if_another_task_is_ready() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let switches = || rt.metrics().workers[0].switches;
            let before = switches();
            (0..1_000).for_each(|_| checkpoint().unwrap());
            assert_eq!(switches(), before, "nobody was ready");

            let turns = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let other = spawn({
                let (turns, stop) = (turns.clone(), stop.clone());
                move || {
                    give_way_until(|| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        stop.load(Ordering::Relaxed)
                    });
                }
            });
            give_way_until(|| turns.load(Ordering::Relaxed) > 0);
            let before = turns.load(Ordering::Relaxed);
            (0..100).for_each(|_| checkpoint().unwrap());
            assert!(turns.load(Ordering::Relaxed) >= before + 90);
            stop.store(true, Ordering::Relaxed);
            other.join().unwrap();
        });
    });
}

// --- calls that block -----------------------------------------------------------------------------

#[test]
fn a_blocking_call_borrows_returns_its_value_and_passes_its_panic_on() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let worker = std::thread::current().id();
            let mut list = vec![1, 2];
            let length = blocking(|| {
                assert_ne!(std::thread::current().id(), worker);
                list.push(3);
                list.len()
            });
            assert_eq!((length, list.as_slice()), (3, &[1, 2, 3][..]));
            assert_eq!(std::thread::current().id(), worker);
            assert_eq!(common::panic_of(|| blocking(|| panic!("far away"))), "far away");
            let error = spawn_blocking(|| -> u8 { panic!("further") }).join().unwrap_err();
            assert_eq!(text(&*error.into_panic().unwrap()), "further");
            assert_eq!(spawn_blocking(|| 5).join().unwrap(), 5);
        });
    });
}

#[test]
fn the_worker_goes_on_with_others_while_a_call_blocks() {
    with_each(|rt| {
        rt.block_on(|| {
            let (send, receive) = channel();
            let blocked = spawn_blocking(move || receive.recv().unwrap());
            let sender = spawn(move || send.send(7).unwrap());
            assert_eq!(blocked.join().unwrap(), 7);
            sender.join().unwrap();
        });
    });
}

#[test]
fn blocking_calls_that_need_each_other_all_get_a_thread() {
    with_each(|rt| {
        rt.block_on(|| {
            let together = 100;
            let barrier = Arc::new(Barrier::new(together));
            let tasks: Vec<_> = (0..together)
                .map(|_| {
                    let barrier = barrier.clone();
                    spawn_blocking(move || barrier.wait().is_leader())
                })
                .collect();
            let leaders = tasks.into_iter().filter_map(|task| task.join().unwrap().then_some(()));
            assert_eq!(leaders.count(), 1);
        });
    });
}

#[test]
fn a_blocking_call_does_not_wait_behind_one_that_an_idle_thread_has_just_taken() {
    with_each(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(2_000) {
                let barrier = Arc::new(Barrier::new(2));
                let partner = barrier.clone();
                let first = spawn_blocking(move || partner.wait().is_leader());
                let second = spawn_blocking(move || barrier.wait().is_leader());
                assert!(first.join().unwrap() ^ second.join().unwrap());
            }
        });
    });
}

#[test]
fn many_more_blocking_calls_than_threads_all_end() {
    with_each(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> =
                (0..scaled(2_000)).map(|i| spawn_blocking(move || i as u64)).collect();
            let many = tasks.len() as u64;
            let sum: u64 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!(sum, many * (many - 1) / 2);
        });
    });
}

#[test]
fn a_blocking_call_is_not_cut_short_by_a_cancellation() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let task = rt.spawn(move || {
            let (mut borrowed, mut gate) = (0, gate);
            let (receiver, slot) = (&mut gate, &mut borrowed);
            blocking(move || {
                receiver.recv().unwrap();
                *slot = 1;
            });
            tell.send((borrowed, cygnet::is_cancelled())).unwrap();
        });
        eventually("it waits", || parks(rt) > 0);
        drop(task);
        open.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), (1, true));
    });
}

#[test]
fn on_a_plain_thread_a_blocking_call_is_a_call() {
    let here = std::thread::current().id();
    assert_eq!(blocking(|| std::thread::current().id()), here);
}

// --- no_suspend -----------------------------------------------------------------------------------

const REFUSAL: &str = "a task would be suspended inside no_suspend";

#[test]
fn every_suspension_inside_no_suspend_is_a_panic_and_none_outside() {
    with_each(|rt| {
        rt.block_on(|| {
            let refused = |wait: &dyn Fn()| {
                let said = common::panic_of(|| no_suspend(wait));
                assert!(said.contains(REFUSAL), "{said}");
            };
            refused(&|| yield_now().unwrap());
            refused(&|| park().unwrap());
            refused(&|| blocking(|| ()));
            refused(&|| rt.block_on(|| ()));
            // A task that has started cannot be run in place of the join.
            let (tell, told) = channel();
            let before = parks(rt);
            let parked = Mutex::new(Some(spawn(move || {
                tell.send(unparker()).unwrap();
                park().is_ok()
            })));
            give_way_until(|| parks(rt) > before);
            refused(&|| {
                let task = parked.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap();
                drop(task.join());
            });
            told.recv().unwrap().unpark();
            yield_now().unwrap();
        });
    });
}

#[test]
fn what_need_not_wait_is_allowed_inside_no_suspend() {
    with_each(|rt| {
        rt.block_on(|| {
            let ended = spawn(|| 5);
            give_way_until(|| ended.is_finished());
            let me = unparker();
            let value = no_suspend(|| {
                checkpoint().unwrap();
                me.unpark();
                no_suspend(|| ended.join().unwrap())
            });
            assert_eq!(value, 5);
            park().unwrap();
        });
    });
    assert_eq!(no_suspend(|| 1), 1);
}

#[test]
fn a_panic_inside_no_suspend_ends_the_section() {
    with_each(|rt| {
        rt.block_on(|| {
            assert_eq!(common::panic_of(|| no_suspend(|| no_suspend(|| panic!("out")))), "out");
            yield_now().unwrap();
        });
    });
}

// --- block_on from inside -------------------------------------------------------------------------

#[test]
fn block_on_inside_a_task_of_the_same_runtime_borrows_and_lets_others_run() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        let value = rt.block_on(|| {
            let mut list = vec![1];
            let inner = handle.block_on(|| {
                list.push(2);
                yield_now().unwrap();
                let child = spawn(|| 3);
                handle.block_on(|| child.join().unwrap())
            });
            list.push(inner);
            list
        });
        assert_eq!(value, [1, 2, 3]);
    });
}

#[test]
fn block_on_nests_a_thousand_times() {
    fn nest(handle: &cygnet::Handle, n: usize) -> usize {
        if n == 0 { 0 } else { handle.block_on(|| nest(handle, n - 1)) + 1 }
    }
    let deep = scaled(1_000);
    with_each(|rt| assert_eq!(nest(&rt.handle(), deep), deep));
}

#[test]
fn a_task_that_blocks_on_another_runtime_leaves_its_worker_to_others() {
    with_each(|rt| {
        let other = common::runtime(1);
        let (send, receive) = channel::<u8>();
        rt.block_on(|| {
            let before = parks(rt);
            // Ends only if a task of this runtime runs meanwhile, also if it has one worker.
            let helper = spawn({
                let handle = rt.handle();
                move || {
                    let parks = || handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>();
                    give_way_until(|| parks() > before);
                    send.send(9).unwrap();
                }
            });
            let got = other.block_on(move || blocking(move || receive.recv().unwrap()));
            assert_eq!(got, 9);
            helper.join().unwrap();
        });
    });
}

#[test]
fn two_runtimes_block_on_each_other_in_turns() {
    fn nest(handles: [&cygnet::Handle; 2], n: usize) -> usize {
        let [first, second] = handles;
        if n == 0 { 0 } else { first.block_on(|| nest([second, first], n - 1)) + 1 }
    }
    let deep = scaled(200);
    with_each(|rt| {
        let other = common::runtime(2);
        assert_eq!(nest([&rt.handle(), &other.handle()], deep), deep);
    });
}

#[test]
fn a_panic_comes_through_nested_block_ons() {
    with_each(|rt| {
        let other = common::runtime(1);
        let said = common::panic_of(|| {
            rt.block_on(|| other.block_on(|| rt.block_on(|| panic!("from within"))))
        });
        assert_eq!(said, "from within");
    });
}

#[test]
fn a_foreign_thread_wakes_and_is_woken_by_tasks() {
    with_each(|rt| {
        let rounds = scaled(500);
        let (to_task, from_thread): (Sender<usize>, _) = channel();
        let (to_thread, from_task) = channel();
        let task = rt.spawn(move || {
            let mut from_thread = from_thread;
            for _ in 0..rounds {
                let receiver = &mut from_thread;
                let n = blocking(move || receiver.recv().unwrap());
                to_thread.send(n + 1).unwrap();
            }
        });
        for round in 0..rounds {
            to_task.send(round).unwrap();
            assert_eq!(from_task.recv().unwrap(), round + 1);
        }
        task.join().unwrap();
    });
}
