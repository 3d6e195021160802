//! Threads, real or virtual.

use super::{Controller, Turn, controller, time};
use crate::shim::Access;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a controller's thread is for others.
pub(crate) struct VirtualThread {
    /// Which one of its run.
    pub(crate) number: usize,
    pub(crate) name: Option<String>,
    /// The OS thread that plays it.
    player: std::thread::ThreadId,
    /// It was unparked, and has not been parked since.
    token: AtomicBool,
    ended: AtomicBool,
    /// For the player alone.
    locals: RefCell<BTreeMap<usize, Local>>,
}

/// A thread-local value, and how it is dropped.
struct Local(NonNull<()>, unsafe fn(NonNull<()>));

// SAFETY: its locals are reached by `local` and `end` alone, which check that they are called by the player. The drop of the last reference finds none:
// see `end`.
unsafe impl Send for VirtualThread {}
// SAFETY: as above.
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

    /// The controller of the caller, who must be the player.
    #[track_caller]
    pub(super) fn controller(&self) -> Rc<dyn Controller> {
        let controller = controller();
        assert!(
            std::thread::current().id() == self.player && controller.is_some(),
            "cygnet: something of a simulation is used by a thread that is none of its own (`{}`); \
             start threads by `cygnet::sim::thread`",
            std::thread::current().name().unwrap_or("unnamed"),
        );
        controller.expect("asserted above")
    }

    fn word(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// The value of this key, made now if it is the first time. It stays where it is until the thread has ended.
    pub(super) fn local<T>(&self, key: usize, make: fn() -> T) -> NonNull<T> {
        self.controller();
        if let Some(Local(value, _)) = self.locals.borrow().get(&key) {
            return value.cast();
        }
        unsafe fn free<T>(value: NonNull<()>) {
            // SAFETY: passed on: made below, and not used any more.
            drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
        }
        let value = NonNull::from(Box::leak(Box::new(make())));
        self.locals.borrow_mut().insert(key, Local(value.cast(), free::<T>));
        value
    }

    /// The thread has ended: drops its locals, and lets those go on who wait for it. For the thread itself, as the last thing.
    pub(crate) fn end(&self) {
        let controller = self.controller();
        // One may make another one.
        loop {
            let locals = std::mem::take(&mut *self.locals.borrow_mut());
            if locals.is_empty() {
                break;
            }
            for Local(value, free) in locals.into_values() {
                // SAFETY: taken out just now, and of this type.
                unsafe { free(value) };
            }
        }
        self.ended.store(true, Ordering::Relaxed);
        controller.wake(self.word(), true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// A thread, to be woken.
#[derive(Clone, Debug)]
pub(crate) enum Thread {
    Real(std::thread::Thread),
    Virtual(Arc<VirtualThread>),
}

impl Thread {
    #[track_caller]
    pub(crate) fn unpark(&self) {
        match self {
            Thread::Real(thread) => thread.unpark(),
            Thread::Virtual(thread) => {
                let controller = thread.controller();
                super::access(Access::Update, thread.word());
                thread.token.store(true, Ordering::Relaxed);
                controller.wake(thread.word(), true);
            }
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Thread::Real(thread) => thread.name(),
            Thread::Virtual(thread) => thread.name.as_deref(),
        }
    }
}

pub(crate) fn current() -> Thread {
    match controller() {
        Some(controller) => Thread::Virtual(controller.current()),
        None => Thread::Real(std::thread::current()),
    }
}

#[track_caller]
pub(crate) fn park() {
    park_until(None);
}

#[track_caller]
pub(crate) fn park_timeout(time: Duration) {
    park_until(Some(time));
}

/// May return early, as that of `std`.
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

#[track_caller]
pub(crate) fn yield_now() {
    match controller() {
        Some(controller) => controller.give_way(Turn::Yield, Location::caller()),
        None => std::thread::yield_now(),
    }
}

#[track_caller]
pub(crate) fn sleep(time: Duration) {
    match controller() {
        Some(controller) => {
            let until = time::after(controller.now(), time);
            // A word that nobody else has.
            let nobody = 0_u8;
            let on = ptr::from_ref(&nobody).addr();
            while until.is_none_or(|until| controller.now() < until)
                && !controller.wait(on, until, Location::caller())
            {}
        }
        None => std::thread::sleep(time),
    }
}

/// How a thread is started.
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

pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("a thread can be started")
}

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

enum Handle<T> {
    Real(std::thread::JoinHandle<T>),
    Virtual(Arc<VirtualThread>, Arc<Mutex<Option<Outcome<T>>>>),
}

/// A thread that was started.
pub(crate) struct JoinHandle<T>(Handle<T>);

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.thread()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// Its panic.
    #[track_caller]
    pub(crate) fn join(self) -> Outcome<T> {
        match self.0 {
            Handle::Real(handle) => handle.join(),
            Handle::Virtual(thread, result) => {
                let controller = thread.controller();
                while !thread.has_ended() {
                    controller.wait(thread.word(), None, Location::caller());
                }
                let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                result.take().expect("it has ended, and is joined once")
            }
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Real(handle) => handle.is_finished(),
            Handle::Virtual(thread, _) => {
                super::point();
                thread.has_ended()
            }
        }
    }

    pub(crate) fn thread(&self) -> Thread {
        match &self.0 {
            Handle::Real(handle) => Thread::Real(handle.thread().clone()),
            Handle::Virtual(thread, _) => Thread::Virtual(Arc::clone(thread)),
        }
    }
}
