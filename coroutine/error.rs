//! The errors of creating and of resuming a coroutine.

use std::{fmt, io};

use super::State;
use crate::retire::stack::{LARGEST, SMALLEST, StackExhausted};

/// The reason why a coroutine could not be created. The body that was passed has been dropped, and
/// so has the stack, if one was.
///
/// ```
/// use cygnet::coroutine::{Coroutine, CreateError};
///
/// let refused = Coroutine::builder().stack_size(100).create(|_, ()| ());
/// # let refused: Result<Coroutine<(), (), ()>, _> = refused;
/// assert_eq!(refused.unwrap_err(), CreateError::StackSize { asked: 100 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CreateError {
    /// The stack size asked for is out of bounds.
    StackSize {
        /// The size asked for, in bytes.
        asked: usize,
    },
    /// The memory of a [`Stack`](super::Stack) is too small.
    StackTooSmall {
        /// The size of the memory, in bytes.
        bytes: usize,
        /// The least size: 16 KiB, and room for large captures and values.
        needed: usize,
    },
    /// The kernel refused the memory for another stack.
    OutOfMemory {
        /// The kernel's error number.
        errno: i32,
    },
    /// The process has reached its limit of mappings.
    OutOfMappings,
}

impl From<StackExhausted> for CreateError {
    fn from(reason: StackExhausted) -> CreateError {
        match reason {
            StackExhausted::Memory { errno } => CreateError::OutOfMemory { errno },
            StackExhausted::MapCount => CreateError::OutOfMappings,
            StackExhausted::Limit => unreachable!("bare coroutines are not limited"),
        }
    }
}

error! {
    impl CreateError: |this, f| match *this {
        CreateError::StackSize { asked } => write!(
            f,
            "a coroutine's stack of {asked} bytes is out of bounds: it takes at least {SMALLEST} \
             bytes (16 KiB) and at most {LARGEST} (1 GiB)"
        ),
        CreateError::StackTooSmall { bytes, needed } => write!(
            f,
            "the memory for a coroutine's stack has {bytes} bytes, and this coroutine needs at \
             least {needed}: 16 KiB, and room for copies of its captures and values if these are \
             large"
        ),
        CreateError::OutOfMemory { errno } => write!(
            f,
            "the kernel refused memory for another coroutine's stack ({}): the address space \
             (ulimit -v), the overcommit limit (vm.overcommit_memory) or memory itself is used \
             up; drop finished coroutines, or ask for a smaller stack_size",
            io::Error::from_raw_os_error(errno)
        ),
        CreateError::OutOfMappings => write!(
            f,
            "no mapping is left for another coroutine's stack: raise vm.max_map_count with \
             sysctl, keep fewer coroutines, or use Linux 6.13 or newer, where the guard of a \
             stack takes no mapping"
        ),
    }
}

/// The reason why a coroutine was not resumed. Gives the input back.
///
/// ```
/// use cygnet::coroutine::{Coroutine, State};
///
/// let once = Coroutine::<u8, (), ()>::new(|_, _| ());
/// once.resume(1).unwrap();
/// let error = once.resume(2).unwrap_err();
/// assert_eq!(error.state(), State::Finished);
/// assert_eq!(error.into_input(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError<In> {
    /// The coroutine is running: it was asked to resume itself, or one that has resumed it,
    /// directly or through others; or a coroutine that has transferred to it is being dropped.
    Running(In),
    /// The coroutine's body has returned or panicked.
    Finished(In),
    /// The coroutine is suspended, and its thread is destroying thread-local values, which the
    /// coroutine may be using. See [the module's documentation](super#the-end-of-a-thread).
    ThreadEnding(In),
}

impl<In> ResumeError<In> {
    /// Returns the input of the failed call.
    pub fn into_input(self) -> In {
        match self {
            ResumeError::Running(input)
            | ResumeError::Finished(input)
            | ResumeError::ThreadEnding(input) => input,
        }
    }

    /// Returns the state of the coroutine.
    pub fn state(&self) -> State {
        match self {
            ResumeError::Running(_) => State::Running,
            ResumeError::Finished(_) => State::Finished,
            ResumeError::ThreadEnding(_) => State::Suspended,
        }
    }
}

/// Leaves the input out, so `In` need not implement `Debug`.
impl<In> fmt::Debug for ResumeError<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResumeError::Running(_) => "Running(..)",
            ResumeError::Finished(_) => "Finished(..)",
            ResumeError::ThreadEnding(_) => "ThreadEnding(..)",
        })
    }
}

error! {
    impl<In> ResumeError<In>: |this, f| {
        f.write_str(match this {
            ResumeError::Running(_) => {
                "a running coroutine cannot be resumed; it runs until it suspends or returns, also \
                 while it waits for another one that it has resumed"
            }
            ResumeError::Finished(_) => "a finished coroutine cannot be resumed",
            ResumeError::ThreadEnding(_) => {
                "a suspended coroutine cannot be resumed from the destructor of a thread-local value"
            }
        })
    }
}
