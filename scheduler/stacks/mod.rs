//! What happens when there is no stack to be had.
//!
//! | | |
//! | --- | --- |
//! | `shortage`, `books` | who waits for a stack, lends one and gives it back |
//! | `verdict` | who has to fail, if all wait for each other |

pub(crate) mod books;
pub(crate) mod shortage;
pub(crate) mod verdict;
