//! System threads, without a runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread::{self, JoinHandle};

use crate::compare::prelude::*;

/// The cases that threads run. Cases that would take a thread for each of a million things are
/// missing.
pub const TABLE: Table = &[
    ("spawn-join", spawn_join),
    ("spawn-outside", spawn_join),
    ("spawn-join-parked", spawn_join_parked),
    ("start-elsewhere", |s| {
        let spawn = |loot: Loot| thread::spawn(move || loot.take());
        Ok(start_elsewhere(s, spawn, JoinHandle::is_finished, end))
    }),
    ("start-outside", |s| Ok(start_outside(s, || end(thread::spawn(Instant::now))))),
    ("ping-pong-across", ping_pong),
    ("parked-memory", parked_memory),
    ("uneven", |s| Ok(forks::uneven::<Threads>(s, &mut ()))),
    ("join-", |s| Ok(forks::pair::<Threads>(s, &mut ()))),
    ("wait-once", wait_once),
    ("mutex-64", |s| Ok(contended(s, lock_often))),
    ("mutex-64-spread", |s| Ok(spread(s, lock_often))),
    ("channel-", |s| Ok(passed(s, pass))),
    ("ring-batch-", |s| pass_messages(s, Traffic::BATCHES)),
    ("ring-", |s| pass_messages(s, Traffic::SINGLE)),
    ("ring-park-", |s| pass_messages(s, Traffic::PARKED)),
    ("pipeline-", busy::pipeline::<Threads>),
    ("uneven-stages", busy::pipeline::<Threads>),
    ("contended-", busy::contended::<Threads, Mutex<u64>>),
    ("many-senders", busy::many_senders::<Threads>),
    ("request-reply", busy::request_reply::<Threads>),
    ("round-trip-bounded", |s| waits::round_trips_over::<Threads>(s, 1)),
    ("round-trip-rendezvous", |s| waits::round_trips_over::<Threads>(s, 0)),
    ("round-trip-unbounded", |s| waits::round_trips_over::<Threads>(s, waits::UNBOUNDED)),
    ("turns-mutex-", waits::mutex::<Threads, Mutex<u64>>),
    ("turns-rwlock-", waits::rwlock::<Threads, RwLock<u64>>),
    ("turns-condvar-", waits::condvar::<Threads, Buffer>),
    ("turns-barrier-", waits::barrier::<Threads>),
    ("control-loop", |s| control_loop(s, |job: ControlJob| drop(thread::spawn(move || job.run())))),
];

/// Threads: each fork and each task is a thread.
pub struct Threads;

fork!(Threads, |a, b| thread::scope(|scope| {
    let b = scope.spawn(b);
    let a = a();
    (a, b.join().expect("no kernel panics"))
}));

impl Blocking for Threads {
    /// A thread takes the turns of all tasks of a worker.
    const CONTENDERS_PER_WORKER: usize = 1;

    fn inside(setting: &Setting, kernel: impl FnOnce(&Setting) -> Measured + Send) -> CaseResult {
        Ok(kernel(setting))
    }

    fn run_all<T: Send>(tasks: Vec<Task<'_, T>>) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        })
    }

    fn barrier(count: usize) -> impl Fn() -> bool + Sync {
        let barrier = Barrier::new(count);
        move || barrier.wait().is_leader()
    }
}

impl Channels for Threads {
    fn channel(
        room: usize,
    ) -> (impl Fn(u64) + Clone + Send + 'static, impl Fn() -> Option<u64> + Send + 'static) {
        let (to, from) = match room {
            waits::UNBOUNDED => crossbeam_channel::unbounded(),
            room => crossbeam_channel::bounded(room),
        };
        (move |value| to.send(value).expect("the channel is open"), move || from.recv().ok())
    }
}

locks_like_those_of_std!(Mutex, RwLock, Condvar);

fn end<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no thread panics")
}

fn spawn_join(setting: &Setting) -> CaseResult {
    let spawn = |i| black_box(thread::spawn(move || black_box(i)).join().ok());
    Ok(repeated(setting, |n| time(n, spawn)))
}

fn spawn_join_parked(setting: &Setting) -> CaseResult {
    Ok(repeated(setting, |n| {
        time(n, |i| {
            let (parent, started) = (thread::current(), Arc::new(AtomicBool::new(false)));
            let theirs = Arc::clone(&started);
            let child = thread::spawn(move || {
                theirs.store(true, Ordering::Release);
                parent.unpark();
                thread::park();
                black_box(i)
            });
            while !started.load(Ordering::Acquire) {
                thread::park();
            }
            child.thread().unpark();
            black_box(child.join().ok());
        })
    }))
}

/// Contenders for a std mutex, which start together.
fn lock_often(each: usize) -> Vec<Stint> {
    let (mutex, gate) = (Mutex::new(0), Barrier::new(CONTENDERS));
    thread::scope(|scope| {
        let contend = || {
            gate.wait();
            let began = Instant::now();
            for _ in 0..each {
                *mutex.lock().expect("no holder panics") += 1;
            }
            (began, Instant::now())
        };
        let threads: Vec<_> = (0..CONTENDERS).map(|_| scope.spawn(contend)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

fn pass(values: usize, senders: usize) {
    let (to, from) = crossbeam_channel::bounded(ROOM);
    thread::scope(|scope| {
        for _ in 0..senders {
            let to = to.clone();
            scope
                .spawn(move || (0..values / senders).for_each(|i| to.send(i).expect("it is open")));
        }
        drop(to);
        from.iter().for_each(|value| _ = black_box(value));
    });
}

fn pass_messages(setting: &Setting, traffic: Traffic) -> CaseResult {
    Ok(ring(setting, traffic, |traffic| pass(traffic.messages, traffic.producers)))
}

fn ping_pong(setting: &Setting) -> CaseResult {
    let (first, stop) = (thread::current(), Arc::new(AtomicBool::new(false)));
    let theirs = Arc::clone(&stop);
    let partner = thread::spawn(move || {
        loop {
            thread::park();
            if theirs.load(Ordering::Relaxed) {
                return;
            }
            first.unpark();
        }
    });
    let measured = shared_out(setting, 2, |n| {
        time(n, |_| {
            partner.thread().unpark();
            thread::park();
        })
    });
    stop.store(true, Ordering::Relaxed);
    partner.thread().unpark();
    end(partner);
    Ok(measured)
}

fn parked_memory(setting: &Setting) -> CaseResult {
    end(thread::spawn(|| ()));
    let count = setting.size(cases::PARKED_THREADS);
    let stop = Arc::new(AtomicBool::new(false));
    let (measured, threads) = memory_of(count, 64 << 10, |count| {
        let gate = Arc::new(Barrier::new(count + 1));
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (gate, stop) = (Arc::clone(&gate), Arc::clone(&stop));
                thread::spawn(move || {
                    gate.wait();
                    while !stop.load(Ordering::Relaxed) {
                        thread::park();
                    }
                })
            })
            .collect();
        gate.wait();
        threads
    })?;
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.thread().unpark();
        end(thread);
    }
    Ok(measured)
}

fn wait_once(setting: &Setting) -> CaseResult {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    Ok(repeated(setting, |n| {
        time(n, |_| {
            let gate = Barrier::new(tasks + 1);
            thread::scope(|scope| {
                for seed in 0..tasks as u64 {
                    let gate = &gate;
                    scope.spawn(move || {
                        gate.wait();
                        work.run(seed)
                    });
                }
                gate.wait();
            });
        })
    }))
}
