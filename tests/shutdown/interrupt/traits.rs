//! The wrappers have exactly the auto traits of their values.

use crate::common::prelude::*;
use cygnet::shutdown::{Guarded, Interrupt};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::fmt::Debug;
use std::future::{Pending, Ready};
use std::io::{BufRead, Cursor, Read, Seek, Write};
use std::marker::PhantomPinned;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::MutexGuard;

macro_rules! as_the_value {
    ($($value:ty: [$($has:path),*] [$($lacks:path),*];)*) => {$(
        assert_impl_all!($value: $($has),*);
        assert_impl_all!(Guarded<$value>: $($has),*);
        assert_impl_all!(Interrupt<$value>: $($has),*);
        assert_not_impl_any!(($value,): $($lacks),*);
        assert_not_impl_any!(Guarded<$value>: $($lacks),*);
        assert_not_impl_any!(Interrupt<$value>: $($lacks),*);
    )*};
}

#[allow(dead_code)]
struct Nothing;

as_the_value! {
    (): [Send, Sync, Unpin, UnwindSafe, RefUnwindSafe] [Iterator];
    Rc<()>: [Unpin, UnwindSafe, RefUnwindSafe] [Send, Sync];
    MutexGuard<'static, ()>: [Sync, Unpin, UnwindSafe, RefUnwindSafe] [Send];
    Cell<()>: [Send, Unpin, UnwindSafe] [Sync, RefUnwindSafe];
    PhantomPinned: [Send, Sync, UnwindSafe, RefUnwindSafe] [Unpin];
    &'static mut (): [Send, Sync, Unpin, RefUnwindSafe] [UnwindSafe];
    Box<dyn Fn()>: [Unpin] [Send, Sync, UnwindSafe, RefUnwindSafe];
}

// The wrappers have other traits where the value has them.
assert_impl_all!(Guarded<u8>: Clone, Eq, Debug);
assert_not_impl_any!(Guarded<Nothing>: Clone, PartialEq, Debug, Future, Iterator, Read, Write);
assert_impl_all!(Guarded<Ready<Rc<u8>>>: Future<Output = Rc<u8>>);
assert_impl_all!(Guarded<Cursor<Vec<u8>>>: Read, BufRead, Write, Seek);
assert_impl_all!(Interrupt<u8>: Eq, Debug, PartialEq<Interrupt<u8>>);
assert_impl_all!(Interrupt<String>: PartialEq<Interrupt<&'static str>>);
assert_not_impl_any!(Interrupt<u8>: Clone);
assert_not_impl_any!(Interrupt<Nothing>: PartialEq, Debug, Future, Iterator, Read, Write);
assert_impl_all!(Interrupt<Pending<Rc<u8>>>: Future<Output = Option<Rc<u8>>>);
assert_impl_all!(Interrupt<std::ops::Range<u8>>: Iterator<Item = u8>);
assert_impl_all!(Interrupt<Cursor<Vec<u8>>>: Read, BufRead, Write, Seek);

#[test]
fn the_wrappers_are_covariant() {
    #[allow(dead_code)]
    fn an_interrupt<'short>(of: Interrupt<&'static str>) -> Interrupt<&'short str> {
        of
    }

    #[allow(dead_code)]
    fn a_guarded<'short>(of: Guarded<&'static str>) -> Guarded<&'short str> {
        of
    }
}

/// The methods for receivers of cygnet's channels hide no method of other values.
#[test]
fn methods_of_other_values_are_theirs() {
    let swansong = cygnet::shutdown::Swansong::new();
    let (sender, receiver) = mpsc::channel();
    sender.send(1).unwrap();
    assert_eq!(swansong.interrupt(receiver).recv(), Ok(1));
    assert_eq!(swansong.interrupt(vec![1]).iter().count(), 1);
}

#[test]
fn a_receive_may_go_where_its_values_may() {
    fn may_be_sent<T: Send>(_: &T) {}
    let swansong = cygnet::shutdown::Swansong::new();
    let (_sender, receiver) = cygnet::sync::unbounded::<Cell<u8>>();
    may_be_sent(&swansong.interrupt(&receiver).recv_async());
    may_be_sent(&swansong.interrupt(&receiver).iter());
}
