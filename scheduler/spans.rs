//! Spans of the crate tracing (feature `tracing`): each task has its own.
//!
//! A subscriber keeps the spans that are entered by the thread. A task that waits inside a span
//! would leave it to the tasks that run there meanwhile, and their events would be put down to it.
//! So the spans that a fiber has entered are left when the fiber is left, and entered again, in
//! their order, when it goes on, maybe on another thread. A task that is called on the stack of one
//! that waits does not see the spans of that one either: they are left around the call.
//!
//! A task carries the span in which it was spawned, from the spawn to its end, and begins in it. So
//! do the closures of a `join` and of a blocking call.
//!
//! What a worker calls in nobody's name, such as a waker or a hook, sees no span.
//!
//! The subscriber is foreign code, and it is called where a task has published its wait and is
//! about to be left. So it must not wait, and its panics go no further.
//!
//! All this rests on `Subscriber::current_span`, which tells what there is to leave: the registry
//! of tracing-subscriber implements it. The subscriber asked is the thread's default. A bare
//! coroutine has the spans of its resumer, and leaves its own to it.
//!
//! Without the feature all of this is empty.

pub(crate) use face::{Carried, carried, carry, carrying, in_own_span, leave};

#[cfg(feature = "tracing")]
mod face {
    use crate::scheduler::wait::no_suspend::call_foreign_in_its_spans;
    use crate::task::cold::ColdData;
    use tracing::span::{EnteredSpan, Id};
    use tracing::{Dispatch, Span, dispatcher};

    /// The span in which something was spawned.
    pub(crate) type Carried = Span;

    /// Spans that are left at most, should a subscriber name one again and again.
    const MOST: usize = 1 << 16;

    /// The spans that a fiber has entered, the innermost first, while others run on its thread.
    #[must_use = "the fiber is to enter its spans again"]
    pub(crate) struct Left {
        /// Whose spans they are.
        dispatch: Option<Dispatch>,
        spans: Vec<Id>,
    }

    /// Leaves all spans that are entered on this thread.
    #[inline(always)]
    pub(crate) fn leave() -> Left {
        let mut left = Left { dispatch: None, spans: Vec::new() };
        if dispatcher::has_been_set() {
            leave_all(&mut left);
        }
        left
    }

    // Not inlined: the compiler might keep the address of a thread-local across a switch, after
    // which a migratable task may be on another thread.
    #[cold]
    #[inline(never)]
    fn leave_all(left: &mut Left) {
        call_foreign_in_its_spans(|| {
            // A call below `get_default` would see no subscriber.
            let dispatch = dispatcher::get_default(Dispatch::clone);
            while left.spans.len() < MOST
                && let Some(span) = dispatch.current_span().id()
            {
                // First, should the subscriber panic.
                left.dispatch.get_or_insert_with(|| dispatch.clone());
                left.spans.push(span.clone());
                dispatch.exit(span);
            }
        });
    }

    impl Left {
        /// Enters the spans again.
        #[inline(always)]
        pub(crate) fn enter_again(self) {
            if let Some(dispatch) = &self.dispatch {
                enter_all(dispatch, &self.spans);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_all(dispatch: &Dispatch, spans: &[Id]) {
        call_foreign_in_its_spans(|| spans.iter().rev().for_each(|span| dispatch.enter(span)));
    }

    /// The span for what is spawned here.
    #[inline(always)]
    pub(crate) fn carried() -> Option<Carried> {
        if dispatcher::has_been_set() { current() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn current() -> Option<Carried> {
        let mut current = None;
        call_foreign_in_its_spans(|| {
            current = Some(Span::current()).filter(|span| !span.is_none());
        });
        current
    }

    /// Has a task that is to be spawned carry a span.
    pub(crate) fn carry(cold: &mut ColdData, span: Option<Carried>) {
        *cold.span.get_mut() = span;
    }

    /// A span that is entered, until this is dropped.
    struct Inside(Option<EnteredSpan>);

    impl Inside {
        #[inline(never)]
        fn new(span: Option<Span>) -> Inside {
            let mut inside = Inside(None);
            if let Some(span) = span {
                call_foreign_in_its_spans(|| inside.0 = Some(span.entered()));
            }
            inside
        }
    }

    impl Drop for Inside {
        fn drop(&mut self) {
            if let Some(span) = self.0.take() {
                call_foreign_in_its_spans(|| drop(span));
            }
        }
    }

    /// The closure `f`, to be called anywhere in the span of this place.
    #[inline(always)]
    pub(crate) fn carrying<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
        let span = carried();
        move || {
            let _inside = Inside::new(span);
            f()
        }
    }

    /// Calls `f`, which does not unwind, as the whole of a task: in the span that the task carries,
    /// and in no other.
    #[inline(always)]
    pub(crate) fn in_own_span(cold: Option<&ColdData>, f: impl FnOnce()) {
        if !dispatcher::has_been_set() {
            return f();
        }
        let (outer, own) = begin(cold);
        f();
        end(outer, own);
    }

    #[cold]
    #[inline(never)]
    fn begin(cold: Option<&ColdData>) -> (Left, Inside) {
        let outer = leave();
        // SAFETY: only the thread that runs the task uses its span, and this is no reference to it.
        let span = cold.and_then(|cold| unsafe { (*cold.span.get()).take() });
        (outer, Inside::new(span))
    }

    #[cold]
    #[inline(never)]
    fn end(outer: Left, own: Inside) {
        drop(own);
        // A task may have forgotten to leave others.
        let _ = leave();
        outer.enter_again();
    }
}

#[cfg(not(feature = "tracing"))]
mod face {
    use crate::task::cold::ColdData;

    #[derive(Clone)]
    pub(crate) enum Carried {}

    pub(crate) struct Left;

    #[inline(always)]
    pub(crate) fn leave() -> Left {
        Left
    }

    impl Left {
        #[inline(always)]
        pub(crate) fn enter_again(self) {}
    }

    #[inline(always)]
    pub(crate) fn carried() -> Option<Carried> {
        None
    }

    #[inline(always)]
    pub(crate) fn carry(_: &mut ColdData, span: Option<Carried>) {
        debug_assert!(span.is_none());
    }

    #[inline(always)]
    pub(crate) fn carrying<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
        f
    }

    #[inline(always)]
    pub(crate) fn in_own_span(_: Option<&ColdData>, f: impl FnOnce()) {
        f();
    }
}
