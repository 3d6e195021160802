//! Virtual threads of a simulation. Outside a simulation they are threads of `std`, so that a
//! program can always use this module.

use crate::shim::{Condvar, Mutex, panicking};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

pub use crate::shim::thread::{
    JoinHandle, Thread, ThreadId, current, park, park_timeout, sleep, spawn, yield_now,
};

/// Opens a scope for threads that borrow, like [`std::thread::scope`].
///
/// # Panics
/// If `f` panics, or if a thread panicked that was not joined.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { running: Arc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let (count, ended) = &*scope.running;
    let mut threads = count.lock();
    while threads.run > 0 {
        threads = ended.wait(threads);
    }
    let result = result.unwrap_or_else(|payload| resume_unwind(payload));
    assert!(threads.panicked == 0, "a scoped thread panicked");
    result
}

#[derive(Default)]
struct Threads {
    run: usize,
    /// Threads that panicked, except for those whose panic a join has returned.
    panicked: usize,
}

type Running = Arc<(Mutex<Threads>, Condvar)>;

/// A member of a scope: a thread, or a closure that was to become one. Its drop reports the end to
/// the scope.
struct Member {
    running: Running,
    panicked: bool,
}

impl Member {
    fn new(running: &Running) -> Member {
        running.0.lock().run += 1;
        Member { running: Arc::clone(running), panicked: false }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut threads = self.running.0.lock();
        threads.run -= 1;
        // The drop of the thread's result may have panicked.
        threads.panicked += usize::from(self.panicked || panicking());
        self.running.1.notify_all();
    }
}

/// A scope for threads that borrow. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    running: Running,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a thread in the scope, like [`std::thread::Scope::spawn`].
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let result = Arc::new(Mutex::new(None));
        let (mut member, to) = (Member::new(&self.running), Arc::clone(&result));
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(f));
            member.panicked = outcome.is_err();
            *to.lock() = Some(outcome);
            // The result may borrow from outside the scope, so it goes before the member reports
            // the end.
            drop(to);
            drop(member);
        };
        let body: Box<dyn FnOnce() + Send + 'scope> = Box::new(body);
        // SAFETY: `scope` returns only after `member` has been dropped, and the body touches
        // nothing borrowed after that.
        let body: Box<dyn FnOnce() + Send> = unsafe { std::mem::transmute(body) };
        let thread = spawn(body);
        ScopedJoinHandle { thread, result, running: Arc::clone(&self.running), scope: PhantomData }
    }
}

/// A handle to a thread of a scope, to join it.
pub struct ScopedJoinHandle<'scope, T> {
    thread: JoinHandle<()>,
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
    running: Running,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread to end, and returns its result.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join()?;
        let mut result = self.result.lock();
        let result = result.take().expect("the thread has stored its result");
        if result.is_err() {
            self.running.0.lock().panicked -= 1;
        }
        result
    }

    /// Returns whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the thread, for example to wake it.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread.thread()
    }
}
