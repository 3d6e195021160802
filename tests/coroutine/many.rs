//! Large numbers of coroutines, resumes and nested resumes.

use crate::common::prelude::*;
use cygnet::coroutine::{Coroutine, Resumed};

#[test]
fn a_million_resumes_and_suspensions() {
    let co = Coroutine::<u64, u64, ()>::new(|yielder, mut n| {
        loop {
            n = yielder.suspend(n + 1);
        }
    });
    let mut n = 0;
    for _ in 0..1_000_000 {
        n = co.resume(n).unwrap().yielded().unwrap();
    }
    assert_eq!(n, 1_000_000);
}

#[test]
fn a_thousand_coroutines_alive() {
    let make = |n: usize| {
        Coroutine::new(move |yielder, ()| {
            let own = [n; 64];
            yielder.suspend(());
            own.iter().sum::<usize>()
        })
    };
    let all: Vec<_> = (0..1000).map(make).collect();
    for co in &all {
        assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
    }
    for (n, co) in all.iter().enumerate() {
        assert_eq!(co.resume(()), Ok(Resumed::Returned(64 * n)));
    }
}

#[test]
fn a_hundred_thousand_one_after_the_other() {
    // ThreadSanitizer takes each coroutine for a thread, and fails with too many.
    let count = if cfg!(cygnet_tsan) { 1000 } else { 100_000 };
    for n in 0..count {
        let co = Coroutine::<u32, (), u32>::new(|_, n| n);
        assert_eq!(co.resume(n), Ok(Resumed::Returned(n)));
    }
}

#[test]
fn a_chain_of_resumes_a_thousand_deep_and_its_drop() {
    fn nest(depth: u32, dropped: Rc<Cell<u32>>) -> Coroutine<(), u32, ()> {
        Coroutine::new(move |yielder, ()| {
            let own = dropped.clone();
            let _count = OnDrop(|| own.set(own.get() + 1));
            if depth == 0 {
                yielder.suspend(0);
                return;
            }
            let inner = nest(depth - 1, dropped);
            while let Some(below) = inner.resume(()).unwrap().yielded() {
                yielder.suspend(below + 1);
            }
        })
    }
    let dropped = Rc::new(Cell::new(0));
    let top = nest(1000, dropped.clone());
    assert_eq!(top.resume(()), Ok(Resumed::Yielded(1000)));
    assert_eq!(dropped.get(), 0);
    drop(top);
    assert_eq!(dropped.get(), 1001);
}
