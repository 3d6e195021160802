//! Tests of stack memory: limits, guards, and the return of memory to the kernel.

use std::fs;
use std::time::Instant;

use super::super::guard::tests::faults;
use super::super::pool::StackPool;
use super::super::rerun::alone;
use super::*;

const CLASS: StackClass = StackClass::DEFAULT;
const MIB: usize = 1 << 20;

/// Writes to the stack where a first frame would.
fn touch(stack: &Stack) {
    // SAFETY: the 16 bytes below the top belong to the stack, which the test owns.
    unsafe { stack.top().wrapping_sub(16).write(1) };
}

fn take_many(memory: &StackMemory, count: usize) -> Vec<Stack> {
    (0..count).map(|_| memory.take(CLASS).unwrap()).collect()
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * page_size()
}

/// Returns the bytes of this process's page tables.
fn page_tables() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPTE:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn a_stack_is_usable_from_its_bottom_to_its_end_and_guarded_below() {
    let memory = StackMemory::new(None);
    for index in [0, CLASS.index(), CLASS.index() + 4, StackClass::COUNT - 1] {
        let class = StackClass::from_index(index);
        let stacks = [memory.take(class).unwrap(), memory.take(class).unwrap()];
        for stack in &stacks {
            assert!(faults(stack.guard().start as *mut u8));
            assert!(faults(stack.bottom().wrapping_sub(page_size())));
            assert!(!faults(stack.bottom()));
            assert!(!faults(stack.limit_top().wrapping_sub(page_size())));
            assert_eq!(stack.limit_top() as usize - stack.bottom() as usize, class.usable());
        }
        memory.give_back(stacks);
    }
    assert_eq!(memory.counters().live, 0);
}

#[test]
fn a_reused_stack_has_its_guard_and_reads_as_zero() {
    for guard in [GuardKind::of_this_kernel(), GuardKind::Protection] {
        let memory = StackMemory::with_guard(None, guard, usize::MAX);
        let stack = memory.take(CLASS).unwrap();
        let (guard, bottom) = (stack.guard().start as *mut u8, stack.bottom());
        // SAFETY: the bottom is the lowest usable address of a stack that the test owns.
        unsafe { bottom.write(7) };
        memory.give_back([stack]);
        let again = memory.take(CLASS).unwrap();
        assert_eq!(again.bottom(), bottom);
        assert!(faults(guard));
        // SAFETY: the bottom is the lowest usable address of a stack that the test owns.
        assert_eq!(unsafe { bottom.read() }, 0);
        memory.give_back([again]);
    }
}

#[test]
fn the_limit_counts_stacks_of_every_class_until_they_are_given_back() {
    let memory = StackMemory::new(Some(2));
    let large = StackClass::for_size(MIB).unwrap();
    let first = memory.take(CLASS).unwrap();
    let second = memory.take(large).unwrap();
    assert_eq!(memory.take(CLASS).unwrap_err(), StackExhausted::Limit);
    memory.give_back([second]);
    let third = memory.take(CLASS).unwrap();
    memory.give_back([first, third]);
    let counters = memory.counters();
    assert_eq!((counters.live, counters.high_water), (0, 2));
}

#[test]
fn all_idle_slabs_but_one_are_unmapped() {
    let memory = StackMemory::new(None);
    let stacks = take_many(&memory, 3_000);
    let counters = memory.counters();
    assert_eq!(counters.slabs, 3_000_usize.div_ceil(64 * MIB / CLASS.stride()));
    assert_eq!(counters.mapped, counters.slabs * 64 * MIB);
    memory.give_back(stacks);
    assert_eq!(memory.counters().slabs, 1);
}

#[test]
fn few_stacks_gather_in_few_slabs() {
    let memory = StackMemory::new(None);
    let mut stacks = take_many(&memory, 5_000);
    // One stack in three stays, so that no slab falls idle.
    let mut index = 0;
    let (stay, go): (Vec<_>, Vec<_>) = stacks.drain(..).partition(|_| {
        index += 1;
        index % 3 == 0
    });
    memory.give_back(go);
    // The next thousand stacks fill the first slabs, and giving back the rest empties the last
    // slabs.
    let next = take_many(&memory, 1_000);
    memory.give_back(stay);
    assert!(memory.counters().slabs < 5_000_usize.div_ceil(64 * MIB / CLASS.stride()));
    memory.give_back(next);
}

#[test]
fn a_stack_in_use_outlives_its_stack_memory() {
    let memory = StackMemory::new(None);
    let stack = memory.take(CLASS).unwrap();
    drop(memory);
    touch(&stack);
    assert!(faults(stack.guard().start as *mut u8));
}

#[test]
fn guards_that_split_mappings_are_limited() {
    let memory = StackMemory::with_guard(None, GuardKind::Protection, 5);
    let stacks = take_many(&memory, 5);
    assert_eq!(memory.take(CLASS).unwrap_err(), StackExhausted::MapCount);
    assert_eq!(memory.counters().live, 5);
    // A slot that has its guard costs no further mapping.
    memory.give_back(stacks);
    memory.give_back(take_many(&memory, 5));
    // Guards go with their slab: another class may have guards instead.
    let large = StackClass::for_size(MIB).unwrap();
    memory.give_back([memory.take(large).unwrap()]);
    assert_eq!(memory.counters().slabs, 1);
}

#[test]
#[should_panic(expected = "memory it was not cut from")]
fn a_stack_of_one_runtime_cannot_be_given_back_to_another() {
    let mine = StackMemory::new(None);
    StackMemory::new(None).give_back([mine.take(CLASS).unwrap()]);
}

#[test]
fn threads_take_and_give_back_concurrently() {
    let memory = StackMemory::new(None);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 1..50 {
                    let stacks = take_many(&memory, round * 10 % 97 + 1);
                    stacks.iter().for_each(touch);
                    memory.give_back(stacks);
                }
            });
        }
    });
    let counters = memory.counters();
    assert_eq!((counters.live, counters.slabs), (0, 1));
}

#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer: its shadow takes mappings of its own")]
#[test]
fn markers_take_no_mapping() {
    if GuardKind::of_this_kernel() != GuardKind::Marker {
        return;
    }
    alone("retire::memory::tests::markers_take_no_mapping", || {
        let memory = StackMemory::new(None);
        let before = mappings();
        let stacks = take_many(&memory, 100_000);
        // The kernel may merge adjacent slabs into one mapping, or not.
        assert!(mappings() <= before + memory.counters().slabs);
        memory.give_back(stacks);
    });
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer needs mappings of its own")]
fn a_shortage_of_mappings_is_reported_as_such() {
    alone("retire::memory::tests::a_shortage_of_mappings_is_reported_as_such", || {
        // Reserved now: later, vectors and messages must not need a mapping.
        let mut stacks = Vec::with_capacity(1_000_000);
        let memory = StackMemory::with_guard(None, GuardKind::Protection, usize::MAX);
        let reason = loop {
            match memory.take(CLASS) {
                Ok(stack) if stacks.len() < stacks.capacity() => stacks.push(stack),
                // On a machine with a raised limit there is nothing to test.
                Ok(_) => return,
                Err(reason) => break reason,
            }
        };
        assert_eq!(reason, StackExhausted::MapCount);
        assert_eq!(memory.counters().live, stacks.len());
        memory.give_back(stacks);
        memory.give_back([memory.take(CLASS).unwrap()]);
    });
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer takes all address space")]
fn short_address_space_makes_slabs_smaller_before_a_take_fails() {
    const NAME: &str = "retire::memory::tests::\
        short_address_space_makes_slabs_smaller_before_a_take_fails";
    alone(NAME, || {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let used = statm.split(' ').next().unwrap().parse::<usize>().unwrap() * page_size();
        let most = (used + 100 * MIB + MIB / 3) as libc::rlim_t;
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the limit outlives the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        if memmap2::MmapOptions::new().len(200 * MIB).no_reserve_swap().map_anon().is_ok() {
            // An emulator accepts the limit and ignores it.
            return;
        }

        let memory = StackMemory::new(None);
        let mut stacks = Vec::new();
        let reason = loop {
            match memory.take(CLASS) {
                Ok(stack) if stacks.len() < 10_000 => stacks.push(stack),
                Ok(_) => panic!("the limit does not hold"),
                Err(reason) => break reason,
            }
        };
        assert_eq!(reason, StackExhausted::Memory { errno: libc::ENOMEM });
        // More than the one large slab that fits.
        assert!(stacks.len() > 64 * MIB / CLASS.stride());
        assert!(stacks.len() * CLASS.stride() <= 101 * MIB);

        // Another class can use the memory that the first class gives back.
        memory.give_back(stacks);
        let large = StackClass::for_size(64 * MIB).unwrap();
        memory.give_back([memory.take(large).unwrap()]);
    });
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer's shadow counts as resident")]
fn after_a_trim_a_hundred_thousand_touched_stacks_are_no_longer_resident() {
    const NAME: &str = "retire::memory::tests::\
        after_a_trim_a_hundred_thousand_touched_stacks_are_no_longer_resident";
    const COUNT: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    const BOUND: usize = 64;
    alone(NAME, || {
        let memory = StackMemory::new(None);
        let mut pool = StackPool::new(BOUND);
        let mut cycle = || {
            let (resident_before, tables_before) = (resident(), page_tables());
            let stacks: Vec<_> = (0..COUNT).map(|_| pool.take(CLASS, &memory).unwrap()).collect();
            stacks.iter().for_each(touch);
            assert!(resident() > resident_before + COUNT * page_size() / 2);
            stacks.into_iter().for_each(|stack| pool.put(stack));
            let mut calls = 0;
            while pool.trim(&memory, 0) {
                calls += 1;
                assert!(calls < COUNT);
            }
            assert_eq!((pool.warm(), memory.counters().live), (BOUND, BOUND));
            let tables = page_tables().saturating_sub(tables_before);
            (resident().saturating_sub(resident_before), tables)
        };
        // In the first cycle the allocator grows. An emulator, which has no markers, keeps records
        // of its own about each split mapping.
        let lax = COUNT * page_size() / 4;
        let strict = if memory.guard == GuardKind::Marker { 4 * MIB } else { lax };
        let (first, tables) = cycle();
        assert!(first < lax, "{first} bytes stay resident");
        assert!(tables < COUNT * CLASS.stride() / 512 / 2, "{tables} bytes of page tables stay");
        let (second, _) = cycle();
        assert!(second < strict, "{second} more bytes stay resident the second time");
        pool.drain(&memory);
        assert!(memory.counters().slabs <= 1);
    });
}

/// Prints the figures of STACKS.md. To run it:
/// `cargo test --release --lib -- --ignored stack_figures --nocapture`
#[test]
#[ignore = "a measurement, with up to 5 GiB resident"]
fn stack_figures() {
    /// Prints how long `f` takes, divided by `count`.
    fn time<R>(what: &str, count: usize, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        println!("{what}: {:.1} ns", start.elapsed().as_nanos() as f64 / count as f64);
        result
    }
    alone("retire::memory::tests::stack_figures", || {
        println!("guards: {:?}", GuardKind::of_this_kernel());
        let map = || (0..100).map(|_| Slab::map(CLASS).unwrap()).collect::<Vec<_>>();
        let slabs = time("map a slab", 100, map);
        time("unmap an untouched one", 100, || drop(slabs));

        for guard in [GuardKind::of_this_kernel(), GuardKind::Protection] {
            let memory = StackMemory::with_guard(None, guard, usize::MAX);
            let what = format!("take a fresh stack, {guard:?}");
            let stacks = time(&what, 20_000, || take_many(&memory, 20_000));
            memory.give_back(stacks);
        }

        let memory = StackMemory::new(None);
        let mut pool = StackPool::new(64);
        let first = pool.take(CLASS, &memory).unwrap();
        pool.put(first);
        time("take a warm stack and put it", 10_000_000, || {
            for _ in 0..10_000_000 {
                let stack = pool.take(std::hint::black_box(CLASS), &memory).unwrap();
                pool.put(std::hint::black_box(stack));
            }
        });
        for count in [100_000, 1_000_000] {
            println!("{count} stacks, each:");
            let take = || (0..count).map(|_| pool.take(CLASS, &memory).unwrap()).collect();
            let stacks: Vec<_> = time("take", count, take);
            time("touch once", count, || stacks.iter().for_each(touch));
            time("put", count, || stacks.into_iter().for_each(|stack| pool.put(stack)));
            time("trim", count, || while pool.trim(&memory, 0) {});
        }
        pool.drain(&memory);
    });
}
