//! Calls that block their thread, while the worker goes on with other tasks.

mod calls;
mod cancelling;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod pool;

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

/// A runtime with at most `threads` threads for calls that block.
fn runtime(workers: usize, threads: usize) -> Runtime {
    Runtime::builder().workers(workers).max_blocking_threads(threads).build().unwrap()
}

/// As `runtime`, with threads that leave when they have been idle for some microseconds.
fn leaving(workers: usize, threads: usize, keep_alive: u64) -> Runtime {
    let rt = Runtime::builder().workers(workers).max_blocking_threads(threads);
    keeping(rt, Duration::from_micros(keep_alive))
}

fn keeping(builder: Builder, keep_alive: Duration) -> Runtime {
    builder.blocking_keep_alive(keep_alive).build().unwrap()
}

/// In a call: blocks until the call is cancelled.
fn block_until_cancelled() {
    spin_until(is_cancelled);
}

/// A call that has begun, and keeps its thread until it is opened.
struct Plug {
    open: Sender<()>,
    task: Task<()>,
}

impl Plug {
    fn put_into(rt: &Runtime) -> Plug {
        let (open, gate) = channel();
        let (begin, begun) = channel();
        let task = rt.spawn(move || {
            blocking(move || {
                begin.send(()).unwrap();
                gate.recv().unwrap();
            });
        });
        begun.recv().unwrap();
        Plug { open, task }
    }

    fn pull(self) {
        self.open.send(()).unwrap();
        self.task.join().unwrap();
    }
}

/// Shows a behaviour of a runtime whose only thread for calls is plugged.
fn with_plug(workers: &[usize], show: impl Fn(Runtime, Plug) + Sync) {
    for &workers in workers {
        within(|| {
            let rt = runtime(workers, 1);
            let plug = Plug::put_into(&rt);
            show(rt, plug);
        });
    }
}
