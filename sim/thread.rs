//! Threads of a simulation. Outside of one they are those of `std`, so that a program can use these in any case.

use crate::shim::thread;
use crate::shim::{Condvar, Mutex, panicking};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// As [`std::thread::spawn`].
///
/// # Panics
/// If the system starts no thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    JoinHandle(thread::spawn(f))
}

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T>(thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// The thread, to be woken.
    #[must_use]
    pub fn thread(&self) -> Thread {
        Thread(self.0.thread())
    }
}

/// A thread, to be woken.
#[derive(Clone, Debug)]
pub struct Thread(thread::Thread);

impl Thread {
    /// As [`std::thread::Thread::unpark`].
    #[track_caller]
    pub fn unpark(&self) {
        self.0.unpark();
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// What tells it from others.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            thread::Thread::Real(thread) => Id::Real(thread.id()),
            thread::Thread::Virtual(thread) => Id::Virtual(thread.number),
        })
    }
}

/// What tells a thread from the others: real ones of the process, virtual ones of their simulation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Id {
    Real(std::thread::ThreadId),
    Virtual(usize),
}

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    Thread(thread::current())
}

/// As [`std::thread::park`].
#[track_caller]
pub fn park() {
    thread::park();
}

/// As [`std::thread::park_timeout`].
#[track_caller]
pub fn park_timeout(time: Duration) {
    thread::park_timeout(time);
}

/// As [`std::thread::sleep`].
#[track_caller]
pub fn sleep(time: Duration) {
    thread::sleep(time);
}

/// As [`std::thread::yield_now`].
#[track_caller]
pub fn yield_now() {
    thread::yield_now();
}

/// As [`std::thread::scope`].
///
/// # Panics
/// As `f` does, and if a thread has panicked that was not joined.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { running: Arc::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let (count, ended) = &*scope.running;
    let mut threads = count.lock().unwrap_or_else(PoisonError::into_inner);
    while threads.run > 0 {
        threads = ended.wait(threads).unwrap_or_else(PoisonError::into_inner);
    }
    let result = result.unwrap_or_else(|payload| resume_unwind(payload));
    assert!(threads.panicked == 0, "a scoped thread panicked");
    result
}

#[derive(Default)]
struct Threads {
    run: usize,
    /// And nobody has been told.
    panicked: usize,
}

type Running = Arc<(Mutex<Threads>, Condvar)>;

/// A thread of a scope, or what should have become one: its drop says that it has ended, however it does.
struct Member {
    running: Running,
    panicked: bool,
}

impl Member {
    fn new(running: &Running) -> Member {
        running.0.lock().unwrap_or_else(PoisonError::into_inner).run += 1;
        Member { running: Arc::clone(running), panicked: false }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut threads = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.run -= 1;
        // It may be the drop of the result that has.
        threads.panicked += usize::from(self.panicked || panicking());
        self.running.1.notify_all();
    }
}

/// Where threads may be started that borrow. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    running: Running,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// As [`std::thread::Scope::spawn`].
    ///
    /// # Panics
    /// If the system starts no thread.
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let result = Arc::new(Mutex::new(None));
        let (mut member, to) = (Member::new(&self.running), Arc::clone(&result));
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(f));
            member.panicked = outcome.is_err();
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            // The last of what may borrow goes before the thread is said to have ended.
            drop(to);
            drop(member);
        };
        let body: Box<dyn FnOnce() + Send + 'scope> = Box::new(body);
        // SAFETY: the scope does not end before it has said that it is at its end, and what it borrows is not touched afterwards.
        let body: Box<dyn FnOnce() + Send> = unsafe { std::mem::transmute(body) };
        let thread = thread::spawn(body);
        ScopedJoinHandle { thread, result, running: Arc::clone(&self.running), scope: PhantomData }
    }
}

/// A thread of a scope.
pub struct ScopedJoinHandle<'scope, T> {
    thread: thread::JoinHandle<()>,
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
    running: Running,
    scope: PhantomData<&'scope mut &'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join()?;
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        let result = result.take().expect("it has ended, and is joined once");
        if result.is_err() {
            self.running.0.lock().unwrap_or_else(PoisonError::into_inner).panicked -= 1;
        }
        result
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The thread, to be woken.
    #[must_use]
    pub fn thread(&self) -> Thread {
        Thread(self.thread.thread())
    }
}
