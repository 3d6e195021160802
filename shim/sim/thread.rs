//! Real and virtual threads.

use super::{Controller, Turn, controller, time};
use crate::shim::Access;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io, ptr};

/// The shared part of a controller's thread.
pub(crate) struct VirtualThread {
    /// The number of the thread in its run.
    pub(crate) number: usize,
    pub(crate) name: Option<String>,
    /// The OS thread that plays it.
    player: std::thread::ThreadId,
    /// Set if the thread was unparked and has not parked since.
    token: AtomicBool,
    ended: AtomicBool,
    /// Used only by the player.
    locals: RefCell<BTreeMap<usize, Rc<dyn Any>>>,
}

// SAFETY: only `local` and `end` access the locals, and both check that the player calls them. The
// drop of the last reference finds no locals, as `end` has removed them.
unsafe impl Send for VirtualThread {}
// SAFETY: only `local` and `end` access the locals, and both check that the player calls them. The
// other fields are `Sync`.
unsafe impl Sync for VirtualThread {}

impl fmt::Debug for VirtualThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("number", &self.number).field("name", &self.name).finish()
    }
}

impl VirtualThread {
    pub(crate) fn new(number: usize, name: Option<String>) -> Arc<VirtualThread> {
        Arc::new(VirtualThread {
            number,
            name,
            player: std::thread::current().id(),
            token: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            locals: RefCell::default(),
        })
    }

    /// Returns the controller of the caller, which must be on the player's OS thread.
    #[track_caller]
    pub(super) fn controller(&self) -> Rc<dyn Controller> {
        let controller = controller();
        assert!(
            std::thread::current().id() == self.player && controller.is_some(),
            "cygnet: an object of a simulation was used by thread `{}`, which is not part of it; \
             start threads by `cygnet::sim::thread`",
            std::thread::current().name().unwrap_or("unnamed"),
        );
        controller.expect("asserted above")
    }

    fn word(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns the value of this key, making it at the first call. It lives until the thread has
    /// ended.
    pub(super) fn local<T: 'static>(&self, key: usize, make: fn() -> T) -> Rc<T> {
        self.controller();
        let known = self.locals.borrow().get(&key).cloned();
        let value = known.unwrap_or_else(|| {
            let value: Rc<dyn Any> = Rc::new(make());
            self.locals.borrow_mut().insert(key, Rc::clone(&value));
            value
        });
        value.downcast().expect("a key has one type")
    }

    /// Ends the thread: drops its locals and wakes the threads that wait for its end. To be called
    /// by the thread itself, as its last action.
    pub(crate) fn end(&self) {
        let controller = self.controller();
        // The destructor of a local may make another one.
        loop {
            let locals = std::mem::take(&mut *self.locals.borrow_mut());
            if locals.is_empty() {
                break;
            }
            drop(locals);
        }
        self.ended.store(true, Ordering::Relaxed);
        controller.wake(self.word(), true);
    }
}

/// A handle to a thread, to wake it.
#[derive(Clone, Debug)]
pub struct Thread(pub(super) Kind);

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Real(std::thread::Thread),
    Virtual(Arc<VirtualThread>),
}

impl Thread {
    /// Wakes the thread, like [`std::thread::Thread::unpark`].
    #[track_caller]
    pub fn unpark(&self) {
        match &self.0 {
            Kind::Real(thread) => thread.unpark(),
            Kind::Virtual(thread) => {
                let controller = thread.controller();
                super::access(Access::Update, thread.word());
                thread.token.store(true, Ordering::Relaxed);
                controller.wake(thread.word(), true);
            }
        }
    }

    /// Returns the thread's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Real(thread) => thread.name(),
            Kind::Virtual(thread) => thread.name.as_deref(),
        }
    }

    /// Returns the thread's identity.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(match &self.0 {
            Kind::Real(thread) => Id::Real(thread.id()),
            Kind::Virtual(thread) => Id::Virtual(thread.number),
        })
    }
}

/// The identity of a thread: unique in the process for a real thread, and in its simulation for a
/// virtual one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Id {
    Real(std::thread::ThreadId),
    Virtual(usize),
}

/// Returns the calling thread.
#[must_use]
pub fn current() -> Thread {
    Thread(match controller() {
        Some(controller) => Kind::Virtual(controller.current()),
        None => Kind::Real(std::thread::current()),
    })
}

/// Parks the calling thread, like [`std::thread::park`].
#[track_caller]
pub fn park() {
    park_until(None);
}

/// Parks the calling thread for a time, like [`std::thread::park_timeout`].
#[track_caller]
pub fn park_timeout(time: Duration) {
    park_until(Some(time));
}

#[track_caller]
fn park_until(time: Option<Duration>) {
    let Some(controller) = controller() else {
        return match time {
            None => std::thread::park(),
            Some(time) => std::thread::park_timeout(time),
        };
    };
    let thread = controller.current();
    super::access(Access::Update, thread.word());
    let place = Location::caller();
    if controller.fault(super::Fault::SpuriousUnpark) {
        return controller.give_way(Turn::Spin, place);
    }
    let until = time.and_then(|time| time::after(controller.now(), time));
    while !thread.token.swap(false, Ordering::Relaxed) {
        if !controller.wait(thread.word(), until, place) {
            return;
        }
    }
}

/// Yields to other threads, like [`std::thread::yield_now`].
#[track_caller]
pub fn yield_now() {
    match controller() {
        Some(controller) => controller.give_way(Turn::Yield, Location::caller()),
        None => std::thread::yield_now(),
    }
}

/// Sleeps, like [`std::thread::sleep`].
#[track_caller]
pub fn sleep(time: Duration) {
    match controller() {
        Some(controller) => {
            let until = time::after(controller.now(), time);
            // A word that no other thread uses.
            let nobody = 0_u8;
            let on = ptr::from_ref(&nobody).addr();
            while until.is_none_or(|until| controller.now() < until)
                && !controller.wait(on, until, Location::caller())
            {}
        }
        None => std::thread::sleep(time),
    }
}

/// Settings of a thread to be started.
#[derive(Default)]
pub(crate) struct Builder {
    name: Option<String>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder::default()
    }

    pub(crate) fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    pub(crate) fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(controller) = controller() else {
            let mut builder = std::thread::Builder::new();
            if let Some(name) = self.name {
                builder = builder.name(name);
            }
            return builder.spawn(f).map(|handle| JoinHandle(Handle::Real(handle)));
        };
        let result = Arc::new(Mutex::new(None));
        let for_it = Arc::clone(&result);
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(f));
            *for_it.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        };
        let thread = controller.spawn(self.name, Box::new(body));
        super::point();
        Ok(JoinHandle(Handle::Virtual(thread, result)))
    }
}

/// Spawns a thread, like [`std::thread::spawn`].
///
/// # Panics
/// If the system cannot start a thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("a thread can be started")
}

#[derive(Debug)]
enum Handle<T> {
    Real(std::thread::JoinHandle<T>),
    Virtual(Arc<VirtualThread>, Arc<Mutex<Option<std::thread::Result<T>>>>),
}

/// A handle to a thread, to join it.
#[derive(Debug)]
pub struct JoinHandle<T>(Handle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread to end, and returns its result.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        match self.0 {
            Handle::Real(handle) => handle.join(),
            Handle::Virtual(thread, result) => {
                let controller = thread.controller();
                while !thread.ended.load(Ordering::Relaxed) {
                    controller.wait(thread.word(), None, Location::caller());
                }
                let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                result.take().expect("it has ended, and is joined once")
            }
        }
    }

    /// Returns whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Real(handle) => handle.is_finished(),
            Handle::Virtual(thread, _) => {
                super::point();
                thread.ended.load(Ordering::Relaxed)
            }
        }
    }

    /// Returns the thread, for example to wake it.
    #[must_use]
    pub fn thread(&self) -> Thread {
        Thread(match &self.0 {
            Handle::Real(handle) => Kind::Real(handle.thread().clone()),
            Handle::Virtual(thread, _) => Kind::Virtual(Arc::clone(thread)),
        })
    }
}
