//! Cygnet in a program that aborts at a panic: tasks run as ever, and a panic in one ends the process
//! with its message, before anybody could join it.

use std::os::unix::process::ExitStatusExt;

const SIGABRT: i32 = 6;

fn main() {
    let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    if std::env::args().nth(1).is_some() {
        let joined = rt.spawn(|| panic!("the task")).join().map(|()| ());
        unreachable!("the process has survived: {joined:?}");
    }
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
    // Woken with an error, or not started any more.
    assert!(!matches!(parked.join(), Ok(Ok(()))));

    let program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(program).arg("panic").output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("the task"), "{said}");
    println!("panic=abort: tasks run, and a panic ends the process");
}
