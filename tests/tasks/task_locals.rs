//! Task-locals: values that belong to a task for the extent of a call, and that children inherit.

use crate::common::prelude::*;

static NUMBER: TaskLocal<u64> = TaskLocal::new();
static OTHER: TaskLocal<u64> = TaskLocal::new();
static TEXT: TaskLocal<String> = TaskLocal::new();
static GUARD: TaskLocal<Counted> = TaskLocal::new();

/// A value whose drop is counted, and may be shared.
struct Counted {
    _guard: common::drops::Guard,
}

fn number() -> Option<u64> {
    NUMBER.with(|n| n.copied())
}

#[test]
fn a_value_is_bound_for_the_extent_of_a_call_and_restored_after_it() {
    with_each(|rt| {
        rt.block_on(|| {
            assert_eq!(number(), None);
            let returned = NUMBER.scope(1, || {
                assert_eq!(number(), Some(1));
                NUMBER.scope(2, || assert_eq!(number(), Some(2)));
                assert_eq!(number(), Some(1));
                "returned"
            });
            assert_eq!((returned, number()), ("returned", None));
        });
        assert_eq!(number(), None, "outside a task there is none");
    });
}

#[test]
fn two_task_locals_of_one_type_are_two() {
    in_task(|_| {
        NUMBER.scope(1, || {
            OTHER.scope(2, || {
                TEXT.scope("three".to_owned(), || {
                    assert_eq!((number(), OTHER.with(|n| n.copied())), (Some(1), Some(2)));
                    assert_eq!(TEXT.with(|t| t.cloned()).as_deref(), Some("three"));
                });
            });
        });
    });
}

/// T10.
#[test]
fn children_inherit_what_was_bound_when_they_were_spawned_wherever_they_run() {
    in_task_and_many(|_| {
        let body = || {
            yield_now().unwrap();
            let grandchild = spawn(number);
            (number(), grandchild.join().unwrap())
        };
        let tasks: Vec<_> = (0..100).map(|i| NUMBER.scope(i, || spawn(body))).collect();
        // The parent's binding has ended, the children's have not.
        assert_eq!(number(), None);
        let numbers = join_all(tasks);
        assert!(numbers.into_iter().eq((0..100).map(|i| (Some(i), Some(i)))));
    });
}

/// T10, T11.
#[test]
fn every_kind_of_child_inherits() {
    in_task(|rt| {
        NUMBER.scope(5, || {
            assert_eq!(cygnet::spawn_local(number).join().unwrap(), Some(5));
            assert_eq!(cygnet::spawn_unscoped(number).join().unwrap(), Some(5));
            assert_eq!(rt.spawn(number).join().unwrap(), None);
            assert_eq!(cygnet::task().name("n").spawn(number).join().unwrap(), Some(5));
            assert_eq!(scope(|s| s.spawn(number).join().unwrap()), Some(5));
            assert_eq!(rt.handle().block_on(number), Some(5));
            // SAFETY: it holds nothing over a suspension.
            let migratable = unsafe { cygnet::task().migratable() }.spawn(number);
            assert_eq!(migratable.join().unwrap(), Some(5));
        });
    });
}

#[test]
fn a_child_s_binding_is_not_seen_by_its_parent_nor_by_a_sibling_on_the_same_worker() {
    in_task(|_| {
        NUMBER.scope(1, || {
            let bound = Count::new();
            let binds = move |i| {
                assert_eq!(number(), Some(1));
                NUMBER.scope(i, || {
                    bound.up();
                    bound.wait(10);
                    assert_eq!(number(), Some(i));
                });
                assert_eq!(number(), Some(1));
            };
            let tasks: Vec<_> = (10..20).map(|i| spawn(move || binds(i))).collect();
            bound.wait(10);
            assert_eq!(number(), Some(1));
            join_all(tasks);
        });
    });
}

#[test]
fn a_child_that_is_called_in_place_sees_its_own_bindings_only() {
    in_task(|_| {
        let child = spawn(|| (number(), NUMBER.scope(7, number)));
        // Bound after the spawn.
        NUMBER.scope(3, || {
            assert_eq!(child.join().unwrap(), (None, Some(7)));
            assert_eq!(number(), Some(3));
        });
    });
}

#[test]
fn a_binding_ends_with_a_panic_and_is_not_seen_outside_of_tasks() {
    in_task(|_| {
        assert_eq!(panic_of(|| NUMBER.scope(1, || panic!("bound"))), "bound");
        assert_eq!(number(), None);
        NUMBER.scope(1, || assert_eq!(blocking(number), None));
    });
    assert!(panic_of(|| NUMBER.scope(1, || ())).contains("outside a task"));
}

#[test]
fn a_value_stays_while_it_is_looked_at_although_its_binding_is_replaced_below() {
    in_task(|_| {
        TEXT.scope("outer".to_owned(), || {
            TEXT.with(|outer| {
                TEXT.scope("inner".to_owned(), || yield_now().unwrap());
                assert_eq!(outer.unwrap(), "outer");
            });
        });
    });
}

#[test]
fn a_long_chain_of_bindings_is_released_without_recursion() {
    fn bind(n: u64, at_depth: &mut dyn FnMut()) {
        if n == 0 {
            at_depth();
        } else {
            NUMBER.scope(n, || bind(n - 1, at_depth));
        }
    }
    in_task(|_| {
        // A chain that is longer than the stack is deep: each task adds twenty bindings.
        fn descend(n: u64) -> u64 {
            if n == 0 {
                return 0;
            }
            let mut child = None;
            bind(20, &mut || child = Some(spawn(move || descend(n - 1))));
            child.unwrap().detach();
            n
        }
        assert_eq!(descend(common::scaled(2_000) as u64), common::scaled(2_000) as u64);
    });
}

#[test]
fn a_value_is_dropped_before_the_parent_of_the_last_task_that_has_it_has_ended() {
    in_task(|_| {
        for in_place in [false, true] {
            let drops = Drops::new();
            let reach = Arc::new(Mutex::new(Vec::new()));
            let (guard, reached) = (drops.guard(), reach.clone());
            let parent = spawn(move || {
                let body = move || reached.lock().unwrap().push(unparker());
                let child = GUARD.scope(Counted { _guard: guard }, || spawn(body));
                if in_place { child.join().unwrap() } else { child.detach() }
            });
            parent.join().unwrap();
            assert_eq!(drops.count(), 1, "the task can still be reached: {in_place}");
            drop(reach);
        }
    });
}

/// The entry of a fork that was offered, and that its own task has called after all, stays in a
/// queue of that task's worker.
#[test]
fn a_value_is_dropped_at_the_end_of_its_scope_although_a_fork_was_offered_in_it() {
    in_task_with(&[2], |_| {
        for _ in 0..10 {
            let (taken, over) = (Flag::new(), Flag::new());
            let here = common::thread::current().id();
            let elsewhere = move || common::thread::current().id() != here;
            // Keeps the other worker, which takes no further fork, until the end of the round.
            let holds = move || {
                if elsewhere() {
                    over.hold();
                }
            };
            let is_taken = move || {
                if elsewhere() {
                    cygnet::spawn_unscoped(holds).detach();
                    taken.set();
                }
            };
            while !taken.get() {
                cygnet::join(common::thread::yield_now, is_taken);
            }
            // A worker whose fork was taken offers the next one, too.
            let drops = Drops::new();
            GUARD.scope(Counted { _guard: drops.guard() }, || {
                cygnet::join(|| (), || ());
            });
            let dropped = drops.count();
            over.set();
            assert_eq!(dropped, 1, "the value has outlived its scope");
        }
    });
}

#[test]
fn a_lease_and_a_group_keep_no_value_alive() {
    fn is_dropped_before<H>(make: fn() -> H, end: fn(H)) {
        let drops = Drops::new();
        let handle = GUARD.scope(Counted { _guard: drops.guard() }, make);
        assert_eq!(drops.count(), 1, "the handle keeps the value");
        end(handle);
    }
    in_task(|_| {
        is_dropped_before(cygnet::lease, drop);
        is_dropped_before(TaskGroup::<()>::new, |group| group.join().unwrap());
        is_dropped_before(
            || TaskGroup::<()>::new().child(),
            |group: TaskGroup| group.join().unwrap(),
        );
    });
}
