//! The end of a runtime.

use crate::runtime::builder::Runtime;
use crate::runtime::metrics::Metrics;
use crate::runtime::thread_scope::is_open_here;
use crate::scheduler::worker::shared::Shared;
use crate::shim::time::{Duration, patience};
use crate::shim::unmodelled::thread::Builder as ThreadBuilder;
use crate::shim::{say, spin_until};
use crate::shutdown::stop_runtime;
use std::sync::{Arc, Mutex};

/// How long the end of a runtime spins for the end of each thread before it blocks. The threads all
/// end about now, one after the other.
const SPIN: Duration = Duration::from_micros(50);

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.ended && self.may_end() {
            self.end(None);
        }
    }
}

impl Runtime {
    /// Ends the runtime as soon as it is idle, without a wait: when its last task has ended. Nothing
    /// is cancelled. For an owner that goes while the work that it has started goes on. (It ends
    /// with the process, when `main` returns.)
    ///
    /// From this call on only the runtime's own tasks, and their blocking calls, spawn by a
    /// [`Handle`](crate::Handle); others get an error. The runtime's
    /// [`swansong`](Runtime::swansong) is stopped when the last task has ended. Tasks that wait for
    /// its stop keep the runtime going: stop it before this call. A task that never ends does so,
    /// too.
    ///
    /// Does not suspend. Costs a thread, which waits and then joins the runtime's threads. If the
    /// system refuses it, the call itself waits.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let sum = rt.spawn(|| {
    ///     let parts = [1..50, 50..101].map(|part| cygnet::spawn(move || part.sum::<u32>()));
    ///     parts.into_iter().map(|part| part.join().unwrap()).sum::<u32>()
    /// });
    /// rt.end_when_idle();
    /// assert_eq!(sum.join().unwrap(), 5050);
    /// ```
    ///
    /// # Panics
    /// As a drop does, if one of the runtime's own tasks calls this and the system refuses the
    /// thread.
    pub fn end_when_idle(self) {
        self.shared.root.shut();
        self.elsewhere(|runtime| {
            if !runtime.shared.runs_caller() && !is_open_here(&runtime.shared) {
                runtime.shared.root.wait(None);
            }
        });
    }

    /// Calls a closure with the runtime on a new thread. If the system refuses the thread, calls it
    /// here.
    pub(crate) fn elsewhere(self, f: impl FnOnce(Runtime) + Send + 'static) {
        fn take_and_call<F: FnOnce(Runtime)>(place: &Mutex<Option<(Runtime, F)>>) {
            let taken = place.lock().expect("nothing panics under the lock").take();
            if let Some((runtime, f)) = taken {
                f(runtime);
            }
        }
        // An error drops what the thread was to own.
        let here = Arc::new(Mutex::new(Some((self, f))));
        let there = Arc::clone(&here);
        let thread = ThreadBuilder::new().name("cygnet-end".to_owned());
        if thread.spawn(move || take_and_call(&there)).is_err() {
            take_and_call(&here);
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns whether the caller is outside the runtime. A task that ended its own runtime would
    /// wait for itself, as would a scope, so for such a caller this panics (while unwinding: prints
    /// the message) and leaks the runtime.
    pub(crate) fn may_end(&mut self) -> bool {
        let shared = &*self.shared;
        let in_task = shared.worker_here().is_some() || shared.blocking.runs_job_here();
        if !in_task && !is_open_here(shared) {
            return true;
        }
        let sentence = "cygnet: a runtime was dropped by one of its own tasks or scopes, which would wait for \
                        itself for ever; drop it outside, or keep a Handle there instead";
        self.leak();
        if crate::shim::panicking() {
            say(sentence);
        } else {
            panic!("{sentence}");
        }
        false
    }

    /// Ends the runtime. If `patience` is given and passes first, leaks the rest of the runtime and
    /// returns `false`.
    pub(crate) fn end(&mut self, patience: Option<Duration>) -> bool {
        stop_runtime(&self.shared);
        self.shared.close();
        // Stops a swansong that was made between the two calls.
        stop_runtime(&self.shared);
        match patience {
            Some(time) if !self.shared.root.wait(Some(time)) => {
                self.leak();
                return false;
            }
            Some(_) => {}
            None => self.wait_for_tasks(),
        }
        self.shared.stop();
        for thread in self.threads.drain(..) {
            spin_until(SPIN, || thread.is_finished());
            // A worker's thread does not unwind, because panics of its hooks are caught.
            let _ = thread.join();
        }
        self.shared.blocking.close();
        self.reporter.take();
        self.ended = true;
        true
    }

    fn wait_for_tasks(&self) {
        let mut seconds = 10;
        while !self.shared.root.wait(patience(Duration::from_secs(seconds))) {
            seconds = 60;
            say(&format!(
                "cygnet: a runtime is being dropped and waits for its tasks: {}",
                Metrics::read(&self.shared).unfinished()
            ));
        }
    }

    /// Leaks the runtime. Its threads go on, so nothing that they use may be freed.
    fn leak(&mut self) {
        self.threads.drain(..).for_each(drop);
        std::mem::forget(self.reporter.take());
        std::mem::forget(Arc::clone(&self.shared));
        self.ended = true;
    }
}
