//! Cygnet in a program that aborts on panic. Tasks and coroutines run as usual, a panic in a task
//! ends the process with its message before the task can be joined, and a suspended coroutine
//! cannot be unwound.

use cygnet::coroutine::{Coroutine, Resumed};
use std::os::unix::process::ExitStatusExt;
use std::rc::Rc;

const SIGABRT: i32 = 6;

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => {}
        Some("panic") => panic_in_a_task(),
        Some("scoped") => leave_a_scoped_coroutine_suspended(),
        Some(role) => unreachable!("{role}"),
    }
    tasks_run();
    coroutines_run();
    a_suspended_coroutine_is_leaked();
    aborts_saying("panic", "the task");
    aborts_saying("scoped", "coroutine 1 (unnamed) was left suspended by the end of its scope");
    println!(
        "panic=abort: tasks and coroutines run; a panic, or a scoped coroutine left suspended, aborts"
    );
}

fn tasks_run() {
    let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    let mut numbers = [0; 100];
    let sum: u32 = rt.block_on(|| {
        cygnet::scope(|s| {
            for (i, number) in numbers.iter_mut().enumerate() {
                s.spawn(move || {
                    cygnet::yield_now().unwrap();
                    *number = i as u32;
                });
            }
        });
        cygnet::spawn(|| 1).join().unwrap() + numbers.iter().sum::<u32>()
    });
    assert_eq!(sum, 4951);
    let parked = rt.spawn(cygnet::park);
    drop(rt);
    // Woken with an error, or never started.
    assert!(!matches!(parked.join(), Ok(Ok(()))));
}

fn coroutines_run() {
    let sum = Coroutine::new(|yielder, n: u32| n + yielder.suspend(n));
    assert_eq!(sum.resume(3), Ok(Resumed::Yielded(3)));
    assert_eq!(sum.resume(4), Ok(Resumed::Returned(7)));
    // A coroutine that has not started has nothing to unwind.
    let captured = Rc::new(());
    let inside = captured.clone();
    drop(Coroutine::<(), (), ()>::new(move |_, ()| drop(inside)));
    assert_eq!(Rc::strong_count(&captured), 1);
}

fn a_suspended_coroutine_is_leaked() {
    let captured = Rc::new(());
    let inside = captured.clone();
    let suspended = Coroutine::new(move |yielder, ()| {
        let on_its_stack = std::hint::black_box([7u8; 4096]);
        yielder.suspend(&raw const on_its_stack);
        drop(inside);
    });
    let on_its_stack = suspended.resume(()).unwrap().yielded().unwrap();
    drop(suspended);
    // Another coroutine, which would get the stack of the first one if that had been given back.
    let other = Coroutine::<(), (), _>::new(|_, ()| std::hint::black_box([1u8; 8 << 10]).len());
    assert_eq!(other.resume(()), Ok(Resumed::Returned(8 << 10)));
    assert_eq!(Rc::strong_count(&captured), 2, "the suspended coroutine's captures were dropped");
    // SAFETY: the pointer is to a frame of the suspended coroutine. That was leaked with its
    // stack, so the frame is never freed, and no code runs on that stack any more.
    assert_eq!(unsafe { on_its_stack.read_volatile() }, [7; 4096]);
}

fn panic_in_a_task() -> ! {
    let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    let joined = rt.spawn(|| panic!("the task")).join().map(|()| ());
    unreachable!("the process has survived: {joined:?}");
}

fn leave_a_scoped_coroutine_suspended() -> ! {
    let lent = String::from("lent");
    Coroutine::scoped(
        |yielder, ()| {
            let lent = &lent;
            yielder.suspend(());
            drop(lent.clone());
        },
        |coroutine| coroutine.resume(()).map(drop).unwrap(),
    );
    unreachable!("the process has survived");
}

/// Starts this program in a role in which it must abort with this sentence.
fn aborts_saying(role: &str, sentence: &str) {
    let program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(program).arg(role).output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(SIGABRT), "{role}: {said}");
    assert!(said.contains(sentence), "{role}: {said}");
}
