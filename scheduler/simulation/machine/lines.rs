//! Cache lines: which cores hold a copy of each, and what an access costs a core that holds none.
//!
//! A line is *owned* by the core that wrote it last, or *shared* by the cores that have read it
//! since. Reading a line that another core owns moves it, and so does writing a line of which other
//! cores have copies. A line moves to one core at a time, so cores that want the same line queue
//! for it; readers of a shared line hardly queue. Two variables in one line share its state, as on
//! real hardware.

use super::Shape;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const LINE: usize = 64;
/// The delay between two cores that copy the same line.
const COPY: u64 = 10;
/// The cost of invalidating one more copy.
const INVALIDATE: u64 = 2;

#[derive(Default)]
struct Line {
    owner: Option<usize>,
    sharers: Vec<usize>,
    free_at: u64,
}

/// See the module's documentation.
pub(super) struct Lines {
    lines: HashMap<usize, Line, BuildHasherDefault<OfAddress>>,
    /// The socket of each core.
    sockets: Vec<usize>,
    near: u64,
    far: u64,
    hit: u64,
    moves: u64,
}

impl Lines {
    pub(super) fn new(shape: &Shape) -> Lines {
        Lines {
            lines: HashMap::default(),
            sockets: (0..shape.cores).map(|core| core * shape.sockets / shape.cores).collect(),
            near: shape.near,
            far: shape.far,
            hit: shape.hit,
            moves: 0,
        }
    }

    /// How often a line has moved between cores.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    fn distance(&self, from: usize, to: usize) -> u64 {
        if self.sockets[from] == self.sockets[to] { self.near } else { self.far }
    }

    /// Returns the cost of a read by `core`.
    pub(super) fn load(&mut self, address: usize, core: usize, now: u64) -> u64 {
        let mut line = std::mem::take(self.lines.entry(address / LINE).or_default());
        let mut cost = self.hit;
        if line.owner != Some(core) && !line.sharers.contains(&core) {
            let from = line.owner.or(line.sharers.first().copied());
            let move_cost = from.map_or(0, |from| self.distance(from, core));
            let start = now.max(line.free_at);
            if from.is_some() {
                line.free_at = start + COPY;
                self.moves += 1;
            }
            line.sharers.extend(line.owner.take());
            line.sharers.push(core);
            cost += start - now + move_cost;
        }
        self.lines.insert(address / LINE, line);
        cost
    }

    /// Returns the cost of a write by `core`, which is `own` if the core owns the line.
    pub(super) fn write(&mut self, address: usize, core: usize, now: u64, own: u64) -> u64 {
        let mut line = std::mem::take(self.lines.entry(address / LINE).or_default());
        let mut cost = own;
        if line.owner != Some(core) {
            let others = line.sharers.iter().filter(|sharer| **sharer != core);
            let furthest =
                others.clone().chain(&line.owner).map(|other| self.distance(*other, core));
            let furthest = furthest.max();
            let move_cost = furthest.map_or(0, |most| most + INVALIDATE * others.count() as u64);
            let start = now.max(line.free_at);
            self.moves += u64::from(furthest.is_some());
            line.owner = Some(core);
            line.sharers.clear();
            cost += start - now + move_cost;
            line.free_at = now + cost;
        }
        self.lines.insert(address / LINE, line);
        cost
    }
}

/// A hasher for line numbers. They need no protection against chosen collisions.
#[derive(Default)]
struct OfAddress(u64);

impl Hasher for OfAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a line's number is a usize");
    }

    fn write_usize(&mut self, line: usize) {
        self.0 = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
