//! Faults injected into the programs, with counters, and the distinction between planned and
//! unplanned panics.

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::state::lock;

macro_rules! faults {
    ($($fault:ident: $what:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Fault { $($fault,)* }

        impl Fault {
            /// All faults with their descriptions for the report.
            pub(crate) const ALL: &[(Fault, &str)] = &[$((Fault::$fault, $what),)*];
        }
    };
}

faults! {
    Panic: "a panic in a task, a message or a member",
    Cancel: "a cancel by a handle, at a random moment",
    Drop: "a handle dropped while its task runs or waits",
    Timeout: "a time limit that may pass during a wait",
    Unwind: "a cancelled task that unwinds instead of returning",
    Stacks: "a runtime with hardly more stacks than workers",
    Stall: "a foreign thread that stalls while a task waits for it",
    Busy: "a busy thread beside the runtime",
    Leaf: "a task that computes for milliseconds without a suspension",
    Unpark: "a spurious unpark",
    Unpublished: "a claim of a ring that is dropped unpublished",
    Abandoned: "a promise that is dropped without a value",
    InFlight: "a runtime dropped, or shut down past its time, while tasks run and wait",
}

static COUNTS: [AtomicU64; Fault::ALL.len()] = [const { AtomicU64::new(0) }; Fault::ALL.len()];
/// Panics that no program planned.
static UNPLANNED: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Limit of the list: more panics add nothing, and the soak watches memory.
const MOST_UNPLANNED: usize = 100;

/// The payload of a planned panic.
pub(crate) struct Planned;

impl Fault {
    /// Counts one fault of this kind.
    pub(crate) fn count(self) {
        COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counted(self) -> u64 {
        COUNTS[self as usize].load(Ordering::Relaxed)
    }
}

/// Panics as planned by a program.
pub(crate) fn panic_as_planned() -> ! {
    Fault::Panic.count();
    panic::panic_any(Planned)
}

pub(crate) fn is_planned(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Planned>()
}

/// Silences planned panics, and records the text of all others. These are failures even if they
/// are caught.
pub(crate) fn install_panic_hook() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if is_planned(info.payload()) {
            return;
        }
        let mut unplanned = lock(&UNPLANNED);
        if unplanned.len() < MOST_UNPLANNED {
            unplanned.push(describe(info));
        }
        drop(unplanned);
        before(info);
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
    format!("a panic that is not planned{place}: {}", text(info.payload()))
}

/// The text of a panic.
pub(crate) fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("not a text")
}

/// Returns the panics recorded since the last call.
pub(crate) fn take_unplanned() -> Vec<String> {
    std::mem::take(&mut *lock(&UNPLANNED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_place_of_its_own() {
        for (place, (fault, what)) in Fault::ALL.iter().enumerate() {
            assert_eq!(*fault as usize, place);
            assert!(!what.is_empty());
        }
    }

    #[test]
    fn planned_panics_are_told_apart() {
        let planned = panic::catch_unwind(|| panic::resume_unwind(Box::new(Planned))).unwrap_err();
        assert!(is_planned(&*planned));
        let other = panic::catch_unwind(|| panic::resume_unwind(Box::new("no"))).unwrap_err();
        assert!(!is_planned(&*other));
        assert_eq!(text(&*other), "no");
    }
}
