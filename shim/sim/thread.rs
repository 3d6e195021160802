//! Real and virtual threads.

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
    locals: RefCell<BTreeMap<usize, Local>>,
}

/// A thread-local value, and the function that frees it.
struct Local(NonNull<()>, unsafe fn(NonNull<()>));

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

    /// Returns the value of this key, making it at the first call. It stays at its address until
    /// the thread has ended.
    pub(super) fn local<T>(&self, key: usize, make: fn() -> T) -> NonNull<T> {
        self.controller();
        if let Some(Local(value, _)) = self.locals.borrow().get(&key) {
            return value.cast();
        }
        unsafe fn free<T>(value: NonNull<()>) {
            // SAFETY: the value is a box made below, and the caller does not use it any more.
            drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
        }
        let value = NonNull::from(Box::leak(Box::new(make())));
        self.locals.borrow_mut().insert(key, Local(value.cast(), free::<T>));
        value
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
            for Local(value, free) in locals.into_values() {
                // SAFETY: the value has just been taken out of the table, and `free` is the
                // function for its type.
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

/// A handle for waking a thread.
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

/// Parks the thread. May return early, as the functions of `std` may.
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

pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).expect("a thread can be started")
}

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

enum Handle<T> {
    Real(std::thread::JoinHandle<T>),
    Virtual(Arc<VirtualThread>, Arc<Mutex<Option<Outcome<T>>>>),
}

/// The handle of a thread that was started.
pub(crate) struct JoinHandle<T>(Handle<T>);

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.thread()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// The payload of the thread's panic.
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
