//! Tests of a node: the two shares of its count of children, and its cancellation.

use super::*;

fn node() -> Node {
    Node::new(NodeKind::Scope, std::ptr::null(), 7)
}

impl Node {
    /// Makes an open node without children count as many as it can, at home.
    pub(crate) fn fill(&self) {
        self.word.fold(FOLD - 1);
        self.local.set(FOLD - 1);
    }

    /// Undoes `fill`.
    pub(crate) fn empty(&self) {
        self.word.0.fetch_sub(FOLD - 1, Ordering::Relaxed);
        self.local.set(self.local.get().wrapping_sub(FOLD - 1));
    }
}

#[test]
fn a_node_without_children_closes_at_once() {
    assert!(node().close());
}

#[test]
fn a_child_that_begins_and_ends_at_home_leaves_the_word_untouched() {
    let n = node();
    n.add_child(7);
    assert!(n.has_children());
    assert_eq!(n.release_child(7), Release::StillOpen);
    assert!(!n.has_children());
    assert!(n.close());
}

#[test]
fn a_second_cancel_is_told_from_the_first() {
    let n = node();
    assert_eq!(n.word().cancel(), Cancel::First);
    assert_eq!(n.word().cancel(), Cancel::Already);
    assert!(n.word().is_marked());
    n.add_child(7);
    assert!(!n.close());
    assert_eq!(n.release_child(3), Release::Last);
}

#[test]
fn an_unlinked_node_asks_its_parent_unless_it_is_marked() {
    let n = node();
    assert_eq!(n.verdict(), Verdict::AskParent);
    n.set_linked(true);
    assert_eq!(n.verdict(), Verdict::NotCancelled);
    n.set_linked(false);
    assert_eq!(n.word().cancel(), Cancel::First);
    assert_eq!(n.verdict(), Verdict::Cancelled);
}

#[test]
fn a_cancel_is_deferred_while_the_node_ignores_it() {
    let n = node();
    assert!(n.word().ignore());
    assert_eq!(n.verdict(), Verdict::NotCancelled, "a node that ignores cancels asks no parent");
    assert_eq!(n.word().cancel(), Cancel::Deferred);
    assert_eq!(n.verdict(), Verdict::NotCancelled);
    assert!(n.word().is_marked() && n.word().is_ignoring());
    assert!(n.word().stop_ignoring(), "the cancel is delivered now");
    assert_eq!(n.verdict(), Verdict::Cancelled);
    assert!(!n.word().ignore(), "a cancel that came first wins");
    assert_eq!(n.verdict(), Verdict::Cancelled);
}

#[test]
fn ignoring_without_a_cancel_leaves_no_trace() {
    let n = node();
    assert!(n.word().ignore());
    assert!(!n.word().stop_ignoring());
    assert_eq!(n.verdict(), Verdict::AskParent);
    assert!(n.close());
}

#[test]
fn a_large_local_share_is_folded_before_it_overflows() {
    let n = node();
    n.local.set(FOLD - 1);
    n.add_child(7);
    assert_eq!(n.local.get(), 1);
    assert!(n.has_children());
}

#[test]
#[should_panic(expected = "unfinished children")]
fn a_second_fold_without_releases_is_an_error_and_not_a_wrap() {
    let n = node();
    for _ in 0..2 {
        n.local.set(FOLD - 1);
        n.add_child(7);
    }
}

#[test]
#[should_panic(expected = "unfinished children")]
fn too_many_children_are_an_error_and_not_a_wrap() {
    let n = node();
    n.word.0.store(COUNT - FOLD, Ordering::Relaxed);
    n.add_child_from_outside();
}
