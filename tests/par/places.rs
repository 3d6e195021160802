//! Where a loop, a sort and a pipeline may run, and what ends all of them.

use crate::common::drops::Guard;
use crate::common::prelude::*;
use cygnet::coroutine::Coroutine;

type Sum = fn() -> u64;

/// Calls of each kind, and their results.
const SUMS: [(&str, Sum, u64); 2] = [
    ("a loop", || par::map_reduce(0..100_000, || 0, |n| n, |a, b| a + b).unwrap(), 4_999_950_000),
    (
        "a pipeline",
        || {
            let mut sum = 0;
            pipeline(0..1_000).parallel(|n| n).ordered(|n| sum += n).run().unwrap();
            sum
        },
        499_500,
    ),
];

#[test]
fn loops_and_pipelines_run_to_their_ends_in_any_place_of_a_task() {
    type Call = fn(Sum) -> u64;
    let places: [(&str, Call); 3] = [
        ("inside no_suspend", |sum| no_suspend(sum)),
        ("in a destructor while unwinding", |sum| while_unwinding(sum)),
        ("in a bare coroutine", |sum| {
            let coroutine = Coroutine::<(), (), u64>::new(move |_, ()| sum());
            coroutine.resume(()).unwrap().returned().unwrap()
        }),
    ];
    in_task(|_| {
        for (place, call) in places {
            for (kind, sum, expected) in SUMS {
                assert_eq!(call(sum), expected, "{kind} {place}");
            }
        }
    });
}

#[test]
fn loops_and_pipelines_begun_in_a_cancelled_task_do_nothing() {
    with_each(|rt| {
        let (sender, receiver) = mpsc::channel();
        rt.block_on(move || {
            let begun = Flag::new();
            let task = spawn(move || {
                begun.set();
                assert!(park().is_err());
                let drops = Drops::new();
                let items = || vec![drops.guard(), drops.guard()];
                let never = |_: Guard| -> u8 { panic!("cancelled") };
                let source = std::iter::from_fn(|| -> Option<()> { panic!("the source is asked") });
                let results = [
                    par::for_each(0..10, |_| panic!("cancelled")),
                    par::map_collect(items(), never).map(drop),
                    par::any(0..0, |_| true).map(drop),
                    pipeline(source).run(),
                    pipeline(items()).parallel(drop).run(),
                ];
                sender.send((results, drops.left())).unwrap();
            });
            begun.wait();
            task.cancel("before they begin");
        });
        let (results, left) = receiver.recv().unwrap();
        for result in results {
            assert_eq!(result.unwrap_err().reason().to_string(), "before they begin");
        }
        assert_eq!(left, 0);
    });
}

#[test]
fn the_end_of_a_runtime_cuts_loops_and_pipelines_short() {
    /// Has no end of its own, and calls the closure for each item.
    type Endless = fn(&(dyn Fn() + Sync)) -> Result<(), Cancelled>;
    let endless: [(&str, Endless); 2] = [
        ("a loop", |visit| par::for_each(0..=u64::MAX, |_| visit())),
        ("a pipeline", |visit| pipeline(0_u64..).parallel(|_| visit()).run()),
    ];
    for (kind, run) in endless {
        with_own_of(&[1, 2, 8], |rt| {
            let begun = Arc::new(AtomicBool::new(false));
            let (sender, receiver) = mpsc::channel();
            for _ in 0..3 {
                let (begun, sender) = (begun.clone(), sender.clone());
                rt.spawn(move || {
                    let result = run(&|| {
                        begun.store(true, Ordering::SeqCst);
                        common::spin_loop();
                    });
                    let _ = sender.send(result);
                })
                .detach();
            }
            drop(sender);
            eventually("one of them has begun", || begun.load(Ordering::SeqCst));
            drop(rt);
            // Tasks that had not begun are dropped uncalled.
            assert!(receiver.iter().all(|result| result.is_err()), "{kind}");
        });
    }
}
