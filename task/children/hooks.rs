//! The hooks in the list of a node: see the module above.

use super::{Children, HookLink, List};
use crate::shim::MutexGuard;
use crate::shim::atomic::Ordering;
use crate::task::words::tree::Node;
use std::ptr::{self, NonNull};

/// What became of a hook that was to be hung on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hang<C> {
    Hung,
    /// The node is cancelled already.
    Cancelled(C),
    /// The node has ended.
    Over,
}

/// Hooks that were taken out of their list, linked to each other, each to the one before it.
pub(crate) struct Unhooked(*const HookLink);

impl Iterator for Unhooked {
    type Item = NonNull<HookLink>;

    fn next(&mut self) -> Option<NonNull<HookLink>> {
        let place = NonNull::new(self.0.cast_mut())?;
        // SAFETY: whoever has taken it out keeps it.
        self.0 = unsafe { place.as_ref() }.next.get();
        Some(place)
    }
}

impl Children {
    /// Hangs a hook on the node of this list of children, and gives a handle with it. Of a node that is cancelled, `told` is asked
    /// why under the lock: it may end right after that.
    ///
    /// # Safety
    /// The hook is in no list, and is kept until it has been taken out. The node is that of this list of children, is
    /// linked, and has not ended, or its end is told by `unhook_all`.
    pub(crate) unsafe fn hang<C>(
        &self,
        node: &Node,
        hook: NonNull<HookLink>,
        told: impl FnOnce(&Node) -> C,
    ) -> Hang<C> {
        // SAFETY: passed on.
        unsafe { self.hang_in(self.lock(), node, hook, told) }
    }

    /// The same on whatever node the list of children belongs to, for one who has a handle.
    ///
    /// # Safety
    /// The hook is in no list, and is kept until it has been taken out. The list of children [bears](Children::bear).
    pub(crate) unsafe fn hang_by_handle<C>(
        &self,
        hook: NonNull<HookLink>,
        told: impl FnOnce(&Node) -> C,
    ) -> Hang<C> {
        let list = self.lock();
        // SAFETY: cleared under this lock before the node ends.
        match unsafe { list.node.as_ref() } {
            // SAFETY: passed on; who ends the node has seen that the list of children bears, and takes the lock before.
            Some(node) => unsafe { self.hang_in(list, node, hook, told) },
            None => Hang::Over,
        }
    }

    /// # Safety
    /// As for `hang`.
    unsafe fn hang_in<C>(
        &self,
        mut list: MutexGuard<'_, List>,
        node: &Node,
        hook: NonNull<HookLink>,
        told: impl FnOnce(&Node) -> C,
    ) -> Hang<C> {
        // MUTANT(children.hang.over): false
        if list.over {
            return Hang::Over;
        }
        // MUTANT(children.hang.has_children): skip
        self.bear();
        // MUTANT(children.hang.look): false
        if node.word().is_cancelled_in_total_order() {
            return Hang::Cancelled(told(node));
        }
        // SAFETY: the caller's.
        unsafe { hook.as_ref() }.hangs.set(true);
        let first = list.first;
        // SAFETY: passed on.
        unsafe { list.insert(hook.as_ptr(), first) };
        list.node = node;
        list.handles += 1;
        Hang::Hung
    }

    /// Calls `f` unless the end of the node has called [`unhook_all`](Self::unhook_all), which waits meanwhile.
    pub(crate) fn before_the_end(&self, f: impl FnOnce()) {
        let list = self.lock();
        // MUTANT(children.before_the_end): true
        if !list.over {
            f();
        }
    }

    /// Says that something may hang in the list. For one who is about to hang it there, or who runs in the node: whoever
    /// ends that will see it.
    pub(crate) fn bear(&self) {
        if !self.has_children.load(Ordering::Relaxed) {
            // An update, in the total order.
            // MUTANT(children.bear): relaxed
            self.has_children.swap(true, Ordering::SeqCst);
        }
    }

    /// Whoever ends the node is to call `unhook_all`, whatever hangs there. Before anybody else knows the node.
    pub(crate) fn expect_hooks(&self) {
        self.has_children.store(true, Ordering::Relaxed);
    }

    /// Takes a hook out of the list, and looks at its node; `None` if another was faster.
    ///
    /// # Safety
    /// It was hung on this list of children, and the caller has a handle.
    pub(crate) unsafe fn unhook<R>(
        &self,
        hook: NonNull<HookLink>,
        look: impl FnOnce(&Node) -> R,
    ) -> Option<R> {
        let mut list = self.lock();
        // SAFETY: the caller's.
        // MUTANT(children.unhook.once): false
        if !unsafe { hook.as_ref() }.hangs.replace(false) {
            return None;
        }
        // SAFETY: as above.
        unsafe { list.remove(hook.as_ptr()) };
        // SAFETY: written with the handle, and the node does not end before its hooks are taken out.
        Some(look(unsafe { &*list.node }))
    }

    /// Takes all hooks out, of a node that ends. Under the lock `decide` is asked what it has come to, and `told` is told of that and each hook,
    /// which is the caller's to run: once it is out, its guard may be faster.
    pub(crate) fn unhook_all<C>(
        &self,
        decide: impl FnOnce() -> C,
        mut told: impl FnMut(NonNull<HookLink>, &C),
    ) -> Unhooked {
        let mut list = self.lock();
        list.over = true;
        // What they are told holds: a cancel by a handle finds no node any more.
        // MUTANT(children.unhook.over): skip
        list.node = ptr::null();
        let outcome = decide();
        let mut taken: *const HookLink = ptr::null();
        let mut at = list.first;
        // SAFETY: what is in the list is alive.
        while let Some(place) = unsafe { at.as_ref() } {
            let next = place.next.get();
            if place.hangs.replace(false) {
                // SAFETY: it is in this list.
                unsafe { list.remove(at) };
                place.next.set(taken);
                taken = at;
                told(NonNull::new(at.cast_mut()).expect("a place"), &outcome);
            }
            at = next;
        }
        Unhooked(taken)
    }

    /// Whether something may hang in the list. For whoever ends the node, or runs in it.
    #[inline]
    pub(crate) fn has_had_children(&self) -> bool {
        self.has_children.load(Ordering::Relaxed)
    }
}
