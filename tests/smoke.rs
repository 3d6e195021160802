//! First light.
use cygnet::*;

#[test]
fn block_on_runs() {
    for w in [1, 2, 3, 8] {
        let rt = Runtime::builder().workers(w).build().unwrap();
        assert_eq!(rt.block_on(|| 42), 42);
        let n = rt.block_on(|| {
            let tasks: Vec<_> = (0..1000u64).map(|i| spawn(move || i)).collect();
            tasks.into_iter().map(|t| t.join().unwrap()).sum::<u64>()
        });
        assert_eq!(n, 499500);
    }
}

#[test]
fn yields_and_parks() {
    for w in [1, 2, 8] {
        let rt = Runtime::builder().workers(w).build().unwrap();
        rt.block_on(|| {
            let ts: Vec<_> = (0..100)
                .map(|_| {
                    spawn(|| {
                        for _ in 0..100 {
                            yield_now().unwrap()
                        }
                    })
                })
                .collect();
            for t in ts {
                t.join().unwrap()
            }
            let ts: Vec<_> = (0..100)
                .map(|_| {
                    spawn(|| {
                        let me = unparker();
                        std::thread::spawn(move || me.unpark());
                        park().unwrap();
                    })
                })
                .collect();
            for t in ts {
                t.join().unwrap()
            }
        });
    }
}

#[test]
fn deep_chain() {
    fn go(n: u32) -> u32 {
        if n == 0 { 0 } else { spawn(move || go(n - 1)).join().unwrap() + 1 }
    }
    for w in [1, 8] {
        let rt = Runtime::builder().workers(w).build().unwrap();
        assert_eq!(rt.block_on(|| go(100_000)), 100_000);
    }
}
#[test]
fn deep_detached() {
    fn go(n: u32) {
        if n > 0 {
            spawn(move || go(n - 1)).detach()
        }
    }
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.block_on(|| go(1_000_000));
}
#[test]
fn migratable() {
    let rt = Runtime::builder().workers(4).build().unwrap();
    rt.block_on(|| {
        let ts: Vec<_> = (0..100)
            // SAFETY: it holds nothing over its suspensions.
            .map(|_| unsafe {
                spawn_migratable(|| {
                    for _ in 0..100 {
                        yield_now().unwrap()
                    }
                })
            })
            .collect();
        for t in ts {
            t.join().unwrap()
        }
    });
}
#[test]
fn panics() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let e = rt.try_block_on(|| panic!("boo")).unwrap_err();
    assert!(matches!(e, JoinError::Panicked(_)));
    let _: () = rt.block_on(|| {
        let e = spawn(|| panic!("x")).join().unwrap_err();
        assert!(e.is_panic());
    });
}
#[test]
fn drop_parked() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..10 {
        rt.spawn(|| {
            assert!(park().is_err());
        })
        .detach();
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(rt);
}
