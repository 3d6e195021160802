//! Cygnet: a multi-threaded, work-stealing scheduler of stackful coroutines for compute jobs.

#[cfg(not(target_os = "linux"))]
compile_error!("cygnet runs on Linux only: it relies on madvise, membarrier and futexes");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cygnet has a context switch for x86_64 and aarch64 only");
#[cfg(not(target_pointer_width = "64"))]
compile_error!("cygnet needs 64-bit pointers: stacks are cut from large address ranges");

mod asm;
mod retire;
mod runtime;
mod scheduler;
mod shim;

pub use runtime::*;
