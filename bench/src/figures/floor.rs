//! Floors: the least that the machine charges for the steps of a call.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapMut};

use crate::measure::harness::{Measured, Setting, TIME, Values, repeated, time};

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
    /// A number of bytes or nanoseconds that the nature of the figure gives.
    Given(u32),
}

/// The floors that every process measures, in nanoseconds.
pub const USUAL: [(&str, Floor); 4] =
    [("rmw", Floor::Rmw), ("call", Floor::Call), ("load", Floor::Load), ("page", Floor::Page)];

impl Floor {
    /// Measures the floors in some 60 ms, including `self` if it is none of the usual four.
    pub fn measure(self, setting: &Setting) -> Values {
        let [warm_up, measured] = [2, 12].map(Duration::from_millis);
        let setting = Setting { warm_up, measured, ..*setting };
        let cost = |step: fn(u64) -> Duration| repeated(&setting, step).values[TIME];
        let mut floors = Measured::of([
            ("rmw", cost(rmw)),
            ("call", cost(call)),
            ("load", cost(load)),
            ("page", page()),
        ]);
        if let Floor::Handoff | Floor::Threads = self {
            let other = if self == Floor::Handoff { handoff } else { threads };
            floors = floors.and(self.key(), cost(other));
        }
        floors.values
    }

    /// Its key among the floors of a process.
    fn key(self) -> &'static str {
        let usual = USUAL.iter().find(|(_, floor)| *floor == self);
        usual.map_or("other", |(key, _)| key)
    }

    /// Returns the floor in a process that measured `floors`, or `None` if it was not measured.
    pub fn of(self, floors: &Values) -> Option<f64> {
        match self {
            Floor::Given(amount) => Some(amount.into()),
            _ => floors.get(self.key()).copied(),
        }
    }
}

fn rmw(n: u64) -> Duration {
    let word = AtomicU64::new(0);
    let word = black_box(&word);
    time(n, |_| word.fetch_add(1, Ordering::Relaxed))
}

#[inline(never)]
fn callee(x: u64) -> u64 {
    black_box(x)
}

fn call(n: u64) -> Duration {
    let mut x = 0;
    let time = time(n, |_| x = callee(x));
    black_box(x);
    time
}

fn load(n: u64) -> Duration {
    let word = AtomicU64::new(1);
    let word = black_box(&word);
    let mut sum = 0_u64;
    let time = time(n, |_| sum = sum.wrapping_add(word.load(Ordering::Relaxed)));
    black_box(sum);
    time
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
    let (turn, main) = (AtomicBool::new(false), thread::current());
    let time = thread::scope(|scope| {
        let other = scope.spawn(|| {
            for _ in 0..rounds {
                while !turn.load(Ordering::Acquire) {
                    thread::park();
                }
                turn.store(false, Ordering::Release);
                main.unpark();
            }
        });
        time(rounds, |_| {
            turn.store(true, Ordering::Release);
            other.thread().unpark();
            while turn.load(Ordering::Acquire) {
                thread::park();
            }
        })
    });
    // At least two steps are performed.
    if n == 1 { time / 2 } else { time }
}

fn threads(n: u64) -> Duration {
    time(n, |_| {
        let pair = [thread::spawn(|| ()), thread::spawn(|| ())];
        pair.into_iter().for_each(|thread| drop(thread.join()));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::harness::moment;

    #[test]
    fn a_process_has_the_usual_floors_and_the_one_it_asked_for() {
        let floors = Floor::Handoff.measure(&moment(1));
        for (_, floor) in USUAL {
            assert!(floor.of(&floors).is_some_and(|time| time > 0.0), "{floors:?}");
        }
        assert!(Floor::Handoff.of(&floors).is_some());
        assert_eq!(Floor::Threads.of(&floors), Floor::Handoff.of(&floors));
        assert_eq!(Floor::Given(7).of(&floors), Some(7.0));
    }
}
