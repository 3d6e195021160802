//! The way between a coroutine that is resumed by hand and its resumer.
//!
//! On x86-64 it is a [`Pair`](crate::asm::pair::Pair) of contexts, whose switch is inlined. On
//! AArch64, under a sanitizer, which must be told of each switch, and where the compiler emits no
//! unwinding tables, it is two [`Context`](crate::retire::context::Context)s and the routine that
//! all other flows use.

pub(crate) use crate::asm::{Continuation, Return};
#[cfg(not(cygnet_inline_switch))]
pub(crate) use called::Passage;
#[cfg(cygnet_inline_switch)]
pub(crate) use inlined::Passage;

#[cfg(cygnet_inline_switch)]
mod inlined {
    use crate::asm::pair::Pair;
    use crate::asm::{Continuation, Entry, Return};
    use crate::retire::nesting::PinCount;

    /// The contexts of a coroutine and of its resumer.
    #[repr(C)]
    pub(crate) struct Passage {
        pair: Pair<PinCount>,
    }

    impl Passage {
        /// Makes the passage of a new coroutine on the stack from `bottom` to `end`, with its
        /// frames below `top`. The first [`resume`](Passage::resume) calls `entry(data, message)`,
        /// which must begin with [`arrive`](Passage::arrive).
        ///
        /// # Safety
        /// `top` lies between `bottom` and `end`, with room below it for the first frame. The
        /// memory from `bottom` to `top` holds nothing and is the caller's. The call of `entry`
        /// must be sound when it is made.
        #[inline]
        pub(crate) unsafe fn on_part(
            bottom: *mut u8,
            end: *mut u8,
            top: *mut u8,
            entry: Entry,
            data: *mut u8,
        ) -> Passage {
            let _ = (bottom, end);
            // SAFETY: by contract the memory below `top` is free and has room for the first frame,
            // and the call of `entry` will be sound.
            Passage { pair: unsafe { Pair::prepare(PinCount::new(), top, entry, data) } }
        }

        /// Returns the pin count, which lies at the start of the passage.
        #[inline(always)]
        pub(crate) fn pins(&self) -> &PinCount {
            &self.pair.head
        }

        /// Returns 0 if the coroutine neither runs nor has ended.
        #[inline(always)]
        pub(crate) fn occupied(&self) -> usize {
            self.pair.occupied()
        }

        /// Makes a coroutine that is new or suspended count as occupied or, after that, no longer.
        #[inline]
        pub(crate) fn set_occupied(&self, occupied: bool) {
            self.pair.set_occupied(occupied);
        }

        /// Continues the coroutine. Returns when it suspends or ends.
        ///
        /// # Safety
        /// The coroutine is new or suspended, its stack is still there, and it may run now on this
        /// thread. The passage stays at its address until this returns.
        #[inline(always)]
        pub(crate) unsafe fn resume(&self) -> Return {
            // SAFETY: the coroutine may run, by contract; the caller is not on its stack, as it
            // does not run yet.
            unsafe { self.pair.resume() }
        }

        /// Continues a suspended coroutine so that its [`suspend`](Passage::suspend) returns
        /// [`Continuation::Unwind`].
        ///
        /// # Safety
        /// That of [`resume`](Passage::resume), and the coroutine is not new.
        pub(crate) unsafe fn unwind(&self) -> Return {
            // SAFETY: the coroutine may run and has begun, by contract; the caller is not on its
            // stack, as it does not run yet.
            unsafe { self.pair.unwind() }
        }

        /// Suspends the coroutine and continues its resumer.
        ///
        /// # Safety
        /// The coroutine is the running flow of this thread, and its resumer waits in
        /// [`resume`](Passage::resume). The passage stays at its address until this returns.
        #[inline(always)]
        pub(crate) unsafe fn suspend(&self) -> Continuation {
            // SAFETY: the caller is on the coroutine's stack, and the resumer waits, by contract.
            unsafe { self.pair.suspend() }
        }

        /// Suspends the coroutine like [`suspend`](Passage::suspend), but the resumer's call
        /// returns [`Return::Otherwise`].
        ///
        /// # Safety
        /// That of [`suspend`](Passage::suspend).
        #[inline(always)]
        pub(crate) unsafe fn suspend_otherwise(&self) -> Continuation {
            // SAFETY: the caller is on the coroutine's stack, and the resumer waits, by contract.
            unsafe { self.pair.suspend_otherwise() }
        }

        /// Ends the coroutine and continues its resumer.
        ///
        /// # Safety
        /// That of [`suspend`](Passage::suspend), and none of the coroutine's frames is used again.
        pub(crate) unsafe fn leave(&self) -> ! {
            // SAFETY: the caller is on the coroutine's stack, the resumer waits, and the frames are
            // not used again, by contract.
            unsafe { self.pair.leave() }
        }

        /// Completes the first switch to a coroutine.
        ///
        /// # Safety
        /// The caller is the coroutine's entry, which has just been called with this message.
        pub(crate) unsafe fn arrive(&self, _: usize) {}
    }
}

#[cfg(not(cygnet_inline_switch))]
mod called {
    use std::cell::Cell;

    use crate::asm::{Continuation, Entry, Return};
    use crate::retire::context::Context;
    use crate::retire::nesting::PinCount;

    /// The contexts of a coroutine and of its resumer.
    #[repr(C)]
    pub(crate) struct Passage {
        pins: PinCount,
        coroutine: Context,
        resumer: Context,
        /// The coroutine runs, or has ended.
        running: Cell<bool>,
        /// The coroutine has left its stack for ever, or has suspended in an unusual way.
        otherwise: Cell<bool>,
        /// The coroutine is continued to be unwound.
        unwound: Cell<bool>,
    }

    impl Passage {
        /// Makes the passage of a new coroutine on the stack from `bottom` to `end`, with its
        /// frames below `top`. The first [`resume`](Passage::resume) calls `entry(data, message)`,
        /// which must begin with [`arrive`](Passage::arrive).
        ///
        /// # Safety
        /// `top` lies between `bottom` and `end`, with room below it for the first frame. The
        /// memory from `bottom` to `top` holds nothing and is the caller's. The call of `entry`
        /// must be sound when it is made.
        #[inline]
        pub(crate) unsafe fn on_part(
            bottom: *mut u8,
            end: *mut u8,
            top: *mut u8,
            entry: Entry,
            data: *mut u8,
        ) -> Passage {
            Passage {
                pins: PinCount::new(),
                // SAFETY: this asks for no more than the contract of this function gives.
                coroutine: unsafe { Context::on_part(bottom, end, top, entry, data) },
                resumer: Context::of_thread(),
                running: Cell::new(false),
                otherwise: Cell::new(false),
                unwound: Cell::new(false),
            }
        }

        /// Returns the pin count, which lies at the start of the passage.
        #[inline(always)]
        pub(crate) fn pins(&self) -> &PinCount {
            &self.pins
        }

        /// Returns 0 if the coroutine neither runs nor has ended.
        #[inline(always)]
        pub(crate) fn occupied(&self) -> usize {
            usize::from(self.running.get())
        }

        /// Makes a coroutine that is new or suspended count as occupied or, after that, no longer.
        #[inline]
        pub(crate) fn set_occupied(&self, occupied: bool) {
            self.running.set(occupied);
        }

        /// Continues the coroutine. Returns when it suspends or ends.
        ///
        /// # Safety
        /// The coroutine is new or suspended, its stack is still there, and it may run now on this
        /// thread. The passage stays at its address until this returns.
        #[inline(always)]
        pub(crate) unsafe fn resume(&self) -> Return {
            self.resumer.renew();
            self.running.set(true);
            // SAFETY: the resumer is the running flow. By contract the coroutine is new or
            // suspended, its stack exists and it may run now, and both contexts are alive.
            unsafe { self.resumer.switch(&self.coroutine) };
            if self.otherwise.get() { Return::Otherwise } else { Return::Suspended }
        }

        /// Continues a suspended coroutine so that its [`suspend`](Passage::suspend) returns
        /// [`Continuation::Unwind`].
        ///
        /// # Safety
        /// That of [`resume`](Passage::resume), and the coroutine is not new.
        pub(crate) unsafe fn unwind(&self) -> Return {
            self.unwound.set(true);
            // SAFETY: this asks for no more than the contract of this function gives.
            unsafe { self.resume() }
        }

        /// Suspends the coroutine and continues its resumer.
        ///
        /// # Safety
        /// The coroutine is the running flow of this thread, and its resumer waits in
        /// [`resume`](Passage::resume). The passage stays at its address until this returns.
        #[inline(always)]
        pub(crate) unsafe fn suspend(&self) -> Continuation {
            self.running.set(false);
            // SAFETY: by contract the coroutine runs and the resumer is suspended, both contexts
            // are alive, and the resumer may run again: it waits for this.
            unsafe { self.coroutine.switch(&self.resumer) };
            if self.unwound.get() { Continuation::Unwind } else { Continuation::GoOn }
        }

        /// Suspends the coroutine like [`suspend`](Passage::suspend), but the resumer's call
        /// returns [`Return::Otherwise`].
        ///
        /// # Safety
        /// That of [`suspend`](Passage::suspend).
        #[inline(always)]
        pub(crate) unsafe fn suspend_otherwise(&self) -> Continuation {
            self.otherwise.set(true);
            // SAFETY: this asks for no more than the contract of this function gives.
            let continuation = unsafe { self.suspend() };
            self.otherwise.set(false);
            continuation
        }

        /// Ends the coroutine and continues its resumer.
        ///
        /// # Safety
        /// That of [`suspend`](Passage::suspend), and none of the coroutine's frames is used again.
        pub(crate) unsafe fn leave(&self) -> ! {
            self.otherwise.set(true);
            // SAFETY: by contract the coroutine runs, none of its frames is used again, and the
            // resumer waits. The resumer frees the stack.
            unsafe { self.coroutine.leave(&self.resumer) }
        }

        /// Completes the first switch to a coroutine.
        ///
        /// # Safety
        /// The caller is the coroutine's entry, which has just been called with this message.
        pub(crate) unsafe fn arrive(&self, message: usize) {
            // SAFETY: a new coroutine is continued by `resume`, so the message is the resumer's
            // context, which outlives the switch.
            unsafe { self.coroutine.arrive(message) }
        }

        /// Forgets the flow of a coroutine that has ended or never began.
        #[cfg(cygnet_tsan)]
        pub(crate) fn end(&self) {
            self.coroutine.end();
        }
    }
}
