//! The context switch.
