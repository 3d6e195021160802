//! Values passed in and out.

use crate::{Log, Tell};
use cygnet::coroutine::{Builder, Coroutine, Resumed, Yielder};
use std::{ptr, thread};

#[test]
fn values_pass_in_and_out_and_back_at_the_end() {
    let co = Coroutine::new(|yielder, first: u32| {
        let second = yielder.suspend(format!("got {first}"));
        let third = yielder.suspend(format!("got {second}"));
        vec![first, second, third]
    });
    assert_eq!(co.resume(1), Ok(Resumed::Yielded("got 1".into())));
    assert_eq!(co.resume(2), Ok(Resumed::Yielded("got 2".into())));
    assert_eq!(co.resume(3), Ok(Resumed::Returned(vec![1, 2, 3])));
}

#[test]
fn values_are_moved_and_dropped_once() {
    let log = Log::default();
    let co = Coroutine::new(|yielder: &Yielder<Tell, Tell, Tell>, first: Tell| {
        let second = yielder.suspend(first);
        let log = second.1.clone();
        let _third = yielder.suspend(second);
        Tell(4, log)
    });
    let send = |n| co.resume(Tell(n, log.clone())).unwrap();
    drop(send(1));
    assert_eq!(*log.borrow(), [1]);
    drop(send(2));
    assert_eq!(*log.borrow(), [1, 2]);
    let last = send(3);
    assert_eq!(*log.borrow(), [1, 2, 3]);
    drop(last);
    assert_eq!(*log.borrow(), [1, 2, 3, 4]);
}

#[test]
fn values_come_from_deep_in_the_calls() {
    fn walk(yielder: &Yielder<(), u32>, depth: u32) {
        if depth > 0 {
            walk(yielder, depth - 1);
            yielder.suspend(depth);
            walk(yielder, depth - 1);
        }
    }
    let co = Coroutine::new(|yielder, ()| walk(yielder, 3));
    let mut seen = Vec::new();
    while let Some(depth) = co.resume(()).unwrap().yielded() {
        seen.push(depth);
    }
    assert_eq!(seen, [1, 2, 1, 3, 1, 2, 1]);
}

const MEBIBYTE: usize = 1 << 20;

/// For values that must not overflow the stack of the test itself.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(64 * MEBIBYTE).spawn(test).unwrap().join().unwrap();
}

#[test]
fn captures_and_values_each_way_may_be_a_mebibyte_large() {
    on_a_large_stack(|| {
        let large = std::hint::black_box([7_u8; MEBIBYTE]);
        let co = Coroutine::new(move |yielder, first: [u8; MEBIBYTE]| {
            assert!(large.iter().all(|&byte| byte == 7));
            let second = yielder.suspend(first);
            assert!(large.iter().all(|&byte| byte == 7));
            second
        });
        let Ok(Resumed::Yielded(out)) = co.resume([1; MEBIBYTE]) else { panic!() };
        assert_eq!(out[12_345], 1);
        assert_eq!(co.resume([2; MEBIBYTE]).unwrap().returned().unwrap()[54_321], 2);
    });
}

#[test]
fn captures_and_values_may_be_aligned_to_a_page() {
    #[repr(align(4096))]
    struct Page(u8);
    fn aligned(page: &Page) -> bool {
        ptr::from_ref(page).addr().is_multiple_of(4096)
    }
    let captured = Page(1);
    let co = Builder::new()
        .stack_size(16 << 10)
        .create(move |yielder: &Yielder<Page, Page, Page>, first: Page| {
            assert!(aligned(&captured) && aligned(&first));
            let second = yielder.suspend(Page(captured.0 + first.0));
            assert!(aligned(&second));
            second
        })
        .unwrap();
    let Ok(Resumed::Yielded(out)) = co.resume(Page(2)) else { panic!() };
    assert!(aligned(&out) && out.0 == 3);
    assert_eq!(co.resume(Page(4)).unwrap().returned().unwrap().0, 4);
}

#[test]
fn eight_live_doubles_survive_resumes_bit_for_bit() {
    fn churn<Ret>(seed: f64, yielder: &Yielder<f64, f64, Ret>) -> [u64; 8] {
        let [mut a, mut b, mut c, mut d] = [seed, seed + 0.1, seed + 0.2, seed + 0.3];
        let [mut e, mut f, mut g, mut h] = [seed * 3.0, seed * 5.0, seed * 7.0, seed * 9.0];
        for _ in 0..1000 {
            let y = yielder.suspend(a);
            (a, b, c, d) = (b + y, c * 0.5, d - y, e + 1.0);
            (e, f, g, h) = (f * 0.25, g + y, h - 0.125, a * 0.75);
        }
        [a, b, c, d, e, f, g, h].map(f64::to_bits)
    }
    let run = |seeds: &[f64]| -> Vec<[u64; 8]> {
        let coroutine = |&seed| Coroutine::new(move |yielder, _| churn(seed, yielder));
        let all: Vec<_> = seeds.iter().map(coroutine).collect();
        let mut ends = vec![[0; 8]; seeds.len()];
        for turn in 0..=1000 {
            for (co, end) in all.iter().zip(&mut ends) {
                if let Resumed::Returned(bits) = co.resume(f64::from(turn) / 7.0).unwrap() {
                    *end = bits;
                }
            }
        }
        ends
    };
    // The same sums, taking turns and each alone.
    let seeds = [0.1, 0.7, 1e10];
    let together = run(&seeds);
    let alone: Vec<_> = seeds.iter().flat_map(|&seed| run(&[seed])).collect();
    assert_eq!(together, alone);
    assert!(together.iter().flatten().all(|&bits| bits != 0));
}
