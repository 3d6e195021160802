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
/// No core.
const NONE: u32 = u32::MAX;

/// The state of a line without the set of its sharers.
#[derive(Clone, Copy)]
struct Line {
    owner: u32,
    /// The core that has shared the line for longest.
    first: u32,
    free_at: u64,
}

/// Hashes the number of a line, in less time than the default hasher.
#[derive(Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of lines are hashed");
    }

    fn write_usize(&mut self, line: usize) {
        // The table takes the bucket from the low bits and a tag from the high ones.
        let product = (line as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the module's documentation.
pub(super) struct Lines {
    /// The index of each line.
    indices: HashMap<usize, usize, BuildHasherDefault<LineHasher>>,
    lines: Vec<Line>,
    /// For each line, the set of the cores that share it: `words` words with a bit per core.
    sharers: Vec<u64>,
    words: usize,
    /// For each socket, the set of its cores.
    members: Vec<u64>,
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
        let words = shape.cores.div_ceil(64);
        let sockets: Vec<_> =
            (0..shape.cores).map(|core| core * shape.sockets / shape.cores).collect();
        let mut members = vec![0; words * shape.sockets];
        for (core, socket) in sockets.iter().enumerate() {
            members[socket * words + core / 64] |= 1 << (core % 64);
        }
        Lines {
            indices: HashMap::default(),
            lines: Vec::new(),
            sharers: Vec::new(),
            words,
            members,
            sockets,
            near: shape.near,
            far: shape.far,
            hit: shape.hit,
            moves: 0,
        }
    }

    /// Returns the index of the line of an address.
    fn index(&mut self, address: usize) -> usize {
        let Lines { indices, lines, sharers, words, .. } = self;
        *indices.entry(address / LINE).or_insert_with(|| {
            lines.push(Line { owner: NONE, first: NONE, free_at: 0 });
            sharers.resize(sharers.len() + *words, 0);
            lines.len() - 1
        })
    }

    /// Returns the cost of moving a line between two cores.
    fn distance(&self, from: u32, to: usize) -> u64 {
        if self.sockets[from as usize] == self.sockets[to] { self.near } else { self.far }
    }

    fn share(&mut self, index: usize, core: usize) {
        self.sharers[index * self.words + core / 64] |= 1 << (core % 64);
    }

    /// Returns the cost of a read by `core`.
    pub(super) fn load(&mut self, address: usize, core: usize, now: u64) -> u64 {
        let index = self.index(address);
        let line = self.lines[index];
        let shares = self.sharers[index * self.words + core / 64] >> (core % 64) & 1 == 1;
        if line.owner == core as u32 || shares {
            return self.hit;
        }
        let from = if line.owner == NONE { line.first } else { line.owner };
        let start = now.max(line.free_at);
        self.share(index, core);
        if from == NONE {
            self.lines[index].first = core as u32;
            return self.hit + start - now;
        }
        self.lines[index] = Line { owner: NONE, first: from, free_at: start + COPY };
        self.share(index, from as usize);
        self.moves += 1;
        self.hit + start - now + self.distance(from, core)
    }

    /// Returns the cost of a write by `core`, which is `own` if the core owns the line.
    pub(super) fn write(&mut self, address: usize, core: usize, now: u64, own: u64) -> u64 {
        let index = self.index(address);
        let line = self.lines[index];
        if line.owner == core as u32 {
            return own;
        }
        let furthest = if line.owner != NONE {
            // A line that has an owner has no sharers.
            Some((self.distance(line.owner, core), 0))
        } else if line.first != NONE {
            self.invalidate(index, core)
        } else {
            None
        };
        self.moves += u64::from(furthest.is_some());
        let move_cost = furthest.map_or(0, |(most, others)| most + INVALIDATE * others);
        let cost = own + now.max(line.free_at) - now + move_cost;
        self.lines[index] = Line { owner: core as u32, first: NONE, free_at: now + cost };
        cost
    }

    /// Empties the set of the cores that share a line. Returns the distance of the furthest one
    /// from `core` and the number of them, both without `core` itself.
    fn invalidate(&mut self, index: usize, core: usize) -> Option<(u64, u64)> {
        let socket = self.sockets[core];
        let sharers = &mut self.sharers[index * self.words..][..self.words];
        let members = &self.members[socket * self.words..][..self.words];
        sharers[core / 64] &= !(1 << (core % 64));
        let (mut same, mut others) = (0, 0);
        for (word, members) in sharers.iter_mut().zip(members) {
            same += u64::from((*word & members).count_ones());
            others += u64::from(word.count_ones());
            *word = 0;
        }
        let distances = [(same > 0).then_some(self.near), (others > same).then_some(self.far)];
        distances.into_iter().flatten().max().map(|most| (most, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::simulation::random::Stream;

    /// The rules of a line, with a list of the sharers. Both methods return the cost and the count
    /// of moves.
    #[derive(Default)]
    struct Plain {
        owner: Option<usize>,
        sharers: Vec<usize>,
        free_at: u64,
    }

    impl Plain {
        fn load(&mut self, core: usize, now: u64, distance: impl Fn(usize) -> u64) -> (u64, u64) {
            if self.owner == Some(core) || self.sharers.contains(&core) {
                return (1, 0);
            }
            let from = self.owner.or(self.sharers.first().copied());
            let start = now.max(self.free_at);
            if from.is_some() {
                self.free_at = start + COPY;
            }
            self.sharers.extend(self.owner.take());
            self.sharers.push(core);
            (1 + start - now + from.map_or(0, distance), u64::from(from.is_some()))
        }

        fn write(&mut self, core: usize, now: u64, distance: impl Fn(usize) -> u64) -> (u64, u64) {
            let own = 5;
            if self.owner == Some(core) {
                return (own, 0);
            }
            self.sharers.retain(|sharer| *sharer != core);
            let others = self.sharers.len() as u64;
            let furthest = self.sharers.drain(..).chain(self.owner).map(distance).max();
            let move_cost = furthest.map_or(0, |most| most + INVALIDATE * others);
            let cost = own + now.max(self.free_at) - now + move_cost;
            (self.owner, self.free_at) = (Some(core), now + cost);
            (cost, u64::from(furthest.is_some()))
        }
    }

    #[test]
    fn costs_and_moves_follow_the_rules() {
        for (cores, sockets, near, far) in [
            (1, 1, 50, 130),
            (3, 2, 50, 130),
            (16, 3, 130, 50),
            (64, 1, 50, 130),
            (150, 4, 50, 130),
        ] {
            let shape = Shape { sockets, near, far, ..Shape::new(cores) };
            let socket = |core| core * sockets / cores;
            let (mut lines, random) = (Lines::new(&shape), Stream::new(8, cores as u64));
            let mut plain: Vec<Plain> = (0..5).map(|_| Plain::default()).collect();
            let (mut now, mut moves) = (0, 0);
            for _ in 0..30_000 {
                let (at, core) = (random.below(plain.len()), random.below(cores));
                let address = 4_096 + at * LINE + random.below(LINE);
                let distance = |from| if socket(from) == socket(core) { near } else { far };
                let (cost, (expected, moved)) = if random.below(4) > 0 {
                    (lines.load(address, core, now), plain[at].load(core, now, distance))
                } else {
                    (lines.write(address, core, now, 5), plain[at].write(core, now, distance))
                };
                moves += moved;
                assert_eq!((cost, lines.moves), (expected, moves), "at {now} ns");
                now += random.below(100) as u64;
            }
            assert!(cores == 1 || moves > 1_000);
        }
    }
}
