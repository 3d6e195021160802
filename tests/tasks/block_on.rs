//! The way in: `block_on` from a thread, from a task of the same runtime, and from one of another.

use crate::common::prelude::*;

// --- from a thread -------------------------------------------------------------------------------

#[test]
fn block_on_returns_the_value_of_a_closure_that_borrows() {
    with_each_and_many(|rt| {
        let words = ["a".to_owned(), "b".to_owned()];
        let mut calls = 0;
        let joined = rt.block_on(|| {
            calls += 1;
            words.concat()
        });
        assert_eq!((joined.as_str(), calls), ("ab", 1));
    });
}

#[test]
fn block_on_passes_a_panic_on_and_try_block_on_returns_it() {
    with_each(|rt| {
        assert_eq!(common::panic_of(|| rt.block_on(|| panic!("boo"))), "boo");
        let error = rt.try_block_on(|| panic!("boo")).unwrap_err();
        assert_eq!(text(&*error.into_panic().unwrap()), "boo");
        assert_eq!(rt.try_block_on(|| 7).unwrap(), 7);
    });
}

#[test]
fn block_on_waits_for_the_children_that_were_left() {
    with_each(|rt| {
        let ended = Count::new();
        rt.block_on(|| {
            for i in 0..20 {
                spawn(move || {
                    yields(i);
                    ended.up();
                })
                .detach();
            }
        });
        assert_eq!(ended.get(), 20);
    });
}

// --- from inside ---------------------------------------------------------------------------------

#[test]
fn block_on_inside_a_task_of_the_same_runtime_borrows_and_lets_others_run() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        let value = rt.block_on(|| {
            let mut list = vec![1];
            let inner = handle.block_on(|| {
                list.push(2);
                yield_now().unwrap();
                let child = spawn(|| 3);
                handle.block_on(|| child.join().unwrap())
            });
            list.push(inner);
            list
        });
        assert_eq!(value, [1, 2, 3]);
    });
}

#[test]
fn a_task_that_blocks_on_another_runtime_leaves_its_worker_to_others() {
    with_each(|rt| {
        let other = common::runtime(1);
        let (send, receive) = channel::<u8>();
        rt.block_on(|| {
            let before = parks(rt);
            // Ends only if a task of this runtime runs meanwhile, also if it has one worker.
            let handle = rt.handle();
            let helper = spawn(move || {
                let parks = || handle.metrics().workers.iter().map(|w| w.parks).sum::<u64>();
                give_way_until(|| parks() > before);
                send.send(9).unwrap();
            });
            let got = other.block_on(move || blocking(move || receive.recv().unwrap()));
            assert_eq!(got, 9);
            helper.join().unwrap();
        });
    });
}

#[test]
fn block_on_nests_a_thousand_times_and_in_turns_with_another_runtime() {
    fn nest(handles: [&cygnet::Handle; 2], n: usize) -> usize {
        let [first, second] = handles;
        if n == 0 { 0 } else { first.block_on(|| nest([second, first], n - 1)) + 1 }
    }
    with_each(|rt| {
        let (handle, deep) = (rt.handle(), scaled(1_000));
        assert_eq!(nest([&handle, &handle], deep), deep);
        let (other, deep) = (common::runtime(2), scaled(200));
        assert_eq!(nest([&handle, &other.handle()], deep), deep);
    });
}

#[test]
fn a_panic_comes_through_nested_block_ons() {
    with_each(|rt| {
        let other = common::runtime(1);
        let said = common::panic_of(|| {
            rt.block_on(|| other.block_on(|| rt.block_on(|| panic!("from within"))))
        });
        assert_eq!(said, "from within");
    });
}
