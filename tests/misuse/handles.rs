//! Forgotten handles, thread-local destructors that call cygnet, and captures and results of odd
//! sizes.

use crate::common::prelude::*;
use std::hint::black_box;
use std::mem::forget;

/// Forgets one thing each, and shows that nothing else suffers.
const FORGOTTEN: [(&str, fn()); 8] = [
    ("a builder, which has started nothing", || {
        let threads = || common::proc::threads().len();
        let before = threads();
        forget(Runtime::builder().workers(2));
        forget(cygnet::task().name("a"));
        assert_eq!(threads(), before);
    }),
    ("tasks, which run before their parent ends", || {
        let ended = Arc::new(AtomicUsize::new(0));
        runtime(2).block_on(|| {
            for _ in 0..10 {
                forget(spawn(own(&ended, |ended| {
                    yield_now().unwrap();
                    ended.fetch_add(1, Ordering::Relaxed)
                })));
            }
        });
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    }),
    ("a local task, which runs before its parent ends", || {
        let ended = Arc::new(AtomicUsize::new(0));
        runtime(2).block_on(|| {
            forget(spawn_local(own(&ended, |ended| ended.fetch_add(1, Ordering::Relaxed))));
        });
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }),
    ("scoped tasks, which end before their scope", || {
        let mut borrowed = [0; 10];
        runtime(2).block_on(|| {
            scope(|s| {
                for slot in &mut borrowed {
                    forget(s.spawn(|| {
                        yield_now().unwrap();
                        *slot = 1;
                    }));
                }
            });
        });
        assert_eq!(borrowed, [1; 10]);
    }),
    ("an unparker, which leaks a record and no captures", || {
        let dropped = Arc::new(());
        runtime(1).block_on(|| {
            let task = spawn(own(&dropped, |captured| {
                let _captured = captured;
                forget(unparker());
            }));
            task.join().unwrap();
        });
        assert_eq!(Arc::strong_count(&dropped), 1);
    }),
    ("a handle, which does not keep its runtime from ending", || {
        let rt = runtime(1);
        forget(rt.handle());
        drop(rt);
    }),
    ("results, whose tasks have ended", || {
        let rt = runtime(1);
        forget(rt.spawn(|| vec![1; 100]).join());
        forget(rt.spawn(|| panic!("a payload")).join().unwrap_err());
        forget(rt.metrics());
    }),
    ("a runtime, which goes on", || {
        let rt = runtime(2);
        let handle = rt.handle();
        forget(rt);
        assert_eq!(handle.block_on(|| spawn(|| 7).join().unwrap()), 7);
    }),
];

/// T39.
#[test]
fn forgotten_handles_leak_and_do_no_harm() {
    in_own_process_leaking(|| {
        for (what, show) in FORGOTTEN {
            println!("forgotten: {what}");
            show();
        }
    });
}

type Call = OnDrop<Box<dyn FnMut()>>;

thread_local! {
    static AT_END: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Has `f` called when the thread's locals are destroyed.
fn at_thread_end(f: impl FnOnce() + 'static) {
    let mut f = Some(f);
    let call = Box::new(move || f.take().into_iter().for_each(|f| f()));
    AT_END.with_borrow_mut(|at_end| at_end.push(OnDrop(call)));
}

#[test]
fn destructors_of_a_workers_thread_locals_are_outside_of_the_runtime() {
    common::real!("thread-locals of OS threads");
    within(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        let (said, heard) = mpsc::channel();
        rt.block_on(move || {
            at_thread_end(move || {
                let outside = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
                let _ = said.send((
                    outside(&|| drop(spawn(|| ()))),
                    outside(&|| assert!(park().is_ok())),
                    outside(&|| scope(|_| ())),
                    Handle::try_current().is_none(),
                    handle.spawn(|| ()).is_err(),
                    handle.try_block_on(|| ()).is_err(),
                    cygnet::no_suspend(|| true),
                ));
            });
        });
        drop(rt);
        assert_eq!(heard.recv().unwrap(), (true, true, true, true, true, true, true));
    });
}

#[test]
fn handles_may_be_dropped_by_destructors_of_a_workers_thread_locals() {
    common::real!("thread-locals of OS threads");
    within(|| {
        let rt = runtime(2);
        let other = runtime(1);
        let dropped = Arc::new(());
        rt.block_on(|| {
            let theirs = dropped.clone();
            let ended = spawn(move || theirs);
            give_way_until(|| ended.is_finished());
            let parked = other.spawn(park);
            let unparker = unparker();
            at_thread_end(move || {
                unparker.unpark();
                drop((ended, parked, unparker));
            });
        });
        drop(rt);
        assert_eq!(Arc::strong_count(&dropped), 1);
        assert_eq!(other.block_on(|| 7), 7);
    });
}

#[test]
fn destructors_of_a_foreign_threads_locals_may_use_a_runtime() {
    common::real!("thread-locals of OS threads");
    within(|| {
        let rt = Arc::new(runtime(2));
        for wait_before in [false, true] {
            let (said, heard) = mpsc::channel();
            let (early, late) = (rt.clone(), rt.clone());
            let thread = common::thread::spawn(move || {
                at_thread_end(move || {
                    let joined = late.spawn(|| 1).join().unwrap();
                    let blocked = late.block_on(|| yield_now().map(|()| 2).unwrap());
                    drop(late.spawn(park));
                    late.spawn(|| ()).detach();
                    let _ = said.send((joined, blocked));
                });
                if wait_before {
                    early.block_on(|| ());
                }
            });
            thread.join().unwrap();
            assert_eq!(heard.recv().unwrap(), (1, 2));
        }
    });
}

#[test]
fn a_runtime_may_be_dropped_by_a_destructor_of_a_foreign_threads_locals() {
    common::real!("thread-locals of OS threads");
    within(|| {
        let rt = runtime(2);
        let handle = rt.handle();
        common::thread::spawn(move || at_thread_end(move || drop(rt))).join().unwrap();
        assert!(handle.spawn(|| ()).is_err());
    });
}

/// Calls `body` on a thread with room on its stack for several copies of a value of a megabyte.
fn spacious(body: impl FnOnce() + Send + 'static) {
    common::watchdog::within_seconds(60, || {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(body).unwrap();
        if let Err(payload) = thread.join() {
            std::panic::resume_unwind(payload);
        }
    });
}

fn is_unharmed(captured: &[u8; 1 << 20]) -> bool {
    captured.iter().all(|byte| *byte == 7)
}

#[test]
fn captures_and_results_of_a_mebibyte_pass_unharmed_from_outside() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = runtime(1);
        let captured = [7; 1 << 20];
        assert!(is_unharmed(&rt.spawn(move || black_box(captured)).join().unwrap()));
        assert!(is_unharmed(&rt.block_on(move || black_box(captured))));
    });
}

#[test]
fn values_of_a_mebibyte_pass_unharmed_out_of_a_group() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = runtime(1);
        let mut group = TaskGroup::detached(&rt.handle()).unwrap();
        // Made in the task, and so no capture of it.
        group.spawn(|| black_box([7; 1 << 20]));
        assert!(is_unharmed(&group.next().unwrap().unwrap()));
    });
}

#[test]
fn a_value_of_a_mebibyte_is_shared_unharmed() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = runtime(1);
        let captured = [7; 1 << 20];
        let on_worker = rt.handle().spawn_on(0, move || black_box(captured)).unwrap();
        assert!(is_unharmed(on_worker.shared().join().unwrap()));
    });
}

#[test]
fn captures_and_results_of_a_mebibyte_pass_unharmed_between_tasks() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = Runtime::builder().workers(2).stack_size(64 << 20).build().unwrap();
        rt.block_on(|| {
            let captured = [7; 1 << 20];
            let task = spawn(move || black_box(captured));
            let local = spawn_local(move || black_box(captured));
            assert!(is_unharmed(&task.join().unwrap()));
            assert!(is_unharmed(&local.join().unwrap()));
            scope(|s| assert!(is_unharmed(&s.spawn(|| black_box(captured)).join().unwrap())));
            // The first closure is never called, and the second result never taken.
            drop(spawn(move || black_box(captured)));
            spawn(move || black_box(captured)).detach();
        });
    });
}

#[test]
fn captures_and_results_aligned_to_4096_stay_aligned() {
    common::real!("a thread with a stack of another size");
    #[repr(align(4096))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);

    impl Aligned {
        #[inline(never)]
        fn check(self: &Aligned) {
            assert!(black_box(std::ptr::from_ref(self) as usize).is_multiple_of(4096));
            assert_eq!(self.0, 7);
        }
    }

    spacious(|| {
        let rt = Runtime::builder().workers(2).stack_size(1 << 20).build().unwrap();
        let captured = Aligned(7);
        let checks = move || {
            captured.check();
            captured
        };
        rt.spawn(checks).join().unwrap().check();
        rt.block_on(|| {
            captured.check();
            for _ in 0..10 {
                let yields_and_checks = move || {
                    yield_now().unwrap();
                    checks()
                };
                let tasks: Vec<_> = (0..20).map(|_| spawn(yields_and_checks)).collect();
                tasks.into_iter().for_each(|task| task.join().unwrap().check());
            }
            spawn_local(checks).join().unwrap().check();
            drop(spawn(move || captured));
        });
    });
}

#[test]
fn results_without_size_arrive() {
    with(&[1], |rt| {
        let () = rt.spawn(|| ()).join().unwrap();
        let [] = rt.block_on(|| spawn(|| [0u64; 0]).join().unwrap());
    });
}

#[test]
fn task_locals_whose_destructors_panic_or_call_cygnet_do_no_harm() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            let _ = catch_unwind(|| yield_now());
            if !std::thread::panicking() {
                panic!("a task-local");
            }
        }
    }
    static LOCAL: TaskLocal<Loud> = TaskLocal::new();
    with(&[1], |rt| {
        let child = || LOCAL.with(|local| assert!(local.is_some()));
        let ended = rt.try_block_on(|| LOCAL.scope(Loud, || spawn(child).join().unwrap()));
        assert!(ended.unwrap_err().is_panic());
        assert_eq!(rt.block_on(|| 7), 7);
    });
}
