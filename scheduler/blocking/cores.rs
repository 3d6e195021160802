//! The cores that a thread may run on.

/// A set of cores for pool threads. A thread inherits the cores of the thread that starts it, which
/// may be a worker that is bound to one.
pub(crate) struct Cores(libc::cpu_set_t);

impl Cores {
    /// The cores that the calling thread may run on, if the system tells them.
    pub(crate) fn of_this_thread() -> Option<Cores> {
        // SAFETY: `cpu_set_t` is a plain array of bits, for which all zeroes is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer and the size describe the set.
        let status = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        (status == 0).then_some(Cores(set))
    }

    /// The numbers of these cores, in ascending order.
    pub(crate) fn list(&self) -> Vec<usize> {
        let most = libc::CPU_SETSIZE as usize;
        // SAFETY: the numbers are below the size of the set.
        (0..most).filter(|core| unsafe { libc::CPU_ISSET(*core, &self.0) }).collect()
    }

    /// Lets the calling thread run on these cores.
    pub(super) fn allow(&self) {
        // If the system refuses, the thread stays on the cores that it has.
        // SAFETY: the pointer and the size describe the set.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
    }
}
