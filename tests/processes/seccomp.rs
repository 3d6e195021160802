//! Processes with a filter that refuses system calls. A filter stays, so each test installs it in a
//! process of its own.

use crate::common::prelude::*;
use std::os::unix::process::ExitStatusExt;

/// Refuses a system call to all threads of the process from now on, always or if its third argument
/// is this number.
fn refuse(call: libc::c_long, third: Option<u32>) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // The data of a filter begin with the number of the call. The arguments are 8 bytes each.
    const CALL: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    const THIRD: u32 = std::mem::offset_of!(libc::seccomp_data, args) as u32 + 16;
    // Goes on with the next step if `k` is equal, and otherwise skips `jf` steps.
    let unless = |k, jf| libc::sock_filter { code: IF_EQUAL, jt: 0, jf, k };
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let call = [step(LOAD, CALL), unless(call as u32, if third.is_some() { 3 } else { 1 })];
    let third = third.map(|third| [step(LOAD, THIRD), unless(third, 1)]);
    let refused = step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let end = [refused, step(RETURN, libc::SECCOMP_RET_ALLOW)];
    let mut program: Vec<_> =
        call.into_iter().chain(third.into_iter().flatten()).chain(end).collect();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are integers; the thread gives up rights that it does not use.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let (mode, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the filter and its program live until the call has returned, and the kernel copies
    // them.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, all_threads, &raw const filter) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn refuse_membarrier() {
    refuse(libc::SYS_membarrier, None);
    // SAFETY: the call takes integers; 0 asks what the kernel can do.
    let asked = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    assert_eq!(asked, -1, "the filter does not work");
}

/// Gives both workers work and rest by turns: a worker that lies down needs the barrier.
fn work(rt: &Runtime) {
    for round in 0..1000 {
        let sum = rt.block_on(move || {
            join_all((0..8).map(|n| spawn(move || n + round))).into_iter().sum::<u32>()
        });
        assert_eq!(sum, 28 + 8 * round);
    }
}

#[test]
fn a_runtime_that_is_built_where_membarrier_is_refused_does_without() {
    if emulated() {
        return; // the emulator has no filters
    }
    in_own_process(|| {
        refuse_membarrier();
        work(&runtime(2));
    });
}

#[test]
fn a_process_in_which_membarrier_is_refused_later_aborts_with_a_sentence() {
    if emulated() {
        return; // the emulator has no filters
    }
    let body = || {
        let rt = runtime(2);
        work(&rt);
        refuse_membarrier();
        // A process that hangs is to end by another signal than one that aborts.
        // SAFETY: takes an integer.
        unsafe { libc::alarm(30) };
        loop {
            work(&rt);
        }
    };
    let Some(output) = in_child(body) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("cygnet: the kernel refuses membarrier(2)"), "{said}");
    assert!(said.contains("install such a filter before the first runtime is built"), "{said}");
}

#[test]
fn a_runtime_to_which_guard_markers_are_refused_later_still_guards_its_stacks() {
    if emulated() {
        return; // the emulator has no filters
    }
    const MADV_GUARD_INSTALL: u32 = 102;
    /// More than a worker keeps warm.
    const TASKS: usize = 200;
    in_own_process(|| {
        with(&[2], |rt| {
            work(rt);
            refuse(libc::SYS_madvise, Some(MADV_GUARD_INSTALL));
            refuse(libc::SYS_process_madvise, None);
            // Each task has a stack of its own while it waits for the others.
            let all = Arc::new(cygnet::sync::Barrier::new(TASKS));
            let meet = |_| rt.spawn(own(&all, move |all| all.wait().is_ok()));
            assert!(join_all((0..TASKS).map(meet)).into_iter().all(|met| met));
        });
    });
}
