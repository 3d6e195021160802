//! Storms: tasks, threads and futures on one primitive, with random time limits and cancels. The
//! sums agree, no waiter is forgotten, and none is left at the end.

use crate::common::prelude::*;
use cygnet::sync::{Condvar, Mutex};

#[derive(Default)]
struct Shared {
    mutex: Mutex<usize>,
    /// A caller has it and has not given it back, by its own account.
    inside: AtomicBool,
    granted: AtomicUsize,
    tried: AtomicUsize,
}

impl Shared {
    fn use_it(&self, value: &mut usize) {
        assert!(!self.inside.swap(true, Ordering::Relaxed), "two at a time");
        *value += 1;
        self.granted.fetch_add(1, Ordering::Relaxed);
        assert!(self.inside.swap(false, Ordering::Relaxed));
    }

    /// As a task or a thread; half of the waits have a limit.
    fn visit(&self, random: &mut Random, times: usize) {
        for _ in 0..times {
            self.tried.fetch_add(1, Ordering::Relaxed);
            let locked = match random.below(4) {
                0 => self.mutex.lock_timeout(Duration::from_micros(random.below(100))),
                1 => self.mutex.lock_timeout(Duration::from_secs(1_000)),
                _ => self.mutex.lock().map_err(WaitError::from),
            };
            match locked {
                Ok(mut value) => {
                    self.use_it(&mut value);
                    if random.below(16) == 0 {
                        let _ = cygnet::current_id().is_some() && cygnet::yield_now().is_ok();
                    }
                }
                Err(WaitError::Cancelled(_)) => return,
                Err(_) => {}
            }
        }
    }
}

#[test]
fn tasks_threads_and_futures_share_a_mutex() {
    with(&[1, 2, 3, 8, 64], |rt| {
        let shared = Arc::new(Shared::default());
        let times = scaled_in_debug(4_000);
        let visit = |seed: usize| {
            own(&shared, move |shared| shared.visit(&mut Random(seed as u64 * 7919 + 1), times))
        };
        let tasks: Vec<_> = (0..24).map(|i| rt.spawn(visit(i))).collect();
        let threads = [100, 101, 102].map(|i| thread::spawn(visit(i)));
        let future = move |shared: Arc<Shared>| {
            for _ in 0..times {
                shared.tried.fetch_add(1, Ordering::Relaxed);
                block_on(async { shared.use_it(&mut *shared.mutex.lock_async().await) });
            }
        };
        let futures = [(); 3].map(|()| thread::spawn(own(&shared, future)));
        for (i, task) in tasks.into_iter().enumerate() {
            if i % 8 == 0 {
                task.cancel("a part of the storm");
                let _ = task.join();
            } else {
                task.join().unwrap();
            }
        }
        threads.into_iter().chain(futures).for_each(|thread| thread.join().unwrap());
        assert_eq!(waiting(&shared.mutex), 0);
        assert!(!shared.mutex.is_locked());
        let granted = shared.granted.load(Ordering::Relaxed);
        assert_eq!(*shared.mutex.lock().unwrap(), granted);
        assert!(granted <= shared.tried.load(Ordering::Relaxed));
        assert_eq!(rt.metrics().timers(), 0);
    });
}

/// Each item is notified to one taker. Takers have any limit, are cancelled, or are futures that
/// are dropped; two are patient. A lost notification would leave these waiting while there is an
/// item.
#[test]
fn a_queue_with_impatient_takers_loses_no_notification() {
    #[derive(Default)]
    struct Queue {
        items: Mutex<usize>,
        some: Condvar,
        taken: AtomicUsize,
    }
    impl Queue {
        fn take(&self, items: &mut usize) {
            *items -= 1;
            self.taken.fetch_add(1, Ordering::Relaxed);
        }

        fn take_in_time(&self, time: Duration) -> bool {
            let Ok(mut items) = self.items.lock() else { return false };
            match self.some.wait_timeout(&mut items, time) {
                Err(WaitError::Cancelled(_)) => return false,
                _ if *items > 0 => self.take(&mut items),
                _ => {}
            }
            true
        }

        fn take_all(&self, all: usize) {
            while self.taken.load(Ordering::Relaxed) < all {
                let mut items = self.items.lock().unwrap();
                let so =
                    |items: &mut usize| *items == 0 && self.taken.load(Ordering::Relaxed) < all;
                self.some.wait_while(&mut items, so).unwrap();
                if *items > 0 {
                    self.take(&mut items);
                }
            }
        }

        /// Drops the wait after `polls` polls.
        fn take_if_soon(&self, polls: u64) {
            let mut wait = Box::pin(async {
                let mut items = self.some.wait_async(self.items.lock_async().await).await;
                if *items > 0 {
                    self.take(&mut items);
                }
            });
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if wait.as_mut().poll(&mut cx).is_ready() {
                    return;
                }
                thread::yield_now();
            }
        }
    }
    for workers in [1, 2, 8] {
        within(|| {
            let (rt, other) = (runtime(workers), runtime(1));
            let queue = Arc::new(Queue::default());
            let all = scaled_in_debug(20_000);
            let of = |call: fn(&Queue, usize, usize), seed: usize| {
                own(&queue, move |queue| call(&queue, all, seed))
            };
            let patient: fn(&Queue, usize, usize) = |queue, all, _| queue.take_all(all);
            let impatient: fn(&Queue, usize, usize) = |queue, all, seed| {
                let mut random = Random(seed as u64 * 7919 + 1);
                while queue.taken.load(Ordering::Relaxed) < all
                    && queue.take_in_time(Duration::from_micros(random.below(100)))
                {
                }
            };
            let dropped: fn(&Queue, usize, usize) = |queue, all, seed| {
                let mut random = Random(seed as u64 * 7919 + 1);
                while queue.taken.load(Ordering::Relaxed) < all {
                    queue.take_if_soon(random.below(8));
                }
            };
            let threads = [dropped, dropped, impatient, patient];
            let threads = threads.map(|call| thread::spawn(of(call, 50)));
            let tasks = [rt.spawn(of(patient, 0)), other.spawn(of(impatient, 1))];
            let mut random = Random(1);
            let mut cancelled = Vec::new();
            for i in 0..all {
                if i % 16 == 0 {
                    cancelled.push(rt.spawn(of(impatient, i)));
                }
                *block_on(queue.items.lock_async()) += 1;
                queue.some.notify_one();
                if i % 16 == 15 && random.below(2) == 0 {
                    cancelled.iter().for_each(|task| task.cancel("enough"));
                    cancelled.clear();
                }
            }
            eventually("all are taken", || queue.taken.load(Ordering::Relaxed) == all);
            // The patient takers may still wait for more.
            let items = block_on(queue.items.lock_async());
            queue.some.notify_all();
            drop(items);
            tasks.into_iter().for_each(|task| task.join().unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            drop(cancelled);
            assert_eq!(queue.taken.load(Ordering::Relaxed), all);
            assert_eq!(*block_on(queue.items.lock_async()), 0);
        });
    }
}
