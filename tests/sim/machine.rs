//! The model of a machine: its prices, its cores, and where the time goes.

use crate::common::prelude::*;
use crate::{assert_same_in_processes, on_machine};
use cygnet::sim::{Machine, Measured, Reason, compute, now, thread};
use cygnet::sync::{Barrier, Mutex, RwLock, Semaphore};

const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// A machine on which only computing takes noticeable time.
fn free(cores: usize) -> Machine {
    let machine = Machine::new(cores).update(Duration::ZERO).near(Duration::ZERO);
    let machine = machine.far(Duration::ZERO).fence(Duration::ZERO).barrier(Duration::ZERO);
    let machine = machine.interrupt(Duration::ZERO).clock(Duration::ZERO).sleep(Duration::ZERO);
    machine.wake(Duration::ZERO).wake_up(Duration::ZERO).start(Duration::ZERO).yields(NS)
}

/// Returns how long `threads` threads take to compute for `time` each.
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
    // The thread that waits for the others has no core meanwhile.
    assert_about(threads_compute(&free(8), 8, MS).0, MS);
}

#[test]
fn threads_without_cores_of_their_own_take_turns() {
    assert_about(threads_compute(&free(1), 8, MS).0, 8 * MS);
    assert_about(threads_compute(&free(2), 8, 10 * MS).0, 40 * MS);
    let (_, measured) = threads_compute(&free(2).slice(MS), 4, 10 * MS);
    let queued: Duration = measured.threads.iter().map(|thread| thread.queueing).sum();
    // Two threads have cores at a time: 40 ms of computing take 20 ms, and each has waited for half
    // of that.
    assert_about(queued, 4 * 10 * MS);
}

#[test]
fn a_thread_that_sleeps_takes_no_core() {
    let mut took = Duration::ZERO;
    let measured = free(2).run(|| {
        let start = now();
        // The sleepers share the second core.
        let sleepers: Vec<_> = (0..4).map(|_| thread::spawn(|| thread::sleep(10 * MS))).collect();
        compute(10 * MS);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        took = now() - start;
    });
    let measured = measured.unwrap();
    assert_about(took, 10 * MS);
    let of_test = measured.threads.first().unwrap();
    assert_about(of_test.computing, 10 * MS);
}

#[test]
fn the_times_of_a_thread_add_up_to_the_time_of_the_run() {
    let ((), measured) = on_machine(&Machine::new(4), 6, || {
        cygnet::par::for_each(0..100, |_| compute(20 * US)).unwrap();
    });
    let whole = measured.run.time;
    let computed: Duration = measured.threads.iter().map(|thread| thread.computing).sum();
    assert_eq!(computed, 100 * 20 * US);
    assert_eq!(measured.threads.len(), 7);
    let mut searched = Duration::ZERO;
    for thread in &measured.threads {
        let sum = thread.computing + thread.working + thread.searching;
        let sum = sum + thread.queueing + thread.sleeping;
        // Threads other than the first have begun later, and ended sooner.
        assert!(sum <= whole && sum > whole / 2, "{}: {sum:?} of {whole:?}", thread.name);
        searched += thread.searching;
    }
    let of_test = measured.threads.first().unwrap();
    assert_eq!(of_test.name, "test");
    assert!(searched > Duration::ZERO);
    assert!(measured.wakes > 0 && measured.moves > 0 && !measured.places.is_empty());
}

/// Has `threads` threads lock a mutex a thousand times each.
fn threads_lock(machine: &Machine, threads: usize) -> Measured {
    let measured = machine.run(|| {
        let mutex = Mutex::new(0);
        let locks = || {
            for _ in 0..1_000 {
                *mutex.lock().unwrap() += 1;
                compute(100 * NS);
            }
        };
        thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(locks))));
    });
    measured.unwrap()
}

#[test]
fn a_line_that_several_cores_write_moves_and_costs() {
    let alone = threads_lock(&Machine::new(1), 1);
    assert_eq!(alone.moves, 0);
    let near = threads_lock(&Machine::new(2), 2);
    assert!(near.moves > 500, "{} moves", near.moves);
    let far = threads_lock(&Machine::new(2).sockets(2), 2);
    assert!(far.run.time > near.run.time);
    let places = near.places;
    assert!(places.is_sorted_by(|a, b| a.lost >= b.lost));
    assert!(places[0].location.file().contains("mutex"), "{}", places[0].location);
}

#[test]
fn a_run_ends_with_the_thread_whose_clock_is_last() {
    for computes in 1..100 {
        let measured = Machine::new(2).near(MS).update(MS).hit(MS).run(|| {
            let mutex = Arc::new(Mutex::new(0));
            *mutex.lock().unwrap() += 1;
            // It is not joined, and its last step takes a line from here.
            drop(thread::spawn(move || *mutex.lock().unwrap() += 1));
            compute(computes * 200 * US);
        });
        let measured = measured.unwrap();
        let whole = measured.run.time;
        for thread in &measured.threads {
            let sum = thread.computing + thread.working + thread.sleeping;
            assert!(sum <= whole, "{} of {computes}: {sum:?} of {whole:?}", thread.name);
        }
    }
}

#[test]
fn a_move_that_costs_nothing_is_one() {
    let moves = threads_lock(&free(2), 2).moves;
    assert!(moves > 500, "{moves} moves");
}

/// Four sockets have two, one, one and one of five cores. Threads take the first core that is free:
/// the last two threads here have the third and the fourth.
#[test]
fn cores_are_divided_as_evenly_as_they_can_be() {
    let took = |sockets| {
        let mut took = Duration::ZERO;
        let machine = Machine::new(5).sockets(sockets).near(MS).far(100 * MS);
        let run = machine.run(|| {
            let mutex = Arc::new(Mutex::new(0));
            let locks = |after: Duration| {
                thread::spawn(own(&mutex, move |mutex| {
                    compute(after);
                    let start = now();
                    *mutex.lock().unwrap() += 1;
                    now() - start
                }))
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
fn computing_while_unwinding_takes_its_time() {
    let computes = || {
        let start = now();
        compute(Duration::from_secs(1_000));
        assert!(now() - start >= Duration::from_secs(1_000));
    };
    let measured = Machine::new(2).run(|| {
        let thread = thread::spawn(move || {
            let _computes = OnDrop(computes);
            panic!("unwinds");
        });
        assert!(thread.join().is_err());
    });
    assert!(measured.unwrap().run.time >= Duration::from_secs(1_000));
}

#[test]
fn a_sleep_longer_than_a_clock_can_show_never_ends() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let sleeps = |time| Machine::new(2).most_steps(10_000).run(move || thread::sleep(time));
    assert!(sleeps(200 * year).unwrap().run.time >= 200 * year);
    for time in [300 * year, Duration::from_nanos(u64::MAX), 1_000 * year, Duration::MAX] {
        assert_eq!(sleeps(time).unwrap_err().reason, Reason::Deadlock, "{time:?}");
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

#[test]
fn a_program_takes_the_same_time_in_each_process() {
    assert_same_in_processes(20, || {
        let ((), measured) = on_machine(&Machine::new(3).seed(7), 4, || {
            let tasks: Vec<_> = (0..50).map(|_| cygnet::spawn(|| compute(US))).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            cygnet::sleep(MS).unwrap();
            cygnet::join(|| compute(MS), || compute(2 * MS));
        });
        format!("{:?} {}", measured.run, measured.moves)
    });
}

#[test]
fn a_program_that_fails_says_how() {
    let fails = |program: fn()| *Machine::new(2).most_steps(10_000).run(program).unwrap_err();
    let failed = fails(|| panic!("a mistake"));
    assert_eq!(failed.reason, Reason::Panicked("a mistake".to_owned()));
    assert_eq!(fails(thread::park).reason, Reason::Deadlock);
    let endless = || {
        let thread = thread::spawn(|| {
            loop {
                thread::yield_now();
            }
        });
        let _: Result<(), _> = thread.join();
    };
    assert_eq!(fails(endless).reason, Reason::TooManySteps);
}

#[test]
fn machines_that_cannot_be_are_refused() {
    type Make = fn() -> Machine;
    let refused: [(&str, Make); 10] = [
        ("a machine without cores cannot", || Machine::new(0)),
        ("4096 at most", || Machine::new(4_097)),
        ("4096 at most", || Machine::new(usize::MAX)),
        ("no more than cores", || Machine::new(2).sockets(3)),
        ("at least one", || Machine::new(2).sockets(0)),
        ("time would stand still", || Machine::new(1).hit(Duration::ZERO)),
        ("time would stand still", || Machine::new(1).spin(Duration::ZERO)),
        ("time would stand still", || Machine::new(1).yields(Duration::ZERO)),
        ("time would stand still", || Machine::new(1).slice(Duration::ZERO)),
        ("must not exceed an hour", || Machine::new(1).wake_up(Duration::MAX)),
    ];
    for (why, make) in refused {
        let text = panic_of(make);
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn a_computation_without_end_is_refused() {
    let failed = Machine::new(1).run(|| compute(Duration::MAX)).unwrap_err();
    let outside = Reason::Panicked(panic_of(|| compute(Duration::MAX)));
    for reason in [&failed.reason, &outside] {
        let Reason::Panicked(text) = reason else { panic!("{reason:?}") };
        assert!(text.contains("must not exceed a year"), "{text}");
    }
}

#[test]
fn computing_takes_real_time_outside_of_a_simulation_and_moves_its_clock_inside() {
    let start = std::time::Instant::now();
    compute(5 * MS);
    assert!(start.elapsed() >= 5 * MS);
    let inside = || {
        let start = now();
        compute(MS);
        assert!(now() - start >= MS);
    };
    cygnet::sim::run(1, inside).unwrap();
}

#[test]
fn tasks_that_meet_and_compute_are_shared_evenly_if_their_parent_joins_one_first() {
    let (took, _) = on_machine(&Machine::new(2), 2, || {
        let mut took = Duration::ZERO;
        // Workers learn in the first rounds what such tasks are like.
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
        took
    });
    // Five of them on one worker would take 5 ms.
    assert!(took < 4 * MS + MS / 2, "{took:?}");
}

#[test]
fn a_waiter_whose_worker_computes_is_not_passed_for_long() {
    let (waited, _) = on_machine(&free(1), 1, || {
        let mutex = &Mutex::new(());
        cygnet::scope(|s| {
            let waiter = s.spawn(move || {
                let start = now();
                drop(mutex.lock().unwrap());
                now() - start
            });
            let guard = mutex.lock().unwrap();
            // Often enough for the waiter to come to its turn, and wait.
            (0..200).for_each(|_| cygnet::yield_now().unwrap());
            drop(guard);
            // The waiter has been called, and its worker comes back to the mutex again and again.
            for _ in 0..200 {
                compute(MS / 10);
                drop(mutex.lock().unwrap());
            }
            waiter.join().unwrap()
        })
    });
    assert!((MS / 2..2 * MS).contains(&waited), "{waited:?}");
}

/// Two tasks of one worker have waited for a lock, and wait for their worker, which computes for a
/// tenth of a second. Returns how long it takes meanwhile to use the lock 6,000 times on the other
/// worker, with 10 us between.
fn use_beside_a_worker_that_computes<L: Send + Sync + 'static>(
    lock: L,
    within: fn(&L, &mut dyn FnMut()),
) -> Duration {
    let body = || {
        let (lock, ends, started) = (Arc::new(lock), Flag::new(), Flag::new());
        let meet = &Barrier::new(2);
        cygnet::scope(|s| {
            let shared = lock.clone();
            let other = s.spawn(move || {
                started.set();
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
                // The other worker takes the task.
                while !started.get() {
                    compute(US);
                }
                // The idler is ready all the time, so another task could run here.
                idler = Some(cygnet::spawn_local(move || {
                    while !ends.get() {
                        cygnet::yield_now().unwrap();
                    }
                }));
                meet.wait().unwrap();
                meet.wait().unwrap();
            });
            let start = now();
            for _ in 0..6_000 {
                compute(10 * US);
                within(&lock, &mut || ());
            }
            let took = now() - start;
            ends.set();
            idler.expect("spawned above").join().unwrap();
            other.join().unwrap();
            took
        })
    };
    on_machine(&free(2), 2, body).0
}

#[test]
fn locks_whose_waiters_wait_for_a_worker_that_computes_are_used_by_others() {
    let mutex = use_beside_a_worker_that_computes(Mutex::new(()), |lock, f| {
        let _guard = lock.lock().unwrap();
        f();
    });
    // It is not handed over to one of the two waiters, not even at the 4,096th unlock, nor left to
    // them.
    assert!(mutex < 80 * MS, "a mutex: {mutex:?}");
    let semaphore = use_beside_a_worker_that_computes(Semaphore::new(1), |lock, f| {
        let _permit = lock.acquire().unwrap();
        f();
    });
    assert!(semaphore < 80 * MS, "a semaphore: {semaphore:?}");
    let writers = use_beside_a_worker_that_computes(RwLock::new(()), |lock, f| {
        let _guard = lock.write().unwrap();
        f();
    });
    assert!(writers < 80 * MS, "a reader-writer lock: {writers:?}");
}
