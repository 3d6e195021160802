//! Kernels of tasks that wait for each other: round trips over channels, and turns at a lock, a
//! condition variable or a barrier.

use std::sync::atomic::{AtomicU64, Ordering};

use super::busy::{portion, take_turns};
use crate::compare::prelude::*;

/// Room in a channel in which sending never waits.
pub const UNBOUNDED: usize = usize::MAX;

/// A mutex around a number, which is 0 at first, with one condition variable for tasks that wait
/// for an even number and one for tasks that wait for an odd one.
pub trait Place: Default + Sync + Send {
    /// Waits until the number divided by two leaves `rest`, calls `f` with the number while the
    /// mutex is locked, unlocks it, and notifies one of the tasks that wait for the other rest.
    fn when<R>(&self, rest: u64, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// Implements the locks of the kernels for types whose calls are those of std, and puts a mutex and
/// condition variables together as `Buffer`.
macro_rules! locks_like_those_of_std {
    ($mutex:ident, $rwlock:ident, $condvar:ident) => {
        impl Lock for $mutex<u64> {
            #[inline(always)]
            fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut self.lock().expect("no holder panics"))
            }
        }

        impl ReadWrite for $rwlock<u64> {
            #[inline(always)]
            fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
                f(&self.read().expect("no holder panics"))
            }

            #[inline(always)]
            fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut self.write().expect("no holder panics"))
            }
        }

        #[derive(Default)]
        struct Buffer($mutex<u64>, [$condvar; 2]);

        impl Place for Buffer {
            fn when<R>(&self, rest: u64, f: impl FnOnce(&mut u64) -> R) -> R {
                let number = self.0.lock().expect("no holder panics");
                let waiting =
                    self.1[rest as usize].wait_while(number, |number| *number % 2 != rest);
                let result = f(&mut waiting.expect("no holder panics"));
                self.1[1 - rest as usize].notify_one();
                result
            }
        }
    };
}
pub(in crate::compare) use locks_like_those_of_std;

/// A number that is used while a permit is held. If two tasks used it at a time, the result of the
/// work would be wrong.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Calls `f` with the number.
    #[inline(always)]
    pub fn change<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let mut number = self.0.load(Ordering::Relaxed);
        let result = f(&mut number);
        self.0.store(number, Ordering::Relaxed);
        result
    }
}

/// Makes both sides of an exchange over two channels. The first call sends a request and returns
/// the answer. The second one receives a request, works, and answers with the request plus one.
pub fn over<S: Fn(u64) + Send, R: Fn() -> Option<u64> + Send>(
    (ask, asked): (S, R),
    (answer, answered): (S, R),
) -> (impl FnMut(u64) -> u64 + Send, impl FnMut(Work) + Send) {
    let asking = move |request| {
        ask(request);
        answered().expect("each request has an answer")
    };
    let answering = move |work: Work| {
        let request = asked().expect("each answer has a request");
        work.run(request);
        answer(request + 1);
    };
    (asking, answering)
}

/// Measures `pairs` pairs of tasks that share out `requests` requests. `sides` makes what the two
/// tasks of a pair call for each request, as [`over`] does.
///
/// # Errors
/// A runtime that cannot be built.
pub fn exchanges<B: Blocking, A: FnMut(u64) -> u64 + Send, R: FnMut(Work) + Send>(
    setting: &Setting,
    pairs: usize,
    requests: usize,
    work: Work,
    sides: impl Fn() -> (A, R) + Send + 'static,
) -> CaseResult {
    B::inside(setting, move |setting| {
        busy_with_waits(setting, requests, || {
            let mut tasks: Vec<Task<'_, (u64, Share)>> = Vec::new();
            for pair in 0..pairs {
                let own = portion(requests, pairs, pair);
                let (mut ask, mut answer) = sides();
                let count = own.end - own.start;
                tasks.push(Box::new(move || {
                    let (mut sum, mut share) = (0, Share::begin(count));
                    for request in own {
                        let before = sampled(request);
                        sum += ask(request);
                        share.waits.extend(before.map(|before| (before, Instant::now())));
                    }
                    (sum, share.end())
                }));
                tasks.push(Box::new(move || {
                    let share = Share::begin(0);
                    (0..count).for_each(|_| answer(work));
                    (0, share.end())
                }));
            }
            let (sums, shares): (Vec<u64>, _) = B::run_all(tasks).into_iter().unzip();
            (sums.iter().sum(), shares)
        })
    })
}

/// See the cases `round-trip-bounded` and so on.
///
/// # Errors
/// A runtime that cannot be built.
pub fn round_trips<B: Blocking, A: FnMut(u64) -> u64 + Send, R: FnMut(Work) + Send>(
    setting: &Setting,
    sides: impl Fn() -> (A, R) + Send + 'static,
) -> CaseResult {
    exchanges::<B, A, R>(setting, 1, setting.size(cases::ROUND_TRIPS), Work::NONE, sides)
}

/// Measures round trips over two channels with this much room.
///
/// # Errors
/// A runtime that cannot be built.
pub fn round_trips_over<B: Channels>(setting: &Setting, room: usize) -> CaseResult {
    round_trips::<B, _, _>(setting, move || over(B::channel(room), B::channel(room)))
}

/// Returns the number of tasks in the name of a case, the turns of all of them, and the
/// computation inside and outside a lock.
pub fn tasks_and_turns(setting: &Setting) -> (usize, usize, Work) {
    let (turns, work) = busy::sized(setting, cases::TURNS, cases::TURN_WORK);
    (setting.number as usize, turns, work)
}

/// See the cases `turns-mutex-2` and so on.
///
/// # Errors
/// A runtime that cannot be built.
pub fn mutex<B: Blocking, L: Lock>(setting: &Setting) -> CaseResult {
    let (count, turns, work) = tasks_and_turns(setting);
    busy::locked::<B, L>(setting, count, turns, work, work)
}

/// See the cases `turns-rwlock-2` and so on.
///
/// # Errors
/// A runtime that cannot be built.
pub fn rwlock<B: Blocking, L: ReadWrite>(setting: &Setting) -> CaseResult {
    let (count, turns, work) = tasks_and_turns(setting);
    busy::read_and_written::<B, L>(setting, count, turns, work)
}

/// See the cases `turns-condvar-2` and so on. Tasks with even numbers fill the place, the others
/// empty it.
///
/// # Errors
/// A runtime that cannot be built.
pub fn condvar<B: Blocking, P: Place>(setting: &Setting) -> CaseResult {
    let (count, turns, _) = tasks_and_turns(setting);
    B::inside(setting, move |setting| {
        busy_with_waits(setting, turns, || {
            let place = P::default();
            let shares = take_turns::<B>(count, turns, |task, _, is_sample| {
                place.when(task as u64 % 2, |number| {
                    *number += 1;
                    is_sample.then(Instant::now)
                })
            });
            (place.when(0, |number| *number), shares)
        })
    })
}

/// See the cases `turns-barrier-2` and so on. The result is the number of times that the barrier
/// has been opened.
///
/// # Errors
/// A runtime that cannot be built.
pub fn barrier<B: Blocking>(setting: &Setting) -> CaseResult {
    let (count, turns, _) = tasks_and_turns(setting);
    B::inside(setting, move |setting| {
        busy_with_waits(setting, turns, || {
            let (barrier, opened) = (B::barrier(count), AtomicU64::new(0));
            let shares = take_turns::<B>(count, turns, |_, _, is_sample| {
                if barrier() {
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                is_sample.then(Instant::now)
            });
            (opened.into_inner(), shares)
        })
    })
}
