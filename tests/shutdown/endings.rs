//! Ends of a runtime that nobody waits for: when it is idle, and as a future.

use crate::common::prelude::*;
use crate::now;
use cygnet::shutdown::Swansong;

/// A runtime, and the number of its workers' threads that have ended.
fn counted(workers: usize) -> (Runtime, Count) {
    let stops = Count::new();
    let builder = Runtime::builder().workers(workers).on_thread_stop(move |_| stops.up());
    (builder.build().unwrap(), stops)
}

/// S96.
#[test]
fn a_runtime_ends_when_its_last_task_has_ended() {
    within_each(&[1, 2, 8], |&workers| {
        let (rt, stops) = counted(workers);
        let (handle, sum) = (rt.handle(), Count::new());
        let (begun, has_begun) = channel();
        let (go, gone) = oneshot::<()>();
        let own = handle.clone();
        let first = rt.spawn(move || {
            begun.send(()).unwrap();
            let mut gone = gone;
            // Nothing is cancelled.
            gone.recv().unwrap();
            sleep(Duration::from_millis(1)).unwrap();
            let below = spawn(move || sum.up());
            // Its own tasks spawn as before, by any way.
            let beside = own.spawn(move || sum.up()).expect("an own task is admitted");
            let from_thread = blocking(|| own.spawn(move || sum.up()));
            let inside = own.block_on(|| own.scope(|s| s.spawn(move || sum.up()).join()));
            spawn_unscoped(move || {
                yields(10);
                sum.up();
            })
            .detach();
            below.join().unwrap();
            inside.unwrap();
            (
                beside.join().unwrap(),
                from_thread.expect("its blocking call is, too").join().unwrap(),
            )
        });
        has_begun.recv().unwrap();
        rt.end_when_idle();
        let error = handle.spawn(|| ()).expect_err("a foreign thread was admitted");
        assert!(error.to_string().contains("has ended or is ending"), "{error}");
        panics_with("a runtime that has ended", || handle.block_on(|| ()));
        panics_with("a runtime that has ended", || handle.scope(|_| ()));
        assert_eq!(stops.get(), 0);
        go.send(()).unwrap();
        first.join().unwrap();
        eventually("its threads have ended", || stops.get() == workers);
        assert_eq!(sum.get(), 5);
    });
}

/// S96.
#[test]
fn an_idle_runtime_ends_at_once_and_stops_its_swansong() {
    within_each(&[1, 3], |&workers| {
        let (rt, stops) = counted(workers);
        let swansong = rt.swansong();
        rt.end_when_idle();
        swansong.block_on_shutdown_completion();
        eventually("its threads have ended", || stops.get() == workers);
    });
}

/// S96. A task may let go of its own runtime so.
#[test]
fn a_task_ends_its_own_runtime_when_it_is_idle() {
    within_each(&[1, 2], |&workers| {
        let (rt, stops) = counted(workers);
        let (give, take) = channel::<Runtime>();
        let task = rt.spawn(move || {
            take.recv().unwrap().end_when_idle();
            yields(3);
            spawn(|| 7).join().unwrap()
        });
        give.send(rt).unwrap();
        assert_eq!(task.join().unwrap(), 7);
        eventually("its threads have ended", || stops.get() == workers);
    });
}

/// S97.
#[test]
fn a_runtime_shuts_down_while_another_thread_goes_on() {
    within_each(&[1, 2, 8], |&workers| {
        let (rt, stops) = counted(workers);
        let (go, gone) = oneshot::<()>();
        let guarded = task().guard(&rt.swansong()).spawn_in(&rt, move || {
            let mut gone = gone;
            gone.recv()
        });
        let unguarded = rt.spawn(park);
        let swansong = rt.swansong();
        let mut report = pin!(rt.shutdown_async(Duration::MAX));
        assert!(swansong.state().is_shutting_down());
        assert!(poll_once(report.as_mut()).is_pending());
        go.send(()).unwrap();
        let report = block_on(report);
        assert!(report.is_in_time() && !report.is_given_up(), "{report}");
        assert_eq!(stops.get(), workers);
        assert_eq!(guarded.join().unwrap(), Ok(()));
        assert!(!matches!(unguarded.join(), Ok(Ok(()))));
    });
}

/// S97. Without grace; the future is dropped; the caller is a task that the shutdown cancels.
#[test]
fn a_shutdown_goes_on_without_its_future() {
    within_each(&[1, 2], |&workers| {
        let (rt, stops) = counted(workers);
        let late = task().guard(&rt.swansong()).spawn_in(&rt, park);
        drop(rt.shutdown_async(Duration::ZERO));
        assert!(!matches!(late.join(), Ok(Ok(()))));
        eventually("its threads have ended", || stops.get() == workers);

        let (rt, stops) = counted(workers);
        let (give, take) = channel::<Runtime>();
        let own =
            rt.spawn(move || wait(take.recv().unwrap().shutdown_async(Duration::MAX)).is_err());
        give.send(rt).unwrap();
        assert!(own.join().unwrap());
        eventually("its threads have ended", || stops.get() == workers);
    });
}

/// S98.
#[test]
fn a_shutdown_as_a_future_finishes_work_until_its_time_is_over() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let guarded = || task().guard(&swansong).spawn_in(rt, park);
        let (good, stuck) = (swansong.child().guard(), guarded());
        let (over, is_over) = oneshot::<()>();
        let mut report = pin!(swansong.shut_down_until(async {
            let mut is_over = is_over;
            is_over.recv_async().await.unwrap();
        }));
        // The stop has happened.
        assert!(swansong.state().is_shutting_down());
        assert!(poll_once(report.as_mut()).is_pending());
        assert!(!stuck.is_finished());
        drop(good);
        over.send(()).unwrap();
        let report = block_on(report);
        assert!(!report.is_in_time());
        assert_eq!((report.guards_in_time_over(), report.cancelled(), report.left()), (1, 1, 0));
        assert!(!matches!(stuck.join(), Ok(Ok(()))));
        // Complete: the time does not count any more.
        let again = block_on(swansong.shut_down_until(pending()));
        assert!(!again.is_in_time());

        let swansong = Swansong::new();
        let mut at_once = Box::pin(swansong.shut_down_until(pending()));
        assert!(now(&mut at_once).expect("there are no guards").is_in_time());
    });
}

/// S98.
#[test]
fn a_shutdown_whose_future_is_dropped_has_stopped_and_cancels_nothing() {
    with_each(|rt| {
        let swansong = Swansong::new();
        let (tell, told) = oneshot();
        let waiting = task().guard(&swansong).spawn_in(rt, move || {
            let mut told = told;
            told.recv()
        });
        let mut polled = Box::pin(swansong.shut_down_until(pending()));
        assert!(now(&mut polled).is_none());
        drop((polled, swansong.shut_down_until(ready(()))));
        assert!(swansong.state().is_shutting_down());
        tell.send(7).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(7));
        swansong.block_on_shutdown_completion();
    });
}
