//! Ready tasks that are in no queue yet, linked through their records.

use crate::shim::atomic::Ordering;
use crate::task::record::Record;
use crate::task::reference::{Ready, TaskRef};
use std::ptr::{self, NonNull};

/// A stack of ready tasks: each links to the one that was pushed before it.
pub(crate) struct ReadyStack(*mut Record);

impl Default for ReadyStack {
    fn default() -> ReadyStack {
        ReadyStack(ptr::null_mut())
    }
}

impl ReadyStack {
    pub(crate) fn push(&mut self, task: Ready) {
        task.link.store(self.0, Ordering::Relaxed);
        self.0 = task.into_pointer().as_ptr();
    }

    pub(crate) fn top(&self) -> Option<TaskRef<'_>> {
        // SAFETY: a task that was pushed cannot end before it is popped.
        Some(unsafe { TaskRef::new(NonNull::new(self.0)?) })
    }

    pub(crate) fn pop(&mut self) -> Option<Ready> {
        // SAFETY: the reference that was given up when the task was pushed.
        let task = unsafe { Ready::new(NonNull::new(self.0)?) };
        self.0 = task.link.load(Ordering::Relaxed);
        Some(task)
    }

    /// Calls `f` with each task, the lowest first.
    pub(crate) fn for_each_from_below(mut self, mut f: impl FnMut(Ready)) {
        let mut turned = ReadyStack::default();
        while let Some(task) = self.pop() {
            turned.push(task);
        }
        while let Some(task) = turned.pop() {
            f(task);
        }
    }
}

/// A stack with at least one task, of which the lowest is known.
pub(crate) struct Batch {
    top: *mut Record,
    bottom: Ready,
}

impl Batch {
    pub(crate) fn of(task: Ready) -> Batch {
        Batch { top: task.task().pointer().as_ptr(), bottom: task }
    }

    /// Puts a task below the others.
    pub(crate) fn push_below(&mut self, task: Ready) {
        self.bottom.link.store(task.task().pointer().as_ptr(), Ordering::Relaxed);
        let above = std::mem::replace(&mut self.bottom, task);
        let _ = above.into_pointer();
    }

    pub(crate) fn lowest(&self) -> &Ready {
        &self.bottom
    }

    pub(crate) fn top(&self) -> *mut Record {
        self.top
    }

    /// Calls `f` with each task, the lowest first.
    pub(crate) fn for_each_from_below(self, f: impl FnMut(Ready)) {
        self.bottom.link.store(ptr::null_mut(), Ordering::Relaxed);
        let _ = self.bottom.into_pointer();
        ReadyStack(self.top).for_each_from_below(f);
    }
}
