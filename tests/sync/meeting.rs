//! `Barrier`, and values that are made once: `OnceCell` and `Lazy`.

use crate::common::prelude::*;
use cygnet::sync::{Barrier, Lazy, OnceCell};

#[test]
fn a_barrier_opens_again_and_again_and_one_caller_leads() {
    in_task(|_| {
        let barrier = Barrier::new(7);
        let (leaders, rounds) = (Count::new(), Count::new());
        crowd(7, |_| {
            for round in 1..=50 {
                rounds.up();
                leaders.add(usize::from(barrier.wait().unwrap().is_leader()));
                assert!(rounds.get() >= 7 * round);
            }
        });
        assert_eq!((leaders.get(), waiting(&barrier)), (50, 0));
    });
}

#[test]
fn a_barrier_for_none_or_one_never_blocks() {
    for count in [0, 1] {
        let barrier = Barrier::new(count);
        for _ in 0..3 {
            assert!(barrier.wait().unwrap().is_leader());
            assert!(block_on(barrier.wait_async()).is_leader());
        }
    }
}

#[test]
fn a_cell_is_made_once_while_other_callers_wait() {
    in_task(|_| {
        let (cell, made) = (OnceCell::new(), AtomicUsize::new(0));
        assert!(cell.get().is_none());
        crowd(20, |_| {
            let value = cell.get_or_init(|| {
                yield_now().unwrap();
                made.fetch_add(1, Ordering::Relaxed) + 7
            });
            assert_eq!(value, Ok(&7));
        });
        assert_eq!((cell.get(), made.into_inner()), (Some(&7), 1));
        assert_eq!(cell.set(8), Err(8));
        assert_eq!(format!("{cell:?}"), "OnceCell(Some(7))");
        assert_eq!(cell.into_inner(), Some(7));
    });
}

#[test]
fn the_next_caller_retries_an_initializer_that_failed() {
    let cell = OnceCell::new();
    assert_eq!(panic_of(|| cell.get_or_init(|| panic!("cannot")).is_ok()), "cannot");
    let failed: Result<&u32, WaitError> = cell.get_or_try_init(|| Err(WaitError::TimedOut));
    assert_eq!(failed, Err(WaitError::TimedOut));
    assert!(cell.get().is_none());
    panics_with("would wait for itself", || {
        cell.get_or_init(|| *cell.get_or_init(|| 1).unwrap()).is_ok()
    });
    assert_eq!(cell.set(3), Ok(()));
    assert_eq!(cell.get_or_init(|| 4), Ok(&3));
}

#[test]
fn a_cancelled_task_makes_no_value_and_gets_one_that_exists() {
    with(&[1, 2], |rt| {
        let cell = Arc::new(OnceCell::new());
        let task = rt.spawn(own(&cell, |mine| {
            cancel_handle().cancel("enough");
            let refused: Result<u32, Cancelled> = mine.get_or_init(|| 1).copied();
            refused.is_err() && mine.set(2).is_ok() && mine.get_or_init(|| 3) == Ok(&2)
        }));
        assert!(task.join().unwrap());
    });
}

#[test]
fn a_lazy_value_is_made_by_its_own_function() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static VALUE: Lazy<usize> = Lazy::new(|| CALLS.fetch_add(1, Ordering::Relaxed) + 5);
    with_each(|rt| {
        assert_eq!(rt.block_on(|| *VALUE.get().unwrap()), 5);
        assert_eq!(VALUE.get(), Ok(&5));
    });
    assert_eq!(format!("{VALUE:?}"), "Lazy(Some(5))");
}
