//! `TaskBuilder`: its modes, alone and together, in each place.

use crate::common::prelude::*;
use cygnet::shutdown::Swansong;

#[test]
fn a_task_that_starts_at_once_may_have_a_name_and_a_stack_and_be_in_a_scope() {
    in_task(|_| {
        let begun = Flag::new();
        let child = task().name("first").stack_size(1 << 20).unwrap().now().spawn(move || {
            begun.set();
            yield_now().unwrap();
            std::hint::black_box([7u8; 200_000]).len()
        });
        assert!(begun.get());
        assert_eq!(child.name(), Some("first"));
        assert_eq!(child.join().unwrap(), 200_000);
        let mut number = 1;
        scope(|s| {
            let child = task().now().spawn_in(s, || number += 1);
            assert!(child.is_finished());
        });
        assert_eq!(number, 2);
    });
}

#[test]
fn a_migratable_task_can_be_spawned_in_each_place_but_this_worker() {
    with_each(|rt| {
        let ran = Count::new();
        let body = move || {
            yield_now().unwrap();
            ran.up();
        };
        // SAFETY: the tasks hold only a counter over the suspension.
        let migratable = || unsafe { task().migratable() };
        migratable().spawn_in(rt, body).join().unwrap();
        migratable().spawn_in(&rt.handle(), body).unwrap().join().unwrap();
        rt.block_on(|| {
            migratable().unscoped().spawn(body).join().unwrap();
            migratable().spawn_in(&lease(), body).join().unwrap();
            let group = TaskGroup::new();
            migratable().spawn_in(&group, body);
            group.join().unwrap();
            scope(|s| drop(migratable().spawn_in(s, body)));
            let handle = cygnet::Handle::current();
            migratable().spawn_in(ChildOn(&handle), body).unwrap().join().unwrap();
        });
        assert_eq!(ran.get(), 7);
    });
}

#[test]
fn a_guard_is_held_in_each_place_until_the_closure_has_ended() {
    with_each(|rt| {
        let handle = rt.handle();
        rt.block_on(|| {
            let (swansong, open) = (Swansong::new(), Flag::new());
            let guarded = || task().guard(&swansong);
            let waits = move || open.wait();
            let (held, group) = (lease(), TaskGroup::new());
            let mut tasks: Vec<Task<()>> = vec![
                guarded().spawn(waits),
                guarded().unscoped().spawn(waits),
                guarded().spawn_in(&handle, waits).unwrap(),
                guarded().spawn_in(&held, waits),
                guarded().spawn_in(ChildOn(&handle), waits).unwrap(),
            ];
            guarded().spawn_in(&group, waits);
            scope(|s| {
                guarded().spawn_in(s, waits);
                let local = guarded().spawn_in(ThisWorker, waits);
                assert_eq!(swansong.guard_count(), 8);
                let completion = swansong.shut_down();
                open.set();
                local.join().unwrap();
                completion.block();
            });
            tasks.drain(..).for_each(|task| task.join().unwrap());
            group.join().unwrap();
        });
    });
}

#[test]
fn the_end_of_a_shutdown_s_time_cancels_a_guarded_member_and_its_report_names_it() {
    in_task(|rt| {
        let (swansong, before) = (Swansong::new(), parks(rt));
        let group = TaskGroup::new();
        task().guard(&swansong).spawn_in(&group, || assert!(park().is_err()));
        give_way_until(|| parks(rt) > before);
        let report = swansong.shut_down_within(Duration::ZERO);
        assert!(report.to_string().contains("builder.rs"), "{report}");
        group.join().unwrap();
    });
}

#[test]
fn a_refused_spawn_gives_the_closure_back_and_holds_no_guard() {
    with_own_of(&[1], |rt| {
        let (swansong, handle) = (Swansong::new(), rt.handle());
        drop(rt);
        let refused = task().guard(&swansong).spawn_in(&handle, || 7).unwrap_err();
        assert_eq!((refused.0)(), 7);
        assert_eq!(swansong.guard_count(), 0);
    });
}

#[test]
fn modes_that_exclude_each_other_are_refused_with_a_remedy() {
    in_task_with(&[1], |rt| {
        let (group, held) = (TaskGroup::new(), lease());
        // SAFETY: no task is spawned.
        let migratable = || unsafe { task().migratable() };
        let refused = [
            ("now() or unscoped()", panic_of(|| task().now().unscoped().spawn(|| ()))),
            ("now() or migratable()", panic_of(|| migratable().now().spawn(|| ()))),
            ("call spawn instead", panic_of(|| task().unscoped().spawn_in(&rt.handle(), || ()))),
            (
                "call spawn instead",
                panic_of(|| scope(|s| task().unscoped().spawn_in(s, || ()).id())),
            ),
            ("leave out now()", panic_of(|| task().now().spawn_in(&rt.handle(), || ()))),
            ("leave out now()", panic_of(|| task().now().spawn_in(rt, || ()))),
            ("leave out now()", panic_of(|| task().now().spawn_in(&held, || ()))),
            ("leave out now()", panic_of(|| task().now().spawn_in(&group, || ()))),
            ("leave out now()", panic_of(|| task().now().spawn_in(ChildOn(&rt.handle()), || ()))),
            ("leave out now()", panic_of(|| task().now().spawn_in(ThisWorker, || ()))),
            ("leave out migratable()", panic_of(|| migratable().spawn_in(ThisWorker, || ()))),
        ];
        for (remedy, said) in refused {
            assert!(said.contains(remedy), "{remedy}: {said}");
        }
        group.join().unwrap();
    });
}
