//! The end of a runtime: non-worker threads spawn while the root is closed.

use crate::scheduler::life::root::Root;
use crate::shim::check::{ALL, Stage, UPDATES, explore, models};
use crate::shim::thread::spawn;

/// Each non-worker thread spawns a task, which then ends, while the runtime closes.
fn admit_and_close(outsiders: usize) {
    let root = Stage::new(Root::new(1));
    let outsiders = (0..outsiders).map(|_| {
        spawn(move || {
            if let Some(child) = root.admit(|| false) {
                assert!(!root.has_ended(), "the root has ended before its child");
                drop(child);
            }
        })
    });
    let outsiders: Vec<_> = outsiders.collect();
    root.close();
    outsiders.into_iter().for_each(|s| s.join().unwrap());
    assert!(root.has_ended(), "the root was not ended");
    assert!(root.admit(|| false).is_none());
}

/// A task of the runtime spawns another child of the root, while the root is shut, and then closed.
fn shut_under_a_task() {
    let root = Stage::new(Root::new(1));
    let spawner = spawn(move || {
        if let Some(task) = root.admit(|| false) {
            let child = root.admit(|| true);
            drop(task);
            assert!(child.is_none() || !root.has_ended(), "the root has ended before its child");
        }
    });
    root.shut();
    root.close();
    spawner.join().unwrap();
    assert!(root.has_ended(), "the root was not ended");
}

models! {
    fn loom_a_shut_root_ends_after_what_its_tasks_have_spawned() = explore(ALL, shut_under_a_task);

    fn loom_a_root_ends_after_the_tasks_it_has_admitted() = explore(ALL, || admit_and_close(1));

    fn loom_a_root_ends_after_the_tasks_of_two_threads() = explore(3, || admit_and_close(2));

    fn loom_negative_a_child_that_is_counted_without_order() =
        explore(ALL, || admit_and_close(1)),
        without UPDATES in "task/words/tree.rs", fails: "before its child";
}
