//! Models of the timers of futures: a timer is set, renewed and taken back while other threads
//! fire and close the wheel, or is set from outside on workers that lie down and get up. Run by
//! ci/loom.sh. There is no clock: where a model fires the wheel, the time has come.

use super::tick::Tick;
use super::timekeeper::Timekeeper;
use super::timer::{Action, Timer, Timers};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::models::Dormitory;
use crate::scheduler::steal::idle::{Rest, Sleepers};
use crate::shim::Cell;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::check::{FENCES, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::models::Processor;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// When the timer of a model is due, and the time that has come.
const DUE: Tick = Tick(5);

/// A future with a timer in a wheel, and the thread that its waker resumes.
struct Waiting {
    timer: Timer,
    timers: Timers,
    processor: Processor,
    calls: AtomicUsize,
}

struct Calls(Stage<Waiting>);

// SAFETY: what the stage holds is shared by design, or stays on the test's own thread, on which all
// threads of a model run.
unsafe impl Send for Calls {}
// SAFETY: what the stage holds is shared by design, or stays on the test's own thread, on which all
// threads of a model run.
unsafe impl Sync for Calls {}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        self.0.processor.resume();
    }
}

impl Waiting {
    fn new() -> Stage<Waiting> {
        let waiting = Stage::new(Waiting {
            timer: Timer::new(DUE, Action::Call(Cell::new(None))),
            timers: Timers::new(),
            processor: Processor::new(),
            calls: AtomicUsize::new(0),
        });
        waiting.processor.introduce();
        waiting
    }

    fn waker(this: Stage<Waiting>) -> Waker {
        Waker::from(Arc::new(Calls(this)))
    }

    /// The first poll. Returns `false` if the wheel is closed.
    fn set(this: Stage<Waiting>) -> bool {
        // SAFETY: a stage stays in place.
        let timer = unsafe { Pin::new_unchecked(&this.timer) };
        this.timers.admit(timer, Waiting::waker(this)).is_ok()
    }

    /// Frees the memory of the future: no other thread touches the timer from here on.
    fn forget_timer(&self) {
        assert!(!self.timer.entry.is_in(), "the wheel points to a future that has gone");
        drop(self.timer.exchange(None));
    }

    fn end(this: Stage<Waiting>) {
        assert_eq!(this.timers.len(), 0, "a timer is left");
    }
}

/// A future is polled again, and dropped, while its timer fires.
fn a_drop_races_the_firing(takes_back: bool) {
    let waiting = Waiting::new();
    assert!(Waiting::set(waiting));
    let fires = spawn(move || waiting.timers.fire(DUE));
    // Either way one waker comes back, and the other one was in the timer last.
    if let Ok(before) = waiting.timers.renew(&waiting.timer, Waiting::waker(waiting)) {
        assert!(before.is_some(), "a timer that is set has lost its waker");
    }
    let back = if takes_back { waiting.timers.take_back(&waiting.timer) } else { None };
    waiting.forget_timer();
    fires.join().unwrap();
    let calls = waiting.calls.load(Ordering::Relaxed);
    let back = usize::from(back.is_some());
    assert_eq!(calls + back, 1, "the last waker is called once, or comes back");
    Waiting::end(waiting);
}

models! {
    fn loom_a_future_s_timer_fires_or_is_taken_back() =
        explore(3, || a_drop_races_the_firing(true));

    fn loom_negative_a_future_that_goes_without_taking_its_timer_back() =
        explore(3, || a_drop_races_the_firing(false)), fails: "points to a future that has gone";
}

/// A future is polled until it learns that the runtime has ended, while the runtime ends.
fn a_poll_races_the_end(closes: bool) {
    let waiting = Waiting::new();
    let ends = spawn(move || {
        if closes {
            waiting.timers.close().into_iter().for_each(wake_future);
        } else {
            // Calls the waker that is there, but does not say that it is for the last time.
            waiting.timers.fire(DUE);
        }
    });
    while Waiting::set(waiting) {
        waiting.processor.suspend();
    }
    waiting.forget_timer();
    ends.join().unwrap();
    Waiting::end(waiting);
}

models! {
    fn loom_a_future_is_told_of_the_end() = explore(3, || a_poll_races_the_end(true));

    fn loom_negative_an_end_that_does_not_close() = explore(3, || a_poll_races_the_end(false)),
        fails: "deadlock";
}

/// A future with a timer that a foreign thread sets on worker 0, and workers that rest.
struct House<const N: usize> {
    waiting: Stage<Waiting>,
    dormitory: Dormitory<N>,
    timekeeper: Timekeeper,
}

impl<const N: usize> House<N> {
    fn new() -> Stage<House<N>> {
        Stage::new(House {
            waiting: Waiting::new(),
            dormitory: Dormitory::new(),
            timekeeper: Timekeeper::new(N + 1),
        })
    }

    fn fired(&self) -> bool {
        self.waiting.calls.load(Ordering::Relaxed) > 0
    }

    /// As `Shared::set_alarm` does from outside.
    fn set(&self) {
        assert!(Waiting::set(self.waiting));
        let (timekeeper, dormitory) = (&self.timekeeper, &self.dormitory);
        timekeeper.note_timers_of(0);
        timekeeper.ensure_from_outside(&dormitory.idle, dormitory, 0, &self.waiting.timers, DUE);
    }

    fn end(this: Stage<House<N>>) {
        this.waiting.forget_timer();
        Waiting::end(this.waiting);
    }
}

/// Worker 0 lies down, as in `Searcher::rest`. `looks`: it checks its own wheel once more.
fn set_while_its_worker_lies_down(looks: bool) {
    let house = House::<1>::new();
    let sets = spawn(move || house.set());
    let (timers, dormitory) = (&house.waiting.timers, &house.dormitory);
    dormitory.sleeper(0).introduce();
    loop {
        timers.fire(DUE);
        if house.fired() {
            break;
        }
        let up_at = timers.update_next();
        if up_at < Tick::NEVER {
            continue; // it rests until then
        }
        timers.rests.store(true, Ordering::Relaxed);
        let look = || looks && timers.is_due_before(up_at);
        dormitory.idle.rest(dormitory, 0, Rest::Sleep, look);
        timers.end_rest();
    }
    sets.join().unwrap();
    House::end(house);
}

models! {
    fn loom_a_worker_does_not_sleep_through_a_timer_that_is_set_from_outside() =
        explore(3, || set_while_its_worker_lies_down(true));

    fn loom_negative_a_worker_that_lies_down_without_a_look_at_its_own_timers() =
        explore(3, || set_while_its_worker_lies_down(false)), fails: "deadlock";

    fn loom_negative_lying_down_without_a_fence() =
        explore(3, || set_while_its_worker_lies_down(true)),
        without FENCES in "scheduler/steal/idle.rs", fails: "deadlock";
}

/// Worker 0 gets up and goes on to something that never ends. Worker 1 lies down meanwhile, and
/// sees to the timers of worker 0.
fn set_while_its_worker_gets_up(end_rest: fn(&Timers)) {
    let house = House::<2>::new();
    let timers = &house.waiting.timers;
    timers.rests.store(true, Ordering::Relaxed);
    let sets = spawn(move || house.set());
    let gets_up = spawn(move || {
        let timers = &house.waiting.timers;
        end_rest(timers);
        // As `Worker::leave_main` does.
        if timers.want_looks() {
            house.timekeeper.ensure(&house.dormitory.idle, &house.dormitory, timers.next());
        }
    });
    see_to_others(house);
    sets.join().unwrap();
    gets_up.join().unwrap();
    House::end(house);
}

/// Worker 1 has nothing to do, and sees to the timers of worker 0 while that is awake.
fn see_to_others(house: Stage<House<2>>) {
    let timers = &house.waiting.timers;
    // As `Worker::first_unattended` does.
    let unattended = || {
        let attended = house.timekeeper.timed().all(|worker| worker != 0)
            || timers.rests.load(Ordering::Relaxed);
        if attended { Tick::NEVER } else { timers.next() }
    };
    house.dormitory.sleeper(1).introduce();
    loop {
        // As `Worker::fire_overdue` does.
        if unattended() < Tick::NEVER {
            timers.fire(DUE);
        }
        if house.fired() {
            break;
        }
        // As `Worker::plan_rest` does.
        let elsewhere = unattended();
        if elsewhere < Tick::NEVER && house.timekeeper.begin(1, elsewhere) {
            continue; // it rests until then
        }
        let look = || house.timekeeper.misses(unattended(), Tick::NEVER);
        house.dormitory.idle.rest(&house.dormitory, 1, Rest::Sleep, look);
        // As `Searcher::leave_searchers` does for a worker that was woken to search.
        if house.dormitory.idle.anyone_searching() {
            let _ = house.dormitory.idle.stop_searching();
        }
    }
}

models! {
    fn loom_a_timer_set_from_outside_is_seen_by_a_resting_worker() =
        explore(2, || set_while_its_worker_gets_up(Timers::end_rest));

    fn loom_negative_getting_up_without_a_fence() = explore(2, || {
        set_while_its_worker_gets_up(|timers| timers.rests.store(false, Ordering::Relaxed));
    }), fails: "deadlock";
}

/// Worker 0 sets a timer. Worker 2, the timekeeper, would be up before that is due, but goes on to
/// something that never ends. Worker 1 rests, and then sees to the timer.
#[test]
fn loom_a_timer_left_to_a_timekeeper_is_seen_by_the_next_one() {
    explore(2, || {
        let house = House::<2>::new();
        assert!(house.timekeeper.begin(2, Tick(1)), "another one is the timekeeper");
        let sets = spawn(move || {
            assert!(Waiting::set(house.waiting));
            house.timekeeper.note_timers_of(0);
            house.timekeeper.ensure(&house.dormitory.idle, &house.dormitory, DUE);
        });
        let hands_over = spawn(move || {
            // As `Worker::hand_timekeeping_over` does.
            house.timekeeper.hand_over(2);
            let due = house.waiting.timers.next();
            if due < Tick::NEVER {
                house.timekeeper.ensure(&house.dormitory.idle, &house.dormitory, due);
            }
        });
        see_to_others(house);
        sets.join().unwrap();
        hands_over.join().unwrap();
        House::end(house);
    });
}
