//! A machine that is not there: its prices, its cores, and where the time goes.

use crate::common::rerun::{rerun, role};
use cygnet::Runtime;
use cygnet::sim::{Machine, Measured, Reason, compute, now, thread};
use cygnet::sync::{Barrier, Mutex, RwLock, Semaphore};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// A machine on which nothing but computing takes any time to speak of.
fn free(cores: usize) -> Machine {
    let machine = Machine::new(cores).update(Duration::ZERO).near(Duration::ZERO);
    let machine = machine.far(Duration::ZERO).fence(Duration::ZERO).barrier(Duration::ZERO);
    let machine = machine.interrupt(Duration::ZERO).clock(Duration::ZERO).sleep(Duration::ZERO);
    machine.wake(Duration::ZERO).wake_up(Duration::ZERO).start(Duration::ZERO).yields(NS)
}

/// What it takes for so many threads to compute so long each.
fn threads_compute(machine: &Machine, threads: usize, time: Duration) -> (Duration, Measured) {
    let mut took = Duration::ZERO;
    let measured = machine.run(|| {
        let start = now();
        let threads: Vec<_> = (0..threads).map(|_| thread::spawn(move || compute(time))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        took = now() - start;
    });
    (took, measured.unwrap())
}

#[track_caller]
fn assert_about(took: Duration, expected: Duration) {
    let (took, expected) = (took.as_secs_f64(), expected.as_secs_f64());
    assert!((took / expected - 1.0).abs() < 0.01, "{took} instead of {expected}");
}

#[test]
fn threads_on_cores_of_their_own_compute_at_the_same_time() {
    // The one that waits for the others has no core meanwhile.
    assert_about(threads_compute(&free(8), 8, MS).0, MS);
}

#[test]
fn threads_without_cores_of_their_own_take_turns() {
    assert_about(threads_compute(&free(1), 8, MS).0, 8 * MS);
    assert_about(threads_compute(&free(2), 8, 10 * MS).0, 40 * MS);
    let (_, measured) = threads_compute(&free(2).slice(MS), 4, 10 * MS);
    let queued: Duration = measured.threads().map(|thread| thread.queueing()).sum();
    // Two have cores at a time: 40 ms of computing take 20 ms, and each has waited for half of them.
    assert_about(queued, 4 * 10 * MS);
}

#[test]
fn a_thread_that_sleeps_takes_no_core() {
    let mut took = Duration::ZERO;
    let measured = free(2).run(|| {
        let start = now();
        // They share the second core.
        let sleepers: Vec<_> = (0..4).map(|_| thread::spawn(|| thread::sleep(10 * MS))).collect();
        compute(10 * MS);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        took = now() - start;
    });
    let measured = measured.unwrap();
    assert_about(took, 10 * MS);
    let of_test = measured.threads().next().unwrap();
    assert_about(of_test.computing(), 10 * MS);
}

#[test]
fn what_a_thread_does_adds_up_to_its_time() {
    let measured = Machine::new(4).run(|| {
        let rt = Runtime::builder().workers(6).build().unwrap();
        rt.block_on(|| cygnet::par::for_each(0..100, |_| compute(20 * US)).unwrap());
    });
    let measured = measured.unwrap();
    let whole = measured.run().time();
    let computed: Duration = measured.threads().map(|thread| thread.computing()).sum();
    assert_eq!(computed, 100 * 20 * US);
    assert_eq!(measured.threads().count(), 7);
    let mut searched = Duration::ZERO;
    for thread in measured.threads() {
        let sum = thread.computing() + thread.working() + thread.searching();
        let sum = sum + thread.queueing() + thread.sleeping();
        // The others have begun later, and ended sooner.
        assert!(sum <= whole && sum > whole / 2, "{}: {sum:?} of {whole:?}", thread.name());
        searched += thread.searching();
    }
    let of_test = measured.threads().next().unwrap();
    assert_eq!(of_test.name(), "test");
    assert!(searched > Duration::ZERO);
    assert!(measured.wakes() > 0 && measured.moves() > 0 && measured.places().count() > 0);
}

/// What it takes for so many threads to lock a mutex a thousand times.
fn threads_lock(machine: &Machine, threads: usize) -> Measured {
    let measured = machine.run(|| {
        let mutex = std::sync::Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let mutex = std::sync::Arc::clone(&mutex);
                thread::spawn(move || {
                    for _ in 0..1_000 {
                        *mutex.lock().unwrap() += 1;
                        compute(100 * NS);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    measured.unwrap()
}

#[test]
fn a_line_that_several_cores_write_moves_and_costs() {
    let alone = threads_lock(&Machine::new(1), 1);
    assert_eq!(alone.moves(), 0);
    let near = threads_lock(&Machine::new(2), 2);
    assert!(near.moves() > 500, "{} moves", near.moves());
    let far = threads_lock(&Machine::new(2).sockets(2), 2);
    assert!(far.run().time() > near.run().time());
    let places: Vec<_> = near.places().collect();
    assert!(places.is_sorted_by(|a, b| a.lost() >= b.lost()));
    assert!(places[0].location().file().contains("mutex"), "{}", places[0].location());
}

#[test]
fn a_run_ends_with_the_thread_whose_clock_is_last() {
    for computes in 1..100 {
        let measured = Machine::new(2).near(MS).update(MS).hit(MS).run(|| {
            let mutex = std::sync::Arc::new(Mutex::new(0));
            *mutex.lock().unwrap() += 1;
            // Nobody joins it, and the last that it does takes a line from here.
            drop(thread::spawn(move || *mutex.lock().unwrap() += 1));
            compute(computes * 200 * US);
        });
        let measured = measured.unwrap();
        let whole = measured.run().time();
        for thread in measured.threads() {
            let sum = thread.computing() + thread.working() + thread.sleeping();
            assert!(sum <= whole, "{} of {computes}: {sum:?} of {whole:?}", thread.name());
        }
    }
}

#[test]
fn a_move_that_costs_nothing_is_one() {
    let moves = threads_lock(&free(2), 2).moves();
    assert!(moves > 500, "{moves} moves");
}

#[test]
fn cores_are_divided_as_evenly_as_they_can_be() {
    // Four sockets have two, one, one and one of five cores. Threads take the first core that is free: the last two that are started here have the third and the fourth.
    let took = |sockets| {
        let mut took = Duration::ZERO;
        let machine = Machine::new(5).sockets(sockets).near(MS).far(100 * MS);
        let run = machine.run(|| {
            let mutex = std::sync::Arc::new(Mutex::new(0));
            let locks = |after: Duration| {
                let mutex = std::sync::Arc::clone(&mutex);
                thread::spawn(move || {
                    compute(after);
                    let start = now();
                    *mutex.lock().unwrap() += 1;
                    now() - start
                })
            };
            let idle = [(); 2].map(|()| thread::spawn(|| compute(Duration::from_secs(100))));
            let writes = locks(Duration::ZERO);
            let reads = locks(Duration::from_secs(10));
            writes.join().unwrap();
            took = reads.join().unwrap();
            idle.into_iter().for_each(|idle| idle.join().unwrap());
        });
        run.unwrap();
        took
    };
    assert!(took(1) < 50 * MS, "{:?}", took(1));
    assert!(took(4) > 50 * MS, "{:?}", took(4));
}

#[test]
fn who_computes_while_it_unwinds_takes_its_time() {
    struct Computes;
    impl Drop for Computes {
        fn drop(&mut self) {
            let start = now();
            compute(Duration::from_secs(1_000));
            assert!(now() - start >= Duration::from_secs(1_000));
        }
    }
    let measured = Machine::new(2).run(|| {
        let thread = thread::spawn(|| {
            let _computes = Computes;
            panic!("unwinds");
        });
        assert!(thread.join().is_err());
    });
    assert!(measured.unwrap().run().time() >= Duration::from_secs(1_000));
}

#[test]
fn who_sleeps_for_longer_than_a_clock_can_show_sleeps_for_ever() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let sleeps = |time| Machine::new(2).most_steps(10_000).run(move || thread::sleep(time));
    assert!(sleeps(200 * year).unwrap().run().time() >= 200 * year);
    for time in [300 * year, Duration::from_nanos(u64::MAX), 1_000 * year, Duration::MAX] {
        assert_eq!(*sleeps(time).unwrap_err().reason(), Reason::Deadlock, "{time:?}");
    }
}

#[test]
fn a_machine_has_as_many_processors_as_cores() {
    for cores in [1, 3, 70] {
        let mut workers = 0;
        let run = Machine::new(cores).run(|| {
            workers = Runtime::new().unwrap().workers();
        });
        run.unwrap();
        assert_eq!(workers, cores);
    }
}

/// A bit of all, and what a machine makes of it.
fn a_program_on_a_machine() -> String {
    let measured = Machine::new(3).seed(7).run(|| {
        let rt = Runtime::builder().workers(4).build().unwrap();
        rt.block_on(|| {
            let tasks: Vec<_> = (0..50).map(|_| cygnet::spawn(|| compute(US))).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            cygnet::sleep(MS).unwrap();
            cygnet::join(|| compute(MS), || compute(2 * MS));
        });
    });
    let measured = measured.unwrap();
    format!("{:?} {}", measured.run(), measured.moves())
}

#[test]
fn a_program_takes_the_same_time_in_each_process() {
    if role().is_some() {
        println!("[{}]", a_program_on_a_machine());
        return;
    }
    let name = "machine::a_program_takes_the_same_time_in_each_process";
    let results: std::collections::BTreeSet<_> = (0..20)
        .map(|_| {
            let output = rerun(name, "program");
            let said = String::from_utf8(output.stdout).unwrap();
            let (_, result) = said.split_once('[').unwrap();
            result.split_once(']').unwrap().0.to_owned()
        })
        .collect();
    assert_eq!(results.len(), 1, "{results:#?}");
}

#[test]
fn a_program_that_fails_says_how() {
    let failed = Machine::new(2).run(|| panic!("a mistake")).unwrap_err();
    assert_eq!(*failed.reason(), Reason::Panicked("a mistake".to_owned()));
    let failed = Machine::new(2).run(thread::park).unwrap_err();
    assert_eq!(*failed.reason(), Reason::Deadlock);
    let endless = || {
        let thread = thread::spawn(|| {
            loop {
                thread::yield_now();
            }
        });
        let _: Result<(), _> = thread.join();
    };
    let failed = Machine::new(2).most_steps(10_000).run(endless).unwrap_err();
    assert_eq!(*failed.reason(), Reason::TooManySteps);
}

#[test]
fn machines_that_cannot_be_are_refused() {
    #[track_caller]
    fn assert_refused(why: &str, make: impl FnOnce() -> Machine + std::panic::UnwindSafe) {
        let panic = catch_unwind(make).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let text = text.unwrap();
        assert!(text.contains(why), "{text}");
    }
    assert_refused("a machine without cores cannot", || Machine::new(0));
    assert_refused("4096 at most", || Machine::new(4_097));
    assert_refused("4096 at most", || Machine::new(usize::MAX));
    assert_refused("no more than cores", || Machine::new(2).sockets(3));
    assert_refused("at least one", || Machine::new(2).sockets(0));
    for make in [Machine::hit, Machine::spin, Machine::yields, Machine::slice] {
        assert_refused("time would stand still", move || make(Machine::new(1), Duration::ZERO));
    }
    assert_refused("must not exceed an hour", || Machine::new(1).wake_up(Duration::MAX));
}

#[test]
fn a_computation_without_end_is_refused() {
    let failed = Machine::new(1).run(|| compute(Duration::MAX)).unwrap_err();
    let refused = |reason: &Reason| matches!(reason, Reason::Panicked(text) if text.contains("must not exceed a year"));
    assert!(refused(failed.reason()), "{failed}");
    assert!(catch_unwind(|| compute(Duration::MAX)).is_err());
}

#[test]
fn computing_outside_of_a_simulation_takes_real_time() {
    let start = std::time::Instant::now();
    compute(5 * MS);
    assert!(start.elapsed() >= 5 * MS);
}

#[test]
fn computing_moves_the_clock_of_a_simulation() {
    cygnet::sim::run(1, || {
        let start = now();
        compute(MS);
        assert!(now() - start >= MS);
    })
    .unwrap();
}

#[test]
fn tasks_that_meet_and_compute_are_shared_evenly_also_if_their_parent_joins_one_first() {
    let mut took = Duration::ZERO;
    let measured = Machine::new(2).run(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        rt.block_on(|| {
            // What such tasks are like is not known in the first rounds.
            for _ in 0..3 {
                let start = now();
                let barrier = Barrier::new(8);
                let meet_and_compute = || {
                    barrier.wait().unwrap();
                    compute(MS);
                };
                cygnet::scope(|s| {
                    let tasks: Vec<_> = (0..8).map(|_| s.spawn(meet_and_compute)).collect();
                    tasks.into_iter().for_each(|task| task.join().unwrap());
                });
                took = now() - start;
            }
        });
    });
    measured.unwrap();
    // Five of them on one worker would take 5 ms.
    assert!(took < 4 * MS + MS / 2, "{took:?}");
}

#[test]
fn a_waiter_whose_worker_computes_is_not_passed_for_long() {
    let mut waited = Duration::ZERO;
    let measured = free(1).run(|| {
        let rt = Runtime::builder().workers(1).build().unwrap();
        rt.block_on(|| {
            let mutex = &Mutex::new(());
            cygnet::scope(|s| {
                let waiter = s.spawn(move || {
                    let start = now();
                    drop(mutex.lock().unwrap());
                    now() - start
                });
                let guard = mutex.lock().unwrap();
                // Often enough for the other one to come to its turn, and wait.
                (0..200).for_each(|_| cygnet::yield_now().unwrap());
                drop(guard);
                // It has been called, and its worker comes back to the mutex again and again.
                for _ in 0..200 {
                    compute(MS / 10);
                    drop(mutex.lock().unwrap());
                }
                waited = waiter.join().unwrap();
            });
        });
    });
    measured.unwrap();
    assert!((MS / 2..2 * MS).contains(&waited), "{waited:?}");
}

/// Two tasks of one worker have waited for a lock, and wait for their worker, which computes for a tenth of a second.
/// How long it takes meanwhile to use the lock `rounds` times on the other worker, with 10 us between.
fn use_beside_a_worker_that_computes<L: Send + Sync + 'static>(
    lock: L,
    rounds: u32,
    within: fn(&L, &mut dyn FnMut()),
) -> Duration {
    let mut took = Duration::ZERO;
    let measured = free(2).run(|| {
        let rt = Runtime::builder().workers(2).build().unwrap();
        rt.block_on(|| {
            let (lock, ends) = (Arc::new(lock), Arc::new(AtomicBool::new(false)));
            let (meet, started) = (&Barrier::new(2), &AtomicBool::new(false));
            cygnet::scope(|s| {
                let shared = lock.clone();
                let other = s.spawn(move || {
                    started.store(true, Ordering::Relaxed);
                    let waiter = || {
                        let lock = shared.clone();
                        cygnet::spawn_local(move || within(&lock, &mut || ()))
                    };
                    let waiters = [waiter(), waiter()];
                    meet.wait().unwrap();
                    // Both wait for the lock, and then for this worker.
                    (0..200).for_each(|_| cygnet::yield_now().unwrap());
                    meet.wait().unwrap();
                    compute(100 * MS);
                    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
                });
                let mut idler = None;
                within(&lock, &mut || {
                    // The other worker takes it.
                    while !started.load(Ordering::Relaxed) {
                        compute(US);
                    }
                    // It is ready all the time, so somebody else could run here.
                    let ready = ends.clone();
                    idler = Some(cygnet::spawn_local(move || {
                        while !ready.load(Ordering::Relaxed) {
                            cygnet::yield_now().unwrap();
                        }
                    }));
                    meet.wait().unwrap();
                    meet.wait().unwrap();
                });
                let start = now();
                for _ in 0..rounds {
                    compute(10 * US);
                    within(&lock, &mut || ());
                }
                took = now() - start;
                ends.store(true, Ordering::Relaxed);
                idler.expect("spawned above").join().unwrap();
                other.join().unwrap();
            });
        });
    });
    measured.unwrap();
    took
}

#[test]
fn locks_whose_waiters_wait_for_a_worker_that_computes_are_used_by_others() {
    let mutex = use_beside_a_worker_that_computes(Mutex::new(()), 6_000, |lock, f| {
        let _guard = lock.lock().unwrap();
        f();
    });
    // It is not handed over to one of those two, not even at the 4,096th unlock, nor left to them.
    assert!(mutex < 80 * MS, "a mutex: {mutex:?}");
    let semaphore = use_beside_a_worker_that_computes(Semaphore::new(1), 6_000, |lock, f| {
        let _permit = lock.acquire().unwrap();
        f();
    });
    assert!(semaphore < 80 * MS, "a semaphore: {semaphore:?}");
    let writers = use_beside_a_worker_that_computes(RwLock::new(()), 6_000, |lock, f| {
        let _guard = lock.write().unwrap();
        f();
    });
    assert!(writers < 80 * MS, "a reader-writer lock: {writers:?}");
}
