/// Why nothing could be claimed immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryClaimError {
    /// There is not enough room, or other producers are waiting for it.
    Full,
    /// The ring is closed, or a reader was dropped.
    Closed,
}

error! {
    impl TryClaimError: |this, f| {
        f.write_str(match this {
            TryClaimError::Full => "the ring is full",
            TryClaimError::Closed => "the ring is closed",
        })
    }
}
