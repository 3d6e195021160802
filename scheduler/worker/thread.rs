//! The thread of a worker, from its start to its end.

use crate::asm;
use crate::retire::overflow::{AltStack, Description};
use crate::scheduler::steal::search::Searcher;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::fiber::FiberOf;
use crate::scheduler::worker::shared::Shared;
use crate::shim::{self, Arc, is_simulated};
use crate::task::outcome::{drop_payload, quietly};
use crate::task::reference::TaskRef;
use std::ptr;

/// The hooks and settings of a worker's thread.
pub(crate) struct ThreadConfig {
    pub(crate) on_start: Option<std::sync::Arc<dyn Fn(usize) + Send + Sync>>,
    pub(crate) on_stop: Option<std::sync::Arc<dyn Fn(usize) + Send + Sync>>,
    pub(crate) overflow_report: bool,
}

/// The body of a worker's thread: becomes worker `index`, and returns when the runtime has ended.
pub(crate) fn main(shared: &Arc<Shared>, index: usize, config: &ThreadConfig) {
    // SAFETY: `shared` outlives the call, and this thread alone becomes this worker.
    let worker = unsafe { &*shared.seat(index) };
    worker.shared.set(Arc::as_ptr(shared));
    worker.remote.sleeper.introduce();
    // Without an alternate stack, a fault in a guard still ends the process, but with less to read.
    // In a simulation the OS thread has one for all workers.
    let wanted = config.overflow_report && !is_simulated();
    let _alternate = if wanted { AltStack::install().ok() } else { None };
    let main = FiberOf::of_thread(ptr::from_ref(worker));
    worker.fibers.main.set(&raw const main);
    worker.fibers.running.set(&raw const main);
    asm::set_thread_word(ptr::from_ref(worker).cast_mut().cast());
    let _guard = UnwindGuard;
    call(config.on_start.as_deref(), index);
    let mut searcher = Searcher::new();
    loop {
        while worker.run_until_idle() {}
        if shared.is_stopping() && worker.live() == 0 {
            break;
        }
        searcher.search_or_sleep(worker);
    }
    call(config.on_stop.as_deref(), index);
    worker.dismiss_spare();
    worker.housekeeping();
    worker.memory.stacks.borrow_mut().close(&shared.stacks);
    // Handles may keep the worker alive for long.
    worker.memory.records.give_all_back();
    asm::set_thread_word(ptr::null_mut());
    worker.fibers.main.set(ptr::null());
    worker.fibers.running.set(ptr::null());
}

/// Ends the process if the thread of a worker unwinds outside of its tasks. That is a bug of the
/// scheduler. Otherwise all tasks of the worker would wait for ever, and the destructors of
/// thread-locals would find a worker that has gone.
struct UnwindGuard;

impl Drop for UnwindGuard {
    fn drop(&mut self) {
        // A simulation reports the panic as the failure of its run.
        if shim::panicking() && !is_simulated() {
            shim::abort_with("a worker has panicked outside of its tasks, which is a bug");
        }
    }
}

/// Calls a user's hook. A panic in it has been reported by the panic hook and goes no further.
fn call(hook: Option<&(dyn Fn(usize) + Send + Sync)>, index: usize) {
    let Some(hook) = hook else { return };
    quietly(|| hook(index)).into_iter().for_each(drop_payload);
}

/// Describes the guard that an address belongs to. Runs in a signal handler on the faulting thread.
pub(crate) fn describe(address: usize) -> Option<Description> {
    let worker = Worker::current()?;
    let fiber = worker.fibers.running.get();
    // SAFETY: null or the fiber that runs on this thread.
    let fiber = unsafe { fiber.as_ref() }?;
    let guard = fiber.guard()?;
    if !guard.contains(&address) {
        return None;
    }
    let stack_size = fiber.class().map_or(0, |class| class.size());
    let task = worker.task().map(TaskRef::get);
    let name = task.and_then(|task| task.name()).unwrap_or("");
    Some(Description {
        kind: "task",
        name: name.as_ptr(),
        name_len: name.len(),
        id: task.map_or(0, |task| task.id()),
        spawned_at: task.map(|task| task.spawned_at),
        stack_size,
        guard,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::UnwindGuard;
    use crate::retire::rerun::{rerun, role};
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_worker_that_panics_outside_of_its_tasks_aborts_the_process_with_a_sentence() {
        let test = "scheduler::worker::thread::tests::\
                    a_worker_that_panics_outside_of_its_tasks_aborts_the_process_with_a_sentence";
        if role().is_some() {
            let worker = std::thread::spawn(|| {
                let _guard = UnwindGuard;
                panic!("planted");
            });
            let _ = worker.join();
            return;
        }
        let output = rerun(test, "child");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("cygnet: a worker has panicked outside of its tasks"), "{said}");
    }
}
