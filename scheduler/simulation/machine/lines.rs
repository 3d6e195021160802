//! Cache lines: which cores hold a copy of each, and what an access costs a core that holds none.
//!
//! A line is *owned* by the core that wrote it last, or *shared* by the cores that have read it
//! since. Reading a line that another core owns moves it, and so does writing a line of which other
//! cores have copies. A line moves to one core at a time, so cores that want the same line queue
//! for it; readers of a shared line hardly queue. Two variables in one line share its state, as on
//! real hardware.

use super::Shape;
use std::collections::HashMap;

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
    lines: HashMap<usize, Line>,
    /// The socket of each core.
    sockets: Vec<usize>,
    near: u64,
    far: u64,
    hit: u64,
    /// How often a line has moved between cores.
    pub(super) moves: u64,
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

    /// Returns the line of an address, the cost of moving it between two cores, and the count of
    /// moves.
    fn line(
        &mut self,
        address: usize,
    ) -> (&mut Line, impl Fn(usize, usize) -> u64 + Copy, &mut u64) {
        let Lines { lines, sockets, near, far, moves, .. } = self;
        let distance =
            |from: usize, to: usize| if sockets[from] == sockets[to] { *near } else { *far };
        (lines.entry(address / LINE).or_default(), distance, moves)
    }

    /// Returns the cost of a read by `core`.
    pub(super) fn load(&mut self, address: usize, core: usize, now: u64) -> u64 {
        let mut cost = self.hit;
        let (line, distance, moves) = self.line(address);
        if line.owner != Some(core) && !line.sharers.contains(&core) {
            let from = line.owner.or(line.sharers.first().copied());
            let move_cost = from.map_or(0, |from| distance(from, core));
            let start = now.max(line.free_at);
            if from.is_some() {
                line.free_at = start + COPY;
                *moves += 1;
            }
            line.sharers.extend(line.owner.take());
            line.sharers.push(core);
            cost += start - now + move_cost;
        }
        cost
    }

    /// Returns the cost of a write by `core`, which is `own` if the core owns the line.
    pub(super) fn write(&mut self, address: usize, core: usize, now: u64, own: u64) -> u64 {
        let mut cost = own;
        let (line, distance, moves) = self.line(address);
        if line.owner != Some(core) {
            let others = line.sharers.iter().filter(|sharer| **sharer != core);
            let furthest = others.clone().chain(&line.owner).map(|other| distance(*other, core));
            let furthest = furthest.max();
            let move_cost = furthest.map_or(0, |most| most + INVALIDATE * others.count() as u64);
            let start = now.max(line.free_at);
            *moves += u64::from(furthest.is_some());
            line.owner = Some(core);
            line.sharers.clear();
            cost += start - now + move_cost;
            line.free_at = now + cost;
        }
        cost
    }
}
