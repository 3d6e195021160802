//! Memory of records: per worker, by size, last in first out.
//!
//! Every chunk comes from the global allocator by itself, so any thread may free any chunk, and a
//! pool is only a cache: it can be empty, be trimmed, or be missing (on foreign threads).

use crate::shim::alloc::{alloc, dealloc};
use crate::shim::{Fault, fault};
use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// Sizes that are pooled. Common allocators add 8 bytes and round to 16, so these waste nothing.
const SIZES: [usize; 4] = [120, 184, 248, 504];
const ALIGN: usize = 8;
/// Bytes that a pool keeps while its worker is busy, and when it goes to sleep.
const BUSY_BYTES: usize = 16 << 20;
const IDLE_BYTES: usize = 256 << 10;
/// The same as `BUSY_BYTES`, in chunks of each size.
const BUSY: [usize; SIZES.len()] = {
    let mut chunks = [0; SIZES.len()];
    let mut class = 0;
    while class < SIZES.len() {
        chunks[class] = BUSY_BYTES / SIZES[class];
        class += 1;
    }
    chunks
};

/// After so many freed bytes the allocator is asked to give memory back to the system.
const RETURN_BYTES: usize = 8 << 20;

/// glibc keeps what was freed in small pieces, hundreds of megabytes after a burst of tasks, unless it
/// is told. Harmless if the program has another allocator.
fn return_to_system() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no conditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A chunk in a pool: a link in its first word.
struct FreeChunk {
    next: Option<NonNull<FreeChunk>>,
}

struct FreeList {
    head: Cell<Option<NonNull<FreeChunk>>>,
    /// How many chunks may still be added.
    room: Cell<usize>,
}

impl FreeList {
    /// # Safety
    /// `chunk` is the first in the list.
    #[inline]
    unsafe fn unlink(&self, chunk: NonNull<FreeChunk>) {
        // SAFETY: chunks in the list are ours and hold a link.
        self.head.set(unsafe { chunk.as_ref().next });
        self.room.set(self.room.get() + 1);
    }
}

/// The class of layouts that are not pooled.
const UNPOOLED: usize = SIZES.len();

/// The pool of one worker, used by its thread alone.
pub(crate) struct RecordPool {
    lists: [FreeList; SIZES.len()],
    /// Bytes given to the allocator since the last trim.
    freed: Cell<usize>,
}

impl Default for RecordPool {
    fn default() -> RecordPool {
        let lists = BUSY.map(|room| FreeList { head: Cell::new(None), room: Cell::new(room) });
        RecordPool { lists, freed: Cell::new(0) }
    }
}

/// The class of a layout.
pub(crate) const fn class_of(layout: Layout) -> usize {
    let mut class = if layout.align() > ALIGN { UNPOOLED } else { 0 };
    while class < SIZES.len() && layout.size() > SIZES[class] {
        class += 1;
    }
    class
}

/// What is really asked of the allocator for `layout`.
const fn rounded(layout: Layout) -> Layout {
    match class_of(layout) {
        UNPOOLED => layout,
        // `SIZES` and `ALIGN` are a valid layout; the error arm is never taken.
        class => match Layout::from_size_align(SIZES[class], ALIGN) {
            Ok(rounded) => rounded,
            Err(_) => layout,
        },
    }
}

fn try_allocate(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: a record is never of size 0.
    NonNull::new(unsafe { alloc(rounded(layout)) })
}

/// Takes memory from the global allocator. If there is none the process ends, as `Box::new` would end it.
#[cold]
#[inline(never)]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    try_allocate(layout).unwrap_or_else(|| handle_alloc_error(rounded(layout)))
}

/// Gives memory back to the global allocator.
///
/// # Safety
/// It came from `allocate` (or a pool) for the same layout and is not used any more.
pub(crate) unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: passed on; the same rounding as in `allocate`.
    unsafe { dealloc(memory.as_ptr(), rounded(layout)) }
}

impl RecordPool {
    #[inline]
    pub(crate) fn take(&self, layout: Layout) -> NonNull<u8> {
        if let Some(list) = self.lists.get(class_of(layout))
            && let Some(chunk) = list.head.get()
        {
            // SAFETY: the chunk is in the list.
            unsafe { list.unlink(chunk) };
            return chunk.cast();
        }
        self.allocate(layout)
    }

    /// As the function `allocate`, but before the process ends, what is kept for later is given back.
    #[cold]
    #[inline(never)]
    fn allocate(&self, layout: Layout) -> NonNull<u8> {
        if !fault(Fault::Allocation)
            && let Some(memory) = try_allocate(layout)
        {
            return memory;
        }
        self.give_all_back();
        return_to_system();
        allocate(layout)
    }

    /// # Safety
    /// As for `free`.
    #[inline]
    pub(crate) unsafe fn put(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.put_classed(memory, class_of(layout), || layout) }
    }

    /// As `put`, with the class known; the layout is asked for only if there is no room.
    ///
    /// # Safety
    /// As for `free`; `class` is the layout's.
    #[inline]
    pub(crate) unsafe fn put_classed(
        &self,
        memory: NonNull<u8>,
        class: usize,
        layout: impl FnOnce() -> Layout,
    ) {
        let Some(list) = self.lists.get(class).filter(|list| list.room.get() > 0) else {
            // SAFETY: passed on.
            return unsafe { self.free(memory, layout()) };
        };
        let chunk = memory.cast::<FreeChunk>();
        // SAFETY: the memory is ours now, larger than a link and aligned for it.
        unsafe { chunk.write(FreeChunk { next: list.head.get() }) };
        list.head.set(Some(chunk));
        list.room.set(list.room.get() - 1);
    }

    /// # Safety
    /// As for the function `free`.
    #[cold]
    #[inline(never)]
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        self.freed.set(self.freed.get() + layout.size());
        // SAFETY: passed on.
        unsafe { free(memory, layout) }
    }

    /// Gives back what a sleeping worker should not keep, but for so many chunks of each size as are
    /// `in_use` from time to time.
    pub(crate) fn trim(&self, in_use: usize) {
        self.shrink_to(IDLE_BYTES, in_use);
        if self.freed.replace(0) >= RETURN_BYTES {
            return_to_system();
        }
    }

    /// Keeps nothing.
    pub(crate) fn give_all_back(&self) {
        self.shrink_to(0, 0);
    }

    /// Whether there is anything that a `trim` for good would give back.
    pub(crate) fn exceeds_bound(&self) -> bool {
        let mut sizes = SIZES.into_iter().enumerate();
        self.freed.get() >= RETURN_BYTES
            || sizes.any(|(class, size)| self.len(class) > IDLE_BYTES / size)
    }

    fn shrink_to(&self, bytes: usize, in_use: usize) {
        for (class, size) in SIZES.into_iter().enumerate() {
            let list = &self.lists[class];
            let layout = Layout::from_size_align(size, ALIGN).expect("constants");
            while self.len(class) > (bytes / size).max(in_use) {
                let chunk = list.head.get().expect("the length says that there is one");
                // SAFETY: the chunk is in the list.
                unsafe { list.unlink(chunk) };
                // SAFETY: unlinked just now; allocated with this layout.
                unsafe { self.free(chunk.cast(), layout) };
            }
        }
    }

    fn len(&self, class: usize) -> usize {
        BUSY[class] - self.lists[class].room.get()
    }
}

impl Drop for RecordPool {
    fn drop(&mut self) {
        self.give_all_back();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_was_put_back_is_taken_next() {
        let pool = RecordPool::default();
        let layout = Layout::from_size_align(100, 8).unwrap();
        let first = pool.take(layout);
        // SAFETY: taken above, for the same layout.
        unsafe { pool.put(first, layout) };
        assert_eq!(pool.take(Layout::from_size_align(120, 8).unwrap()), first);
        // SAFETY: taken above; both layouts round to the same class.
        unsafe { pool.put(first, layout) };
    }

    #[test]
    fn odd_layouts_go_to_the_allocator() {
        let pool = RecordPool::default();
        for layout in [
            Layout::from_size_align(64, 4096).unwrap(),
            Layout::from_size_align(1 << 20, 8).unwrap(),
        ] {
            let memory = pool.take(layout);
            assert_eq!(memory.as_ptr() as usize % layout.align(), 0);
            // SAFETY: taken above, for the same layout.
            unsafe { pool.put(memory, layout) };
        }
    }

    #[test]
    fn trimming_keeps_what_it_says() {
        let pool = RecordPool::default();
        let layout = Layout::from_size_align(120, 8).unwrap();
        let chunks: Vec<_> = (0..10_000).map(|_| pool.take(layout)).collect();
        for chunk in chunks {
            // SAFETY: taken above, for the same layout.
            unsafe { pool.put(chunk, layout) };
        }
        pool.trim(5_000);
        assert_eq!(pool.len(0), 5_000);
        assert!(pool.exceeds_bound());
        pool.trim(0);
        assert_eq!(pool.len(0), IDLE_BYTES / 120);
        assert!(!pool.exceeds_bound());
        // What is too large for it goes back to the allocator, which keeps it unless it is told.
        let large = Layout::from_size_align(RETURN_BYTES, ALIGN).unwrap();
        // SAFETY: taken here, for the same layout.
        unsafe { pool.put(pool.take(large), large) };
        assert!(pool.exceeds_bound());
        pool.trim(0);
        assert!(!pool.exceeds_bound());
    }
}
