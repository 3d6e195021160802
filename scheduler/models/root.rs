//! The end of a runtime: non-worker threads spawn while the root is closed.

use crate::scheduler::life::root::Root;
use crate::shim::check::{ALL, Stage, explore, plant};
use crate::shim::plant::Kind;
use crate::shim::thread::spawn;
use crate::task::words::tree::{NOBODY, Release};

/// Each non-worker thread spawns a task, which then ends, while the runtime closes.
fn admit_and_close(outsiders: usize) {
    let root = Stage::new(Root::new(1));
    let outsiders = (0..outsiders).map(|_| {
        spawn(move || {
            if root.admit() {
                assert!(!root.has_ended(), "the root has ended before its child");
                if root.node.release_child(NOBODY) == Release::Last {
                    Root::end(&root);
                }
            }
        })
    });
    let outsiders: Vec<_> = outsiders.collect();
    root.close();
    outsiders.into_iter().for_each(|s| s.join().unwrap());
    assert!(root.has_ended(), "the root was not ended");
    assert!(!root.admit());
    // SAFETY: the threads have ended.
    unsafe { root.end() };
}

#[test]
fn loom_a_root_ends_after_the_tasks_it_has_admitted() {
    explore(ALL, || admit_and_close(1));
}

#[test]
fn loom_a_root_ends_after_the_tasks_of_two_threads() {
    explore(3, || admit_and_close(2));
}

#[test]
#[should_panic(expected = "before its child")]
fn loom_negative_a_child_that_is_counted_without_order() {
    plant("task/words/tree.rs", &[Kind::Update]);
    explore(ALL, || admit_and_close(1));
}
