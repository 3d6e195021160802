//! Futures that wait for a time: on any executor, set from anywhere, in every state of theirs and
//! of their runtime.

mod clock;
mod ends;

use crate::common::prelude::*;
use crate::{Counting, is_pending, poll};

const SHORT: Duration = Duration::from_millis(3);
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_timed_future_is_not_ready_before_its_time_whoever_polls_it() {
    fn sleeps(sleep: impl Fn(Sleep)) {
        for micros in [0, 1, 10, 65, 66, 100, 1_000, 5_000] {
            let (time, start) = (Duration::from_micros(micros), now());
            sleep(sleep_async(time));
            assert!(now() - start >= time, "{:?} of {time:?}", now() - start);
        }
    }
    with_each(|rt| {
        rt.block_on(|| {
            sleeps(|sleep| wait(sleep).unwrap().unwrap());
            sleeps(|sleep| wait(timeout_async(LONG, sleep)).unwrap().unwrap().unwrap());
            sleeps(|sleep| {
                wait(sleep_until_async(sleep.deadline().unwrap())).unwrap().unwrap();
            });
        });
        let handle = rt.handle();
        for time in [Duration::ZERO, Duration::from_micros(70), SHORT] {
            let start = now();
            block_on(handle.sleep_async(time)).unwrap();
            assert!(now() - start >= time);
            let start = now();
            wait(handle.sleep_async(time)).unwrap().unwrap();
            assert!(now() - start >= time);
        }
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_time_that_has_passed_is_ready_at_once_and_sets_no_timer() {
    with_each(|rt| {
        let (counting, waker) = Counting::waker();
        for sleep in
            [rt.handle().sleep_async(Duration::ZERO), rt.handle().sleep_until_async(now() - SHORT)]
        {
            assert_eq!(poll(pin!(sleep), &waker), Poll::Ready(Ok(())));
        }
        assert_eq!((rt.metrics().timers(), counting.wakes()), (0, 0));
    });
}

#[test]
fn an_endless_sleep_is_set_and_ends_with_its_drop_or_its_runtime() {
    with_own_of(&[2], |rt| {
        let (counting, waker) = Counting::waker();
        let mut sleeps: Vec<_> =
            [Duration::MAX, LONG].map(|time| Box::pin(rt.handle().sleep_async(time))).into();
        assert_eq!(rt.metrics().timers(), 0, "it is set by the first poll");
        sleeps.iter_mut().for_each(|sleep| assert!(poll(sleep.as_mut(), &waker).is_pending()));
        assert_eq!(rt.metrics().timers(), 2);
        sleeps.pop();
        assert_eq!((rt.metrics().timers(), counting.wakes()), (1, 0));
        drop(rt);
        assert_eq!(counting.wakes(), 1, "the end says so");
        assert_eq!(poll(sleeps[0].as_mut(), &waker), Poll::Ready(Err(RuntimeEnded)));
    });
}

#[test]
fn a_great_many_set_from_outside_are_woken_once_each() {
    let many = scaled_in_debug(20_000);
    with(&[1, 2, 8], |rt| {
        let (counting, waker) = Counting::waker();
        let time = |n| SHORT + Duration::from_micros((n * 7_919 % 50_000) as u64);
        let mut sleeps: Vec<_> =
            (0..many).map(|n| Box::pin(rt.handle().sleep_async(time(n)))).collect();
        let mut pending = 0;
        for sleep in &mut sleeps {
            pending += usize::from(poll(sleep.as_mut(), &waker).is_pending());
        }
        eventually("all are woken", || counting.wakes() == pending);
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
        let mut set = sleeps.iter().filter(|sleep| sleep.deadline().is_some());
        assert!(set.all(|sleep| sleep.is_elapsed()));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_called_and_the_earlier_ones_are_dropped() {
    with_each(|rt| {
        let mut sleep = pin!(rt.handle().sleep_async(LONG));
        let (first, first_waker) = Counting::waker();
        let (last, last_waker) = Counting::waker();
        assert!(poll(sleep.as_mut(), &first_waker).is_pending());
        assert!(poll(sleep.as_mut(), &last_waker).is_pending());
        assert!(poll(sleep.as_mut(), &last_waker).is_pending());
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (2, 3));
        sleep.as_mut().reset(now() + SHORT);
        assert_eq!((rt.metrics().timers(), Arc::strong_count(&last)), (0, 2));
        if poll(sleep.as_mut(), &last_waker).is_pending() {
            eventually("it is woken", || last.wakes() == 1);
            assert_eq!(poll(sleep.as_mut(), &last_waker), Poll::Ready(Ok(())));
        }
        assert_eq!(first.wakes(), 0);
        // A waker that was called may be dropped a moment later.
        eventually("the waker is dropped", || Arc::strong_count(&last) == 2);
    });
}

#[test]
fn a_reset_brings_a_sleep_forward_puts_it_off_and_revives_it() {
    with_each(|rt| {
        let mut sleep = pin!(rt.handle().sleep_async(LONG));
        let start = now();
        for round in 1..=3 {
            sleep.as_mut().reset(start + round * SHORT);
            block_on(sleep.as_mut()).unwrap();
            assert!(now() - start >= round * SHORT);
        }
        assert!(panic_of(|| block_on(sleep.as_mut())).contains("polled after its end"));
        let (counting, waker) = Counting::waker();
        sleep.as_mut().reset(now() + SHORT);
        let _ = poll(sleep.as_mut(), &waker);
        sleep.as_mut().reset(now() + LONG);
        // If it has fired before that, the worker that has taken the waker out may call it a moment
        // later.
        eventually("the waker is dropped", || Arc::strong_count(&counting) == 2);
        let wakes = counting.wakes();
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        // Another one that comes after the time that does not count any more.
        block_on(rt.handle().sleep_async(2 * SHORT)).unwrap();
        assert_eq!((counting.wakes(), rt.metrics().timers()), (wakes, 1));
    });
}

#[test]
fn a_sleep_that_is_dropped_in_any_state_leaves_nothing() {
    with_each(|rt| {
        let (counting, waker) = Counting::waker();
        drop(rt.handle().sleep_async(LONG));
        let mut pending = Box::pin(rt.handle().sleep_async(LONG));
        assert!(poll(pending.as_mut(), &waker).is_pending());
        drop(pending);
        let mut fired = Box::pin(rt.handle().sleep_async(SHORT));
        if poll(fired.as_mut(), &waker).is_pending() {
            eventually("it has fired", || counting.wakes() == 1);
        }
        drop(fired);
        // In the middle of firing, or not.
        for round in 0..scaled(500) as u64 {
            let mut sleep = Box::pin(rt.handle().sleep_async(Duration::from_micros(round % 200)));
            let _ = poll(sleep.as_mut(), &waker);
            common::compute(round % 170);
        }
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
        eventually("the waker is dropped", || Arc::strong_count(&counting) == 2);
    });
}

#[test]
fn forgotten_ones_are_called_at_their_time_or_at_the_end_and_do_no_harm() {
    in_own_process_leaking(|| {
        with_each(|rt| {
            let (counting, waker) = Counting::waker();
            let mut wakes = 0;
            for time in [SHORT, LONG, Duration::MAX] {
                let mut sleep = Box::pin(rt.handle().sleep_async(time));
                wakes += usize::from(poll(sleep.as_mut(), &waker).is_pending());
                std::mem::forget(sleep);
            }
            eventually("the short one is called", || counting.wakes() == wakes - 2);
            assert_eq!(rt.metrics().timers(), 2);
        });
    });
}

#[test]
fn a_sleep_that_was_polled_by_a_task_goes_to_a_thread_and_back() {
    with_each(|rt| {
        for _ in 0..scaled(50) {
            let polled = |mut sleep: Pin<Box<Sleep>>| {
                assert!(is_pending(sleep.as_mut()));
                sleep
            };
            let mut sleep = Box::pin(rt.handle().sleep_async(LONG));
            sleep = rt.block_on(|| polled(sleep));
            sleep = polled(sleep);
            sleep = rt.block_on(|| polled(sleep));
            assert_eq!(rt.metrics().timers(), 1);
            sleep.as_mut().reset(now() + Duration::from_micros(100));
            block_on(sleep).unwrap();
        }
        assert_eq!(rt.metrics().timers(), 0, "timers are left");
    });
}

#[test]
fn a_timer_calls_a_waker_in_the_name_of_no_task_and_the_waker_may_panic() {
    in_task(|_| {
        let asked = Arc::new(Mutex::new(None));
        let asks = Arc::clone(&asked);
        let waker = calling(move || {
            let said = panic_of(|| wait(pending::<()>()));
            *asks.lock().unwrap() = Some((cygnet::current_id().is_none(), said));
            panic!("the wake of a waker");
        });
        let mut sleep = pin!(sleep_async(SHORT));
        if poll(sleep.as_mut(), &waker).is_pending() {
            give_way_until(|| asked.lock().unwrap().is_some());
            let (outside, said) = asked.lock().unwrap().take().unwrap();
            assert!(outside && said.contains("outside of its tasks"), "{said}");
        }
        // Still in order.
        wait(sleep_async(SHORT)).unwrap().unwrap();
    });
}

/// Polls a first sleep, drops a second one, and sets a third one, when it is called and when it is
/// dropped.
struct Uses(Mutex<Vec<Pin<Box<Sleep>>>>, Handle, Count);

impl Uses {
    fn use_them(&self) {
        let mut sleeps = self.0.lock().unwrap();
        if let Some(mut sleep) = sleeps.pop() {
            let _ = is_pending(sleep.as_mut());
            let mut new = Box::pin(self.1.sleep_async(Duration::from_micros(100)));
            if is_pending(new.as_mut()) {
                sleeps.push(new);
            }
        }
    }
}

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        self.use_them();
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        self.use_them();
        self.2.up();
    }
}

#[test]
fn a_waker_and_its_destructor_may_use_others_of_the_same_wheel() {
    with(&[1, 2], |rt| {
        let dropped = Count::new();
        let waker = || {
            let sleeps = [(); 2].map(|()| {
                let mut sleep = Box::pin(rt.handle().sleep_async(LONG));
                let _ = is_pending(sleep.as_mut());
                sleep
            });
            Waker::from(Arc::new(Uses(Mutex::new(sleeps.into()), rt.handle(), dropped)))
        };
        // Called; exchanged; dropped; reset.
        let mut called = pin!(rt.handle().sleep_async(SHORT));
        let _ = poll(called.as_mut(), &waker());
        let mut exchanged = Box::pin(rt.handle().sleep_async(LONG));
        let _ = poll(exchanged.as_mut(), &waker());
        let _ = poll(exchanged.as_mut(), &waker());
        drop(exchanged);
        let mut reset = pin!(rt.handle().sleep_async(LONG));
        let _ = poll(reset.as_mut(), &waker());
        reset.as_mut().reset(now() + LONG);
        eventually("all are dropped", || dropped.get() == 4);
        eventually("nothing is left", || rt.metrics().timers() == 0);
    });
}

#[test]
fn a_time_limit_gives_the_output_in_time_and_drops_the_future_before_the_error() {
    with_each(|rt| {
        let handle = rt.handle();
        let drops = Drops::new();
        let never = async |guard| {
            let _guard = guard;
            pending::<()>().await;
        };
        // Both, at the same moment: the output counts.
        assert_eq!(block_on(handle.timeout_async(Duration::ZERO, async { 7 })), Ok(7));
        let mut late = Box::pin(handle.timeout_async(SHORT, never(drops.guard())));
        assert_eq!(block_on(late.as_mut()), Err(TimeoutError::Elapsed));
        assert_eq!(drops.left(), 0, "it is dropped first");
        assert!(panic_of(|| block_on(late.as_mut())).contains("polled after its end"));
        let mut early = Box::pin(handle.timeout_async(LONG, async { 8 }));
        assert_eq!(block_on(early.as_mut()), Ok(8));
        assert!(panic_of(|| block_on(early.as_mut())).contains("polled after its end"));
        let nested = handle.timeout_async(LONG, handle.timeout_async(SHORT, never(drops.guard())));
        assert_eq!(block_on(nested), Ok(Err(TimeoutError::Elapsed)));
        let panics = || block_on(handle.timeout_async(LONG, async { panic!("inner") }));
        assert_eq!(panic_of(panics), "inner");
        drop(begun(handle.timeout_async(LONG, never(drops.guard()))));
        // Of a task, with another thing to wait for.
        let told: Result<_, Cancelled> = rt.block_on(|| {
            let event = cygnet::sync::Event::new();
            wait(timeout_async(SHORT, event.wait_async()))
        });
        assert_eq!(told, Ok(Err(TimeoutError::Elapsed)));
        assert_eq!((drops.left(), rt.metrics().timers()), (0, 0));
    });
}
