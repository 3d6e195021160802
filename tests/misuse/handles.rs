//! Handles and guards that are forgotten, thread-local destructors that call cygnet, and captures and
//! results of odd sizes.

use crate::common::mpsc;
use crate::common::rerun::alone_and_leaking;
use crate::common::{self, runtime, within};
use cygnet::{Handle, Runtime, TaskLocal, park, scope, spawn, spawn_local, unparker, yield_now};
use std::cell::RefCell;
use std::hint::black_box;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_forgotten_task_runs_and_its_parent_ends_after_it() {
    common::real!("a process of its own");
    alone_and_leaking("handles::a_forgotten_task_runs_and_its_parent_ends_after_it", || {
        let rt = runtime(2);
        let ended = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            for _ in 0..10 {
                let ended = ended.clone();
                forget(spawn(move || {
                    yield_now().unwrap();
                    ended.fetch_add(1, Ordering::Relaxed)
                }));
            }
        });
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn a_forgotten_local_task_runs_and_its_parent_ends_after_it() {
    common::real!("a process of its own");
    let name = "handles::a_forgotten_local_task_runs_and_its_parent_ends_after_it";
    alone_and_leaking(name, || {
        let rt = runtime(2);
        let ended = Arc::new(AtomicUsize::new(0));
        rt.block_on(|| {
            let ended = ended.clone();
            forget(spawn_local(move || ended.fetch_add(1, Ordering::Relaxed)));
        });
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_forgotten_scoped_task_ends_before_its_scope() {
    common::real!("a process of its own");
    alone_and_leaking("handles::a_forgotten_scoped_task_ends_before_its_scope", || {
        let rt = runtime(2);
        let mut borrowed = [0; 10];
        rt.block_on(|| {
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
    });
}

#[test]
fn a_forgotten_unparker_leaks_a_record_and_no_more() {
    common::real!("a process of its own");
    alone_and_leaking("handles::a_forgotten_unparker_leaks_a_record_and_no_more", || {
        let rt = runtime(1);
        let dropped = Arc::new(());
        rt.block_on(|| {
            let captured = dropped.clone();
            spawn(move || {
                let _captured = captured;
                forget(unparker());
            })
            .join()
            .unwrap();
        });
        drop(rt);
        assert_eq!(Arc::strong_count(&dropped), 1);
    });
}

#[test]
fn a_forgotten_handle_does_not_keep_its_runtime_from_ending() {
    common::real!("a process of its own");
    let name = "handles::a_forgotten_handle_does_not_keep_its_runtime_from_ending";
    alone_and_leaking(name, || {
        let rt = runtime(1);
        forget(rt.handle());
        drop(rt);
    });
}

#[test]
fn a_forgotten_runtime_goes_on() {
    common::real!("a process of its own");
    alone_and_leaking("handles::a_forgotten_runtime_goes_on", || {
        let rt = runtime(2);
        let handle = rt.handle();
        forget(rt);
        assert_eq!(handle.block_on(|| spawn(|| 7).join().unwrap()), 7);
    });
}

#[test]
fn a_forgotten_builder_has_started_nothing() {
    common::real!("a process of its own");
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    alone_and_leaking("handles::a_forgotten_builder_has_started_nothing", || {
        let before = threads();
        forget(Runtime::builder().workers(2));
        forget(cygnet::task().name("a"));
        assert_eq!(threads(), before);
    });
}

#[test]
fn a_forgotten_result_is_leaked_and_its_task_has_ended() {
    common::real!("a process of its own");
    alone_and_leaking("handles::a_forgotten_result_is_leaked_and_its_task_has_ended", || {
        let rt = runtime(1);
        forget(rt.spawn(|| vec![1; 100]).join());
        forget(rt.spawn(|| panic!("a payload")).join().unwrap_err());
        forget(rt.metrics());
    });
}

/// What a destructor of a thread-local found.
struct InDestructor<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for InDestructor<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

type Late = InDestructor<Box<dyn FnOnce()>>;

thread_local! {
    static LATE: RefCell<Vec<Late>> = const { RefCell::new(Vec::new()) };
}

/// Has `f` called when the thread's locals are destroyed.
fn at_thread_end(f: impl FnOnce() + 'static) {
    LATE.with_borrow_mut(|late| late.push(InDestructor(Some(Box::new(f)))));
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
            let ended = spawn({
                let dropped = dropped.clone();
                move || dropped
            });
            while !ended.is_finished() {
                yield_now().unwrap();
            }
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
        let (said, heard) = mpsc::channel();
        for wait_before in [false, true] {
            let (rt, said) = (rt.clone(), said.clone());
            common::thread::spawn(move || {
                at_thread_end({
                    let rt = rt.clone();
                    move || {
                        let joined = rt.spawn(|| 1).join().unwrap();
                        let blocked = rt.block_on(|| {
                            yield_now().unwrap();
                            2
                        });
                        drop(rt.spawn(park));
                        rt.spawn(|| ()).detach();
                        let _ = said.send((joined, blocked));
                    }
                });
                if wait_before {
                    rt.block_on(|| ());
                }
            })
            .join()
            .unwrap();
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

/// A thread with a stack for values of a megabyte, which pass over it a few times.
fn spacious(body: impl FnOnce() + Send + 'static) {
    common::watchdog::within_seconds(60, || {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(body).unwrap();
        if let Err(payload) = thread.join() {
            std::panic::resume_unwind(payload);
        }
    });
}

#[test]
fn captures_and_results_of_a_mebibyte_pass_unharmed_from_outside() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = runtime(1);
        let captured = [7u8; 1 << 20];
        let result = rt.spawn(move || black_box(captured)).join().unwrap();
        assert!(result.iter().all(|byte| *byte == 7));
        let result = rt.block_on(move || black_box(captured));
        assert!(result.iter().all(|byte| *byte == 7));
    });
}

#[test]
fn captures_and_results_of_a_mebibyte_pass_unharmed_between_tasks() {
    common::real!("a thread with a stack of another size");
    spacious(|| {
        let rt = Runtime::builder().workers(2).stack_size(64 << 20).build().unwrap();
        rt.block_on(|| {
            let captured = [7u8; 1 << 20];
            let task = spawn(move || black_box(captured));
            let local = spawn_local(move || black_box(captured));
            assert!(task.join().unwrap().iter().all(|byte| *byte == 7));
            assert!(local.join().unwrap().iter().all(|byte| *byte == 7));
            scope(|s| {
                let task = s.spawn(|| black_box(captured));
                assert!(task.join().unwrap().iter().all(|byte| *byte == 7));
            });
            // Never called, never taken.
            drop(spawn(move || black_box(captured)));
            spawn(move || black_box(captured)).detach();
        });
    });
}

#[test]
fn captures_and_results_aligned_to_4096_are_so_everywhere() {
    common::real!("a thread with a stack of another size");
    #[repr(align(4096))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);

    impl Aligned {
        #[inline(never)]
        fn check(&self) -> bool {
            black_box(std::ptr::from_ref(self) as usize).is_multiple_of(4096) && self.0 == 7
        }
    }

    spacious(|| {
        let rt = Runtime::builder().workers(2).stack_size(1 << 20).build().unwrap();
        let captured = Aligned(7);
        let task = rt.spawn(move || {
            assert!(captured.check());
            captured
        });
        assert!(task.join().unwrap().check());
        rt.block_on(|| {
            assert!(captured.check());
            for _ in 0..10 {
                let tasks: Vec<_> = (0..20)
                    .map(|_| {
                        spawn(move || {
                            yield_now().unwrap();
                            assert!(captured.check());
                            captured
                        })
                    })
                    .collect();
                for task in tasks {
                    assert!(task.join().unwrap().check());
                }
            }
            let local = spawn_local(move || {
                assert!(captured.check());
                captured
            });
            assert!(local.join().unwrap().check());
            drop(spawn(move || captured));
        });
    });
}

#[test]
fn results_without_size_cost_nothing_and_arrive() {
    within(|| {
        let rt = runtime(1);
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
    within(|| {
        let rt = runtime(1);
        let error = rt
            .try_block_on(|| {
                LOCAL.scope(Loud, || {
                    spawn(|| LOCAL.with(|local| assert!(local.is_some()))).join().unwrap();
                });
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert_eq!(rt.block_on(|| 7), 7);
    });
}
