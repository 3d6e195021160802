//! Calls that block their thread, while the worker goes on with other tasks.

mod calls;
mod cancelling;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod pool;

use crate::common::mpsc::{Sender, channel};
use cygnet::{Runtime, Task, blocking};

/// A runtime with so many threads for calls that block.
fn runtime(workers: usize, threads: usize) -> Runtime {
    Runtime::builder().workers(workers).max_blocking_threads(threads).build().unwrap()
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
