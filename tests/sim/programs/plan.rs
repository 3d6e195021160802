//! What a program does: decoded from bytes, so that a fuzzer makes it, and a test makes it again.

use crate::choices::Choices;

/// All of it, with what the simulation is told.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Of the simulation.
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) faults: bool,
    /// The same run twice must be the same.
    pub(crate) twice: bool,
    /// Of the channel; none without limit.
    pub(crate) capacity: Option<usize>,
    pub(crate) end: End,
    pub(crate) root: Vec<Step>,
}

/// How the runtime ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// When the program has ended.
    After,
    /// So many milliseconds after its start.
    Dropped(u64),
    /// The same by a shutdown, with a grace of so many milliseconds.
    ShutDown(u64, u64),
}

/// How a child is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Spawn,
    Now,
    OwnStack,
    Migratable,
    Unscoped,
    Guarded,
}

/// What becomes of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handling {
    Join,
    Cancel,
    Drop,
    Detach,
}

/// What is held for a while. In this order, so that nobody waits in a circle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Thing {
    Mutex(usize),
    Read,
    Write,
    Permits(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Yield,
    Checkpoint,
    Sleep(u64),
    /// For somebody, or two milliseconds.
    Park,
    UnparkAny(usize),
    CancelAny(usize),
    Spawn(How, Vec<Step>),
    Handle(Handling),
    Scope {
        children: Vec<Vec<Step>>,
        own: Vec<Step>,
        cancels: bool,
    },
    Fork(Vec<Step>, Vec<Step>),
    /// With a time limit, or none.
    Hold(Thing, Option<u64>, Vec<Step>),
    /// Waits no longer than that, if a limit is given.
    Send(Option<u64>),
    Receive(u64),
    /// Receives what its child sends.
    Oneshot(Vec<Step>),
    Timeout(u64, Vec<Step>),
    Shield(u64, Vec<Step>),
    Ignore(Vec<Step>),
    Blocking,
    Loop(usize),
    Panic,
    /// If it is cancelled.
    Unwind,
}

/// A program has no more steps than that, so that a run takes milliseconds.
const STEPS: usize = 60;
/// Nor are they deeper in each other: a task has a stack.
const DEPTH: usize = 5;

/// What the next steps may be.
#[derive(Clone, Copy)]
struct Limits {
    depth: usize,
    /// What is held: only what comes after it may be held, too, and nobody waited for who could want it.
    held: Option<Thing>,
    /// What may change threads holds nothing that must not.
    migratable: bool,
}

impl Limits {
    fn deeper(self) -> Limits {
        Limits { depth: self.depth + 1, ..self }
    }
}

struct Decoder<'a, 'b> {
    choices: &'a mut Choices<'b>,
    left: usize,
}

impl Plan {
    pub(crate) fn decode(choices: &mut Choices<'_>) -> Plan {
        let flags = choices.below(32);
        let end = match choices.below(8) {
            0..=4 => End::After,
            5 | 6 => End::Dropped(choices.below(8) as u64),
            _ => End::ShutDown(choices.below(8) as u64, choices.below(8) as u64),
        };
        let capacity = [None, Some(0), Some(1), Some(2)][choices.below(4)];
        let seed = u64::from_le_bytes([choices.byte(), choices.byte(), 0, 0, 0, 0, 0, 0]);
        let limits = Limits { depth: 0, held: None, migratable: false };
        let mut decoder = Decoder { choices, left: STEPS };
        let mut root = Vec::new();
        while !decoder.is_over() {
            root.extend(decoder.step(limits));
        }
        Plan {
            seed,
            workers: 1 + (flags & 3).min(2),
            faults: flags & 4 != 0,
            twice: flags & 24 == 24,
            capacity,
            end,
            root,
        }
    }
}

impl Decoder<'_, '_> {
    fn is_over(&self) -> bool {
        self.left == 0 || self.choices.is_over()
    }

    /// Up to four.
    fn steps(&mut self, limits: Limits) -> Vec<Step> {
        let count = self.choices.below(5);
        (0..count).filter_map(|_| self.step(limits)).collect()
    }

    fn step(&mut self, limits: Limits) -> Option<Step> {
        if self.is_over() {
            return None;
        }
        self.left -= 1;
        let leaf = limits.depth == DEPTH;
        let waits = limits.held.is_none();
        Some(match self.choices.below(36) {
            1 => Step::Sleep(self.choices.below(8) as u64),
            2 => Step::Checkpoint,
            3 | 4 | 31..=33 if !leaf => self.hold(limits)?,
            5 | 6 => Step::Send(self.limit()),
            7 => Step::Receive(self.choices.below(4) as u64),
            8 => Step::Park,
            9 => Step::UnparkAny(self.choices.below(8)),
            10 | 11 => Step::CancelAny(self.choices.below(8)),
            12 => Step::Panic,
            13 => Step::Unwind,
            14..=17 if !leaf && waits => self.spawn(limits),
            18..=20 if waits => Step::Handle(match self.choices.below(6) {
                0..=2 => Handling::Join,
                3 => Handling::Cancel,
                4 => Handling::Drop,
                _ => Handling::Detach,
            }),
            21 | 22 | 34 | 35 if !leaf && waits => {
                let (count, cancels) = (self.choices.below(4), self.choices.one_in(4));
                // Several do the same, and so want the same.
                let mut children = Vec::new();
                for _ in 0..count {
                    // Several do the same, and so want the same.
                    let copies = 1 + self.choices.below(3);
                    let steps = self.steps(limits.deeper());
                    children.extend(std::iter::repeat_n(steps, copies));
                }
                Step::Scope { children, own: self.steps(limits.deeper()), cancels }
            }
            23 if !leaf && waits => {
                Step::Fork(self.steps(limits.deeper()), self.steps(limits.deeper()))
            }
            24 if !leaf && waits => Step::Oneshot(self.steps(limits.deeper())),
            25 | 26 if !leaf => {
                Step::Timeout(self.choices.below(6) as u64, self.steps(limits.deeper()))
            }
            27 if !leaf => {
                Step::Shield(1 + self.choices.below(6) as u64, self.steps(limits.deeper()))
            }
            28 if !leaf => Step::Ignore(self.steps(limits.deeper())),
            29 if waits => Step::Blocking,
            30 if waits => Step::Loop(self.choices.below(40)),
            _ => Step::Yield,
        })
    }

    fn limit(&mut self) -> Option<u64> {
        self.choices.one_in(3).then(|| self.choices.below(4) as u64)
    }

    fn spawn(&mut self, limits: Limits) -> Step {
        let how = [
            How::Spawn,
            How::Spawn,
            How::Now,
            How::OwnStack,
            How::Migratable,
            How::Unscoped,
            How::Guarded,
        ][self.choices.below(7)];
        // A child of one that may change threads need not.
        let limits = Limits { migratable: matches!(how, How::Migratable), ..limits };
        Step::Spawn(how, self.steps(limits.deeper()))
    }

    fn hold(&mut self, limits: Limits) -> Option<Step> {
        let things = [
            Thing::Mutex(0),
            Thing::Mutex(1),
            Thing::Read,
            Thing::Write,
            Thing::Permits(1),
            Thing::Permits(2),
        ];
        let thing = things[self.choices.below(6)];
        let in_order = limits.held.is_none_or(|held| match (held, thing) {
            // The one lock.
            (Thing::Read, Thing::Write) | (Thing::Permits(_), Thing::Permits(_)) => false,
            _ => held < thing,
        });
        let limit = self.limit();
        if limits.migratable || !in_order {
            return Some(Step::Yield);
        }
        let limits = Limits { held: Some(thing), ..limits.deeper() };
        Some(Step::Hold(thing, limit, self.steps(limits)))
    }
}
