//! The measured calls, in loops.
//!
//! Each function performs its operation `n` times and returns the time taken, without its own
//! preparations. Unless stated otherwise, it runs inside a task (`block_on`).

use std::cell::RefCell;
use std::hint::{black_box, spin_loop};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use cygnet::coroutine::Coroutine;
use cygnet::{LocalTask, Runtime, Task, Unparker};

use crate::measure::harness::{CaseResult, Delay, Measured, Setting, repeated, scale, time};
use crate::measure::work::{Work, spin};

/// Stack size that tasks request in order to get a coroutine of their own. It is the default
/// size.
const STACK: usize = 64 << 10;

/// Builds a runtime with `workers` workers.
///
/// # Panics
/// If the system refuses the runtime or its threads: then there is nothing to measure.
pub fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers);
    // Frames of a debug build take many times as much, and figures of such a build mean nothing
    // anyway.
    let builder = if cfg!(debug_assertions) { builder.stack_size(1 << 20) } else { builder };
    builder.build().expect("a small runtime can be built")
}

/// Measures inside a task.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn inside(setting: &Setting, kernel: impl FnOnce(&Setting) -> Measured + Send) -> CaseResult {
    Ok(runtime(setting.workers).block_on(|| kernel(setting)))
}

/// Measures an operation inside a task.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn looped(setting: &Setting, operation: impl FnMut(u64) -> Duration + Send) -> CaseResult {
    inside(setting, |setting| repeated(setting, operation))
}

/// Lets a task wait until other tasks have reached a certain point.
pub struct Gate {
    missing: AtomicUsize,
    waiter: Unparker,
}

impl Gate {
    /// A gate at which the calling task waits for `count` others.
    pub fn new(count: usize) -> Arc<Gate> {
        Arc::new(Gate { missing: AtomicUsize::new(count), waiter: cygnet::unparker() })
    }

    /// Called by each of the others when it gets there.
    pub fn pass(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Waits for all of the others.
    pub fn wait(&self) {
        while self.missing.load(Ordering::Acquire) != 0 {
            if cygnet::park().is_err() {
                return;
            }
        }
    }
}

/// One child at a time, spawned and joined at once, so that it is called in place.
pub fn spawn_join_in_place(n: u64) -> Duration {
    time(n, |i| black_box(cygnet::spawn(move || black_box(i)).join().ok()))
}

/// One `join` at a time, of two closures that do nothing.
pub fn joins(n: u64) -> Duration {
    time(n, |i| black_box(cygnet::join(|| black_box(i), || black_box(i))))
}

/// Nested joins: `n` leaves and `n - 1` forks.
pub fn nested_joins(n: u64) -> Duration {
    fn halves(n: u64) -> u64 {
        if n < 2 {
            return black_box(n);
        }
        let (a, b) = cygnet::join(|| halves(n / 2), || halves(n - n / 2));
        a + b
    }
    let began = Instant::now();
    black_box(halves(n));
    began.elapsed()
}

/// One child at a time with a stack of its own. It cannot be called in place, so the parent
/// parks.
pub fn spawn_join_own_stack(n: u64) -> Duration {
    time(n, |i| {
        let task = cygnet::task().stack_size(STACK).expect("the usual size");
        black_box(task.spawn(move || black_box(i)).join().ok());
    })
}

/// One child at a time for which the parent parks. The worker's loop starts the child on a pooled
/// stack; the child wakes the parent and ends, and the join finds it done. This takes two
/// switches.
pub fn spawn_join_through_loop(n: u64) -> Duration {
    let parent = cygnet::unparker();
    let parent = &parent;
    cygnet::scope(|scope| {
        time(n, |i| {
            let child = scope.spawn(move || {
                parent.unpark();
                black_box(i)
            });
            let _ = cygnet::park();
            black_box(child.join().ok());
        })
    })
}

/// One child at a time that yields once. It is called in place, and finds no task to yield to.
pub fn spawn_join_yielding(n: u64) -> Duration {
    time(n, |i| {
        let child = cygnet::spawn(move || {
            let _ = cygnet::yield_now();
            black_box(i)
        });
        black_box(child.join().ok());
    })
}

/// Spawns as many children as `tasks` has capacity for, then joins them in that order.
pub fn batch(tasks: &mut Vec<Task<usize>>) -> Duration {
    let began = Instant::now();
    for i in 0..tasks.capacity() {
        tasks.push(cygnet::spawn(move || black_box(i)));
    }
    for task in tasks.drain(..) {
        black_box(task.join().ok());
    }
    began.elapsed()
}

/// `n` batches of `size` children each.
pub fn batches(n: u64, size: usize) -> Duration {
    let mut tasks = Vec::with_capacity(size);
    (0..n).map(|_| batch(&mut tasks)).sum()
}

/// `n` switches into and out of a bare coroutine: half of them resume it, half suspend it. Needs
/// no runtime.
pub fn coroutine_switches(n: u64) -> Duration {
    let coroutine = Coroutine::new(|yielder, mut stop: bool| {
        while !stop {
            stop = yielder.suspend(());
        }
    });
    // The first call of `resume` starts the coroutine.
    black_box(coroutine.resume(false).is_ok());
    let pairs = n.div_ceil(2);
    let began = Instant::now();
    for _ in 0..pairs {
        black_box(coroutine.resume(false).is_ok());
    }
    let time = began.elapsed();
    black_box(coroutine.resume(true).is_ok());
    scale(time, n, pairs * 2)
}

/// About `n` yields among `tasks` tasks of one worker, the caller included.
pub fn yields(n: u64, tasks: usize) -> Duration {
    let stop = Arc::new(AtomicBool::new(false));
    let gate = Gate::new(tasks - 1);
    // All tasks have started before any of them yields.
    let started = Rc::new(RefCell::new(Vec::with_capacity(tasks)));
    let others: Vec<LocalTask<()>> = (1..tasks)
        .map(|_| {
            let (stop, gate, started) = (Arc::clone(&stop), Arc::clone(&gate), Rc::clone(&started));
            cygnet::spawn_local(move || {
                started.borrow_mut().push(cygnet::unparker());
                gate.pass();
                let _ = cygnet::park();
                while !stop.load(Ordering::Relaxed) && cygnet::yield_now().is_ok() {}
            })
        })
        .collect();
    gate.wait();
    started.take().iter().for_each(Unparker::unpark);
    // Each yield of the caller lets every other task yield once.
    let rounds = n.div_ceil(tasks as u64);
    let began = Instant::now();
    for _ in 0..rounds {
        let _ = cygnet::yield_now();
    }
    let time = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|task| drop(task.join()));
    scale(time, n, rounds * tasks as u64)
}

/// `n` steps of a ping-pong between the caller and another task of the same worker. In a step,
/// one task unparks the other and parks.
pub fn ping_pong_at_home(n: u64) -> Duration {
    let (partner, shared) = Partner::new();
    let task = cygnet::spawn_local(move || shared.play());
    let time = partner.serve(n);
    drop(task.join());
    time
}

/// The same as [`ping_pong_at_home`], with the other task on whichever worker starts it.
pub fn ping_pong(n: u64) -> Duration {
    let (partner, shared) = Partner::new();
    let task = cygnet::spawn(move || shared.play());
    let time = partner.serve(n);
    drop(task.join());
    time
}

/// The same as [`ping_pong_at_home`], with the other task on another worker. Needs two workers.
///
/// # Panics
/// If both tasks run on the same worker nevertheless.
pub fn ping_pong_across(n: u64) -> Duration {
    let (partner, shared) = Partner::new();
    let task = cygnet::spawn(move || {
        let home = thread::current().id();
        shared.play();
        home
    });
    // This worker is busy, so another one starts the task, which then stays there.
    while partner.other.get().is_none() {
        spin_loop();
    }
    let time = partner.serve(n);
    let home = task.join().ok();
    assert!(
        home.is_some_and(|home| home != thread::current().id()),
        "both tasks run on the same worker"
    );
    time
}

/// The two sides of a ping-pong.
struct Partner {
    first: Unparker,
    other: OnceLock<Unparker>,
    stop: AtomicBool,
}

impl Partner {
    /// A ping-pong that the calling task serves, for both sides.
    fn new() -> (Arc<Partner>, Arc<Partner>) {
        let (other, stop) = (OnceLock::new(), AtomicBool::new(false));
        let partner = Arc::new(Partner { first: cygnet::unparker(), other, stop });
        (Arc::clone(&partner), partner)
    }

    fn play(&self) {
        let _ = self.other.set(cygnet::unparker());
        self.first.unpark();
        while cygnet::park().is_ok() && !self.stop.load(Ordering::Relaxed) {
            self.first.unpark();
        }
    }

    fn serve(&self, n: u64) -> Duration {
        let _ = cygnet::park();
        let other = self.other.get().expect("set before the first unpark");
        let rounds = n.div_ceil(2);
        let began = Instant::now();
        for _ in 0..rounds {
            other.unpark();
            let _ = cygnet::park();
        }
        let time = began.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        other.unpark();
        scale(time, n, rounds * 2)
    }
}

/// Spawns from a thread that is not a worker, and waits for the end. Not inside a task.
pub fn spawn_from_outside(runtime: &Runtime, n: u64) -> Duration {
    time(n, |i| black_box(runtime.spawn(move || black_box(i)).join().ok()))
}

/// Measures [`spawn_from_outside`].
///
/// # Errors
/// None. The signature is that of all cases.
pub fn from_outside(setting: &Setting) -> CaseResult {
    let runtime = runtime(setting.workers);
    Ok(repeated(setting, |n| spawn_from_outside(&runtime, n)))
}

/// Builds runtimes, lets each run nothing, and drops them. Not inside a task.
pub fn life_of_a_runtime(n: u64, workers: usize) -> Duration {
    time(n, |_| runtime(workers).block_on(|| ()))
}

/// Spawns `count` tasks that call `first` and park, and waits until all are parked. Also returns
/// the handles.
pub fn park_many(
    count: usize,
    first: impl Fn() + Copy + Send + 'static,
) -> (Duration, Vec<Task<()>>) {
    let gate = Gate::new(count);
    let mut tasks = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let gate = Arc::clone(&gate);
        tasks.push(cygnet::spawn(move || {
            first();
            gate.pass();
            // The drop of the handle ends the task.
            let _ = cygnet::park();
        }));
    }
    gate.wait();
    (began.elapsed(), tasks)
}

/// Ends parked tasks, and waits for all of them. No worker falls idle meanwhile, so the stacks
/// stay warm.
pub fn release_many(tasks: Vec<Task<()>>) {
    drop(tasks);
    // The cancelled tasks are ready before this one.
    let _ = cygnet::yield_now();
}

/// Calls `checkpoint` where nothing else is to be done.
pub fn checkpoints(n: u64) -> Duration {
    time(n, |_| cygnet::checkpoint())
}

/// Measures from the spawn of a child, which is joined at once, to its first instruction.
pub fn start_in_place() -> Delay {
    let before = Instant::now();
    let started = cygnet::spawn(Instant::now).join();
    (before, started.expect("it is never cancelled"))
}

/// Measures from the spawn of a child to its first instruction on this worker. The parent parks
/// and the child gets a stack; the child parks once too.
pub fn start_on_own_stack() -> Delay {
    let parent = cygnet::unparker();
    let slot = Arc::new(OnceLock::new());
    let theirs = Arc::clone(&slot);
    let before = Instant::now();
    let child = cygnet::spawn(move || {
        let started = Instant::now();
        let _ = theirs.set(cygnet::unparker());
        parent.unpark();
        let _ = cygnet::park();
        started
    });
    let _ = cygnet::park();
    if let Some(child) = slot.get() {
        child.unpark();
    }
    (before, child.join().expect("it is never cancelled"))
}

/// Measures from a spawn to the first instruction on another worker, while the spawner computes
/// without calling the scheduler. Needs two workers.
///
/// The child then does `work`, and `gap` is the time from the end of one child to the spawn of
/// the next. Both determine what the other worker is doing when the spawn comes.
pub fn start_elsewhere(gap: Duration, work: Work) -> Delay {
    spin(gap);
    let before = Instant::now();
    let child = cygnet::spawn(move || {
        let started = Instant::now();
        work.run(1);
        started
    });
    while !child.is_finished() {
        spin_loop();
    }
    (before, child.join().expect("it is never cancelled"))
}

/// Measures from a spawn by a thread that is not a worker to the first instruction. Not inside a
/// task.
pub fn start_from_outside(runtime: &Runtime, gap: Duration) -> Delay {
    if !gap.is_zero() {
        thread::sleep(gap);
    }
    let before = Instant::now();
    let started = runtime.spawn(Instant::now).join();
    (before, started.expect("it is never cancelled"))
}
