//! Random programs whose tasks cancel each other: each task ends, once and in order.

use crate::common::drops::Guard;
use crate::common::prelude::*;

static BOUND: TaskLocal<Arc<Guard>> = TaskLocal::new();

/// The state that all tasks of a round share.
#[derive(Default)]
struct Round {
    parked: Mutex<Vec<Unparker>>,
    handles: Mutex<Vec<CancelHandle>>,
    drops: Drops,
}

type Shared = Arc<Round>;

impl Round {
    fn wake_one(&self, pick: u64) {
        let mut parked = self.parked.lock().unwrap();
        if !parked.is_empty() {
            let at = pick as usize % parked.len();
            let unparker = parked.swap_remove(at);
            drop(parked);
            unparker.unpark();
        }
    }

    fn keep(&self, handle: CancelHandle) {
        self.handles.lock().unwrap().push(handle);
    }

    /// Cancels one of the kept handles, or drops it.
    fn cancel_one(&self, pick: u64) {
        let mut handles = self.handles.lock().unwrap();
        if !handles.is_empty() {
            let at = pick as usize % handles.len();
            let handle =
                if pick & 0x100 == 0 { handles[at].clone() } else { handles.swap_remove(at) };
            drop(handles);
            if pick & 0x600 != 0 {
                handle.cancel("another task");
            }
        }
    }
}

/// Waits until another task or thread wakes this one, or until a cancel.
fn wait_for_a_waker(round: &Shared) -> bool {
    round.parked.lock().unwrap().push(unparker());
    park().is_ok()
}

/// `level` counts the values of the scope, which are dropped before its end.
fn in_scope<'s>(
    round: &'s Shared,
    level: &'s Drops,
    s: &'s Scope<'s, '_>,
    random: &mut Random,
    depth: u32,
) {
    if random.below(2) == 0 {
        round.keep(s.cancel_handle());
    }
    let mut tasks = Vec::new();
    for _ in 0..1 + random.below(3) {
        let seed = random.seed();
        let captured = level.guard();
        let body = move || {
            let captured = captured;
            let value = work(round, seed, depth - 1);
            if seed.is_multiple_of(5) {
                s.cancel("a task in it");
            }
            drop(captured);
            value
        };
        let task = match random.below(3) {
            0 => task().stack_size(128 << 10).unwrap().spawn_in(s, body),
            _ => s.spawn(body),
        };
        if random.below(3) == 0 {
            round.keep(task.cancel_handle());
        }
        tasks.push(task);
    }
    some_waits(round, random);
    if random.below(4) == 0 {
        s.cancel("its owner");
    }
    for task in tasks {
        match random.below(4) {
            0 => drop(task),
            1 => {
                task.cancel("the handle");
                drop(task.join());
            }
            _ => drop(task.join()),
        }
    }
    if random.below(3) == 0 {
        some_waits(round, random);
    }
}

fn some_waits(round: &Shared, random: &mut Random) {
    for _ in 0..random.below(4) {
        let was = is_cancelled();
        let failed = match random.below(4) {
            0 => yield_now().is_err(),
            1 => checkpoint().is_err(),
            2 => !wait_for_a_waker(round),
            _ => {
                round.wake_one(random.seed());
                false
            }
        };
        assert!(!failed || is_cancelled(), "a wait failed and the task is not cancelled");
        assert!(!was || is_cancelled(), "a cancel was taken back");
    }
}

/// Does random things, also in children and their children. Returns a value whose drop is counted.
fn work(round: &Shared, seed: u64, depth: u32) -> Guard {
    let mut random = Random(seed | 1);
    let mut children: Vec<Task<Guard>> = Vec::new();
    for _ in 0..random.below(7) {
        let child = {
            let (round, seed, captured) = (round.clone(), random.seed(), round.drops.guard());
            move || {
                let _captured = captured;
                work(&round, seed, depth.saturating_sub(1))
            }
        };
        let choice = random.below(26);
        match if depth == 0 { 20 + choice % 6 } else { choice } {
            0..3 => children.push(spawn(child)),
            3 => drop(spawn(child)),
            4 => spawn(child).detach(),
            // SAFETY: over its suspensions the task holds handles, counters and numbers: all Send.
            5 => children.push(unsafe { task().migratable() }.spawn(child)),
            6 => match random.below(3) {
                0 => drop(spawn_local(child).join()),
                1 => spawn_local(child).detach(),
                _ => {
                    let task = spawn_local(child);
                    round.keep(task.cancel_handle());
                    drop(task.join());
                }
            },
            7..10 => {
                let level = Drops::new();
                let wait = if random.below(4) == 0 { Wait::DescendantsOnly } else { Wait::Anyone };
                if wait == Wait::Anyone {
                    scope_with(wait, |s| in_scope(round, &level, s, &mut random, depth));
                } else {
                    // No task below waits for a task outside.
                    scope_with(wait, |s| {
                        s.spawn(|| drop(checkpoint()));
                        if random.below(2) == 0 {
                            s.cancel("restricted");
                        }
                        let other = s.spawn(yield_now);
                        drop(other.join());
                    });
                }
                assert_eq!(level.left(), 0);
            }
            10 => drop(children.last().map(yield_to)),
            11 => {
                let bound = Arc::new(round.drops.guard());
                drop(BOUND.scope(bound, || spawn(child).join()));
            }
            12 => drop(children.pop().map(Task::join)),
            13 => {
                let (left, right) = (random.seed(), random.seed());
                let (a, b) =
                    join(|| work(round, left, depth - 1), || work(round, right, depth - 1));
                drop((a, b));
            }
            14 => {
                let sum = AtomicUsize::new(0);
                let seed = random.seed();
                let done = par::for_each(0..40usize, |n| {
                    sum.fetch_add(1, Ordering::Relaxed);
                    if n as u64 == seed % 40 {
                        drop(work(round, seed, depth - 1));
                    }
                });
                assert!(done.is_err() || sum.into_inner() == 40);
                assert!(done.is_ok() || is_cancelled());
            }
            15 => drop(blocking(child_guard(round))),
            16 => {
                let seed = random.seed();
                drop(Handle::current().try_block_on(|| work(round, seed, depth - 1)));
            }
            17 | 18 => {
                let was = is_cancelled();
                let section = ignore_cancellation(|| {
                    let seed = random.seed();
                    match seed % 4 {
                        0 => {
                            let own_stack = task().stack_size(128 << 10).unwrap();
                            let round = round.clone();
                            let joined = own_stack.spawn(move || round.cancel_one(seed)).join();
                            let has_stack = !matches!(joined, Err(JoinError::NoStack(_)));
                            assert!(joined.is_ok() || !has_stack, "{joined:?}");
                        }
                        1 => {
                            let me = unparker();
                            let waker = spawn(move || me.unpark());
                            // The token may come from another waker.
                            assert!(wait_for_a_waker(round));
                            let joined = waker.join();
                            let has_stack = !matches!(joined, Err(JoinError::NoStack(_)));
                            assert!(joined.is_ok() || !has_stack, "{joined:?}");
                        }
                        2 => {
                            let level = Drops::new();
                            scope_with(Wait::Anyone, |s| {
                                in_scope(round, &level, s, &mut random, depth)
                            });
                        }
                        _ => {
                            round.cancel_one(seed);
                            yield_now().unwrap();
                        }
                    }
                    checkpoint().unwrap();
                });
                assert!(!was || section.is_err());
                assert!(section.is_ok() || is_cancelled());
            }
            19 => {
                let task = spawn(child);
                round.keep(task.cancel_handle());
                if random.below(2) == 0 {
                    task.cancel("its spawner");
                }
                children.push(task);
            }
            20 => drop(yield_now()),
            21 => drop(wait_for_a_waker(round)),
            22 => round.wake_one(random.seed()),
            23 => round.cancel_one(random.seed()),
            24 => round.keep(cancel_handle()),
            _ => some_waits(round, &mut random),
        }
    }
    for child in children {
        if random.below(4) != 0 {
            let _ = child.join();
        }
    }
    round.drops.guard()
}

fn child_guard(round: &Shared) -> impl FnOnce() -> Guard + Send {
    let (round, captured) = (round.clone(), round.drops.guard());
    move || {
        let _captured = captured;
        round.cancel_one(0x600);
        round.drops.guard()
    }
}

/// Ends a runtime in the middle of random programs, many times.
fn rounds(workers: usize, make: impl Fn() -> Runtime + Sync) {
    within(|| {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for number in 0..scaled_in_debug(100) {
            let round = Shared::default();
            let rt = make();
            for _ in 0..8 {
                let (own, seed) = (round.clone(), random.seed());
                let task = rt.spawn(move || drop(work(&own, seed, 4)));
                round.keep(task.cancel_handle());
                task.detach();
            }
            for _ in 0..random.below(4) * 50 {
                round.wake_one(random.seed());
                if random.below(4) == 0 {
                    round.cancel_one(random.seed());
                }
                thread::yield_now();
            }
            // Sections that ignore the end still wait to be woken.
            let over = AtomicBool::new(false);
            thread::scope(|s| {
                s.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        round.wake_one(0);
                        thread::yield_now();
                    }
                });
                drop(rt);
                over.store(true, Ordering::Release);
            });
            round.parked.lock().unwrap().clear();
            round.handles.lock().unwrap().clear();
            assert_eq!(round.drops.left(), 0, "round {number} with {workers} workers");
        }
    });
}

#[test]
fn random_programs_that_cancel_each_other_end_and_drop_everything() {
    for workers in WORKERS.into_iter().chain([MANY]) {
        rounds(workers, || runtime(workers));
    }
}

#[test]
fn random_programs_that_cancel_each_other_end_with_few_stacks() {
    for (workers, stacks) in [(1, 3), (2, 2), (3, 5), (8, 9)] {
        // Tasks may fail for want of a stack.
        let builder = || Runtime::builder().workers(workers).max_stacks(stacks).on_panic(|_| ());
        rounds(workers, || builder().build().unwrap());
    }
}
