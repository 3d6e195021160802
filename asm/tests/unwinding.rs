//! Unwinders find the right caller at each instruction of the routines, and the end of a
//! coroutine's stack.
//!
//! On x86-64 the processor's trap flag stops a thread after each single instruction, and a signal
//! handler unwinds from there, so every instruction is checked. On other processors a profiling
//! timer interrupts at arbitrary instructions.

use std::backtrace::Backtrace;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

type Callback = unsafe extern "C" fn(*mut Context, *mut c_void) -> c_int;

// SAFETY: the unwinder's interface as unwind.h declares it; the library is the one that std links.
unsafe extern "C" {
    fn _Unwind_Backtrace(callback: Callback, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
    fn _Unwind_GetGR(context: *mut Context, register: c_int) -> usize;
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
    fn _Unwind_FindEnclosingFunction(address: *mut c_void) -> usize;
}

const CONTINUE: c_int = 0; // _URC_NO_REASON
const END_OF_STACK: c_int = 5; // _URC_END_OF_STACK

const DEPTH: usize = 64;

/// The result of unwinding from an interrupted instruction.
struct Walk {
    /// The interrupted instruction and the stack pointer there.
    pc: usize,
    sp: usize,
    /// The functions from the interrupted one outwards.
    functions: [usize; DEPTH],
    length: usize,
    /// The walk stops here in any case.
    limit: usize,
    /// The callee-saved registers of the interrupted function's caller.
    #[cfg(target_arch = "x86_64")]
    registers: [usize; 6],
    reason: c_int,
}

/// Unwinds from a signal handler; nothing is allocated and no lock is taken.
fn walk(signal_context: *const libc::ucontext_t, limit: usize) -> Walk {
    // SAFETY: the kernel has passed a complete context to the handler.
    #[cfg(target_arch = "x86_64")]
    let (pc, sp) = unsafe {
        let registers = &(*signal_context).uc_mcontext.gregs;
        (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize)
    };
    // SAFETY: the kernel has passed a complete context to the handler.
    #[cfg(target_arch = "aarch64")]
    let (pc, sp) = unsafe {
        let registers = &(*signal_context).uc_mcontext;
        (registers.pc as usize, registers.sp as usize)
    };
    let mut walk = Walk {
        pc,
        sp,
        functions: [0; DEPTH],
        length: 0,
        limit,
        #[cfg(target_arch = "x86_64")]
        registers: [0; 6],
        reason: CONTINUE,
    };

    unsafe extern "C" fn step(context: *mut Context, argument: *mut c_void) -> c_int {
        // SAFETY: the unwinder passes the argument that it was given below, and a valid context.
        unsafe {
            let walk = &mut *argument.cast::<Walk>();
            let pc = _Unwind_GetIP(context);
            // First come the handler and the kernel's return stub, last comes a zero.
            if (walk.length == 0 && pc != walk.pc) || pc == 0 {
                return CONTINUE;
            }
            #[cfg(target_arch = "x86_64")]
            if walk.length == 1 {
                // rbx, rbp, r12 to r15 as DWARF numbers them.
                walk.registers = [3, 6, 12, 13, 14, 15].map(|n| _Unwind_GetGR(context, n));
            }
            walk.functions[walk.length] = _Unwind_GetRegionStart(context);
            walk.length += 1;
            if walk.length == walk.limit { END_OF_STACK } else { CONTINUE }
        }
    }
    let argument: *mut Walk = &mut walk;
    // SAFETY: `step` gets a pointer to the walk as its argument, as it expects.
    walk.reason = unsafe { _Unwind_Backtrace(step, argument.cast()) };
    walk
}

/// Returns the function that an address lies in, named as the unwinder names it: by the start of
/// its rules.
fn region(address: usize) -> usize {
    // SAFETY: looks an address up in tables.
    unsafe { _Unwind_FindEnclosingFunction(address as *mut c_void) }
}

fn regions() -> [usize; 3] {
    let region_at =
        |label: unsafe extern "C" fn(), more| region(label as *const () as usize + more);
    // The enclosing function of a call is looked up by the byte before the return address. The
    // label of the trampoline allows for that; the other two do not.
    [
        region_at(external::switch, 1),
        region_at(external::leave, 1),
        region_at(external::trampoline, 0),
    ]
}

fn handle(signal: c_int, handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: a zeroed sigaction is valid, and the handler does only what signal handlers may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

#[test]
fn a_backtrace_inside_a_coroutine_names_its_functions_and_ends() {
    #[inline(never)]
    fn a_well_known_place() -> Box<Backtrace> {
        black_box(Box::new(Backtrace::force_capture()))
    }
    // Captured on the coroutine's stack, and turned into text on the thread's.
    let mut coroutine =
        Coroutine::new(|_, _| Box::into_raw(a_well_known_place()).expose_provenance());
    let answer = coroutine.resume(0);
    // SAFETY: the coroutine made it from a box.
    let trace = unsafe {
        Box::from_raw(std::ptr::with_exposed_provenance_mut::<Backtrace>(answer)).to_string()
    };
    assert!(trace.contains("a_well_known_place"), "{trace}");
    // Without the rule that there is no caller, the walk would go on with the words above the
    // frame.
    let last = trace.lines().rfind(|line| line.trim_start().starts_with(char::is_numeric)).unwrap();
    assert!(last.contains("trampoline"), "{trace}");
    assert!(trace.lines().count() < 60, "{trace}");
}

/// The state that the handlers read: the coroutine whose stack may be in use.
static WATCHED: AtomicPtr<Coroutine> = AtomicPtr::new(null_mut());
static SAMPLES: AtomicUsize = AtomicUsize::new(0);
static IN_SWITCH: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

#[inline(never)]
extern "C" fn pong(this: *mut Coroutine) {
    // SAFETY: called on the coroutine's own stack, as `suspend` is.
    black_box(unsafe { switch(&raw mut (*this).own, (*this).resumer, 1) });
}

#[inline(never)]
extern "C" fn ping(coroutine: *mut Coroutine) {
    // SAFETY: the coroutine is alive and suspended, as `resume` requires.
    black_box(unsafe { switch(&raw mut (*coroutine).resumer, (*coroutine).own, 0) });
}

fn ping_pong() -> Box<Coroutine> {
    Coroutine::new(|this, _| {
        loop {
            pong(this);
        }
    })
}

/// Ends the process if `condition` is false: a handler must not unwind.
fn insist(condition: bool, what: &str, walk: &Walk) {
    if !condition {
        eprintln!(
            "{what}: reason {}, pc {:#x}, functions {:x?}",
            walk.reason,
            walk.pc,
            &walk.functions[..walk.length]
        );
        eprintln!("switch, leave, trampoline: {:x?}", regions());
        std::process::abort();
    }
}

#[test]
fn a_profiler_can_unwind_from_anywhere() {
    extern "C" fn sample(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        let watched = WATCHED.load(Ordering::Relaxed);
        if watched.is_null() {
            return;
        }
        let walk = walk(context.cast(), DEPTH);
        SAMPLES.fetch_add(1, Ordering::Relaxed);
        insist(walk.reason == END_OF_STACK && walk.length > 0, "does not end", &walk);
        insist(walk.length < DEPTH, "too deep", &walk);
        // SAFETY: the stack of the watched coroutine does not change while it is watched.
        let inside = unsafe { (*watched).holds(walk.sp) };
        let [switch, _, trampoline] = regions();
        if inside {
            let root = walk.functions[walk.length - 1];
            insist(root == trampoline, "does not end at the root of the coroutine", &walk);
        }
        if walk.functions[0] == switch {
            let caller = if inside { pong as *const () } else { ping as *const () };
            insist(walk.functions[1] == caller as usize, "wrong caller", &walk);
            IN_SWITCH[usize::from(inside)].fetch_add(1, Ordering::Relaxed);
        }
    }

    // In a process of its own: the timer counts the time of all threads and hits any of them.
    if role().is_none() {
        let name = "asm::tests::unwinding::a_profiler_can_unwind_from_anywhere";
        let output = rerun(name, "profiled");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {text}", output.status);
        return;
    }
    let mut coroutine = ping_pong();
    ping(&mut *coroutine);
    WATCHED.store(&mut *coroutine, Ordering::Relaxed);
    handle(libc::SIGPROF, sample);
    let tick = libc::timeval { tv_sec: 0, tv_usec: 1000 };
    let timer = libc::itimerval { it_interval: tick, it_value: tick };
    // SAFETY: the timer is a valid one.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, null_mut()) }, 0);
    let start = Instant::now();
    let seen = |side: usize| IN_SWITCH[side].load(Ordering::Relaxed);
    // At least 200 ms, and until both sides of the hinge have been hit.
    while start.elapsed() < Duration::from_millis(200)
        || ((seen(0) == 0 || seen(1) == 0) && start.elapsed() < Duration::from_secs(5))
    {
        for _ in 0..1000 {
            ping(&mut *coroutine);
        }
    }
    WATCHED.store(null_mut(), Ordering::Relaxed);
    let samples = SAMPLES.load(Ordering::Relaxed);
    eprintln!("{samples} samples, in the switch: {} + {}", seen(0), seen(1));
    assert!(samples > 0);
    assert!(seen(0) > 0 && seen(1) > 0, "never hit the switch: {} + {}", seen(0), seen(1));
}

/// Tests that single-step through the routines.
#[cfg(target_arch = "x86_64")]
mod steps {
    use std::arch::asm;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::asm::tests::registers::{switch_with_registers, values};

    /// The maximum number of instructions of the routines that are examined.
    const LIMIT: usize = 256;

    /// Functions whose instructions are examined too: those with an inlined switch.
    static CALLERS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    static LENGTH: AtomicUsize = AtomicUsize::new(DEPTH);
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    static mut STEPS: [Option<Walk>; LIMIT] = [const { None }; LIMIT];

    /// Walks the stack at each instruction of the routines; ignores all other code.
    extern "C" fn step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        let context: *mut libc::ucontext_t = context.cast();
        if OVER.load(Ordering::Relaxed) {
            // SAFETY: this is the kernel's context. Clearing the trap flag in it takes effect when
            // the handler returns.
            unsafe { (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP };
            return;
        }
        // SAFETY: this is the kernel's context.
        let pc = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize };
        let routine = region(pc + 1);
        let is_caller = |caller: &AtomicUsize| caller.load(Ordering::Relaxed) == routine;
        let caller = routine != 0 && CALLERS.iter().any(is_caller);
        if caller || regions().contains(&routine) || routine == cold_call() {
            let index = COUNT.fetch_add(1, Ordering::Relaxed);
            // SAFETY: only the stepping thread gets here, and it reads the steps only after the
            // stepping has ended.
            unsafe {
                let steps = &raw mut STEPS;
                (*steps)[index] = Some(walk(context, LENGTH.load(Ordering::Relaxed)));
            }
        }
    }

    const TRAP: i64 = 0x100;

    /// Runs `code` instruction by instruction. Returns one walk of up to `limit` functions for each
    /// instruction in the routines and in `callers`.
    fn single_steps(limit: usize, callers: [usize; 2], code: impl FnOnce()) -> Vec<Walk> {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
        handle(libc::SIGTRAP, step);
        LENGTH.store(limit, Ordering::Relaxed);
        for (place, caller) in CALLERS.iter().zip(callers) {
            place.store(caller, Ordering::Relaxed);
        }
        COUNT.store(0, Ordering::Relaxed);
        OVER.store(false, Ordering::Relaxed);
        // SAFETY: sets the trap flag, which only the handler notices.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        code();
        OVER.store(true, Ordering::Relaxed);
        // One more instruction, at which the handler clears the flag.
        // SAFETY: a `nop` has no effect.
        unsafe { asm!("nop") };
        let count = COUNT.load(Ordering::Relaxed);
        // SAFETY: the handler has cleared the trap flag and does not run any more.
        unsafe {
            let steps = &raw mut STEPS;
            (0..count).map(|i| (*steps)[i].take().unwrap()).collect()
        }
    }

    fn cold_call() -> usize {
        region(external::cold_call as *const () as usize + 1)
    }

    #[test]
    fn each_instruction_of_a_cold_call_unwinds_to_its_caller() {
        extern "C" fn nothing(_: *mut u8) {}
        #[inline(never)]
        extern "C" fn caller() {
            // SAFETY: `nothing` takes any argument.
            unsafe { crate::asm::call_cold(nothing, null_mut()) };
            black_box(());
        }
        let steps = single_steps(DEPTH, [0; 2], || caller());
        for step in &steps {
            assert_eq!(step.reason, END_OF_STACK);
            let functions = &step.functions[..step.length];
            assert_eq!(functions[0], cold_call());
            assert_eq!(functions[1], caller as *const () as usize, "{functions:x?}");
        }
        assert_eq!(distinct(&steps, cold_call()), 20);
    }

    fn distinct(steps: &[Walk], routine: usize) -> usize {
        let of_routine = steps.iter().filter(|step| step.functions[0] == routine);
        of_routine.map(|step| step.pc).collect::<HashSet<_>>().len()
    }

    #[test]
    fn each_instruction_unwinds_to_its_caller() {
        let [switch, leave, trampoline] = regions();
        let mut coroutine = Coroutine::new(|this, _| {
            pong(this);
            7
        });
        let this: *mut Coroutine = &mut *coroutine;
        let root = run as *const () as usize;
        let steps = single_steps(DEPTH, [0; 2], || {
            // The coroutine starts, suspends, goes on and ends.
            ping(this);
            ping(this);
        });
        for step in &steps {
            assert_eq!(step.reason, END_OF_STACK);
            assert!((1..DEPTH).contains(&step.length));
            let functions = &step.functions[..step.length];
            let offset = step.pc - functions[0];
            if coroutine.holds(step.sp - 1) {
                assert_eq!(*functions.last().unwrap(), trampoline, "{offset:#x} {functions:x?}");
                // Inside the coroutine: only the root before its start, and the functions of the
                // test afterwards.
                if functions[0] == trampoline {
                    assert_eq!(functions.len(), 1);
                } else if functions.len() > 2 {
                    assert!(functions.contains(&root), "{offset:#x} {functions:x?}");
                    let caller = functions[1] == pong as *const () as usize;
                    assert_eq!(caller, functions[0] == switch, "{offset:#x}");
                }
            } else {
                assert_eq!(functions[1], ping as *const () as usize, "{offset:#x}");
                assert!(!functions.contains(&trampoline));
                assert!(functions.len() > 5, "the thread's own frames follow");
            }
        }
        // Every instruction was seen: a smaller number would mean that the test misses some.
        assert_eq!(distinct(&steps, switch), 18);
        assert_eq!(distinct(&steps, leave), 10);
        assert_eq!(distinct(&steps, trampoline), 4);
        assert_eq!(steps.iter().filter(|s| s.functions[0] == switch).count(), 3 * 18);
    }

    /// The two sides of an inlined switch, in functions of their own.
    #[cfg(cygnet_inline_switch)]
    mod inlined {
        use super::super::super::pair::{Twin, root};
        use super::*;

        #[inline(never)]
        extern "C" fn resume(twin: &Twin) {
            // SAFETY: the test calls this for a new or suspended coroutine.
            black_box(unsafe { twin.resume() });
        }

        #[inline(never)]
        extern "C" fn suspend(twin: &Twin) {
            // SAFETY: the body calls this.
            black_box(unsafe { twin.suspend() });
        }

        #[test]
        fn each_instruction_of_an_inlined_switch_unwinds_to_its_caller() {
            let twin = Twin::new(|twin| {
                twin.passed.set(twin.pair().kept()[1][0]);
                suspend(twin);
            });
            let of = |function: extern "C" fn(&Twin)| region(function as *const () as usize + 1);
            let (resume_region, suspend_region) = (of(resume), of(suspend));
            let root = region(root as *const () as usize + 1);
            let [_, _, trampoline] = regions();
            // The coroutine starts, suspends, goes on and ends.
            let steps = single_steps(DEPTH, [resume_region, suspend_region], || {
                resume(&twin);
                resume(&twin);
            });
            let mut seen = [0; 4];
            for step in &steps {
                assert_eq!(step.reason, END_OF_STACK);
                let functions = &step.functions[..step.length];
                let inside = twin.holds(step.sp - 1);
                let offset = step.pc - functions[0];
                let text = || format!("{offset:#x} {inside} {functions:x?}");
                assert_eq!(*functions.last().unwrap() == trampoline, inside, "{}", text());
                let resuming = functions[0] == resume_region;
                match (resuming, inside) {
                    _ if functions[0] == trampoline => {}
                    (true, false) => assert!(functions.len() > 5, "{}", text()),
                    (false, true) => assert!(functions[1..].contains(&root), "{}", text()),
                    // Behind the hinge the caller is the other side.
                    (true, true) => {
                        assert!([suspend_region, trampoline].contains(&functions[1]), "{}", text());
                    }
                    (false, false) => assert_eq!(functions[1], resume_region, "{}", text()),
                }
                seen[2 * usize::from(resuming) + usize::from(inside)] += 1;
            }
            // Behind its hinge the suspension unwinds into the first resumption, and behind theirs
            // the resumptions into the start and into the suspension.
            for step in &steps {
                let inside = twin.holds(step.sp - 1);
                if step.functions[0] == suspend_region && !inside {
                    assert_eq!(step.registers[0], twin.passed.get());
                }
                if step.functions[0] == resume_region && inside && step.functions[1] != trampoline {
                    assert_eq!(step.registers[..2], twin.pair().kept()[0]);
                }
            }
            // Behind a hinge come two loads, for the suspension a store, and the jump.
            assert_eq!(seen[0], 4, "the suspension");
            assert_eq!(seen[3], 2 * 3, "the resumptions");
            assert!(seen[1] > 8 && seen[2] > 16, "{seen:?}");
        }
    }

    #[test]
    fn each_instruction_restores_the_registers_of_its_caller() {
        let mut coroutine = Coroutine::new(|this, _| {
            loop {
                // SAFETY: runs on the coroutine's own stack, as `suspend` does.
                unsafe {
                    switch_with_registers(&raw mut (*this).own, (*this).resumer, 0, &values(1))
                };
            }
        });
        let this: *mut Coroutine = &mut *coroutine;
        let resume = || {
            // SAFETY: the coroutine is alive and suspended, as `resume` requires.
            unsafe {
                switch_with_registers(&raw mut (*this).resumer, (*this).own, 0, &values(2));
            }
        };
        resume();
        // The caller's caller is out of reach: `switch_with_registers` has pushed registers without
        // rules.
        let steps = single_steps(2, [0; 2], resume);
        assert_eq!(steps.len(), 2 * 18);
        for step in &steps {
            let side = if coroutine.holds(step.sp) { 1 } else { 2 };
            let offset = step.pc - step.functions[0];
            assert_eq!(step.registers, values(side)[..6], "at {offset:#x}, side {side}");
        }
    }
}
