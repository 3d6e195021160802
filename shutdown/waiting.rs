//! What waiters of a node wait for.

use super::node::{Node, State};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;

/// The stop of a node, as something to wait for.
pub(super) struct ForStop<N>(pub(super) N);

/// The completion of a node, as something to wait for.
pub(super) struct ForEnd<N>(pub(super) N);

macro_rules! waitable {
    ($name:ident, $list:ident, $is_so:ident) => {
        impl<N: std::ops::Deref<Target = Node>> Waitable for $name<N> {
            type State = State;

            fn what(&self) -> &'static str {
                "the stop or the completion of a Swansong"
            }

            /// A grant is never given back: a stop or a completion that was seen has happened.
            fn stands(&self) -> bool {
                true
            }

            fn state(&self) -> MutexGuard<'_, State> {
                self.0.lock()
            }

            fn waiters(state: &mut State) -> &mut WaitList {
                &mut state.$list
            }

            fn try_enter(&self, _: &mut State, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
                // MUTANT(shutdown.wait.look): with { self.0.word.ask_for_visit(); None }
                self.0.word.ask_for_visit().$is_so().then_some(0)
            }

            fn give_back(&self, _: &WaitNode) {}
        }
    };
}

waitable!(ForStop, for_stop, is_over);
waitable!(ForEnd, for_end, is_complete);
