//! The shape of the futures of this folder.

/// Defines a public future. Its first field is a wait that is polled in place; when the wait has an
/// answer, the expression makes the output from the answer and the other fields.
macro_rules! future {
    (
        $(#[$about:meta])*
        pub struct $future:ident<$a:lifetime $(, $T:ident $(: ?$sized:ident)?)?> {
            $wait:ident: $waiting:ty,
            $($field:ident: $type:ty,)*
        }
        $(#[$result:meta])*
        type Output = $output:ty $(where $param:ident: $bound:ident)?;
        |$this:ident, $answer:pat_param| $body:expr
    ) => {
        $(#[$about])*
        #[must_use = "futures do nothing unless they are polled"]
        pub struct $future<$a $(, $T $(: ?$sized)?)?> {
            $wait: $waiting,
            $($field: $type,)*
        }

        impl<$a $(, $T $(: ?$sized)?)?> Future for $future<$a $(, $T)?> $(where $param: $bound)? {
            $(#[$result])*
            type Output = $output;

            /// # Panics
            /// If polled after it has returned `Ready`.
            fn poll(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<$output> {
                // SAFETY: the wait is the only pinned field, and nothing moves it.
                let $this = unsafe { self.get_unchecked_mut() };
                // SAFETY: the wait is pinned together with `self`.
                let wait = unsafe { std::pin::Pin::new_unchecked(&mut $this.$wait) };
                wait.poll(cx).map(|$answer| $body)
            }
        }

        impl<$a $(, $T $(: ?$sized)?)?> std::fmt::Debug for $future<$a $(, $T)?> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use future;
