//! Trees as large and as deep as memory allows: nothing recurses.

use crate::common::prelude::*;

#[test]
fn a_chain_a_million_deep_is_cancelled_completes_and_is_released() {
    // The closure of each task but the last has returned, and the task waits for its child.
    fn descend(n: usize, drops: Drops, bottom: mpsc::Sender<()>, told: Count) {
        if n == 0 {
            bottom.send(()).unwrap();
            return told.add(usize::from(park().is_err()));
        }
        let guard = drops.guard();
        spawn(move || {
            let _guard = guard;
            descend(n - 1, drops, bottom, told);
        })
        .detach();
    }
    let deep = scaled_in_debug(1_000_000);
    with(&[1, 2, 8], |rt| {
        let (drops, told) = (Drops::new(), Count::new());
        let (bottom, reached) = channel();
        let before = parks(rt);
        let root = rt.spawn(own(&drops, move |theirs| descend(deep, theirs, bottom, told)));
        reached.recv().unwrap();
        eventually("the last one waits", || parks(rt) > before);
        assert!(!root.is_finished());
        root.cancel("enough");
        root.join().unwrap();
        assert_eq!((told.get(), drops.count()), (1, deep));
    });
}

#[test]
fn a_tree_of_a_million_nodes_is_cancelled_completes_and_is_released() {
    // A hundred tasks wait, each with ten thousand children that wait or have not started.
    let children = scaled_in_debug(10_000);
    with(&[1, 2, 8], |rt| {
        let drops = Drops::new();
        let (ready, is_ready) = channel();
        let root = rt.spawn({
            let drops = drops.clone();
            move || {
                let branches: Vec<_> = (0..100)
                    .map(|_| {
                        let (drops, ready) = (drops.clone(), ready.clone());
                        spawn(move || {
                            let leaves: Vec<_> = (0..children)
                                .map(|n| {
                                    let guard = drops.guard();
                                    spawn(move || {
                                        let _guard = guard;
                                        if n % 100 == 0 { park().is_err() } else { true }
                                    })
                                })
                                .collect();
                            ready.send(()).unwrap();
                            let _ = park();
                            leaves.len()
                        })
                    })
                    .collect();
                let _ = park();
                branches.into_iter().map(|branch| branch.join()).collect::<Vec<_>>()
            }
        });
        (0..100).for_each(|_| is_ready.recv().unwrap());
        root.cancel("enough");
        for branch in root.join().unwrap() {
            assert!(matches!(branch, Err(JoinError::Cancelled(_))), "{branch:?}");
        }
        assert_eq!(drops.count(), 100 * children);
    });
}
