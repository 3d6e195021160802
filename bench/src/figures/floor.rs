//! Floors: the least that the machine charges for the steps of a call.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut};
use serde::{Deserialize, Serialize};

use super::harness::{Plan, REPETITION, repeat};

/// The floor of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// An uncontended atomic read-modify-write: the unit r.
    Rmw,
    /// A call that is not inlined.
    Call,
    /// A load.
    Load,
    /// The first write to a page.
    Page,
    /// A step of a ping-pong between two system threads: one unparks the other and parks.
    Handoff,
    /// The start and join of two system threads.
    Threads,
    /// A number of bytes that the nature of the figure gives.
    Bytes(u32),
    /// A number of nanoseconds that the nature of the figure gives.
    Nanoseconds(u32),
}

/// The floors of a process, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Floors {
    /// See [`Floor::Rmw`].
    pub rmw: f64,
    /// See [`Floor::Call`].
    pub call: f64,
    /// See [`Floor::Load`].
    pub load: f64,
    /// See [`Floor::Page`].
    pub page: f64,
    /// The floor that the case requested in addition to these.
    pub other: Option<f64>,
}

impl Floors {
    /// Measures the floors in some 60 ms, including `other` if it is none of the usual four.
    #[must_use]
    pub fn measure(other: Floor) -> Floors {
        let plan = Plan {
            warm_up: Duration::from_millis(2),
            measured: Duration::from_millis(12),
            repetition: REPETITION,
            quick: true,
        };
        Floors {
            rmw: repeat(&plan, rmw).wall,
            call: repeat(&plan, call).wall,
            load: repeat(&plan, load).wall,
            page: page(),
            other: match other {
                Floor::Handoff => Some(repeat(&plan, handoff).wall),
                Floor::Threads => Some(repeat(&plan, threads).wall),
                _ => None,
            },
        }
    }

    /// Returns a floor, or `None` if it was not measured.
    #[must_use]
    pub fn get(&self, floor: Floor) -> Option<f64> {
        match floor {
            Floor::Rmw => Some(self.rmw),
            Floor::Call => Some(self.call),
            Floor::Load => Some(self.load),
            Floor::Page => Some(self.page),
            Floor::Handoff | Floor::Threads => self.other,
            Floor::Bytes(amount) | Floor::Nanoseconds(amount) => Some(amount.into()),
        }
    }
}

fn rmw(n: u64) -> Duration {
    let word = AtomicU64::new(0);
    let word = black_box(&word);
    let began = Instant::now();
    for _ in 0..n {
        word.fetch_add(1, Ordering::Relaxed);
    }
    began.elapsed()
}

#[inline(never)]
fn callee(x: u64) -> u64 {
    black_box(x)
}

fn call(n: u64) -> Duration {
    let began = Instant::now();
    let mut x = 0;
    for _ in 0..n {
        x = callee(x);
    }
    black_box(x);
    began.elapsed()
}

fn load(n: u64) -> Duration {
    let word = AtomicU64::new(1);
    let word = black_box(&word);
    let began = Instant::now();
    let mut sum = 0_u64;
    for _ in 0..n {
        sum = sum.wrapping_add(word.load(Ordering::Relaxed));
    }
    black_box(sum);
    began.elapsed()
}

/// Time of the first write to a page of 4 KiB, over some thousand pages; NaN if there is no
/// memory for them.
fn page() -> f64 {
    const PAGES: usize = 4096;
    const PAGE: usize = 4096;
    let Ok(mut map) = MmapMut::map_anon(PAGES * PAGE) else { return f64::NAN };
    // Without huge pages, as stacks have none. A kernel without huge pages refuses, to the same
    // effect.
    let _ = map.advise(Advice::NoHugePage);
    let began = Instant::now();
    for page in 0..PAGES {
        map[page * PAGE] = 1;
    }
    black_box(&map);
    began.elapsed().as_nanos() as f64 / PAGES as f64
}

/// Performs `n` steps, half of them on each thread.
fn handoff(n: u64) -> Duration {
    let rounds = n.div_ceil(2);
    let turn = Arc::new(AtomicBool::new(false));
    let main = thread::current();
    let theirs = Arc::clone(&turn);
    let other = thread::spawn(move || {
        for _ in 0..rounds {
            while !theirs.load(Ordering::Acquire) {
                thread::park();
            }
            theirs.store(false, Ordering::Release);
            main.unpark();
        }
    });
    let began = Instant::now();
    for _ in 0..rounds {
        turn.store(true, Ordering::Release);
        other.thread().unpark();
        while turn.load(Ordering::Acquire) {
            thread::park();
        }
    }
    let time = began.elapsed();
    // The thread's code cannot panic.
    let _ = other.join();
    // At least two steps are performed.
    if n == 1 { time / 2 } else { time }
}

fn threads(n: u64) -> Duration {
    let began = Instant::now();
    for _ in 0..n {
        let pair = [thread::spawn(|| ()), thread::spawn(|| ())];
        for thread in pair {
            let _ = thread.join();
        }
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_usual_floors_and_the_one_it_asked_for() {
        let floors = Floors::measure(Floor::Handoff);
        for floor in [Floor::Rmw, Floor::Call, Floor::Load, Floor::Page] {
            assert!(floors.get(floor).is_some_and(|time| time > 0.0), "{floors:?}");
        }
        assert!(floors.get(Floor::Handoff).is_some());
        assert_eq!(floors.get(Floor::Threads), floors.other);
        assert_eq!(floors.get(Floor::Bytes(7)), Some(7.0));
    }
}
