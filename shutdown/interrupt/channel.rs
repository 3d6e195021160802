//! Interrupted receivers of channels.

use super::{Interrupt, poll_until_stop};
use crate::runtime::{is_cancelled, wait};
use crate::sync::{Receiver, WaitError};
use std::future::poll_fn;
use std::pin::pin;

/// A [`Receiver`], or a reference to one. The trait cannot be named outside the library, and so not
/// implemented there.
pub trait AnyReceiver {
    /// The type of the received values.
    type Item;

    /// Returns the receiver itself.
    fn receiver(&self) -> &Receiver<Self::Item>;
}

impl<T> AnyReceiver for Receiver<T> {
    type Item = T;

    #[inline]
    fn receiver(&self) -> &Receiver<T> {
        self
    }
}

impl<T> AnyReceiver for &Receiver<T> {
    type Item = T;

    #[inline]
    fn receiver(&self) -> &Receiver<T> {
        self
    }
}

/// A [`sync::Receiver`](Receiver), or a reference to one, that ends with the stop. Values that have
/// not been received by then stay in the channel, for other receivers or for this one:
/// [`try_iter`](Receiver::try_iter), for instance, empties the channel after the stop.
///
/// All other methods are the receiver's own, and take no notice of the stop. For a time limit, use
/// [`timeout`](crate::timeout). Sends, and receives from other channels, are interrupted as
/// futures:
///
/// ```
/// let swansong = cygnet::shutdown::Swansong::new();
/// let (sender, _receiver) = cygnet::sync::bounded(1);
/// for i in 0.. {
///     match cygnet::wait(swansong.interrupt(sender.send_async(i)))? {
///         Some(sent) => sent.unwrap(),
///         None => break,
///     }
///     swansong.shut_down();
/// }
/// assert_eq!(sender.len(), 1);
/// # Ok::<(), cygnet::Cancelled>(())
/// ```
impl<R: AnyReceiver> Interrupt<R> {
    /// Receives a value, waiting for one until the stop. After the stop it returns `None`, even if
    /// there is a value or the channel is closed.
    ///
    /// Suspends if there is no value: a task parks, a plain thread blocks, and the stop wakes both.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let (sender, receiver) = cygnet::sync::unbounded();
    /// let mut receiver = swansong.interrupt(receiver);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv(), Ok(Some(1)));
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(receiver.recv(), Ok(None)));
    ///     swansong.shut_down();
    /// });
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.recv(), Ok(None));
    /// assert_eq!(receiver.try_recv(), Ok(2)); // it has stayed there
    /// ```
    ///
    /// # Errors
    /// * [`WaitError::Closed`] if the channel is closed and everything has been received.
    /// * [`WaitError::Cancelled`] if the calling task is cancelled, even after the stop.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[inline]
    #[track_caller]
    pub fn recv(&mut self) -> Result<Option<R::Item>, WaitError> {
        if !is_cancelled() {
            if self.stop.is_stopped() {
                return Ok(None);
            }
            if let Some(value) = self.value.receiver().take_free() {
                return Ok(Some(value));
            }
        }
        wait(self.recv_async())?
    }

    /// Receives like [`recv`](Interrupt::recv), as a future for any executor.
    ///
    /// # Cancellation
    /// A future that is dropped before it is ready has received nothing.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let (sender, receiver) = cygnet::sync::unbounded();
    /// let mut receiver = swansong.interrupt(&receiver);
    /// cygnet::wait(async {
    ///     sender.send(1).unwrap();
    ///     assert_eq!(receiver.recv_async().await, Ok(Some(1)));
    ///     swansong.shut_down();
    ///     assert_eq!(receiver.recv_async().await, Ok(None));
    /// })?;
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn recv_async(&mut self) -> impl Future<Output = Result<Option<R::Item>, WaitError>> {
        let stop = &mut self.stop;
        let receiving = self.value.receiver().recv_async();
        async move {
            let mut receiving = pin!(receiving);
            poll_fn(|cx| poll_until_stop(stop, cx, |cx| receiving.as_mut().poll(cx)))
                .await
                .transpose()
        }
    }

    /// Iterates over received values until the stop, until the channel is closed and empty, or
    /// until the calling task is cancelled. Each step suspends like [`recv`](Interrupt::recv).
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let (sender, receiver) = cygnet::sync::unbounded();
    /// (0..10).for_each(|i| sender.send(i).unwrap());
    /// let mut sum = 0;
    /// for i in swansong.interrupt(&receiver).iter() {
    ///     sum += i;
    ///     if i == 3 {
    ///         swansong.shut_down();
    ///     }
    /// }
    /// assert_eq!((sum, receiver.len()), (6, 6));
    /// ```
    pub fn iter(&mut self) -> impl Iterator<Item = R::Item> {
        std::iter::from_fn(|| self.recv().ok().flatten())
    }
}
