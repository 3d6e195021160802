//! Settings out of bounds and systems that refuse. Each is an error that says what was wrong.

use crate::common::prelude::*;
use crate::common::proc::{threads, threads_named};
use crate::common::rerun::{alone, test_of};

/// Runs the calling test's `body` in a process of its own, which may limit its resources.
/// Sanitizers and emulators take address space by the terabyte, so there the test is left out.
fn limited(body: impl FnOnce()) {
    let limits_mean_nothing = common::SANITIZED || common::emulated();
    if common::leaves_out("a process of its own") || limits_mean_nothing {
        return;
    }
    alone(test_of(&body), || {
        // Before there are threads: otherwise the allocator maps an arena for each thread at its
        // first allocation, and the address space that has been taken says little.
        #[cfg(target_env = "gnu")]
        // SAFETY: no conditions.
        assert_eq!(unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) }, 1);
        body();
    });
}

/// Leaves the process `more` bytes of address space besides what it has taken.
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

/// Leaves the process only a few threads. Returns `false` if the process may not give up its
/// exemption.
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

#[test]
fn settings_out_of_bounds_are_refused_with_the_bounds() {
    let builder = Runtime::builder;
    let too_many = [Builder::MAX_WORKERS + 1, usize::MAX]
        .map(|asked| (builder().workers(asked), format!("not {asked}")));
    let others = [
        (builder().workers(0), "1 to 4096 workers, not 0 (Builder::workers)"),
        (builder().workers(2).max_stacks(1), "2 workers need at least as many stacks, not 1"),
        (builder().max_blocking_threads(0), "not 0 (Builder::max_blocking_threads)"),
        #[cfg(not(feature = "pin"))]
        (builder().workers(1).pin_workers(true), "feature `pin`"),
        // As any thread that cannot start.
        (builder().workers(1).thread_name("a\0b"), "thread"),
    ];
    let others = others.into_iter().map(|(builder, text)| (builder, text.to_owned()));
    for (builder, text) in others.chain(too_many) {
        let said = builder.build().expect_err("it was built").to_string();
        assert!(said.contains(&text), "{said}");
    }
    let error = builder().max_blocking_threads(0).build().expect_err("it was built");
    assert!(matches!(error, BuildError::MaxBlockingThreads), "{error}");
}

/// T18.
#[test]
fn stacks_too_small_or_too_large_are_refused_with_the_bounds() {
    for asked in [0, 1, (16 << 10) - 1, (1 << 30) + 1, usize::MAX] {
        let built = Runtime::builder().workers(1).stack_size(asked).build();
        let said = built.expect_err("it was built").to_string();
        assert!(said.contains("16 KiB") && said.contains("1 GiB"), "{said}");
        assert!(said.contains("Builder::stack_size"), "{said}");
        let said = cygnet::task().stack_size(asked).expect_err("it was accepted").to_string();
        assert!(said.contains(&asked.to_string()), "{said}");
        assert!(said.contains("TaskBuilder::stack_size"), "{said}");
    }
}

/// T18.
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
fn a_thread_that_cannot_be_started_is_an_error_and_the_others_have_ended() {
    limited(|| {
        let before = threads().len();
        if !limit_threads() {
            return;
        }
        let error = Runtime::builder().workers(500).build().expect_err("it was built");
        let said = error.to_string();
        assert!(matches!(error, BuildError::Thread(_)), "{said}");
        assert!(said.contains("a worker's thread cannot be started"), "{said}");
        assert_eq!(threads().len(), before);
    });
}

/// T20.
#[test]
fn without_memory_for_a_single_stack_block_on_says_so() {
    limited(|| {
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
fn a_task_without_memory_for_its_stack_tells_whoever_waits_for_it() {
    limited(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = told.clone();
        let rt = Runtime::builder()
            .workers(2)
            .on_panic(move |report| hook.lock().unwrap().push(report.message().to_owned()))
            .build()
            .unwrap();
        // What the others need is there already.
        rt.block_on(|| join_all((0..20).map(|_| spawn(|| yield_now().unwrap()))));
        limit_address_space(200 << 20);
        let greedy = || task().stack_size(1 << 30).unwrap();
        let refused = |said: String| assert!(said.contains("the kernel refused memory"), "{said}");

        let joined = rt.block_on(|| greedy().spawn(|| 7).join());
        assert!(matches!(joined, Err(JoinError::NoStack(_))));
        refused(joined.unwrap_err().to_string());

        let others = Count::new();
        let scoped = rt.try_block_on(|| {
            scope(|s| {
                (0..5).for_each(|_| drop(s.spawn(|| others.up())));
                greedy().spawn_in(s, || ());
                s.spawn(|| others.up());
            });
        });
        let error = scoped.unwrap_err();
        assert!(error.is_panic());
        refused(error.to_string());
        assert_eq!(others.get(), 6, "after all have ended");

        assert!(told.lock().unwrap().is_empty());
        rt.block_on(|| spawn(move || greedy().spawn(|| ()).detach()).join().unwrap());
        let said = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(said.len(), 1, "{said:?}");
        refused(said[0].clone());

        // Nothing waits for this one.
        let dropped = Drops::new();
        let captured = dropped.guard();
        let task = greedy().spawn_in(&rt.handle(), move || drop(captured)).unwrap();
        thread::sleep(Duration::from_millis(500));
        assert!(!task.is_finished());
        assert_eq!(rt.block_on(|| spawn(|| 7).join().unwrap()), 7);
        task.detach();
        drop(rt);
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn blocking_calls_run_on_their_workers_if_no_thread_can_be_started() {
    limited(|| {
        with(&[4], |rt| {
            // The calls allocate all that they need in the first rounds.
            let calls = |rounds: u32| {
                let call = move || (0..rounds).for_each(|_| cygnet::blocking(|| ()));
                join_all((0..8).map(|_| rt.spawn(call)));
            };
            calls(0);
            // Less than a thread's stack.
            limit_address_space(1 << 20);
            calls(1_000);
            assert_eq!(threads_named("cygnet-blocking"), []);
            let blocking = rt.metrics().blocking;
            assert_eq!((blocking.done, blocking.in_place), (8_000, 8_000));
            assert_eq!((blocking.threads, blocking.idle, blocking.queued), (0, 0, 0));
        });
    });
}

/// Makes a blocking call that has a thread and returns when the sender is used. `tasks` tasks have
/// stacks from then on. After that no other thread can be started.
fn only_thread(rt: &Runtime, tasks: usize) -> (common::mpsc::Sender<()>, Task<()>) {
    let (open, gate) = common::mpsc::channel::<()>();
    let first = rt.spawn(|| cygnet::blocking(move || gate.recv().unwrap()));
    let together = Arc::new(cygnet::sync::Barrier::new(tasks));
    let meet = |_| rt.spawn(own(&together, |together| _ = together.wait().unwrap()));
    join_all((0..tasks).map(meet));
    common::eventually("the first call has a thread", || {
        let blocking = rt.metrics().blocking;
        (blocking.threads, blocking.idle) == (1, 0)
    });
    limit_address_space(1 << 20);
    (open, first)
}

#[test]
fn blocking_calls_wait_for_the_threads_that_there_are_if_no_other_can_be_started() {
    limited(|| {
        with(&[2], |rt| {
            let (open, first) = only_thread(rt, 8);
            let others: Vec<_> =
                (0..8).map(|n| rt.spawn(move || cygnet::blocking(move || n))).collect();
            common::eventually("the others wait", || rt.metrics().blocking.queued == 8);
            open.send(()).unwrap();
            first.join().unwrap();
            assert_eq!(join_all(others).into_iter().sum::<u32>(), 28);
            let blocking = rt.metrics().blocking;
            assert_eq!((blocking.done, blocking.in_place, blocking.threads), (9, 0, 1));
        });
    });
}

#[test]
fn blocking_calls_that_were_refused_a_thread_get_one_when_there_are_threads_again() {
    limited(|| {
        with(&[2], |rt| {
            let (open, first) = only_thread(rt, 4);
            let together = Arc::new(common::Barrier::new(4));
            let call = |_| {
                let together = together.clone();
                rt.spawn(move || cygnet::blocking(|| together.wait().is_leader()))
            };
            let refused: Vec<_> = (0..3).map(call).collect();
            common::eventually("they wait", || rt.metrics().blocking.queued == 3);
            set_address_space(libc::RLIM_INFINITY);
            // The refused calls and this one need each other.
            let leads = call(3).join().unwrap();
            let leaders = join_all(refused).into_iter().chain([leads]).filter(|leads| *leads);
            assert_eq!(leaders.count(), 1);
            open.send(()).unwrap();
            first.join().unwrap();
            assert_eq!(rt.metrics().blocking.threads, 5);
        });
    });
}

/// T19.
#[test]
fn a_map_that_fails_makes_tasks_wait_until_others_have_ended() {
    limited(|| {
        let rt = Runtime::builder().workers(2).stack_size(64 << 20).build().unwrap();
        // Room for a few stacks, not for a hundred.
        limit_address_space(1 << 30);
        let sum: u32 = rt.block_on(|| {
            let yields = |i| spawn(move || cygnet::yield_now().map(|()| i).unwrap());
            join_all((0..100).map(yields)).into_iter().sum()
        });
        assert_eq!(sum, 4950);
        assert!(rt.metrics().stacks_high_water < 30);
    });
}
