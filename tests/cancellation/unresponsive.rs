//! Tasks that take no notice of a cancel: they give way to other tasks, and the metrics name them.

use crate::common::prelude::*;

/// A task that calls `wait` until `stop`, and says when it has begun.
struct Deaf {
    task: Task<()>,
    begun: Flag,
    stop: Flag,
}

fn deaf(name: &str, wait: fn()) -> Deaf {
    let (begun, stop) = (Flag::new(), Flag::new());
    let task = task().name(name).spawn(move || {
        while !stop.get() {
            begun.set();
            wait();
        }
    });
    Deaf { task, begun, stop }
}

/// C26, C27, C28.
#[test]
fn a_task_that_calls_waits_in_a_loop_gives_way_and_is_named() {
    let waits: [(&str, fn()); 4] = [
        ("parks", || drop(park())),
        ("sleeps", || drop(sleep(Duration::from_secs(1000)))),
        ("joins", || drop(spawn(|| ()).join())),
        ("yields", || drop(yield_now())),
    ];
    for (name, wait) in waits {
        in_task(|rt| {
            let Deaf { task, begun, stop } = deaf(name, wait);
            begun.wait();
            task.cancel("enough");
            // One worker suffices: each of the waits lets the other tasks run.
            give_way_until(|| !rt.metrics().unresponsive.is_empty());
            let named = &rt.metrics().unresponsive[0];
            assert_eq!((named.id, named.name.as_deref()), (task.id(), Some(name)));
            assert!(named.refusals >= 100);
            assert!(named.spawned_at.file().ends_with("unresponsive.rs"));
            assert!(named.to_string().contains(name), "{named}");
            stop.set();
            task.join().unwrap();
            assert!(rt.metrics().unresponsive.is_empty(), "it has ended");
        });
    }
}

#[test]
fn a_task_that_only_calls_checkpoint_is_named() {
    in_task(|_| {
        let (give, given) = mpsc::channel();
        let task = spawn(move || {
            give.send(cygnet::cancel_handle()).unwrap();
            while checkpoint().is_ok() {}
            (0..100).for_each(|_| assert!(checkpoint().is_err()));
            cygnet::Handle::current().metrics().unresponsive.len()
        });
        loop {
            match given.try_recv() {
                Ok(handle) => break handle.cancel("enough"),
                Err(_) => yield_now().unwrap(),
            }
        }
        assert_eq!(task.join().unwrap(), 1);
    });
}

#[test]
fn a_task_that_heeds_the_cancel_is_not_named() {
    in_task(|rt| {
        for _ in 0..20 {
            let task = spawn(|| (0..50).filter(|_| park().is_err()).count());
            yield_now().unwrap();
            task.cancel("enough");
            let _ = task.join();
        }
        assert!(rt.metrics().unresponsive.is_empty());
    });
}
