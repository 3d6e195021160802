//! The heap of a run: the place of an allocation depends on the seed and on the run's earlier
//! allocations, and on nothing else.
//!
//! Neighbours on the heap share cache lines, and which of them do so decides as much of a run's
//! time as the library's random choices. The system's allocator places an allocation by all that
//! was allocated before it, such as the path of this program: a table that was stored in one
//! checkout would not hold in another one. This heap has the system's habits otherwise: blocks are
//! multiples of 16 bytes with 8 bytes lost to each, and the block that was freed last is the next
//! one of its size to be used.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The addresses of the heap, most of which are never used and so take no memory. Beyond them, the
/// system's allocator serves.
const SIZE: usize = 4 << 30;
const PAGE: usize = 4_096;
/// The alignment of a usual block, and of a block that must not share a cache line.
const USUAL: usize = 16;
const ALIGNED: usize = 128;
/// Larger allocations come from the system, in pages of their own.
const MOST: usize = 32 << 10;
const CLASSES: usize = MOST / USUAL + 2;

#[global_allocator]
static HEAP: Heap = Heap { base: AtomicUsize::new(0), free: Mutex::new(Free::NONE) };

struct Heap {
    /// The first address of the heap, or 0 before the run.
    base: AtomicUsize,
    free: Mutex<Free>,
}

/// The free memory of the heap.
struct Free {
    /// What lies between these addresses has never been used.
    next: usize,
    end: usize,
    /// For each size, the block that was freed last, or 0. Its first word is the address of the
    /// one that was freed before it.
    usual: [usize; CLASSES],
    aligned: [usize; CLASSES],
}

/// Begins the heap of a run. A seed moves usual blocks by a part of a cache line.
pub fn begin(seed: u64) {
    let layout = Layout::from_size_align(SIZE, PAGE).expect("a valid layout");
    // SAFETY: the size is not zero.
    let base = unsafe { System.alloc(layout) };
    assert!(!base.is_null(), "a run needs {} GiB of addresses; raise the limit", SIZE >> 30);
    // The block is never freed: other threads of the process may own allocations in it at its end.
    let base = base.expose_provenance();
    let mut free = HEAP.free.lock().unwrap_or_else(PoisonError::into_inner);
    *free = Free { next: base + USUAL * (seed % 4) as usize, end: base + SIZE, ..Free::NONE };
    HEAP.base.store(base, Ordering::Release);
}

/// The alignment and the size of the block for an allocation that this heap serves.
fn block(layout: Layout) -> Option<(usize, usize)> {
    if layout.size() > MOST || layout.align() > ALIGNED {
        return None;
    }
    Some(if layout.align() > USUAL {
        (ALIGNED, layout.size().next_multiple_of(ALIGNED))
    } else {
        (USUAL, (layout.size() + 8).max(2 * USUAL).next_multiple_of(USUAL))
    })
}

/// The layout for an allocation that the system serves.
fn in_pages(layout: Layout) -> Layout {
    let large = layout.size() > MOST;
    if large { layout.align_to(PAGE).unwrap_or(layout) } else { layout }
}

impl Free {
    const NONE: Free = Free { next: 0, end: 0, usual: [0; CLASSES], aligned: [0; CLASSES] };

    fn last(&mut self, align: usize, size: usize) -> &mut usize {
        let lists = if align == USUAL { &mut self.usual } else { &mut self.aligned };
        &mut lists[size / USUAL]
    }

    /// Returns the address of a block, or `None` if the heap is used up.
    fn take(&mut self, align: usize, size: usize) -> Option<usize> {
        let last = self.last(align, size);
        if *last != 0 {
            let block = *last;
            // SAFETY: the list holds the addresses of free blocks of the heap, and `put` has written
            // the first word of each. The caller has the lists to itself.
            *last = unsafe { ptr::with_exposed_provenance::<usize>(block).read() };
            return Some(block);
        }
        let block = self.next.next_multiple_of(align);
        (self.end.checked_sub(block)? >= size).then(|| {
            self.next = block + size;
            block
        })
    }

    /// # Safety
    /// `block` is a block of this alignment and size that nothing uses.
    unsafe fn put(&mut self, block: usize, align: usize, size: usize) {
        let last = self.last(align, size);
        // SAFETY: the caller says that nothing uses the block, which has room for a word.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(block).write(*last) };
        *last = block;
    }
}

// SAFETY: a block that `take` returns has the alignment and at least the size of the layout, and no
// other allocation has it until `put` returns it. A pointer outside the heap came from the system,
// by the layout of `in_pages`, and goes back by the same layout.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.base.load(Ordering::Acquire) != 0
            && let Some((align, size)) = block(layout)
        {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(block) = free.take(align, size) {
                return ptr::with_exposed_provenance_mut(block);
            }
        }
        // SAFETY: the caller's layout, with a higher alignment at most.
        unsafe { System.alloc(in_pages(layout)) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let base = self.base.load(Ordering::Acquire);
        let is_here = base != 0 && (base..base + SIZE).contains(&pointer.addr());
        match block(layout).filter(|_| is_here) {
            Some((align, size)) => {
                let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: `alloc` has returned the block for the same layout, and the caller has
                // done with it.
                unsafe { free.put(pointer.expose_provenance(), align, size) };
            }
            // SAFETY: the system has returned the pointer for this layout.
            None => unsafe { System.dealloc(pointer, in_pages(layout)) },
        }
    }
}
