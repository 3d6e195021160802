//! Without a runtime of cygnet: plain threads, the smallest executor, and tokio.

use super::{Watched, completion_of, is_stopped};
use crate::common::prelude::*;
use crate::on_tokio;
use cygnet::shutdown::ShutdownState::{Complete, Running};
use cygnet::shutdown::{Guard, Swansong};

/// S29.
#[test]
fn guarded_threads_have_ended_when_the_shutdown_is_complete() {
    within(|| {
        let (swansong, begun, ended) = (Swansong::new(), Count::new(), Count::new());
        thread::scope(|s| {
            for _ in 0..4 {
                let (handle, guard) = (swansong.clone(), swansong.guard());
                s.spawn(move || {
                    let _guard = guard;
                    begun.up();
                    for () in handle.interrupt(std::iter::repeat(())) {
                        thread::yield_now();
                    }
                    // Relaxed: the drop of the guard orders it.
                    ended.up();
                });
            }
            spin_until(|| begun.get() == 4);
            assert_eq!((swansong.state(), swansong.guard_count()), (Running, 4));
            swansong.shut_down().block();
            assert_eq!(ended.get(), 4);
        });
    });
}

/// S28.
#[test]
fn guards_are_made_cloned_and_dropped_on_different_threads() {
    within(|| {
        let root = Swansong::new();
        let child = root.child();
        let (give, given) = channel::<Guard>();
        thread::scope(|s| {
            for _ in 0..3 {
                let (give, child) = (give.clone(), &child);
                s.spawn(move || {
                    (0..100).for_each(|_| give.send(child.guard()).unwrap());
                });
            }
        });
        drop(give);
        assert_eq!([root.guard_count(), child.guard_count()], [300, 300]);
        // The threads that made the guards have ended.
        let guards: Vec<_> = given.iter().collect();
        let clones = thread::scope(|s| s.spawn(|| guards.clone()).join().unwrap());
        assert_eq!(root.guard_count(), 600);
        let mut completion = Watched::new(root.shut_down());
        thread::scope(|s| {
            s.spawn(|| drop(guards));
        });
        assert!(completion.poll().is_none());
        assert_eq!(root.guard_count(), 300);
        thread::spawn(|| drop(clones)).join().unwrap();
        assert!(completion.is_resolved());
        assert_eq!((root.guard_count(), child.state()), (0, Complete));
    });
}

/// The thread-locals of a library may have been dropped before the guard.
#[test]
fn a_guard_in_a_thread_local_is_dropped_with_its_thread() {
    crate::common::real!("thread-locals of OS threads");
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<(Guard, Swansong)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    within(|| {
        let root = Swansong::new();
        thread::scope(|s| {
            // The thread-local is made before the first guard on this thread, or after it.
            for early in [true, false] {
                let root = &root;
                s.spawn(move || {
                    if !early {
                        drop(root.guard());
                    }
                    KEPT.with_borrow_mut(|kept| kept.push((root.child().guard(), root.clone())));
                });
            }
        });
        root.shut_down().block();
        assert_eq!(root.guard_count(), 0);
    });
}

#[test]
fn a_swansong_in_a_static_serves_all_threads() {
    crate::common::real!("a static, of one run");
    static ALL: std::sync::LazyLock<Swansong> = std::sync::LazyLock::new(Swansong::new);
    within(|| {
        threads(3, |_| {
            let child = ALL.child();
            let guard = child.guard();
            child.shut_down();
            drop(guard);
            block_on(child.into_future());
        });
        assert_eq!((ALL.state(), ALL.guard_count()), (Running, 0));
        ALL.shut_down().block();
    });
}

/// A server with connections, requests in flight, and an orderly end.
#[test]
fn tasks_of_tokio_are_interrupted_and_waited_for() {
    on_tokio(|| async {
        let server = Swansong::new();
        let (ask, asked) = unbounded::<cygnet::sync::OneshotSender<u32>>();
        let theirs = server.clone();
        let accept = tokio::spawn(async move {
            let mut served = 0;
            while let Some(Ok(answer)) = theirs.interrupt(asked.recv_async()).await {
                served += 1;
                let connection = theirs.child();
                // In flight until the answer.
                tokio::spawn(connection.guarded(async move {
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    let _ = answer.send(served);
                }));
            }
            served
        });
        let mut answers = Vec::new();
        for n in 1..=10 {
            let (answer, mut answered) = oneshot();
            ask.send(answer).unwrap();
            if n < 10 {
                answers.push(answered)
            } else {
                assert_eq!(answered.recv_async().await, Ok(10))
            }
        }
        server.shut_down().await;
        assert_eq!((server.state(), server.guard_count()), (Complete, 0));
        // All requests have been answered by now.
        for mut answered in answers {
            answered.try_recv().unwrap();
        }
        assert_eq!(accept.await.unwrap(), 10);
    });
}

#[test]
fn a_completion_is_a_branch_of_a_tokio_select() {
    on_tokio(|| async {
        let root = Swansong::new();
        let guard = root.guard();
        let mut completion = root.shut_down();
        for _ in 0..3 {
            tokio::select! {
                biased;
                () = &mut completion => panic!("there is a guard"),
                () = tokio::task::yield_now() => {}
            }
        }
        let waits = tokio::spawn(completion_of(&root));
        tokio::spawn(async move { drop(guard) });
        completion.await;
        waits.await.unwrap();
        assert!(is_stopped(&root));
    });
}

/// Readers of idle connections end with the stop, and so does the whole server.
#[cfg(feature = "tokio")]
#[test]
fn idle_connections_end_and_are_waited_for() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    on_tokio(|| async {
        let server = Swansong::new();
        let (mut connections, mut clients) = (Vec::new(), Vec::new());
        let idle = Count::new();
        for _ in 0..10 {
            let (here, there) = duplex(16);
            let mut here = server.child().interrupt(here).guarded();
            clients.push(there);
            connections.push(tokio::spawn(async move {
                let mut asked = Vec::new();
                let mut reads = pin!(here.read_to_end(&mut asked));
                let counted = poll_fn(|cx| {
                    let polled = reads.as_mut().poll(cx);
                    idle.add(usize::from(polled.is_pending()));
                    polled
                });
                counted.await.unwrap();
                asked
            }));
        }
        while idle.get() < 10 {
            tokio::task::yield_now().await;
        }
        clients[3].write_all(b"half of a reque").await.unwrap();
        server.shut_down().await;
        assert!(server.state().is_complete());
        for connection in connections {
            assert!(connection.await.unwrap().len() <= 15);
        }
        drop(clients);
    });
}
