//! The hooks in the list of a node: see the module above.

use super::{Children, HookLink, List, Member};
use crate::shim::MutexGuard;
use crate::shim::atomic::Ordering;
use crate::task::words::tree::Node;
use std::ptr::{self, NonNull};

/// The result of hanging a hook on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hang<C> {
    Hung,
    /// The node is cancelled already.
    Cancelled(C),
    /// The node has ended.
    Over,
}

/// Hooks that were taken out of their list, as a linked list, the last one first.
pub(crate) struct Unhooked(Option<NonNull<HookLink>>);

impl Iterator for Unhooked {
    type Item = NonNull<HookLink>;

    fn next(&mut self) -> Option<NonNull<HookLink>> {
        let place = self.0?;
        // SAFETY: the references that the list had keep the hooks alive; they are the caller's now.
        self.0 = unsafe { place.as_ref() }.next.get().map(|next| next.0);
        Some(place)
    }
}

impl Children {
    /// Hangs a hook on the node of this list, and adds a handle. If the node is cancelled, calls
    /// `told` under the lock instead, because the node may end right afterwards.
    ///
    /// # Safety
    /// The hook is in no list, and stays alive until it has been taken out. `node` is the node of
    /// this list, is linked, and has not ended, or its end calls `unhook_all`.
    pub(crate) unsafe fn hang<C>(
        &self,
        node: &Node,
        hook: NonNull<HookLink>,
        told: impl FnOnce(&Node) -> C,
    ) -> Hang<C> {
        // SAFETY: the obligations of `hang_in` are those of this function.
        unsafe { self.hang_in(self.list.lock(), node, hook, told) }
    }

    /// Hangs a hook on the node that this list belongs to. For a caller that has a handle.
    ///
    /// # Safety
    /// The hook is in no list, and stays alive until it has been taken out. The list has been told
    /// to [expect hooks](Children::bear).
    pub(crate) unsafe fn hang_by_handle<C>(
        &self,
        hook: NonNull<HookLink>,
        told: impl FnOnce(&Node) -> C,
    ) -> Hang<C> {
        let list = self.list.lock();
        // SAFETY: cleared under this lock before the node ends.
        match unsafe { list.node.as_ref() } {
            // SAFETY: the hook is the caller's obligation. The end of the node finds that the list
            // expects hooks, and takes the lock before the node goes.
            Some(node) => unsafe { self.hang_in(list, node, hook, told) },
            None => Hang::Over,
        }
    }

    /// # Safety
    /// Same as for `hang`.
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
        // SAFETY: the caller keeps the hook alive.
        unsafe { hook.as_ref() }.is_hook.set(true);
        let first = list.first;
        // SAFETY: the hook is in no list, and is taken out before its memory is reused.
        unsafe { list.insert(hook, first) };
        list.node = node;
        list.handles += 1;
        Hang::Hung
    }

    /// Calls `f` unless the end of the node has already called [`unhook_all`](Self::unhook_all).
    /// That call waits until `f` has returned.
    pub(crate) fn before_the_end(&self, f: impl FnOnce()) {
        let list = self.list.lock();
        // MUTANT(children.before_the_end): true
        if !list.over {
            f();
        }
    }

    /// Announces that something may be hung in the list. Called by the thread that is about to hang
    /// it, or that runs in the node, so that the end of the node sees it.
    pub(crate) fn bear(&self) {
        if !self.has_children.load(Ordering::Relaxed) {
            // An update, in the total order.
            // MUTANT(children.bear): relaxed
            self.has_children.swap(true, Ordering::SeqCst);
        }
    }

    /// Makes the end of the node call `unhook_all` in any case. Called before another thread knows
    /// the node.
    pub(crate) fn expect_hooks(&self) {
        self.has_children.store(true, Ordering::Relaxed);
    }

    /// Takes a hook out of the list, and calls `look` with its node. Returns `None` if the end of
    /// the node was faster.
    ///
    /// # Safety
    /// The hook was hung on this list, and this was not called for it before. The caller has a
    /// handle.
    pub(crate) unsafe fn unhook<R>(
        &self,
        hook: NonNull<HookLink>,
        look: impl FnOnce(&Node) -> R,
    ) -> Option<R> {
        let mut list = self.list.lock();
        // As long as the list has a node, the hook is in the list.
        let looked = list.node().map(look)?;
        list.remove(Member(hook));
        Some(looked)
    }

    /// Takes out all hooks of a node that ends. Under the lock, calls `decide` once, and `told`
    /// with its result for each hook. The caller runs the hooks; once a hook is out, its guard may
    /// be faster.
    pub(crate) fn unhook_all<C>(
        &self,
        decide: impl FnOnce() -> C,
        mut told: impl FnMut(NonNull<HookLink>, &C),
    ) -> Unhooked {
        let mut list = self.list.lock();
        list.over = true;
        // What the hooks are told stays true: a cancel by a handle finds no node any more.
        // MUTANT(children.unhook.over): skip
        list.node = ptr::null();
        let outcome = decide();
        let mut taken = None;
        let mut at = list.first;
        while let Some(place) = at {
            at = place.next.get();
            if place.is_hook.get() {
                list.remove(place);
                place.next.set(taken);
                taken = Some(place);
                told(place.0, &outcome);
            }
        }
        Unhooked(taken.map(|place| place.0))
    }

    /// Returns whether something may hang in the list. For the thread that ends the node, or runs
    /// in it.
    #[inline]
    pub(crate) fn has_had_children(&self) -> bool {
        self.has_children.load(Ordering::Relaxed)
    }
}
