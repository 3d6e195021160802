//! The names that most tests use, for a glob: everything in the root of the library, the helpers of
//! [`common`](super), and the usual ones of `std`. A test imports what else it uses by name. Such a
//! name comes before a name of the glob, as does one that the test defines.

pub(crate) use super::mpsc::channel;
pub(crate) use super::*;
pub(crate) use crate::common;
pub(crate) use cygnet::sync::{Event, WaitError, bounded, oneshot, unbounded};
pub(crate) use cygnet::*;
pub(crate) use std::cell::{Cell, RefCell};
pub(crate) use std::future::{pending, poll_fn, ready};
pub(crate) use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
pub(crate) use std::pin::{Pin, pin};
pub(crate) use std::rc::Rc;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::task::{Context, Poll, Wake, Waker};
pub(crate) use std::time::{Duration, Instant};
