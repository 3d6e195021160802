//! Locks and channels of tests, as in `std`. Waits park by `sim::thread`, so they work for real
//! threads and for virtual ones.

use cygnet::sim::{now, thread};
use std::sync::{LockResult, MutexGuard, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A state that threads wait for. Its lock is never held during a wait.
struct Watched<T>(std::sync::Mutex<(T, Vec<thread::Thread>)>);

impl<T> Watched<T> {
    fn new(state: T) -> Watched<T> {
        Watched(std::sync::Mutex::new((state, Vec::new())))
    }

    fn lock(&self) -> MutexGuard<'_, (T, Vec<thread::Thread>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes all waiters.
    fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, waiting) = {
            let mut locked = self.lock();
            (change(&mut locked.0), std::mem::take(&mut locked.1))
        };
        waiting.iter().for_each(thread::Thread::unpark);
        result
    }

    /// Waits until `take` returns a value, or the time is over.
    #[track_caller]
    fn wait<R>(
        &self,
        time: Option<Duration>,
        mut take: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let until = time.map(|time| now() + time);
        loop {
            let mut locked = self.lock();
            if let Some(taken) = take(&mut locked.0) {
                let waiting = std::mem::take(&mut locked.1);
                drop(locked);
                waiting.iter().for_each(thread::Thread::unpark);
                return Some(taken);
            }
            locked.1.push(thread::current());
            drop(locked);
            match until {
                None => thread::park(),
                Some(until) if until <= now() => return None,
                Some(until) => thread::park_timeout(until - now()),
            }
        }
    }
}

/// As `std::sync::Mutex`, which may be held while other virtual threads run: a waiter lets them
/// run.
#[derive(Default, Debug)]
pub(crate) struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        while super::inside() {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
        self.0.lock()
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.0.is_poisoned()
    }
}

/// As `std::sync::Barrier`.
pub(crate) struct Barrier {
    /// How many threads have come, and how often the barrier has opened.
    come: Watched<(usize, usize)>,
    all: usize,
}

impl Barrier {
    pub(crate) fn new(all: usize) -> Barrier {
        Barrier { come: Watched::new((0, 0)), all }
    }

    #[track_caller]
    pub(crate) fn wait(&self) -> BarrierWaitResult {
        let (turn, last) = self.come.change(|(come, turn)| {
            let mine = *turn;
            *come += 1;
            let last = *come == self.all;
            if last {
                (*come, *turn) = (0, mine + 1);
            }
            (mine, last)
        });
        self.come.wait(None, |(_, now)| (*now != turn).then_some(()));
        BarrierWaitResult(last)
    }
}

/// As `std::sync::BarrierWaitResult`.
pub(crate) struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    pub(crate) fn is_leader(&self) -> bool {
        self.0
    }
}

pub(crate) mod mpsc {
    //! As `std::sync::mpsc`.

    use super::Watched;
    use std::collections::VecDeque;
    use std::fmt;
    use std::sync::Arc;
    pub(crate) use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
    use std::time::Duration;

    struct State<T> {
        items: VecDeque<T>,
        senders: usize,
        received: u64,
        receiver: bool,
    }

    type Shared<T> = Arc<Watched<State<T>>>;

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = State { items: VecDeque::new(), senders: 1, received: 0, receiver: true };
        let state = Arc::new(Watched::new(state));
        (Sender(Arc::clone(&state)), Receiver(state))
    }

    pub(crate) fn sync_channel<T>(room: usize) -> (SyncSender<T>, Receiver<T>) {
        let (sender, receiver) = channel();
        (SyncSender(sender, room), receiver)
    }

    pub(crate) struct Sender<T>(Shared<T>);

    impl<T> Sender<T> {
        pub(crate) fn send(&self, item: T) -> Result<(), SendError<T>> {
            self.0.change(|state| match state.receiver {
                true => {
                    state.items.push_back(item);
                    Ok(())
                }
                false => Err(SendError(item)),
            })
        }
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Sender<T> {
            self.0.change(|state| state.senders += 1);
            Sender(Arc::clone(&self.0))
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.change(|state| state.senders -= 1);
        }
    }

    impl<T> fmt::Debug for Sender<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Sender")
        }
    }

    #[derive(Clone)]
    pub(crate) struct SyncSender<T>(Sender<T>, usize);

    impl<T> SyncSender<T> {
        /// Without room it waits until the item has been received.
        #[track_caller]
        pub(crate) fn send(&self, item: T) -> Result<(), SendError<T>> {
            let (mut item, room) = (Some(item), self.1);
            let mine = self.0.0.wait(None, |state| {
                if !state.receiver {
                    return Some(Err(SendError(item.take().expect("sent once"))));
                }
                (state.items.len() < room.max(1)).then(|| {
                    state.items.push_back(item.take().expect("sent once"));
                    Ok(state.received + state.items.len() as u64)
                })
            });
            let mine = mine.expect("without a limit")?;
            if room == 0 {
                self.0
                    .0
                    .wait(None, |state| (state.received >= mine || !state.receiver).then_some(()));
            }
            Ok(())
        }
    }

    pub(crate) struct Receiver<T>(Shared<T>);

    impl<T> Receiver<T> {
        fn take(state: &mut State<T>) -> Option<Result<T, RecvError>> {
            match state.items.pop_front() {
                Some(item) => {
                    state.received += 1;
                    Some(Ok(item))
                }
                None if state.senders == 0 => Some(Err(RecvError)),
                None => None,
            }
        }

        #[track_caller]
        pub(crate) fn recv(&self) -> Result<T, RecvError> {
            self.0.wait(None, Receiver::take).expect("without a limit")
        }

        #[track_caller]
        pub(crate) fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
            match self.0.wait(Some(time), Receiver::take) {
                Some(item) => item.map_err(|RecvError| RecvTimeoutError::Disconnected),
                None => Err(RecvTimeoutError::Timeout),
            }
        }

        pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
            match self.0.change(Receiver::take) {
                Some(item) => item.map_err(|RecvError| TryRecvError::Disconnected),
                None => Err(TryRecvError::Empty),
            }
        }

        pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
            std::iter::from_fn(|| self.recv().ok())
        }

        pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
            std::iter::from_fn(|| self.try_recv().ok())
        }
    }

    impl<T> IntoIterator for Receiver<T> {
        type Item = T;
        type IntoIter = Items<T>;

        fn into_iter(self) -> Items<T> {
            Items(self)
        }
    }

    /// See [`Receiver::into_iter`].
    pub(crate) struct Items<T>(Receiver<T>);

    impl<T> Iterator for Items<T> {
        type Item = T;

        fn next(&mut self) -> Option<T> {
            self.0.recv().ok()
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            let items = self.0.change(|state| {
                state.receiver = false;
                std::mem::take(&mut state.items)
            });
            drop(items);
        }
    }
}
