//! The memory of records: a pool for each worker, with a LIFO list for each size.
//!
//! Each chunk is an allocation of its own from the global allocator, so any thread may free any
//! chunk. A pool is only a cache: it may be empty, be trimmed, or be missing (on threads that are
//! not workers).

use crate::shim::alloc::{alloc, dealloc};
use crate::shim::{Fault, fault};
use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// The sizes that are pooled. Common allocators add 8 bytes and round up to a multiple of 16, so
/// these sizes waste nothing.
const SIZES: [usize; 4] = [120, 184, 248, 504];
const ALIGN: usize = 8;
/// The bytes of each size that a pool keeps while its worker is busy, and after a trim.
const BUSY_BYTES: usize = 16 << 20;
const IDLE_BYTES: usize = 256 << 10;
/// `BUSY_BYTES` in chunks of each size.
const BUSY: [usize; SIZES.len()] = {
    let mut chunks = [0; SIZES.len()];
    let mut class = 0;
    while class < SIZES.len() {
        chunks[class] = BUSY_BYTES / SIZES[class];
        class += 1;
    }
    chunks
};

/// A trim after this many freed bytes asks the allocator to return memory to the system.
const RETURN_BYTES: usize = 8 << 20;

/// Asks the allocator to return free memory to the system. Unless it is asked, glibc keeps small
/// freed chunks, hundreds of megabytes after a burst of tasks. Harmless if the program has another
/// allocator.
fn return_to_system() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A chunk in a pool, with a link in its first word.
struct FreeChunk {
    next: Option<NonNull<FreeChunk>>,
}

/// The free chunks of one size.
struct FreeList {
    head: Cell<Option<NonNull<FreeChunk>>>,
    /// The number of chunks that may still be added.
    room: Cell<usize>,
}

impl FreeList {
    /// Takes the first chunk.
    #[inline]
    fn pop(&self) -> Option<NonNull<FreeChunk>> {
        let chunk = self.head.get()?;
        // SAFETY: the chunk is in the list, so it is ours and holds a link.
        self.head.set(unsafe { chunk.as_ref().next });
        self.room.set(self.room.get() + 1);
        Some(chunk)
    }
}

/// The layout of a record, and the layout's class.
pub(crate) struct Shape {
    layout: Layout,
    class: usize,
}

impl Shape {
    pub(crate) const fn of(layout: Layout) -> Shape {
        Shape { layout, class: class_of(layout) }
    }
}

/// The memory of a record, which nothing uses.
#[must_use = "memory that is dropped is leaked"]
pub(crate) struct Chunk {
    pub(super) memory: NonNull<u8>,
    pub(super) shape: &'static Shape,
}

impl Chunk {
    /// # Safety
    /// The memory came from `allocate` or from a pool, for the layout of `shape`. It is the
    /// caller's, and is not used any more.
    #[inline(always)]
    pub(crate) unsafe fn new(memory: NonNull<u8>, shape: &'static Shape) -> Chunk {
        Chunk { memory, shape }
    }
}

/// The class of layouts that are not pooled.
const UNPOOLED: usize = SIZES.len();

/// The pool of one worker. Only the worker's thread uses it.
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

/// Returns the class of a layout, which is an index into `SIZES`, or `UNPOOLED`.
const fn class_of(layout: Layout) -> usize {
    let mut class = if layout.align() > ALIGN { UNPOOLED } else { 0 };
    while class < SIZES.len() && layout.size() > SIZES[class] {
        class += 1;
    }
    class
}

/// Returns the layout that the allocator is asked for in place of `layout`.
const fn rounded(layout: Layout) -> Layout {
    match class_of(layout) {
        UNPOOLED => layout,
        // `SIZES` and `ALIGN` form valid layouts, so the error arm is never taken.
        class => match Layout::from_size_align(SIZES[class], ALIGN) {
            Ok(rounded) => rounded,
            Err(_) => layout,
        },
    }
}

fn try_allocate(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: a record has a header, so its size is not 0, and rounding never makes it smaller.
    NonNull::new(unsafe { alloc(rounded(layout)) })
}

/// Takes memory from the global allocator. Ends the process if there is none, like `Box::new`.
#[cold]
#[inline(never)]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    try_allocate(layout).unwrap_or_else(|| handle_alloc_error(rounded(layout)))
}

/// Gives memory back to the global allocator.
pub(crate) fn free(chunk: Chunk) {
    // SAFETY: the memory was allocated for this layout, which `allocate` rounded in the same way,
    // and nothing uses it.
    unsafe { dealloc(chunk.memory.as_ptr(), rounded(chunk.shape.layout)) }
}

impl RecordPool {
    /// Takes memory for `layout` from the pool, or else from the allocator.
    #[inline]
    pub(crate) fn take(&self, layout: Layout) -> NonNull<u8> {
        match self.lists.get(class_of(layout)).and_then(FreeList::pop) {
            Some(chunk) => chunk.cast(),
            None => self.allocate(layout),
        }
    }

    /// Takes memory from the allocator. If there is none, gives back the pool's chunks and tries
    /// again, and ends the process only if that fails too.
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

    /// Puts memory into the pool, or gives it to the allocator if there is no room.
    #[inline]
    pub(crate) fn put(&self, chunk: Chunk) {
        let list = self.lists.get(chunk.shape.class).filter(|list| list.room.get() > 0);
        let Some(list) = list else { return self.free(chunk) };
        let chunk = chunk.memory.cast::<FreeChunk>();
        // SAFETY: nothing uses the memory. Its class is pooled, so it is larger than a link and
        // aligned for one.
        unsafe { chunk.write(FreeChunk { next: list.head.get() }) };
        list.head.set(Some(chunk));
        list.room.set(list.room.get() - 1);
    }

    /// Gives memory to the allocator, and counts the bytes.
    #[cold]
    #[inline(never)]
    fn free(&self, chunk: Chunk) {
        self.freed.set(self.freed.get() + chunk.shape.layout.size());
        free(chunk);
    }

    /// Gives back what a sleeping worker should not keep. `in_use` is the number of records that
    /// the worker has needed recently: the pool keeps at least that many chunks of each size.
    pub(crate) fn trim(&self, in_use: usize) {
        self.shrink_to(IDLE_BYTES, in_use);
        if self.freed.replace(0) >= RETURN_BYTES {
            return_to_system();
        }
    }

    /// Gives all chunks back to the allocator.
    pub(crate) fn give_all_back(&self) {
        self.shrink_to(0, 0);
    }

    /// Returns whether a `trim` with `in_use` 0 would give anything back.
    pub(crate) fn exceeds_bound(&self) -> bool {
        let mut sizes = SIZES.into_iter().enumerate();
        self.freed.get() >= RETURN_BYTES
            || sizes.any(|(class, size)| self.len(class) > IDLE_BYTES / size)
    }

    /// Keeps `bytes` or `in_use` chunks of each size, whichever is more.
    fn shrink_to(&self, bytes: usize, in_use: usize) {
        for (class, size) in SIZES.into_iter().enumerate() {
            let list = &self.lists[class];
            let layout = Layout::from_size_align(size, ALIGN).expect("pooled sizes are valid");
            while self.len(class) > (bytes / size).max(in_use)
                && let Some(chunk) = list.pop()
            {
                self.freed.set(self.freed.get() + size);
                // SAFETY: the chunk has just been taken off the list, so nothing uses it. Every
                // chunk of this class was allocated with this layout, to which its own layout was
                // rounded.
                unsafe { dealloc(chunk.as_ptr().cast(), layout) };
            }
        }
    }

    /// Returns the number of chunks of a class in the pool.
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

    /// The shape of a layout with this size and alignment.
    const fn shape<const SIZE: usize, const ALIGN: usize>() -> &'static Shape {
        const {
            match Layout::from_size_align(SIZE, ALIGN) {
                Ok(layout) => &Shape::of(layout),
                Err(_) => panic!("no layout"),
            }
        }
    }

    /// Takes memory that nothing will use.
    fn take(pool: &RecordPool, shape: &'static Shape) -> Chunk {
        // SAFETY: the memory is taken here for this layout.
        unsafe { Chunk::new(pool.take(shape.layout), shape) }
    }

    #[test]
    fn the_chunk_put_last_is_taken_next() {
        let pool = RecordPool::default();
        let first = take(&pool, shape::<100, 8>());
        let memory = first.memory;
        pool.put(first);
        let again = take(&pool, shape::<120, 8>());
        assert_eq!(again.memory, memory);
        pool.put(again);
    }

    #[test]
    fn odd_layouts_go_to_the_allocator() {
        let pool = RecordPool::default();
        for shape in [shape::<64, 4096>(), shape::<{ 1 << 20 }, 8>()] {
            let chunk = take(&pool, shape);
            assert_eq!(chunk.memory.as_ptr() as usize % shape.layout.align(), 0);
            pool.put(chunk);
        }
    }

    #[test]
    fn a_trim_keeps_the_chunks_in_use_and_a_small_reserve() {
        let pool = RecordPool::default();
        let record = shape::<120, 8>();
        let chunks: Vec<_> = (0..10_000).map(|_| take(&pool, record)).collect();
        chunks.into_iter().for_each(|chunk| pool.put(chunk));
        pool.trim(5_000);
        assert_eq!(pool.len(0), 5_000);
        assert!(pool.exceeds_bound());
        pool.trim(0);
        assert_eq!(pool.len(0), IDLE_BYTES / 120);
        assert!(!pool.exceeds_bound());
        // A chunk too large for the pool goes to the allocator, which keeps it unless it is asked.
        pool.put(take(&pool, shape::<RETURN_BYTES, ALIGN>()));
        assert!(pool.exceeds_bound());
        pool.trim(0);
        assert!(!pool.exceeds_bound());
    }
}
