//! may: stackful coroutines that migrate between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use may::coroutine::{self, Coroutine, JoinHandle};
use may::go;
use may::sync::{Barrier, Condvar, Mutex, RwLock, Semphore, mpsc, spsc};

use crate::compare::prelude::*;

/// The cases that may runs. It is not made for a coroutine per fork, so cases with a million
/// forks are missing.
pub const TABLE: Table = &[
    ("spawn-join", |s| May::inside(s, |s| repeated(s, spawn_join))),
    ("spawn-join-parked", |s| May::inside(s, |s| repeated(s, spawn_join_parked))),
    ("batch", batch),
    ("batch-parked", batch_parked),
    ("start-here", |s| May::inside(s, |s| starts(s, start_here))),
    ("start-elsewhere", |s| {
        May::inside(s, |s| {
            let spawn = |loot: Loot| go!(move || loot.take());
            start_elsewhere(s, spawn, JoinHandle::is_done, end)
        })
    }),
    ("start-outside", |s| {
        configure(s);
        Ok(start_outside(s, || end(go!(Instant::now))))
    }),
    ("spawn-outside", spawn_outside),
    ("block-on", spawn_outside),
    ("yield-", yields),
    ("ping-pong", |s| May::inside(s, |s| repeated(s, ping_pong))),
    ("parked-memory", parked_memory),
    ("uneven", |s| May::inside(s, |s| forks::uneven::<May>(s, &mut ()))),
    ("join-", |s| May::inside(s, |s| forks::pair::<May>(s, &mut ()))),
    ("pipeline-", busy::pipeline::<May>),
    ("uneven-stages", busy::pipeline::<May>),
    ("wait-once", wait_once),
    ("round-trip-bounded", |s| {
        waits::round_trips::<May, _, _>(s, || waits::over(spsc_channel(), spsc_channel()))
    }),
    ("round-trip-unbounded", |s| {
        waits::round_trips::<May, _, _>(s, || waits::over(mpsc_channel(), mpsc_channel()))
    }),
    ("round-trip-oneshot", |s| waits::round_trips::<May, _, _>(s, fresh_channels)),
    ("turns-mutex-", waits::mutex::<May, Mutex<u64>>),
    ("turns-mutex-fifo-", waits::mutex::<May, Mutex<u64>>),
    ("turns-rwlock-", waits::rwlock::<May, RwLock<u64>>),
    ("turns-semaphore-", waits::mutex::<May, Permitted>),
    ("turns-condvar-", waits::condvar::<May, Buffer>),
    ("turns-barrier-", waits::barrier::<May>),
    ("control-loop", |s| {
        configure(s);
        control_loop(s, |job: ControlJob| drop(go!(|| job.run())))
    }),
];

/// Forks that are coroutines.
struct May;

fork!(May, |a, b| {
    let mut result = None;
    let a = coroutine::scope(|scope| {
        go!(scope, || result = Some(b()));
        a()
    });
    (a, result.expect("a scope waits for its coroutines"))
});

impl Blocking for May {
    fn inside(
        setting: &Setting,
        kernel: impl FnOnce(&Setting) -> Measured + Send + 'static,
    ) -> CaseResult {
        configure(setting);
        let setting = *setting;
        Ok(end(go!(move || kernel(&setting))))
    }

    fn run_all<T: Send>(tasks: Vec<Task<'_, T>>) -> Vec<T> {
        coroutine::scope(|scope| {
            let tasks: Vec<_> = tasks.into_iter().map(|task| go!(scope, task)).collect();
            tasks.into_iter().map(|task| task.join()).collect()
        })
    }

    fn barrier(count: usize) -> impl Fn() -> bool + Sync {
        let barrier = Barrier::new(count);
        move || barrier.wait().is_leader()
    }
}

/// may's channels are unbounded, so a semaphore counts the free slots.
impl Channels for May {
    fn channel(
        room: usize,
    ) -> (impl Fn(u64) + Clone + Send + 'static, impl Fn() -> Option<u64> + Send + 'static) {
        let ((to, from), room) = (mpsc::channel(), Arc::new(Semphore::new(room)));
        let theirs = Arc::clone(&room);
        let send = move |value| {
            room.wait();
            to.send(value).expect("the channel is open");
        };
        let receive = move || {
            let value = from.recv().ok()?;
            theirs.post();
            Some(value)
        };
        (send, receive)
    }
}

/// A channel of one sender, without a limit. In a round trip it never holds more than one number.
fn spsc_channel() -> (impl Fn(u64) + Send, impl Fn() -> Option<u64> + Send) {
    let (to, from) = spsc::channel();
    (move |value| to.send(value).expect("the channel is open"), move || from.recv().ok())
}

fn mpsc_channel() -> (impl Fn(u64) + Send, impl Fn() -> Option<u64> + Send) {
    let (to, from) = mpsc::channel();
    (move |value| to.send(value).expect("the channel is open"), move || from.recv().ok())
}

/// Both sides of an exchange in which a request comes with the sender of a fresh channel for its
/// answer.
fn fresh_channels() -> (impl FnMut(u64) -> u64 + Send, impl FnMut(Work) + Send) {
    let (to, from) = spsc::channel();
    let ask = move |request| {
        let (answer, answered) = spsc::channel();
        assert!(to.send((request, answer)).is_ok(), "the channel is open");
        answered.recv().expect("each request has an answer")
    };
    let answer = move |work: Work| {
        let (request, answer): (u64, spsc::Sender<u64>) = from.recv().expect("the channel is open");
        work.run(request);
        answer.send(request + 1).expect("the asking task waits");
    };
    (ask, answer)
}

locks_like_those_of_std!(Mutex, RwLock, Condvar);

/// A number for the holder of the one permit.
struct Permitted(Semphore, Number);

impl Default for Permitted {
    fn default() -> Permitted {
        Permitted(Semphore::new(1), Number::default())
    }
}

impl Lock for Permitted {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.0.wait();
        let result = self.1.change(f);
        self.0.post();
        result
    }
}

/// Configures the scheduler. There is one per process, so only the first call has an effect.
fn configure(setting: &Setting) {
    may::config().set_workers(setting.workers);
}

fn end<T>(task: JoinHandle<T>) -> T {
    task.join().expect("no coroutine panics")
}

fn spawn_join(n: u64) -> Duration {
    time(n, |i| black_box(end(go!(move || black_box(i)))))
}

fn spawn_join_parked(n: u64) -> Duration {
    time(n, |i| {
        let parent = coroutine::current();
        let child = go!(move || {
            parent.unpark();
            coroutine::park();
            black_box(i)
        });
        coroutine::park();
        child.coroutine().unpark();
        black_box(end(child));
    })
}

fn batch(setting: &Setting) -> CaseResult {
    let size = setting.size(cases::MAY_BATCH);
    May::inside(setting, move |setting| {
        let mut children = Vec::with_capacity(size);
        shared_out(setting, size, |n| {
            time(n, |_| {
                for i in 0..size {
                    children.push(go!(move || black_box(i)));
                }
                for child in children.drain(..) {
                    black_box(end(child));
                }
            })
        })
    })
}

/// Counts coroutines that have started and are about to wait, for a coroutine that waits until
/// all have.
struct Gate {
    missing: AtomicUsize,
    waiter: Coroutine,
}

impl Gate {
    fn new(count: usize) -> Arc<Gate> {
        Arc::new(Gate { missing: AtomicUsize::new(count), waiter: coroutine::current() })
    }

    fn pass(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.missing.load(Ordering::Acquire) > 0 {
            coroutine::park();
        }
    }
}

/// Spawns coroutines that wait once and then do some work. They have reached their wait when it
/// returns.
fn waiters(tasks: usize, work: Work) -> Vec<JoinHandle<u64>> {
    let gate = Gate::new(tasks);
    let spawn = |seed| {
        let gate = Arc::clone(&gate);
        go!(move || {
            gate.pass();
            drop(gate);
            coroutine::park();
            work.run(seed)
        })
    };
    let children = (0..tasks as u64).map(spawn).collect();
    gate.wait();
    children
}

fn wake(children: Vec<JoinHandle<u64>>) {
    children.iter().for_each(|child| child.coroutine().unpark());
    children.into_iter().for_each(|child| _ = end(child));
}

fn batch_parked(setting: &Setting) -> CaseResult {
    let size = setting.size(cases::PARKED_BATCH);
    May::inside(setting, move |setting| {
        shared_out(setting, size, |n| time(n, |_| wake(waiters(size, Work::NONE))))
    })
}

fn wait_once(setting: &Setting) -> CaseResult {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    May::inside(setting, move |setting| {
        repeated(setting, |n| time(n, |_| wake(waiters(tasks, work))))
    })
}

fn start_here() -> Delay {
    let before = Instant::now();
    (before, end(go!(Instant::now)))
}

fn spawn_outside(setting: &Setting) -> CaseResult {
    configure(setting);
    Ok(repeated(setting, spawn_join))
}

fn yields(setting: &Setting) -> CaseResult {
    let (each, tasks) = (setting.size(cases::YIELDS), setting.number as usize);
    May::inside(setting, move |setting| {
        shared_out(setting, each * tasks, |n| take_turns(each * n as usize, tasks))
    })
}

fn take_turns(rounds: usize, tasks: usize) -> Duration {
    let (gate, go) = (Gate::new(tasks - 1), Arc::new(AtomicBool::new(false)));
    let others: Vec<_> = (1..tasks)
        .map(|_| {
            let (gate, go) = (Arc::clone(&gate), Arc::clone(&go));
            go!(move || {
                gate.pass();
                while !go.load(Ordering::Relaxed) {
                    coroutine::yield_now();
                }
                (0..rounds).for_each(|_| coroutine::yield_now());
            })
        })
        .collect();
    gate.wait();
    let began = Instant::now();
    go.store(true, Ordering::Relaxed);
    (0..rounds).for_each(|_| coroutine::yield_now());
    others.into_iter().for_each(end);
    began.elapsed()
}

fn ping_pong(n: u64) -> Duration {
    let (first, stop) = (coroutine::current(), Arc::new(AtomicBool::new(false)));
    let theirs = Arc::clone(&stop);
    let partner = go!(move || {
        loop {
            coroutine::park();
            if theirs.load(Ordering::Relaxed) {
                return;
            }
            first.unpark();
        }
    });
    let rounds = n.div_ceil(2);
    let began = Instant::now();
    for _ in 0..rounds {
        partner.coroutine().unpark();
        coroutine::park();
    }
    let time = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    partner.coroutine().unpark();
    end(partner);
    scale(time, n, rounds * 2)
}

fn parked_memory(setting: &Setting) -> CaseResult {
    configure(setting);
    let count = setting.size(cases::MAY_PARKED);
    end(go!(|| wake(waiters(1000, Work::NONE))));
    let (measured, parked) =
        memory_of(count, 20 << 10, |count| end(go!(move || waiters(count, Work::NONE))))?;
    end(go!(move || wake(parked)));
    Ok(measured)
}
