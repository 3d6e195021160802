//! All stack memory of one runtime: slabs by size class, what may exist, and what exists.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::{array, fs, ptr};

use crate::shim::{Fault, Mutex, MutexGuard, fault, is_simulated};

use super::guard::{GUARD, GuardKind, discard_all, install_markers, page_size};
use super::slab::Slab;
use super::spare_slab;
use super::stack::{Stack, StackClass, StackExhausted};

/// Slabs without a stack in use that each class keeps mapped, so that a load which comes and goes
/// around a slab's edge does not map and unmap each time.
const IDLE_SLABS: usize = 1;

/// Where stacks come from and go back to. Shared by the workers of a runtime; see STACKS.md.
pub(crate) struct StackMemory {
    guard: GuardKind,
    max_stacks: usize,
    /// Stacks whose guard may split a mapping.
    max_splits: usize,
    ledger: Mutex<Ledger>,
}

/// What exists, under the lock.
struct Ledger {
    live: usize,
    high_water: usize,
    /// Guards that exist and split a mapping.
    splits: usize,
    shelves: [Shelf; StackClass::COUNT],
}

/// The slabs of one class.
#[derive(Default)]
struct Shelf {
    /// A slab keeps its number as long as it lives.
    slabs: Vec<Option<Slab>>,
    /// Numbers without a slab.
    unused: Vec<u32>,
    /// Slabs with a vacant slot. The lowest is served first, so that the others may fall idle.
    open: BTreeSet<u32>,
    /// How many slabs are wholly vacant.
    idle: usize,
}

/// A look at the books.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StackCounters {
    /// Stacks in use or warm in a pool.
    pub(crate) live: usize,
    /// The most there have been at once.
    pub(crate) high_water: usize,
    /// Slabs mapped.
    pub(crate) slabs: usize,
    /// Bytes of address space they take; most of it is not resident.
    pub(crate) mapped: usize,
}

impl StackMemory {
    /// No memory is taken before the first stack.
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
        assert!(GUARD.is_multiple_of(page_size()), "guards are made of whole pages");
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

    /// A stack of the class, guarded. Costs a lock, and at the slot's first use a system call.
    pub(crate) fn take(&self, class: StackClass) -> Result<Stack, StackExhausted> {
        if fault(Fault::Stack) {
            return Err(StackExhausted::Memory { errno: libc::ENOMEM });
        }
        let (stack, guarded) = self.ledger().take(self, class)?;
        if !guarded {
            // Outside the lock: the slot is this handle's, and other workers want stacks too.
            // SAFETY: the guard is the start of a slot that is in use by nobody but this handle,
            // which never hands it out as usable.
            if let Err(errno) = unsafe { self.guard.install(stack.base()) } {
                self.ledger().put_bare(stack);
                return Err(refusal(errno));
            }
        }
        #[cfg(cygnet_asan)]
        stack.unpoison();
        Ok(stack)
    }

    /// As `take`, and up to `extra` more of the same class for later, whose guards come by the same system
    /// call. None extra where that would not be cheaper, or where stacks are scarce.
    pub(crate) fn take_several(
        &self,
        class: StackClass,
        extra: usize,
    ) -> Result<(Stack, Vec<Stack>), StackExhausted> {
        let scarce = self.max_stacks != usize::MAX || self.guard != GuardKind::Marker;
        if extra == 0 || scarce || class > StackClass::DEFAULT || is_simulated() {
            return Ok((self.take(class)?, Vec::new()));
        }
        let mut bare = Vec::with_capacity(1 + extra);
        let mut guarded = Vec::new();
        {
            let mut ledger = self.ledger();
            let (first, has_guard) = ledger.take(self, class)?;
            if has_guard {
                // So have its neighbours, most likely: nothing to be saved.
                return Ok((first, guarded));
            }
            bare.push(first);
            // Of slabs that are mapped.
            while bare.len() + guarded.len() <= extra
                && !ledger.shelves[class.index()].open.is_empty()
                && let Ok((stack, has_guard)) = ledger.take(self, class)
            {
                if has_guard { guarded.push(stack) } else { bare.push(stack) }
            }
        }
        let places: Vec<_> = bare.iter().map(Stack::base).collect();
        // SAFETY: as in `take`, for each of them.
        let installed = unsafe { install_markers(&places) };
        let mut first = None;
        for (index, stack) in bare.into_iter().enumerate() {
            // SAFETY: as in `take`.
            let done = index < installed || unsafe { self.guard.install(stack.base()) }.is_ok();
            match (done, &first) {
                (true, None) => first = Some(stack),
                (true, Some(_)) => guarded.push(stack),
                (false, _) => self.ledger().put_bare(stack),
            }
        }
        match first.or_else(|| guarded.pop()) {
            Some(first) => Ok((first, guarded)),
            None => Ok((self.take(class)?, guarded)),
        }
    }

    /// As `give_back`, for the last few stacks of a worker that ends: they stay resident as long as their
    /// slab is mapped, which the next runtime may inherit.
    pub(crate) fn give_back_warm(&self, stacks: Vec<Stack>) {
        let mut surplus = Vec::new();
        self.ledger().put(stacks, &mut surplus);
        drop(surplus);
    }

    /// Ends the stacks' lives: their memory goes back to the kernel, their slots become vacant, and
    /// slabs that fall idle are unmapped.
    ///
    /// Nobody may be running on one of them. Worth calling for many at once: neighbours are
    /// discarded by one system call.
    pub(crate) fn give_back(&self, stacks: impl IntoIterator<Item = Stack>) {
        let mut stacks: Vec<Stack> = stacks.into_iter().collect();
        if stacks.is_empty() {
            return;
        }
        stacks.sort_unstable_by_key(|stack| stack.base() as usize);
        let runs = stacks.chunk_by(|a, b| a.limit_top() == b.base()).map(|run| {
            let from = run[0].bottom();
            (from, run[run.len() - 1].limit_top() as usize - from as usize)
        });
        // SAFETY: the handles own the memory from the first bottom to the last end of each run, guards
        // between them included, and by giving them up say that nothing on it is needed.
        unsafe { discard_all(runs) };
        let mut surplus = Vec::new();
        self.ledger().put(stacks, &mut surplus);
        // Unmapping takes its time, so the lock is free by now.
        drop(surplus);
    }

    /// A look at the books; takes the lock.
    pub(crate) fn counters(&self) -> StackCounters {
        let ledger = self.ledger();
        let slabs = || ledger.shelves.iter().flat_map(|shelf| shelf.slabs.iter().flatten());
        StackCounters {
            live: ledger.live,
            high_water: ledger.high_water,
            slabs: slabs().count(),
            mapped: slabs().map(Slab::bytes).sum(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The books are in order between any two calls that could panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        if self.guard == GuardKind::Marker {
            let ledger = self.ledger.get_mut().unwrap_or_else(PoisonError::into_inner);
            spare_slab::keep(ledger.shelves[StackClass::DEFAULT.index()].slabs.drain(..).flatten());
        }
    }
}

impl Ledger {
    fn take(
        &mut self,
        memory: &StackMemory,
        class: StackClass,
    ) -> Result<(Stack, bool), StackExhausted> {
        if self.live >= memory.max_stacks {
            return Err(StackExhausted::Limit { max_stacks: memory.max_stacks });
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
                // Guards of idle slabs can go. Their number falls each time, so this comes to an end.
                let before = self.splits;
                self.release_idle();
                if self.splits < before {
                    return self.take(memory, class);
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

    /// Maps another slab for the class.
    fn grow(&mut self, guard: GuardKind, class: StackClass) -> Result<(), StackExhausted> {
        // Guards that split mappings belong to the runtime that has counted them.
        let spare = if guard == GuardKind::Marker { spare_slab::take(class) } else { None };
        let slab = spare.map_or_else(|| Slab::map(class), Ok).or_else(|errno| {
            // Address space is short, and other classes may hold some in reserve.
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

    /// Unmaps every idle slab; says whether there was one.
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

    fn put_bare(&mut self, stack: Stack) {
        self.live -= 1;
        self.splits = self.splits.saturating_sub(1);
        // If its slab is idle by that it is kept: the system is short of something, and mapping it
        // again would be the next thing to fail.
        self.shelves[stack.class().index()].put(&stack, Slab::put_bare);
    }

    fn forget_splits(&mut self, slabs: &[Slab]) {
        // Only counted, and only counted against, where guards split mappings.
        let guards: usize = slabs.iter().map(Slab::guards).sum();
        self.splits = self.splits.saturating_sub(guards);
    }
}

impl Shelf {
    /// Makes the stack's slot vacant; says whether its slab has fallen idle.
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

/// What an errno of mmap, madvise or mprotect means.
fn refusal(errno: i32) -> StackExhausted {
    if errno == libc::ENOMEM && !another_mapping_fits() {
        StackExhausted::MapCount
    } else {
        StackExhausted::Memory { errno }
    }
}

/// The kernel says ENOMEM to everything. But inaccessible pages need no memory, so splitting a few
/// of them fails only when the mappings (or the very last pages of address space) have run out.
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
    // SAFETY: the middle one of the pages mapped above, which nobody else knows.
    let split = unsafe { libc::mprotect(pages.wrapping_byte_add(page), page, libc::PROT_READ) };
    // SAFETY: as above, all three.
    unsafe { libc::munmap(pages, 3 * page) };
    split == 0
}

/// How many stacks may split a mapping. Each costs two mappings, and a sixteenth is left to the
/// rest of the program: an allocator or a thread that finds none ends the process.
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
