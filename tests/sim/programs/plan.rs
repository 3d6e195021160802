//! Plans of programs, decoded from bytes, so that a fuzzer makes them and a test repeats them.

use crate::choices::Choices;

/// A program, and the parameters of its simulation.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The seed of the simulation.
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) faults: bool,
    /// Two runs must be the same.
    pub(crate) twice: bool,
    /// The capacity of the channel, or `None` if it has no limit.
    pub(crate) capacity: Option<usize>,
    pub(crate) end: End,
    pub(crate) root: Vec<Step>,
}

/// How the runtime ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// When the program has ended.
    After,
    /// Some milliseconds after its start.
    Dropped(u64),
    /// The same by a shutdown, with a grace in milliseconds.
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

/// The use of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handling {
    Join,
    Cancel,
    Drop,
    Detach,
}

/// A lock that is held for a while. Locks are taken in this order, so that no tasks wait in a
/// circle.
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
    /// For at most two milliseconds.
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
    /// With a time limit, or none.
    Send(Option<u64>),
    Receive(u64),
    /// Receives a value from a child.
    Oneshot(Vec<Step>),
    Timeout(u64, Vec<Step>),
    Shield(u64, Vec<Step>),
    Ignore(Vec<Step>),
    Blocking,
    Loop(usize),
    Panic,
    /// Only if the task is cancelled.
    Unwind,
}

/// The most steps of a program, so that a run takes milliseconds.
const STEPS: usize = 60;
/// The deepest nesting of steps, since a task has a stack.
const DEPTH: usize = 5;

/// Limits for the next steps.
#[derive(Clone, Copy)]
struct Limits {
    depth: usize,
    /// A lock that is held. Only later locks may be taken too, and no task is waited for that could
    /// want it.
    held: Option<Thing>,
    /// A task that may change threads holds no guard.
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

    /// Decodes up to four steps.
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
                let mut children = Vec::new();
                for _ in 0..count {
                    // Several children do the same, and so want the same locks.
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
        use How::*;
        let hows = [Spawn, Spawn, Now, OwnStack, Migratable, Unscoped, Guarded];
        let how = hows[self.choices.below(7)];
        // A child of a migratable task need not be migratable.
        let limits = Limits { migratable: matches!(how, How::Migratable), ..limits };
        Step::Spawn(how, self.steps(limits.deeper()))
    }

    fn hold(&mut self, limits: Limits) -> Option<Step> {
        use Thing::*;
        let things = [Mutex(0), Mutex(1), Read, Write, Permits(1), Permits(2)];
        let thing = things[self.choices.below(6)];
        let in_order = limits.held.is_none_or(|held| match (held, thing) {
            // Of the same lock.
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
