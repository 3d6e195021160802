//! The table of primitives that can be waited for, and how each of them is held and waited for.

use crate::common::prelude::*;
use crate::{Held, Places, Values};
use Is::{Alone, Firm, ForAll, Lasting, Once};
use cygnet::ring::sequence::SequenceBarrier;
use cygnet::sync::{
    AsyncMutexGuard, AsyncRwLockReadGuard, AsyncRwLockWriteGuard, Barrier, BarrierPassed,
    BroadcastReceiver, BroadcastSender, Condvar, Mutex, OneshotReceiver, OneshotSender, RwLock,
    Semaphore, SendError, WaitError, WatchReceiver, WatchSender, broadcast, watch,
};
use std::fmt::{self, Debug, Formatter};

pub(super) type Hold<'a> = Box<dyn Held + Send + 'a>;
pub(super) type Answer = Result<(), WaitError>;
pub(super) type Soon<'a> = Pin<Box<dyn Future<Output = Answer> + 'a>>;

/// A primitive that is unavailable until the guard of `hold` is dropped. A waiter gives back what
/// it gets, so that one wake ends all waits.
pub(super) trait Primitive: Debug + Send + Sync {
    fn hold(&self) -> Hold<'_>;
    fn waiter(self: Arc<Self>) -> Box<dyn Waiter>;
}

pub(super) trait Waiter: Send {
    fn wait(&mut self, limit: Option<Duration>) -> Answer;
    fn wait_async(&mut self) -> Soon<'_>;
}

/// What tells the rows of the table apart.
#[derive(PartialEq)]
pub(super) enum Is {
    /// One caller at a time can wait.
    Alone,
    /// A wake reaches all waiters, not only the first.
    ForAll,
    /// What a wake gives stays until a caller takes it.
    Lasting,
    /// A waiter that was woken has it even if it is cancelled before it runs.
    Firm,
    /// The same waiter gets it once.
    Once,
}

pub(super) struct Kind(pub(super) &'static str, fn() -> Arc<dyn Primitive>, &'static [Is]);

pub(super) const KINDS: [Kind; 19] = [
    Kind("event", || Arc::new(Event::new()), &[ForAll, Lasting]),
    Kind("mutex", || Arc::new(Mutex::new(())), &[Lasting]),
    Kind("fifo mutex", || Arc::new(Mutex::fifo(())), &[Lasting]),
    Kind("reader", || Arc::new(Reads(RwLock::new(()))), &[ForAll, Lasting]),
    Kind("writer", || Arc::new(Writes(RwLock::new(()))), &[Lasting]),
    Kind("one permit", || Arc::new(Permits(Semaphore::new(1), 1)), &[Lasting]),
    Kind("two permits", || Arc::new(Permits(Semaphore::new(2), 2)), &[Lasting]),
    Kind("condvar", || Arc::new(Notified(Mutex::new(()), Condvar::new())), &[]),
    Kind("barrier", || Arc::new(Barrier::new(2)), &[Alone, Firm]),
    Kind("value", || Arc::new(Values::empty(bounded(1))), &[Lasting]),
    Kind("unbounded value", || Arc::new(Values::empty(unbounded())), &[Lasting]),
    Kind("place", || Arc::new(Places::free()), &[Lasting]),
    Kind("meeting", || Arc::new(Meets(Values::empty(bounded(0)))), &[Firm]),
    Kind("oneshot value", || Arc::new(Sent::new(oneshot())), &[Alone, Lasting, Once]),
    Kind("oneshot close", || Arc::new(Unwanted::new(oneshot())), &[ForAll, Lasting]),
    Kind("broadcast", || Arc::new(broadcast(2).0), &[ForAll, Lasting, Once]),
    Kind("change", || Arc::new(watch(()).0), &[ForAll, Lasting, Once]),
    Kind("sequence", || Arc::new(SequenceBarrier::<u64>::new()), &[ForAll, Lasting]),
    Kind("value of a watch", || Arc::new(watch(false).0), &[ForAll, Lasting]),
];

impl Kind {
    pub(super) fn make(&self) -> Arc<dyn Primitive> {
        self.1()
    }

    pub(super) fn is(&self, what: Is) -> bool {
        self.2.contains(&what)
    }

    /// `several`, or one where no more can wait.
    pub(super) fn at_most(&self, several: usize) -> usize {
        if self.is(Alone) { 1 } else { several }
    }
}

#[derive(Debug)]
struct Reads(RwLock<()>);
#[derive(Debug)]
struct Writes(RwLock<()>);
#[derive(Debug)]
struct Permits(Semaphore, usize);
struct Notified(Mutex<()>, Condvar);
#[derive(Debug)]
struct Meets(Values);
#[derive(Debug)]
struct Sent {
    to: common::Mutex<Option<OneshotSender<()>>>,
    from: common::Mutex<Option<OneshotReceiver<()>>>,
}
struct Unwanted(OneshotSender<()>, common::Mutex<Option<OneshotReceiver<()>>>);

impl Debug for Notified {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.1.fmt(f)
    }
}

impl Debug for Unwanted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sent {
    fn new((to, from): (OneshotSender<()>, OneshotReceiver<()>)) -> Sent {
        Sent { to: Some(to).into(), from: Some(from).into() }
    }
}

impl Unwanted {
    fn new((to, from): (OneshotSender<()>, OneshotReceiver<()>)) -> Unwanted {
        Unwanted(to, Some(from).into())
    }
}

impl Notified {
    /// Passes the notification on.
    fn pass(&self) {
        self.1.notify_one();
    }

    async fn notified(&self) {
        drop(self.1.wait_async(self.0.lock_async().await).await);
    }
}

/// How a wait that returned `Self` has ended.
trait Ended {
    fn ended(self) -> Answer;
}

impl<T> Ended for Result<T, WaitError> {
    fn ended(self) -> Answer {
        self.map(drop)
    }
}

impl<T> Ended for Result<T, Cancelled> {
    fn ended(self) -> Answer {
        Ok(self.map(drop)?)
    }
}

macro_rules! always_ok {
    ($($output:ty)*) => {$(
        impl Ended for $output {
            fn ended(self) -> Answer {
                Ok(())
            }
        }
    )*};
}

always_ok! { () BarrierPassed }
always_ok! { AsyncMutexGuard<'_, ()> AsyncRwLockReadGuard<'_, ()> AsyncRwLockWriteGuard<'_, ()> }

impl Ended for Result<(), SendError<()>> {
    fn ended(self) -> Answer {
        self.map_err(|refused| refused.reason().clone())
    }
}

/// Polls `future` itself, which has to panic if it is polled after its end.
fn soon<'a, F: Future + 'a>(future: F, end: impl Fn(F::Output) -> Answer + 'a) -> Soon<'a> {
    let mut future = Box::pin(future);
    Box::pin(poll_fn(move |cx| future.as_mut().poll(cx).map(&end)))
}

/// Implements both traits: how to hold it, what a waiter is, how the waiter waits (without a limit,
/// with one, as a future), and how it gives back what it has got.
macro_rules! primitive {
    ($primitive:ty, |$held:ident| $hold:expr; |$new:ident| $waiter:ty = $make:expr;
        |$me:ident, $limit:ident| $wait:expr, $timed:expr, $soon:expr
        $(; |$back:ident| $give_back:expr)?) => {
        impl Primitive for $primitive {
            fn hold(&self) -> Hold<'_> {
                let $held = self;
                Box::new($hold)
            }

            fn waiter(self: Arc<Self>) -> Box<dyn Waiter> {
                let $new = self;
                Box::new($make)
            }
        }

        impl Waiter for $waiter {
            fn wait(&mut self, limit: Option<Duration>) -> Answer {
                let $me = self;
                match limit {
                    None => $wait.ended()?,
                    Some($limit) => $timed.ended()?,
                }
                $(let $back = $me; $give_back;)?
                Ok(())
            }

            fn wait_async(&mut self) -> Soon<'_> {
                let $me = self;
                $(let $back = Arc::clone($me);)?
                soon($soon, move |output| {
                    output.ended()?;
                    $($give_back;)?
                    Ok(())
                })
            }
        }
    };
}

primitive!(Event, |event| OnDrop(|| event.set()); |event| Arc<Event> = event;
    |me, limit| Event::wait(me), me.wait_timeout(limit), Event::wait_async(me));
primitive!(Mutex<()>, |mutex| block_on(mutex.lock_async()); |mutex| Arc<Mutex<()>> = mutex;
    |me, limit| me.lock(), me.lock_timeout(limit), me.lock_async());
primitive!(Reads, |lock| block_on(lock.0.write_async()); |lock| Arc<Reads> = lock;
    |me, limit| me.0.read(), me.0.read_timeout(limit), me.0.read_async());
primitive!(Writes, |lock| block_on(lock.0.read_async()); |lock| Arc<Writes> = lock;
    |me, limit| me.0.write(), me.0.write_timeout(limit), me.0.write_async());
primitive!(Permits, |permits| permits.0.try_acquire_many(permits.1);
    |permits| Arc<Permits> = permits;
    |me, limit| me.0.acquire_many(me.1), me.0.acquire_timeout(me.1, limit),
    me.0.acquire_async(me.1));
primitive!(Notified, |pair| OnDrop(|| pair.pass()); |pair| Arc<Notified> = pair;
    |me, limit| me.0.lock().and_then(|mut guard| me.1.wait(&mut guard)),
    me.0.lock().map_err(WaitError::from).and_then(|mut guard| me.1.wait_timeout(&mut guard, limit)),
    me.notified(); |back| back.pass());
primitive!(Barrier, |barrier| OnDrop(|| _ = poll_once(barrier.wait_async()));
    |barrier| Arc<Barrier> = barrier;
    |me, limit| Barrier::wait(me), me.wait_timeout(limit), Barrier::wait_async(me));
primitive!(Values, |values| values.taken(); |values| Arc<Values> = values;
    |me, limit| me.from.recv(), me.from.recv_timeout(limit), me.from.recv_async();
    |back| back.back.try_send(()).unwrap());
primitive!(Places, |places| places.to.try_send(()).map(|()| places.filled());
    |places| Arc<Places> = places;
    |me, limit| me.to.send(()), me.to.send_timeout((), limit), me.to.send_async(());
    |back| back.back.try_recv().unwrap());
primitive!(Meets, |values| OnDrop(|| _ = values.0.back.try_send(())); |values| Arc<Meets> = values;
    |me, limit| me.0.from.recv(), me.0.from.recv_timeout(limit), me.0.from.recv_async();
    |back| _ = back.0.back.try_send(()));
primitive!(Sent, |sent| OnDrop(|| _ = sent.to.lock().unwrap().take().unwrap().send(()));
    |sent| OneshotReceiver<()> = sent.from.lock().unwrap().take().unwrap();
    |me, limit| me.recv(), me.recv_timeout(limit), me.recv_async());
primitive!(Unwanted, |end| OnDrop(|| drop(end.1.lock().unwrap().take()));
    |end| Arc<Unwanted> = end;
    |me, limit| me.0.closed(), me.0.closed_timeout(limit), me.0.closed_async());
primitive!(SequenceBarrier<u64>, |published| OnDrop(|| _ = published.publish(0));
    |published| Arc<SequenceBarrier<u64>> = published;
    |me, limit| me.wait_until_published(0), me.wait_timeout(0, limit),
    SequenceBarrier::wait_async(me, 0));
primitive!(BroadcastSender<()>, |to| OnDrop(|| _ = to.send(()));
    |to| BroadcastReceiver<()> = to.subscribe();
    |me, limit| me.recv(), me.recv_timeout(limit), me.recv_async());
primitive!(WatchSender<()>, |to| OnDrop(|| to.send(())); |to| WatchReceiver<()> = to.subscribe();
    |me, limit| me.changed(), me.changed_timeout(limit), me.changed_async());
primitive!(WatchSender<bool>, |to| OnDrop(|| to.send(true));
    |to| WatchReceiver<bool> = to.subscribe();
    |me, limit| me.wait_for(|value| *value), me.wait_for_timeout(|value| *value, limit),
    me.wait_for_async(|value| *value));
