//! Timers, cancels and fresh tasks come to their turn beside tasks that compute and only check in:
//! by `checkpoint`, at the ends of chunks, or with the values of channels.

use crate::common::prelude::*;

/// How long sleepers sleep: some ticks of the timers. A step of a simulation takes ten nanoseconds.
fn short() -> Duration {
    Duration::from_micros(if common::in_simulation() { 300 } else { 2_000 })
}

/// Computes until a flag is set.
type Computes = fn(Flag);

fn call_checkpoint(until: Flag) {
    while !until.get() {
        checkpoint().unwrap();
    }
}

fn loop_in_chunks(until: Flag) {
    let found = par::find_any(0..usize::MAX, |_| until.get());
    assert!(found.unwrap().is_some());
}

/// Passes values through a channel without ever waiting for a value or for room.
fn send_and_receive(room: usize, until: Flag) {
    let (sender, receiver) = bounded(room);
    while !until.get() {
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
    }
}

#[test]
fn a_sleeper_wakes_while_all_workers_compute() {
    let ways: [Computes; 4] = [
        call_checkpoint,
        loop_in_chunks,
        |woken| send_and_receive(4, woken),
        |woken| send_and_receive(usize::MAX, woken),
    ];
    for compute in ways {
        in_task(|rt| {
            let woken = Flag::new();
            scope(|s| {
                s.spawn(|| {
                    sleep(short()).unwrap();
                    woken.set();
                });
                (0..rt.workers()).for_each(|_| drop(s.spawn(|| compute(woken))));
            });
        });
    }
}

#[test]
fn a_sleeper_cancels_a_loop_of_checkpoints() {
    in_task(|_| {
        let begun = Flag::new();
        let computing = spawn(move || {
            begun.set();
            while checkpoint().is_ok() {}
        });
        // Cancelled before its start, the task would never run.
        while !begun.get() {
            sleep(short()).unwrap();
        }
        sleep(short()).unwrap();
        computing.cancel("it has had its time");
        assert!(computing.join().is_ok());
    });
}

#[test]
fn a_timeout_of_another_task_ends_beside_a_loop_of_checkpoints() {
    in_task_with(&[1], |_| {
        let over = Flag::new();
        scope(|s| {
            s.spawn(|| {
                assert!(timeout(short(), cygnet::park).unwrap_err().into_inner().is_err());
                over.set();
            });
            s.spawn(|| call_checkpoint(over));
        });
    });
}

/// Keeps the only worker busy by `compute` until a plain thread has used the runtime meanwhile.
fn a_plain_thread_is_served_beside(compute: Computes, used: fn(&Handle, Flag)) {
    with(&[1], |rt| {
        let (busy, over) = (Flag::new(), Flag::new());
        common::thread::scope(|threads| {
            threads.spawn(|| {
                busy.hold();
                used(&rt.handle(), over);
            });
            rt.block_on(|| {
                busy.set();
                compute(over);
            });
        });
    });
}

#[test]
fn a_timer_or_task_of_a_plain_thread_is_served_beside_checkpoints() {
    let timer = |handle: &Handle, fired: Flag| {
        cygnet::wait(handle.sleep_async(short())).unwrap().unwrap();
        fired.set();
    };
    a_plain_thread_is_served_beside(call_checkpoint, timer);
    a_plain_thread_is_served_beside(|fired| no_suspend(|| call_checkpoint(fired)), timer);
    a_plain_thread_is_served_beside(call_checkpoint, |handle, begun| {
        handle.spawn(move || begun.set()).unwrap().join().unwrap();
    });
}

#[test]
fn a_fresh_task_begins_beside_a_task_that_computes() {
    let global: fn(Flag) = |begun| spawn(move || begun.set()).detach();
    let local: fn(Flag) = |begun| spawn_local(move || begun.set()).detach();
    for (spawn, compute) in
        [(global, call_checkpoint as Computes), (local, call_checkpoint), (global, loop_in_chunks)]
    {
        in_task_with(&[1], |_| {
            let begun = Flag::new();
            spawn(begun);
            compute(begun);
        });
    }
    in_task(|_| {
        scope_with(Wait::DescendantsOnly, |_| {
            let begun = Flag::new();
            local(begun);
            call_checkpoint(begun);
        });
    });
}

/// The oldest of many too: the newest are called first where tasks have a turn.
#[test]
fn all_fresh_tasks_begin_beside_a_loop_of_checkpoints() {
    const TASKS: usize = 40;
    in_task_with(&[1], |_| {
        let begun = Count::new();
        scope(|s| {
            (0..TASKS).for_each(|_| drop(s.spawn(|| begun.up())));
            while begun.get() < TASKS {
                checkpoint().unwrap();
            }
        });
    });
}

/// Runs a loop whose first items compute on this thread alone, deep in a recursion: the other
/// workers soon have nothing to do and ask for work, and there is no room for forks. Ends early
/// when the flag is set.
fn loop_that_cannot_fork(until: Flag) {
    #[inline(never)]
    fn deep(f: impl FnOnce()) {
        let mut array = [0_u8; ROOMY / 3 * 2];
        std::hint::black_box(&mut array);
        f();
        std::hint::black_box(&mut array);
    }
    let here = std::thread::current().id();
    let item = |n| {
        if n < 90 && std::thread::current().id() == here && !until.get() {
            common::compute(3_000);
        }
    };
    deep(|| par::for_each(0..1_600, item).unwrap());
}

const ROOMY: usize = 1 << 20;

#[test]
fn a_fresh_local_task_begins_beside_a_parallel_loop_that_cannot_fork() {
    common::real!("it takes milliseconds, and a step of a simulation ten nanoseconds");
    in_task(|_| {
        let loops = || {
            let begun = Flag::new();
            spawn_local(move || begun.set()).detach();
            loop_that_cannot_fork(begun);
            assert!(begun.get(), "it has not begun beside the loop");
        };
        task().stack_size(ROOMY).unwrap().spawn(loops).join().unwrap();
    });
}

/// The second half of a join in progress would lie on a stack of its own for nothing, where no
/// other worker could take it.
#[test]
fn the_second_half_of_a_join_does_not_begin_at_a_checkpoint() {
    common::real!("it takes milliseconds, and a step of a simulation ten nanoseconds");
    /// Checks in for a while, and counts the switches of the worker.
    fn switches() -> u64 {
        let switches = || Handle::current().metrics().workers[0].switches;
        let (before, end) = (switches(), common::now() + Duration::from_millis(20));
        while common::now() < end {
            checkpoint().unwrap();
        }
        switches() - before
    }
    // A task that has yielded once turns the second half into a task, as others may have to wait
    // for it.
    let ways = [
        ("in the forking task", switches as fn() -> u64),
        ("in a child that the forking task has called on its own stack", || {
            spawn(switches).join().unwrap()
        }),
    ];
    with(&[1], |rt| {
        for (place, compute) in ways {
            let first = || {
                yield_now().unwrap();
                compute()
            };
            assert_eq!(rt.block_on(|| join(first, || ())), (0, ()), "{place}");
        }
    });
}
