//! The cores that a thread may run on.

/// A set of cores, for threads that are started by one that is bound to fewer: they would inherit that.
pub(crate) struct Cores(libc::cpu_set_t);

impl Cores {
    /// Those of the calling thread, if the system tells.
    pub(crate) fn of_this_thread() -> Option<Cores> {
        // SAFETY: a plain set of bits, of which none is set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer and the size are those of the set.
        let status = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        (status == 0).then_some(Cores(set))
    }

    /// Lets the calling thread run on these.
    pub(super) fn allow(&self) {
        // A refusal leaves it where it is.
        // SAFETY: the pointer and the size are those of the set.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
    }
}
