//! All stack memory of one runtime: its slabs, ordered by size class, and the limits on stacks and
//! guards.

use std::collections::BTreeSet;
use std::{array, fs, ptr};

use crate::shim::{Fault, Mutex, fault, is_simulated};

use super::guard::{GUARD, GuardKind, Pages, page_size};
use super::slab::Slab;
use super::spare_slab;
use super::stack::{Stack, StackClass, StackExhausted};

/// Slabs without a stack in use that each class keeps mapped. A load that varies around the edge of
/// a slab thus does not map and unmap it each time.
const IDLE_SLABS: usize = 1;

/// The source of stacks, to which they are given back. Shared by the workers of a runtime; see
/// STACKS.md.
pub(crate) struct StackMemory {
    guard: GuardKind,
    max_stacks: usize,
    /// The limit on guards that split a mapping.
    max_splits: usize,
    /// Consistent at each point where a panic can occur under the lock.
    ledger: Mutex<Ledger>,
}

/// The slabs and counters, under the lock.
struct Ledger {
    /// Stacks in use or warm in a pool.
    live: usize,
    /// The largest value that `live` has had.
    high_water: usize,
    /// Existing guards that split a mapping.
    splits: usize,
    shelves: [Shelf; StackClass::COUNT],
}

/// The slabs of one class.
#[derive(Default)]
struct Shelf {
    /// The slabs by number. A slab keeps its number as long as it is mapped.
    slabs: Vec<Option<Slab>>,
    /// Numbers without a slab.
    unused: Vec<u32>,
    /// The numbers of slabs with a vacant slot. The lowest is used first, so that the others may
    /// fall idle.
    open: BTreeSet<u32>,
    /// The number of slabs with all slots vacant.
    idle: usize,
}

/// A snapshot of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StackCounters {
    /// Stacks in use or warm in a pool.
    pub(crate) live: usize,
    /// The largest value that `live` has had.
    pub(crate) high_water: usize,
    /// Slabs mapped.
    pub(crate) slabs: usize,
    /// Bytes of address space of the slabs; most of it is not resident.
    pub(crate) mapped: usize,
}

impl StackMemory {
    /// Creates stack memory without any slab. The first stack maps one.
    pub(crate) fn new(max_stacks: Option<usize>) -> StackMemory {
        let guard = GuardKind::of_this_kernel();
        let max_splits = if guard == GuardKind::Protection { max_splits() } else { usize::MAX };
        StackMemory::with_guard(max_stacks, guard, max_splits)
    }

    pub(super) fn with_guard(
        max_stacks: Option<usize>,
        guard: GuardKind,
        max_splits: usize,
    ) -> StackMemory {
        assert!(GUARD.is_multiple_of(page_size()), "a guard must consist of whole pages");
        StackMemory {
            guard,
            max_stacks: max_stacks.unwrap_or(usize::MAX),
            max_splits: if guard == GuardKind::Protection { max_splits } else { usize::MAX },
            ledger: Mutex::new(Ledger {
                live: 0,
                high_water: 0,
                splits: 0,
                shelves: array::from_fn(|_| Shelf::default()),
            }),
        }
    }

    /// Takes a guarded stack of a class. Costs a lock acquisition, and at the first use of the slot
    /// also a system call.
    pub(crate) fn take(&self, class: StackClass) -> Result<Stack, StackExhausted> {
        self.take_within(self.max_stacks, class)
    }

    /// Takes a stack even if the limit is reached.
    pub(crate) fn take_extra(&self, class: StackClass) -> Result<Stack, StackExhausted> {
        self.take_within(usize::MAX, class)
    }

    fn take_within(&self, limit: usize, class: StackClass) -> Result<Stack, StackExhausted> {
        if fault(Fault::Stack) {
            return Err(StackExhausted::Memory { errno: libc::ENOMEM });
        }
        let (stack, guarded) = self.ledger.lock().take(self, limit, class)?;
        // Outside of the lock, as the slot belongs to this handle and other workers need stacks
        // too.
        if !guarded && let Err(errno) = stack.guard_pages().install(self.guard) {
            self.ledger.lock().put_bare(stack);
            return Err(refusal(errno));
        }
        #[cfg(cygnet_asan)]
        stack.unpoison();
        Ok(stack)
    }

    /// Takes a stack, and up to `extra` more of the same class for later. One system call installs
    /// all their guards. Takes no extra stacks where that would save nothing, or where stacks are
    /// scarce: if the first slot has its guard already, without guard markers, with a limit on
    /// stacks, and for classes above the default. A simulation looks at the last two alone, since
    /// the others depend on the machine and on the runtimes before.
    pub(crate) fn take_several(
        &self,
        class: StackClass,
        extra: usize,
    ) -> Result<(Stack, Vec<Stack>), StackExhausted> {
        let marks = self.guard == GuardKind::Marker;
        let scarce = self.max_stacks != usize::MAX || !marks && !is_simulated();
        if extra == 0 || scarce || class > StackClass::DEFAULT {
            return Ok((self.take(class)?, Vec::new()));
        }
        if fault(Fault::Stack) {
            return Err(StackExhausted::Memory { errno: libc::ENOMEM });
        }
        let mut bare = Vec::with_capacity(1 + extra);
        let mut guarded = Vec::new();
        {
            let mut ledger = self.ledger.lock();
            let (first, has_guard) = ledger.take(self, self.max_stacks, class)?;
            if has_guard && !is_simulated() {
                // Most likely its neighbours have guards too, so there is nothing to save.
                return Ok((first, guarded));
            }
            bare.push(first);
            // Extra stacks come only from slabs that are already mapped.
            while bare.len() + guarded.len() <= extra
                && !ledger.shelves[class.index()].open.is_empty()
                && let Ok((stack, has_guard)) = ledger.take(self, self.max_stacks, class)
            {
                if has_guard { guarded.push(stack) } else { bare.push(stack) }
            }
        }
        let places: Vec<_> = bare.iter().map(Stack::guard_pages).collect();
        let installed = if marks { Pages::install_markers(&places) } else { 0 };
        let mut first = None;
        for (index, stack) in bare.into_iter().enumerate() {
            let done = index < installed || stack.guard_pages().install(self.guard).is_ok();
            match (done, &first) {
                (true, None) => first = Some(stack),
                (true, Some(_)) => guarded.push(stack),
                (false, _) => self.ledger.lock().put_bare(stack),
            }
        }
        match first.or_else(|| guarded.pop()) {
            Some(first) => Ok((first, guarded)),
            None => Ok((self.take(class)?, guarded)),
        }
    }

    /// Gives back the last few stacks of a worker that ends, without discarding their memory. It
    /// stays resident as long as the slab is mapped, and the next runtime may inherit the slab.
    pub(crate) fn give_back_warm(&self, stacks: Vec<Stack>) {
        let mut surplus = Vec::new();
        self.ledger.lock().put(stacks, &mut surplus);
        drop(surplus);
    }

    /// Gives stacks back: returns their memory to the kernel, makes their slots vacant, and unmaps
    /// slabs that have fallen idle, except one in each class.
    ///
    /// No code may be running on any of the stacks. Give many back at once if possible: adjacent
    /// stacks are discarded as one range, and all ranges by few system calls.
    ///
    /// # Panics
    /// If a stack was cut from another runtime's memory.
    pub(crate) fn give_back(&self, stacks: impl IntoIterator<Item = Stack>) {
        let mut stacks: Vec<Stack> = stacks.into_iter().collect();
        if stacks.is_empty() {
            return;
        }
        stacks.sort_unstable_by_key(|stack| stack.base() as usize);
        let runs = stacks.chunk_by(|a, b| a.limit_top() == b.base()).map(|run| {
            let from = run[0].bottom();
            let len = run[run.len() - 1].limit_top() as usize - from as usize;
            // SAFETY: the handles own the memory from the first bottom to the last end of the run,
            // including the guards in between. The caller has given them up, so the contents are
            // not needed.
            unsafe { Pages::new(from, len) }
        });
        Pages::discard_all(&runs.collect::<Vec<_>>());
        let mut surplus = Vec::new();
        self.ledger.lock().put(stacks, &mut surplus);
        // Unmapping is slow, so it happens after the lock is released.
        drop(surplus);
    }

    /// Returns whether the limit allows another stack. Takes the lock.
    pub(crate) fn has_room(&self) -> bool {
        self.ledger.lock().live < self.max_stacks
    }

    /// Returns a snapshot of the counters. Takes the lock.
    pub(crate) fn counters(&self) -> StackCounters {
        let ledger = self.ledger.lock();
        let slabs = || ledger.shelves.iter().flat_map(|shelf| shelf.slabs.iter().flatten());
        StackCounters {
            live: ledger.live,
            high_water: ledger.high_water,
            slabs: slabs().count(),
            mapped: slabs().map(Slab::bytes).sum(),
        }
    }
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        if self.guard == GuardKind::Marker {
            let ledger = self.ledger.get_mut();
            spare_slab::keep(ledger.shelves[StackClass::DEFAULT.index()].slabs.drain(..).flatten());
        }
    }
}

impl Ledger {
    /// Takes a slot of the class. Returns its handle, and whether the slot has its guard already.
    fn take(
        &mut self,
        memory: &StackMemory,
        limit: usize,
        class: StackClass,
    ) -> Result<(Stack, bool), StackExhausted> {
        if self.live >= limit {
            return Err(StackExhausted::Limit);
        }
        if self.shelves[class.index()].open.is_empty() {
            self.grow(memory.guard, class)?;
        }
        let shelf = &mut self.shelves[class.index()];
        let number = *shelf.open.first().expect("grow adds an open slab");
        let slab = shelf.slabs[number as usize].as_mut().expect("an open slab is mapped");
        let was_idle = slab.is_idle();
        let (base, guarded) = slab.take().expect("an open slab has a vacant slot");
        let stack = Stack::new(base, number, class);
        if !guarded && memory.guard == GuardKind::Protection {
            if self.splits >= memory.max_splits {
                slab.put_bare(stack.base());
                // Guards of idle slabs can be given up. The recursion ends, because `splits` falls
                // each time.
                let before = self.splits;
                self.release_idle();
                if self.splits < before {
                    return self.take(memory, limit, class);
                }
                return Err(StackExhausted::MapCount);
            }
            self.splits += 1;
        }
        if slab.is_full() {
            shelf.open.remove(&number);
        }
        shelf.idle -= usize::from(was_idle);
        self.live += 1;
        self.high_water = self.high_water.max(self.live);
        Ok((stack, guarded))
    }

    /// Adds a slab to the class.
    fn grow(&mut self, guard: GuardKind, class: StackClass) -> Result<(), StackExhausted> {
        // Guards that split mappings belong to the runtime that has counted them, so only slabs
        // with markers are passed from one runtime to the next.
        let spare = if guard == GuardKind::Marker { spare_slab::take(class) } else { None };
        let slab = spare.map_or_else(|| Slab::map(class), Ok).or_else(|errno| {
            // Address space is short, and other classes may hold idle slabs.
            if !self.release_idle() {
                return Err(refusal(errno));
            }
            Slab::map(class).map_err(refusal)
        })?;
        let shelf = &mut self.shelves[class.index()];
        let number = shelf.unused.pop().unwrap_or_else(|| {
            shelf.slabs.push(None);
            (shelf.slabs.len() - 1) as u32
        });
        shelf.slabs[number as usize] = Some(slab);
        shelf.open.insert(number);
        shelf.idle += 1;
        Ok(())
    }

    /// Unmaps every idle slab. Returns whether there was one.
    fn release_idle(&mut self) -> bool {
        let mut released = Vec::new();
        for shelf in self.shelves.iter_mut().filter(|shelf| shelf.idle > 0) {
            for number in 0..shelf.slabs.len() as u32 {
                if shelf.slabs[number as usize].as_ref().is_some_and(Slab::is_idle) {
                    released.extend(shelf.remove(number));
                }
            }
        }
        self.forget_splits(&released);
        !released.is_empty()
    }

    /// Makes the slots of the stacks vacant. Moves the slabs to unmap to `surplus`.
    fn put(&mut self, stacks: Vec<Stack>, surplus: &mut Vec<Slab>) {
        for stack in stacks {
            let shelf = &mut self.shelves[stack.class().index()];
            if shelf.put(&stack, Slab::put) && shelf.idle > IDLE_SLABS {
                surplus.extend(shelf.remove(stack.slab()));
            }
            self.live -= 1;
        }
        self.forget_splits(surplus);
    }

    /// Makes a slot vacant after its guard could not be installed.
    fn put_bare(&mut self, stack: Stack) {
        self.live -= 1;
        self.splits = self.splits.saturating_sub(1);
        // The slab is kept even if it is idle now: the system is short of some resource, and
        // mapping the slab again would fail next.
        self.shelves[stack.class().index()].put(&stack, Slab::put_bare);
    }

    /// Subtracts the guards of slabs that are unmapped.
    fn forget_splits(&mut self, slabs: &[Slab]) {
        // With markers, `splits` is never raised and stays 0.
        let guards: usize = slabs.iter().map(Slab::guards).sum();
        self.splits = self.splits.saturating_sub(guards);
    }
}

impl Shelf {
    /// Makes the stack's slot vacant. Returns whether its slab has fallen idle.
    fn put(&mut self, stack: &Stack, how: fn(&mut Slab, *mut u8)) -> bool {
        let number = stack.slab();
        let slab = self.slabs.get_mut(number as usize).and_then(Option::as_mut);
        let slab = slab.expect("a stack was given back to memory it was not cut from");
        if slab.is_full() {
            self.open.insert(number);
        }
        how(slab, stack.base());
        let idle = slab.is_idle();
        self.idle += usize::from(idle);
        idle
    }

    /// Takes an idle slab off the shelf.
    fn remove(&mut self, number: u32) -> Option<Slab> {
        self.idle -= 1;
        self.open.remove(&number);
        self.unused.push(number);
        self.slabs[number as usize].take()
    }
}

/// Translates an errno of mmap, madvise or mprotect into a reason.
fn refusal(errno: i32) -> StackExhausted {
    if errno == libc::ENOMEM && !another_mapping_fits() {
        StackExhausted::MapCount
    } else {
        StackExhausted::Memory { errno }
    }
}

/// Returns whether the process may have another mapping. The kernel answers ENOMEM to every
/// shortage. But inaccessible pages need no memory, so splitting a few of them fails only if the
/// mappings, or the very last pages of address space, have run out.
fn another_mapping_fits() -> bool {
    let page = page_size();
    // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            3 * page,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if pages == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the middle one of the three pages mapped above, which only this function knows.
    let split = unsafe { libc::mprotect(pages.wrapping_byte_add(page), page, libc::PROT_READ) };
    // SAFETY: the three pages mapped above, which only this function knows.
    unsafe { libc::munmap(pages, 3 * page) };
    split == 0
}

/// Returns how many stacks may have a guard that splits a mapping. Each costs two mappings. A
/// sixteenth of the mappings is left to the rest of the program, where an allocator or a thread
/// that gets none ends the process.
fn max_splits() -> usize {
    const KERNEL_DEFAULT: usize = 65_530;
    let allowed = fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(KERNEL_DEFAULT);
    (allowed - allowed / 16) / 2
}

#[cfg(all(test, not(loom)))]
#[path = "memory_tests.rs"]
mod tests;
