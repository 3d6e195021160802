//! The threads: how many there are, when they come and go, and in which order they take the calls.

use crate::common::prelude::*;
use crate::common::proc::threads_named;
use crate::{Plug, keeping, leaving, runtime};

/// The metrics of the pool: threads, idle ones, and calls in the queue.
fn pool(rt: &Runtime) -> (usize, usize, usize) {
    let pool = rt.metrics().blocking;
    (pool.threads, pool.idle, pool.queued)
}

#[test]
fn calls_that_find_no_thread_are_queued_and_run_in_the_order_of_coming() {
    within(|| {
        let rt = runtime(2, 1);
        let order = Arc::new(Mutex::new(Vec::new()));
        assert_eq!(pool(&rt), (0, 0, 0));
        let plug = Plug::put_into(&rt);
        assert_eq!(pool(&rt), (1, 0, 0));
        let calls = 20;
        let tasks: Vec<_> = (0..calls)
            .map(|n| {
                let order = order.clone();
                let task = rt.spawn(move || blocking(|| order.lock().unwrap().push(n)));
                eventually("it is queued", || pool(&rt) == (1, 0, n + 1));
                task
            })
            .collect();
        assert_eq!(rt.metrics().blocking.done, 0);
        plug.pull();
        join_all(tasks);
        assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..calls));
        assert_eq!(pool(&rt), (1, 1, 0));
        let metrics = rt.metrics().blocking;
        assert_eq!((metrics.done, metrics.in_place), (calls as u64 + 1, 0));
        assert!(format!("{metrics:?}").contains("queued: 0"), "{metrics:?}");
    });
}

#[test]
fn no_more_calls_run_at_a_time_than_there_may_be_threads() {
    for threads in [1, 2, 5] {
        within(|| {
            let rt = runtime(3, threads);
            let (running, most) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
            let call = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                common::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            };
            scope_on(&rt, |s| {
                (0..scaled(500)).for_each(|_| drop(s.spawn(move || blocking(call))));
            });
            let most = most.load(Ordering::SeqCst);
            assert!((1..=threads).contains(&most), "{most} of {threads}");
            let (made, idle, queued) = pool(&rt);
            assert!(made <= threads && idle == made && queued == 0, "{made} {idle} {queued}");
            assert_eq!(rt.metrics().blocking.done, scaled(500) as u64);
        });
    }
}

#[test]
fn one_call_after_another_needs_one_thread() {
    with_each(|rt| {
        rt.block_on(|| {
            (0..scaled(1_000)).for_each(|n| assert_eq!(blocking(|| n), n));
        });
        assert_eq!(pool(rt), (1, 1, 0));
    });
    // The number of threads need not be limited.
    within(|| {
        let rt = runtime(1, usize::MAX);
        assert_eq!(rt.block_on(|| blocking(|| 7)), 7);
        assert_eq!(pool(&rt).0, 1);
    });
}

#[test]
fn a_thread_that_has_been_idle_for_its_time_ends_and_another_comes_when_it_is_needed() {
    within(|| {
        let idle = Runtime::builder().workers(2).thread_name("gone");
        let rt = keeping(idle, Duration::from_millis(1));
        for _ in 0..3 {
            let calls = || join_all((0..5).map(|n| spawn_blocking(move || n)));
            assert_eq!(rt.block_on(calls), [0, 1, 2, 3, 4]);
            eventually("they have left", || pool(&rt) == (0, 0, 0));
            eventually("they have ended", || threads_named("gone-blocking").is_empty());
        }
    });
}

#[test]
fn a_thread_may_stay_for_ever_and_still_ends_with_its_runtime() {
    crate::common::real!("looks at the threads of the process");
    within(|| {
        let stays = Runtime::builder().workers(1).thread_name("stays");
        let rt = keeping(stays, Duration::MAX);
        rt.block_on(|| blocking(|| ()));
        assert_eq!(threads_named("stays-blocking").len(), 1);
        drop(rt);
        // The kernel takes it out of its books a moment after it is seen to have ended.
        eventually("it has ended", || threads_named("stays-blocking").is_empty());
    });
}

#[test]
fn threads_are_named_after_the_runtime_and_call_no_hooks() {
    within(|| {
        let hooks = Count::new();
        let rt = Runtime::builder()
            .workers(2)
            .thread_name("files")
            .on_thread_start(move |_| hooks.up())
            .on_thread_stop(move |_| hooks.up())
            .build()
            .unwrap();
        let name = || common::thread::current().name().map(str::to_owned);
        assert_eq!(rt.block_on(|| blocking(name)).as_deref(), Some("files-blocking"));
        drop(rt);
        assert_eq!(hooks.get(), 4);
    });
}

/// Threads that leave as soon as they have nothing to do, while others come with calls.
#[test]
fn no_call_is_forgotten_by_a_thread_that_is_about_to_leave() {
    for (threads, keep_alive) in [(1, 0), (2, 0), (8, 0), (1, 20), (8, 20)] {
        within(|| {
            let rt = leaving(3, threads, keep_alive);
            let rounds = scaled_in_debug(300);
            let calls = move || {
                let one_by_one: usize = (0..rounds).map(|_| blocking(|| 1)).sum();
                one_by_one + join_all([(); 3].map(|()| spawn_blocking(|| 1))).len()
            };
            let sums = rt.block_on(|| join_all([(); 4].map(|()| spawn(calls))));
            let sum: usize = sums.into_iter().sum();
            assert_eq!(sum, 4 * (rounds + 3));
            assert_eq!(rt.metrics().blocking.done, sum as u64);
            eventually("all have left", || pool(&rt) == (0, 0, 0));
        });
    }
}

/// One call at a time, at ever other moments of the way out: a call that is forgotten is not found
/// by a later one.
#[test]
fn a_lone_call_is_not_forgotten_by_a_thread_that_leaves() {
    for keep_alive in [0, 10] {
        within(|| {
            let rt = leaving(1, 2, keep_alive);
            rt.block_on(|| {
                for n in 0..scaled_in_debug(5_000) {
                    assert_eq!(blocking(|| n), n);
                    (0..n % 500).for_each(|_| common::spin_loop());
                }
            });
        });
    }
}
