//! Pipelines that run to their ends: every kind of stage, order, limits, waits, nesting. Pipelines
//! that end early are in `pipeline_endings`.

use crate::common::prelude::*;
use cygnet::sync;
use std::convert::Infallible;

/// Passes an item on, and adds it to a list.
fn noted<T: Copy>(list: &mut Vec<T>, item: T) -> T {
    list.push(item);
    item
}

/// Adds a stage of one of the three kinds.
macro_rules! stage {
    ($pipeline:expr, $kind:expr, $f:expr, $then:expr) => {
        match $kind {
            0 => $then($pipeline.parallel($f)),
            1 => $then($pipeline.serial($f)),
            _ => $then($pipeline.ordered($f)),
        }
    };
}

#[test]
fn any_stages_with_any_limit_give_the_result_of_plain_calls() {
    in_task(|_| {
        let mut random = Random(1);
        (0..scaled_in_debug(200)).for_each(|_| any_stages(&mut random));
    });
}

/// Runs three stages of random kinds. The last one collects the items, in order if it is an ordered
/// stage.
fn any_stages(random: &mut Random) {
    let kinds = [0; 3].map(|_| random.below(3));
    let items = [0, 1, 2, 5, 40, 200][random.below(6) as usize];
    let limit = [1, 2, 3, 7, 64, usize::MAX][random.below(6) as usize];
    let restless = random.below(4);
    let drops = Drops::new();
    let seen = common::Mutex::new(Vec::new());
    let step = |stage: u64| {
        move |(n, guard): (u64, common::drops::Guard)| {
            if (n + stage) % 4 < restless {
                cygnet::yield_now().unwrap();
            }
            (n * 3 + stage, guard)
        }
    };
    let last = |(n, _guard)| seen.lock().unwrap().push(n);
    let source = (0..items).map(|n| (n, drops.guard()));
    let first = pipeline(source).in_flight(limit);
    let result = stage!(first, kinds[0], step(1), |p: Pipeline<_, _>| {
        stage!(p, kinds[1], step(2), |p: Pipeline<_, _>| {
            stage!(p, kinds[2], last, |p: Pipeline<_, Infallible>| p.run())
        })
    });
    assert_eq!(result, Ok(()));
    assert_eq!(drops.count(), items as usize);
    let mut seen = seen.into_inner().unwrap();
    if kinds[2] != 2 {
        seen.sort();
    }
    assert!(seen.into_iter().eq((0..items).map(|n| (n * 3 + 1) * 3 + 2)), "{kinds:?} {items}");
}

#[test]
fn ordered_stages_around_a_parallel_one_have_the_order_of_the_source() {
    in_task_and_many(|_| {
        let items = scaled(10_000);
        let (mut first, mut last) = (Vec::new(), Vec::new());
        pipeline(0..items)
            .ordered(|n| noted(&mut first, n))
            .parallel(|n| {
                (0..n % 7).for_each(|_| spin_loop());
                n
            })
            .ordered(|n| last.push(n))
            .run()
            .unwrap();
        assert!(first.into_iter().eq(0..items));
        assert!(last.into_iter().eq(0..items));
    });
}

#[test]
fn a_serial_stage_has_one_item_at_a_time() {
    in_task(|_| {
        let items = scaled(2_000);
        let (inside, mut reached, mut left) = (AtomicUsize::new(0), Vec::new(), Vec::new());
        pipeline(0..items)
            .parallel(|n| n)
            .serial(|n| noted(&mut reached, n))
            .serial(|n| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                if n % 16 == 0 {
                    cygnet::yield_now().unwrap();
                }
                left.push(n);
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            })
            .run()
            .unwrap();
        // Nothing overtakes between two serial stages but where it is on its way from one to
        // the other.
        assert_eq!(left.len(), items);
        reached.sort();
        left.sort();
        assert_eq!(reached, left);
    });
}

#[test]
fn on_one_worker_items_that_wait_for_a_serial_stage_enter_it_as_they_came() {
    in_task_with(&[1], |_| {
        let (gate, arrived) = (Event::new(), AtomicUsize::new(0));
        let (mut order, come) = (Vec::new(), common::Mutex::new(Vec::new()));
        pipeline(0..10)
            .in_flight(10)
            .parallel(|n| {
                // The first item is in the next stage already when the others come.
                if n > 0 {
                    sleep(Duration::from_millis(10 - n)).unwrap();
                }
                come.lock().unwrap().push(n);
                if arrived.fetch_add(1, Ordering::SeqCst) == 9 {
                    gate.set();
                }
                n
            })
            .serial(|n| {
                gate.wait().unwrap();
                order.push(n);
            })
            .run()
            .unwrap();
        assert_eq!(order, come.into_inner().unwrap());
    });
}

#[test]
fn as_many_items_are_in_flight_as_are_allowed_and_no_more() {
    with_each(|rt| {
        let workers = rt.metrics().workers.len();
        let usual = (4 * workers).max(16);
        for limit in [Some(1), Some(2), Some(5), None] {
            let most = limit.unwrap_or(usual);
            rt.block_on(|| {
                let (taken, ended, full) = (AtomicUsize::new(0), AtomicUsize::new(0), Event::new());
                let source = (0..3 * most).inspect(|_| {
                    let under_way = taken.load(Ordering::SeqCst) - ended.load(Ordering::SeqCst);
                    assert!(under_way < most);
                    taken.fetch_add(1, Ordering::SeqCst);
                });
                let items = pipeline(source);
                let items = match limit {
                    Some(limit) => items.in_flight(limit),
                    None => items,
                };
                items
                    .parallel(|n| {
                        // No item goes on before the limit is reached.
                        if n + 1 == most {
                            full.set();
                        }
                        full.wait().unwrap();
                    })
                    .serial(|()| {
                        ended.fetch_add(1, Ordering::SeqCst);
                    })
                    .run()
                    .unwrap();
                assert_eq!(ended.into_inner(), 3 * most);
            });
        }
    });
}

#[test]
fn a_limit_of_no_items_is_a_panic_that_names_the_remedy() {
    let text = panic_of(|| pipeline::<_, Infallible>(0..3).in_flight(0));
    assert_eq!(
        text,
        "cygnet: a pipeline with in_flight(0) would never take an item; allow at least 1"
    );
}

#[test]
fn stages_may_wait_for_time_locks_channels_and_tasks() {
    in_task(|_| {
        let lock = sync::Mutex::new(0_u64);
        let (to, from) = bounded(2);
        let receiver = spawn(move || from.iter().sum::<u64>());
        pipeline(0..50_u64)
            .parallel(|n| {
                sleep(Duration::from_micros(n % 3 * 50)).unwrap();
                *lock.lock().unwrap() += n;
                n
            })
            .serial(|n| {
                sleep(Duration::from_micros(n % 2 * 20)).unwrap();
                n
            })
            .ordered(|n| to.send(n).unwrap())
            .parallel(|()| assert_eq!(spawn(|| 7).join().unwrap(), 7))
            .run()
            .unwrap();
        drop(to);
        assert_eq!(lock.into_inner(), 1_225);
        assert_eq!(receiver.join().unwrap(), 1_225);
    });
}

#[test]
fn a_source_may_wait() {
    in_task(|_| {
        let (to, from) = bounded(1);
        let sender = spawn(move || (0..100).for_each(|n| to.send(n).unwrap()));
        let mut all = Vec::new();
        pipeline(from.iter()).parallel(|n| n).ordered(|n| all.push(n)).run().unwrap();
        assert!(all.into_iter().eq(0..100));
        sender.join().unwrap();
    });
}

#[test]
fn an_empty_pipeline_has_no_steps() {
    in_task(|_| {
        let never = |_: u8| -> u8 { panic!("there is nothing") };
        let none = pipeline([]).parallel(never).serial(never).ordered(never);
        assert_eq!(none.parallel(drop).run(), Ok(()));
        // Without stages.
        assert_eq!(pipeline([(), ()]).run(), Ok(()));
        assert_eq!(pipeline(std::iter::empty::<()>()).run(), Ok(()));
    });
}

#[test]
fn items_of_no_size_are_counted() {
    in_task(|_| {
        let (mut serial, mut ordered) = (0, 0);
        pipeline(std::iter::repeat_n((), 1_000))
            .parallel(|()| ())
            .serial(|()| serial += 1)
            .ordered(|()| ordered += 1)
            .run()
            .unwrap();
        assert_eq!((serial, ordered), (1_000, 1_000));
    });
}

#[test]
fn a_pipeline_inside_a_stage_of_a_pipeline() {
    in_task(|_| {
        let mut sums = Vec::new();
        pipeline(0..40_u64)
            .parallel(|n| {
                let mut sum = 0;
                pipeline(0..n).parallel(|n| n * 2).serial(|n| sum += n).run().unwrap();
                sum
            })
            .ordered(|sum| {
                pipeline([sum]).ordered(|sum| sums.push(sum)).run().unwrap();
            })
            .run()
            .unwrap();
        assert!(sums.into_iter().eq((0..40).map(|n| n * (n.max(1) - 1))));
    });
}

#[test]
fn the_stack_does_not_grow_with_the_number_of_items() {
    in_task(|_| {
        let items = scaled_in_debug(200_000) as u64;
        let mut sum = 0;
        let stages = pipeline(0..items).in_flight(1_000).ordered(|n| n).serial(|n| n);
        stages.ordered(|n| sum += n).run().unwrap();
        assert_eq!(sum, items * (items - 1) / 2);
    });
}

type Numbers<S> = Pipeline<S, Infallible>;

/// Applies `$once` twice: with enough stages some share a place on the board.
macro_rules! twice {
    ($twice:ident, $once:ident) => {
        fn $twice(
            numbers: Numbers<impl Stages<Infallible, Item = u64>>,
        ) -> Numbers<impl Stages<Infallible, Item = u64>> {
            $once($once(numbers))
        }
    };
}

fn add(n: u64) -> u64 {
    n + 1
}

fn two(
    numbers: Numbers<impl Stages<Infallible, Item = u64>>,
) -> Numbers<impl Stages<Infallible, Item = u64>> {
    numbers.ordered(add).serial(add)
}

twice!(four, two);
twice!(eight, four);
twice!(sixteen, eight);
twice!(thirty_two, sixteen);
twice!(sixty_four, thirty_two);

#[test]
fn more_stages_than_places_on_the_board_share_places() {
    in_task_and_many(|_| {
        let items = scaled(1_000) as u64;
        let mut all = Vec::new();
        let stages = sixty_four(pipeline(0..items).in_flight(200));
        four(stages).ordered(|n| all.push(n)).run().unwrap();
        assert!(all.into_iter().eq(68..items + 68));
    });
}

#[test]
fn other_tasks_have_their_turns_while_a_pipeline_goes_on() {
    in_task(|_| {
        let (stop, turns) = (Flag::new(), Count::new());
        cygnet::scope(|s| {
            s.spawn(|| {
                while !stop.get() {
                    turns.up();
                    yield_now().unwrap();
                }
            });
            // A task that sleeps ends the pipeline, when the other task has had a turn.
            s.spawn(|| {
                while turns.get() == 0 {
                    sleep(Duration::from_millis(1)).unwrap();
                }
                stop.set();
            });
            let source = (0..).take_while(|_| !stop.get());
            pipeline(source).ordered(|n: u64| n).parallel(drop).run().unwrap();
        });
    });
}

#[test]
fn a_pipeline_in_a_scope_that_lets_only_descendants_run() {
    in_task(|_| {
        let mut sum = 0;
        cygnet::scope_with(cygnet::Wait::DescendantsOnly, |_| {
            pipeline(0..200)
                .parallel(|n| {
                    cygnet::yield_now().unwrap();
                    n
                })
                .ordered(|n| sum += n)
                .run()
        })
        .unwrap();
        assert_eq!(sum, 19_900);
    });
}

#[test]
fn a_step_has_the_task_locals_of_the_caller() {
    static NAME: cygnet::TaskLocal<u32> = cygnet::TaskLocal::new();
    in_task(|_| {
        NAME.scope(7, || {
            let mut sum = 0;
            pipeline(0..50)
                .parallel(|_| NAME.with(|name| *name.unwrap()))
                .ordered(|n| sum += n)
                .run()
                .unwrap();
            assert_eq!(sum, 350);
        });
    });
}

#[test]
fn one_worker_does_the_stages_of_an_item_one_after_the_other() {
    in_task_with(&[1], |_| {
        let steps = common::Mutex::new(Vec::new());
        let note = |stage: char, n: u32| noted(&mut steps.lock().unwrap(), (stage, n)).1;
        let stages = pipeline(0..3).ordered(|n| note('a', n)).parallel(|n| note('b', n));
        stages.serial(|n| _ = note('c', n)).run().unwrap();
        let steps = steps.into_inner().unwrap();
        assert!(steps.into_iter().eq((0..3).flat_map(|n| ['a', 'b', 'c'].map(|s| (s, n)))));
    });
}
