//! Coroutines that resume, make, drop and transfer to one another at random. Each value that they
//! pass is counted. AddressSanitizer watches whether something is used that is gone.

use crate::common::prelude::*;
use crate::common::random::Random;
use cygnet::coroutine::{Coroutine, ResumeError, Resumed, Yielder};
use std::rc::Weak;

type Token = Rc<()>;
type Member = Coroutine<Token, Token, Token>;

const SLOTS: usize = 8;
/// Resumptions inside of one another.
const DEPTH: usize = 6;

struct World {
    slots: RefCell<[Option<Rc<Member>>; SLOTS]>,
    /// Members may own one another in circles: at the end all return.
    all: RefCell<Vec<Weak<Member>>>,
    random: RefCell<Random>,
    steps: Cell<usize>,
    depth: Cell<usize>,
    transfers: Cell<usize>,
}

impl World {
    fn below(&self, n: usize) -> usize {
        self.random.borrow_mut().below(n as u64) as usize
    }

    fn pick(&self) -> Option<Rc<Member>> {
        self.slots.borrow()[self.below(SLOTS)].clone()
    }

    fn put(&self, member: Option<Rc<Member>>) {
        let slot = self.below(SLOTS);
        // The borrow ends before a destructor runs.
        let before = std::mem::replace(&mut self.slots.borrow_mut()[slot], member);
        drop(before);
    }
}

/// Uses other coroutines when its own ends or is dropped.
struct Restless(Rc<World>);

impl Drop for Restless {
    fn drop(&mut self) {
        let world = &self.0;
        if world.below(4) == 0 {
            world.put(None);
        }
        // During a panic it would have to run to its end.
        if let Some(other) = world.pick()
            && !std::thread::panicking()
        {
            resume(world, &other, Rc::new(()));
        }
    }
}

fn resume(world: &Rc<World>, member: &Member, token: Token) {
    if world.depth.get() == DEPTH {
        return;
    }
    world.depth.update(|depth| depth + 1);
    let resumed = catch_unwind(AssertUnwindSafe(|| member.resume(token)));
    world.depth.update(|depth| depth - 1);
    match resumed {
        Ok(Ok(Resumed::Yielded(token) | Resumed::Returned(token))) => drop(token),
        Ok(Err(error)) => drop(error.into_input()),
        Err(payload) => assert_eq!(text(&*payload), "planted"),
    }
}

fn new_member(world: &Rc<World>) -> Rc<Member> {
    let all = world.clone();
    let (world, captured) = (world.clone(), Restless(world.clone()));
    let member =
        Rc::new(Coroutine::new(move |yielder: &Yielder<Token, Token, Token>, mut token| {
            let mut kept = Vec::new();
            let _restless = (captured, Restless(world.clone()));
            while world.steps.get() > 0 {
                world.steps.update(|steps| steps - 1);
                match world.below(12) {
                    0 => return token,
                    1 => resume_unwind(Box::new("planted")),
                    2 => world.put(Some(new_member(&world))),
                    3 => world.put(None),
                    4 => kept.push(world.pick()),
                    5 => drop(kept.pop()),
                    6 => token = yielder.suspend(token),
                    7 => {
                        if let Some(other) = world.pick() {
                            resume(&world, &other, token.clone());
                        }
                    }
                    _ => {
                        let Some(other) = world.pick() else { continue };
                        token = match yielder.transfer(other, token) {
                            Ok(token) => {
                                world.transfers.update(|n| n + 1);
                                token
                            }
                            Err(ResumeError::Running(token) | ResumeError::Finished(token)) => {
                                token
                            }
                            Err(error) => panic!("{error}"),
                        };
                    }
                }
            }
            token
        }));
    all.all.borrow_mut().push(Rc::downgrade(&member));
    member
}

#[test]
fn coroutines_that_transfer_at_random_use_nothing_that_is_gone_and_lose_no_value() {
    let mut transfers = 0;
    let seeds = common::scaled(800);
    for seed in 1..=seeds as u64 {
        let world = Rc::new(World {
            slots: RefCell::default(),
            all: RefCell::default(),
            random: RefCell::new(Random(seed)),
            steps: Cell::new(500),
            depth: Cell::new(0),
            transfers: Cell::new(0),
        });
        let token = Token::default();
        while world.steps.get() > 0 {
            world.put(Some(new_member(&world)));
            if let Some(member) = world.pick() {
                resume(&world, &member, token.clone());
            }
            assert_eq!(world.depth.get(), 0);
        }
        transfers += world.transfers.get();
        let all = world.all.take();
        for member in all {
            drop(member.upgrade().map(|member| member.resume(Token::default())));
        }
        drop(world.slots.take());
        assert_eq!(Rc::strong_count(&token), 1, "seed {seed}");
    }
    assert!(transfers > 5 * seeds, "{transfers} transfers");
}
