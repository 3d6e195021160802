//! Settings out of bounds and systems that refuse: each is an error that says what was wrong.

use crate::common::rerun::alone;
use crate::common::{self, within};
use cygnet::{BuildError, Builder, JoinError, Runtime, spawn};

fn refusal(builder: Builder) -> String {
    builder.build().expect_err("it was built").to_string()
}

/// Sanitizers and emulators take address space by the terabyte.
fn limits_mean_nothing() -> bool {
    cfg!(any(cygnet_asan, cygnet_tsan)) || common::emulated()
}

/// Keeps the allocator from mapping an arena for each thread at its first allocation, much more than it
/// keeps: what has been taken is no measure as long as that goes on. Before there are threads.
fn one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no conditions.
    assert_eq!(unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) }, 1);
}

/// Leaves the process so much more address space than it has taken.
fn limit_address_space(more: usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: a query without pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    set_address_space((pages * page + more) as libc::rlim_t);
}

fn set_address_space(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a live description.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Leaves the process only a few threads; false if it may not give up what it is exempt by.
fn limit_threads() -> bool {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: neither call takes a pointer; they change the user of the whole process.
    if unsafe { libc::geteuid() == 0 && libc::setuid(NOBODY) != 0 } {
        return false;
    }
    let limit = libc::rlimit { rlim_cur: 8, rlim_max: 8 };
    // SAFETY: the pointer is to a live description.
    unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &limit) == 0 }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn zero_workers_are_refused_with_the_bounds() {
    let said = refusal(Runtime::builder().workers(0));
    assert!(said.contains("1 to 4096 workers, not 0 (Builder::workers)"), "{said}");
}

#[test]
fn too_many_workers_are_refused_with_the_bounds() {
    for asked in [Builder::MAX_WORKERS + 1, usize::MAX] {
        let said = refusal(Runtime::builder().workers(asked));
        assert!(said.contains(&format!("not {asked}")), "{said}");
    }
}

#[test]
fn stacks_too_small_or_too_large_are_refused_with_the_bounds() {
    for asked in [0, 1, (16 << 10) - 1, (1 << 30) + 1, usize::MAX] {
        let said = refusal(Runtime::builder().workers(1).stack_size(asked));
        assert!(said.contains("16 KiB") && said.contains("1 GiB"), "{said}");
        assert!(said.contains("Builder::stack_size"), "{said}");
        let said = cygnet::task().stack_size(asked).expect_err("it was accepted").to_string();
        assert!(said.contains(&asked.to_string()), "{said}");
        assert!(said.contains("TaskBuilder::stack_size"), "{said}");
    }
}

#[test]
fn the_smallest_and_the_largest_stack_run_a_task() {
    // AddressSanitizer makes frames several times as large.
    let smallest = if cfg!(cygnet_asan) { 64 << 10 } else { 16 << 10 };
    within(move || {
        for size in [smallest, 1 << 30] {
            let rt = Runtime::builder().workers(1).stack_size(size).build().unwrap();
            assert_eq!(rt.block_on(|| spawn(|| 7).join().unwrap()), 7);
        }
    });
}

#[test]
fn fewer_stacks_than_workers_are_refused() {
    let said = refusal(Runtime::builder().workers(2).max_stacks(1));
    assert!(said.contains("2 workers need at least as many stacks, not 1"), "{said}");
}

#[test]
fn no_thread_for_blocking_calls_is_refused() {
    let error = Runtime::builder().max_blocking_threads(0).build().expect_err("it was built");
    assert!(matches!(error, BuildError::MaxBlockingThreads), "{error}");
    assert!(error.to_string().contains("not 0 (Builder::max_blocking_threads)"), "{error}");
}

#[cfg(not(feature = "pin"))]
#[test]
fn pinning_without_the_feature_is_refused() {
    let said = refusal(Runtime::builder().workers(1).pin_workers(true));
    assert!(said.contains("feature `pin`"), "{said}");
}

#[test]
fn a_name_with_a_nul_byte_is_refused_like_any_thread_that_cannot_start() {
    let built = std::panic::catch_unwind(|| {
        Runtime::builder().workers(1).thread_name("a\0b").build().map(drop)
    });
    let said = built.expect("no panic").expect_err("it was built").to_string();
    assert!(said.contains("thread"), "{said}");
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_and_the_others_have_ended() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    let name = "limits::a_thread_that_cannot_be_started_is_an_error_and_the_others_have_ended";
    alone(name, || {
        let before = threads();
        if !limit_threads() {
            return;
        }
        let error = Runtime::builder().workers(500).build().expect_err("it was built");
        let said = error.to_string();
        assert!(matches!(error, BuildError::Thread(_)), "{said}");
        assert!(said.contains("a worker's thread cannot be started"), "{said}");
        assert_eq!(threads(), before);
    });
}

#[test]
fn without_memory_for_a_single_stack_block_on_says_so() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    alone("limits::without_memory_for_a_single_stack_block_on_says_so", || {
        one_arena();
        let rt = Runtime::builder().workers(2).stack_size(1 << 30).build().unwrap();
        limit_address_space(200 << 20);
        let error = rt.try_block_on(|| 7).expect_err("it has run");
        let said = error.to_string();
        assert!(matches!(error, JoinError::NoStack(_)), "{said}");
        assert!(said.contains("the kernel refused memory"), "{said}");
        assert!(said.contains("ulimit -v"), "{said}");
    });
}

#[test]
fn blocking_calls_at_the_same_time_run_where_they_are_if_no_thread_can_be_started() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    let name =
        "limits::blocking_calls_at_the_same_time_run_where_they_are_if_no_thread_can_be_started";
    alone(name, || {
        one_arena();
        within(|| {
            let rt = Runtime::builder().workers(4).build().unwrap();
            // The memory that the calls take is there from now on.
            let calls = |rounds: u32| {
                let call = move || (0..rounds).for_each(|_| cygnet::blocking(|| ()));
                let tasks: Vec<_> = (0..8).map(|_| rt.spawn(call)).collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            };
            calls(0);
            // Less than a thread's stack.
            limit_address_space(1 << 20);
            calls(1_000);
            assert_eq!(common::proc::threads_named("cygnet-blocking"), []);
            let blocking = rt.metrics().blocking;
            assert_eq!((blocking.done, blocking.in_place), (8_000, 8_000));
            assert_eq!((blocking.threads, blocking.idle, blocking.queued), (0, 0, 0));
        });
    });
}

#[test]
fn blocking_calls_wait_for_the_threads_that_there_are_if_no_other_can_be_started() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    let name =
        "limits::blocking_calls_wait_for_the_threads_that_there_are_if_no_other_can_be_started";
    alone(name, || {
        one_arena();
        within(|| {
            let rt = Runtime::builder().workers(2).build().unwrap();
            let (open, gate) = common::mpsc::channel::<()>();
            let first = rt.spawn(|| cygnet::blocking(move || gate.recv().unwrap()));
            let calls = |wait: fn(u32) -> u32| -> Vec<_> {
                (0..8).map(|n| rt.spawn(move || wait(n))).collect()
            };
            let sum = |calls: Vec<cygnet::Task<u32>>| -> u32 {
                calls.into_iter().map(|call| call.join().unwrap()).sum()
            };
            // The stacks that the calls take are there from now on.
            static TOGETHER: std::sync::LazyLock<cygnet::sync::Barrier> =
                std::sync::LazyLock::new(|| cygnet::sync::Barrier::new(8));
            sum(calls(|n| {
                TOGETHER.wait().unwrap();
                n
            }));
            common::eventually("the first call has a thread", || {
                let blocking = rt.metrics().blocking;
                (blocking.threads, blocking.idle) == (1, 0)
            });
            limit_address_space(1 << 20);
            let others = calls(|n| cygnet::blocking(move || n));
            common::eventually("the others wait", || rt.metrics().blocking.queued == 8);
            open.send(()).unwrap();
            first.join().unwrap();
            assert_eq!(sum(others), 28);
            let blocking = rt.metrics().blocking;
            assert_eq!((blocking.done, blocking.in_place, blocking.threads), (9, 0, 1));
        });
    });
}

#[test]
fn blocking_calls_that_were_refused_a_thread_get_one_when_there_are_threads_again() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    let name =
        "limits::blocking_calls_that_were_refused_a_thread_get_one_when_there_are_threads_again";
    alone(name, || {
        one_arena();
        within(|| {
            let rt = Runtime::builder().workers(2).build().unwrap();
            let (open, gate) = common::mpsc::channel::<()>();
            let first = rt.spawn(|| cygnet::blocking(move || gate.recv().unwrap()));
            // The stacks that the calls take are there from now on.
            let meeting: &_ = Box::leak(Box::new(cygnet::sync::Barrier::new(4)));
            let warm: Vec<_> = (0..4).map(|_| rt.spawn(|| drop(meeting.wait()))).collect();
            warm.into_iter().for_each(|task| task.join().unwrap());
            let together: &_ = Box::leak(Box::new(common::Barrier::new(4)));
            let call = || rt.spawn(|| cygnet::blocking(|| together.wait().is_leader()));
            common::eventually("the first call has a thread", || {
                let blocking = rt.metrics().blocking;
                (blocking.threads, blocking.idle) == (1, 0)
            });
            limit_address_space(1 << 20);
            let refused: Vec<_> = (0..3).map(|_| call()).collect();
            common::eventually("they wait", || rt.metrics().blocking.queued == 3);
            set_address_space(libc::RLIM_INFINITY);
            // They need each other, and this one.
            let leads = usize::from(call().join().unwrap());
            let leaders = refused.into_iter().filter_map(|call| call.join().unwrap().then_some(()));
            assert_eq!(leaders.count() + leads, 1);
            open.send(()).unwrap();
            first.join().unwrap();
            assert_eq!(rt.metrics().blocking.threads, 5);
        });
    });
}

#[test]
fn a_map_that_fails_makes_tasks_wait_until_others_have_ended() {
    common::real!("a process of its own");
    if limits_mean_nothing() {
        return;
    }
    alone("limits::a_map_that_fails_makes_tasks_wait_until_others_have_ended", || {
        let rt = Runtime::builder().workers(2).stack_size(64 << 20).build().unwrap();
        // Room for a few stacks, not for a hundred.
        limit_address_space(1 << 30);
        let sum: u32 = rt.block_on(|| {
            let tasks: Vec<_> = (0..100)
                .map(|i| {
                    spawn(move || {
                        cygnet::yield_now().unwrap();
                        i
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum()
        });
        assert_eq!(sum, 4950);
        assert!(rt.metrics().stacks_high_water < 30);
    });
}
