//! Calls as the calling task and the closure see them.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

#[test]
fn a_blocking_call_borrows_returns_its_value_and_passes_its_panic_on() {
    in_task_and_many(|_| {
        let worker = common::thread::current().id();
        let mut list = vec![1, 2];
        let length = blocking(|| {
            assert_ne!(common::thread::current().id(), worker);
            list.push(3);
            list.len()
        });
        assert_eq!((length, list.as_slice()), (3, &[1, 2, 3][..]));
        assert_eq!(common::thread::current().id(), worker);
        assert_eq!(panic_of(|| blocking(|| panic!("far away"))), "far away");
        let error = spawn_blocking(|| -> u8 { panic!("further") }).join().unwrap_err();
        assert_eq!(text(&*error.into_panic().unwrap()), "further");
        assert_eq!(spawn_blocking(|| 5).join().unwrap(), 5);
    });
    // On a plain thread a blocking call is a call.
    let here = common::thread::current().id();
    assert_eq!(blocking(|| common::thread::current().id()), here);
}

#[test]
fn the_worker_goes_on_with_others_while_a_call_blocks() {
    in_task(|_| {
        let (send, receive) = channel();
        let blocked = spawn_blocking(move || receive.recv().unwrap());
        let sender = spawn(move || send.send(7).unwrap());
        assert_eq!(blocked.join().unwrap(), 7);
        sender.join().unwrap();
    });
}

#[test]
fn blocking_calls_that_need_each_other_all_get_a_thread() {
    in_task(|_| {
        let together = 100;
        let barrier = Arc::new(Barrier::new(together));
        let meet = |_| spawn_blocking(own(&barrier, move |barrier| barrier.wait().is_leader()));
        let leaders = join_all((0..together).map(meet));
        assert_eq!(leaders.into_iter().filter(|leads| *leads).count(), 1);
    });
}

#[test]
fn a_blocking_call_does_not_wait_behind_one_that_an_idle_thread_has_just_taken() {
    in_task(|_| {
        for _ in 0..scaled(2_000) {
            let barrier = Arc::new(Barrier::new(2));
            let both = [barrier.clone(), barrier];
            let leaders =
                join_all(both.map(|barrier| spawn_blocking(move || barrier.wait().is_leader())));
            assert!(leaders[0] ^ leaders[1]);
        }
    });
}

#[test]
fn a_blocking_call_is_not_cut_short_by_a_cancellation() {
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let (tell, told) = channel();
        let task = parked(rt, 1, move || {
            let (mut borrowed, mut gate) = (0, gate);
            let (receiver, slot) = (&mut gate, &mut borrowed);
            blocking(move || {
                receiver.recv().unwrap();
                *slot = 1;
            });
            tell.send((borrowed, cygnet::is_cancelled())).unwrap();
        });
        drop(task);
        open.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), (1, true));
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

#[test]
fn panics_in_destructors_go_to_the_caller_and_do_no_harm_to_the_thread() {
    within(|| {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let rt = Runtime::builder()
            .workers(1)
            .on_panic(move |report| tell.lock().unwrap().send(report.message().to_owned()).unwrap())
            .build()
            .unwrap();
        rt.block_on(|| {
            let bomb = Bomb("a capture");
            let said = panic_of(move || blocking(move || drop(bomb)));
            assert_eq!(said, "a capture");
            let bomb = Bomb("a capture");
            let task = spawn_blocking(move || {
                let _bomb = &bomb;
            });
            assert_eq!(text(&*task.join().unwrap_err().into_panic().unwrap()), "a capture");
            assert_eq!(panic_of(|| drop(blocking(|| Bomb("a result")))), "a result");
            spawn_blocking(|| Bomb("it is not taken")).detach();
            let payload = payload_of(|| blocking(|| std::panic::panic_any(Bomb("a payload"))));
            assert_eq!(panic_of(|| drop(payload)), "a payload");
            assert_eq!(blocking(|| 7), 7);
        });
        assert_eq!(told.recv().unwrap(), "it is not taken");
        let pool = rt.metrics().blocking;
        assert_eq!((pool.queued, pool.threads, pool.idle), (0, pool.idle, pool.threads));
        assert_eq!(pool.done, 6);
    });
}

#[test]
fn calls_of_a_destructor_run_while_its_task_unwinds() {
    with_each(|rt| {
        let (tell, told) = channel();
        let calls = || {
            let mut sum = blocking(|| 1);
            scope(|s| drop(s.spawn(|| sum += blocking(|| 2))));
            spawn_blocking(move || tell.send(sum).unwrap()).detach();
        };
        rt.block_on(|| while_unwinding(calls));
        assert_eq!(told.recv(), Ok(3));
    });
}

#[test]
fn a_closure_may_use_the_runtime_as_any_plain_thread() {
    with_each(|rt| {
        let handle = rt.handle();
        let (to_task, from_closure) = sync::bounded(1);
        let (to_closure, from_task) = sync::bounded(1);
        let mutex = sync::Mutex::new(0);
        rt.block_on(|| {
            cygnet::scope(|s| {
                s.spawn(|| {
                    for n in 0..10 {
                        assert_eq!(from_closure.recv().unwrap(), n);
                        *mutex.lock().unwrap() += n;
                        to_closure.send(n).unwrap();
                    }
                });
                let sum = blocking(|| {
                    for n in 0..10 {
                        to_task.send(n).unwrap();
                        *mutex.lock().unwrap() += n;
                        assert_eq!(from_task.recv().unwrap(), n);
                    }
                    let task = handle.spawn(|| blocking(|| 3)).unwrap();
                    handle.block_on(|| blocking(|| 4)) + task.join().unwrap()
                });
                assert_eq!(sum, 7);
            });
            assert_eq!(*mutex.lock().unwrap(), 90);
        });
    });
}

#[test]
fn a_closure_of_a_migratable_task_and_one_inside_another_run() {
    within(|| {
        runtime(2).block_on(|| {
            for n in 0..scaled(200) {
                // SAFETY: holds an integer and closures over the suspensions.
                let task = unsafe { cygnet::task().migratable() }.spawn(move || {
                    let once = blocking(|| blocking(|| n + 1));
                    cygnet::yield_now().unwrap();
                    blocking(move || once + 1)
                });
                assert_eq!(task.join().unwrap(), n + 2);
            }
        });
    });
}
