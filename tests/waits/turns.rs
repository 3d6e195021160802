//! Turns: which task runs after `yield_now`, `yield_to` and `checkpoint`.

use crate::common::prelude::*;

#[test]
fn yield_now_lets_every_ready_task_run_once() {
    with(&[1], |rt| {
        let order = rt.block_on(|| {
            let (order, started) = (Arc::new(Mutex::new(Vec::new())), Count::new());
            let spawns = |i| {
                spawn(own(&order, move |order| {
                    started.up();
                    started.wait(3);
                    for _ in 0..4 {
                        order.lock().unwrap().push(i);
                        yield_now().unwrap();
                    }
                }))
            };
            join_all([0, 1, 2].map(spawns));
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
    in_task_and_many(|_| {
        let yields = |_| spawn(move || yields(turns));
        join_all((0..tasks).map(yields));
    });
}

#[test]
fn yield_to_a_fresh_or_ready_task_runs_it_before_the_others() {
    for ready in [false, true] {
        in_task_with(&[1], |_| {
            let (order, started, go) =
                (Arc::new(Mutex::new(Vec::new())), Count::new(), Flag::new());
            let spawns = |i| {
                spawn(own(&order, move |order| {
                    started.up();
                    go.wait();
                    order.lock().unwrap().push(i);
                }))
            };
            let tasks = [0, 1, 2, 3, 4].map(spawns);
            if ready {
                started.wait(5);
            }
            go.set();
            assert_eq!(yield_to(&tasks[3]), Ok(YieldTo::Ran));
            assert_eq!(order.lock().unwrap()[0], 3, "ready: {ready}");
            join_all(tasks);
        });
    }
}

/// A ready task that counts its turns until it is told to stop. Returns after its first turn.
fn counting_turns() -> (Task<()>, Count, Flag) {
    let (turns, stop) = (Count::new(), Flag::new());
    let task = spawn(move || {
        give_way_until(|| {
            turns.up();
            stop.get()
        });
    });
    give_way_until(|| turns.get() > 0);
    (task, turns, stop)
}

#[test]
fn yield_to_a_parked_a_finished_and_the_calling_task_yields_to_others_instead() {
    in_task_with(&[1], |rt| {
        let (parked, unparker) = sleeper(rt);
        let finished = spawn(|| ());
        give_way_until(|| finished.is_finished());
        let (other, turns, stop) = counting_turns();
        let before = turns.get();
        assert_eq!(yield_to(&parked), Ok(YieldTo::Parked));
        assert_eq!(turns.get(), before + 1);
        assert_eq!(yield_to(&finished), Ok(YieldTo::Finished));
        assert_eq!(turns.get(), before + 2);
        stop.set();
        unparker.unpark();
        assert!(parked.join().unwrap());
        join_all([finished, other]);
        // A task that has its own handle.
        let ((give, given), (tell, told)) = (channel(), channel());
        let itself: Task<()> = spawn(move || {
            let own = received(&given);
            tell.send(yield_to(&own)).unwrap();
            own.detach();
        });
        give.send(itself).unwrap();
        assert_eq!(received(&told), Ok(YieldTo::Itself));
    });
}

#[test]
fn yield_to_a_task_of_another_worker_says_that_it_is_elsewhere() {
    in_task_with(&[2, 3, 8], |_| {
        let here = common::thread::current().id();
        let (started, stop) = (Arc::new(Mutex::new(None)), Flag::new());
        let elsewhere = spawn(own(&started, move |starts| {
            *starts.lock().unwrap() = Some(common::thread::current().id());
            stop.hold();
        }));
        // Lets others take work from this worker, and stays: it can start on another worker only.
        while started.lock().unwrap().is_none() {
            no_suspend(checkpoint).unwrap();
            common::thread::yield_now();
        }
        assert_ne!(*started.lock().unwrap(), Some(here));
        assert_eq!(yield_to(&elsewhere), Ok(YieldTo::Elsewhere));
        stop.set();
        elsewhere.join().unwrap();
    });
}

#[test]
fn yield_to_a_fresh_task_of_another_runtime_leaves_it_there() {
    with_each(|rt| {
        let other = common::runtime(1);
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = other.spawn(move || {
            running.send(common::thread::current().id()).unwrap();
            gate.recv().unwrap();
        });
        let there = runs.recv().unwrap();
        // Its only worker is busy, so this one stays queued.
        let queued = other.spawn(|| common::thread::current().id());
        assert_eq!(rt.block_on(|| yield_to(&queued)), Ok(YieldTo::Elsewhere));
        assert!(!queued.is_finished());
        open.send(()).unwrap();
        assert_eq!(queued.join().unwrap(), there);
        busy.join().unwrap();
    });
}

#[test]
fn a_checkpoint_gives_way_only_if_another_task_is_ready() {
    in_task_with(&[1], |rt| {
        let switches = || rt.metrics().workers[0].switches;
        let before = switches();
        (0..1_000).for_each(|_| checkpoint().unwrap());
        assert_eq!(switches(), before, "no other task was ready");

        let (other, turns, stop) = counting_turns();
        let before = turns.get();
        (0..100).for_each(|_| checkpoint().unwrap());
        assert!(turns.get() >= before + 90);
        stop.set();
        other.join().unwrap();
    });
}
