//! The command, run as a user runs it. One program of tests, so that those that take their seconds take them side by side.

mod common;
mod compare;
mod hash;
mod jobs;
mod mandelbrot;
mod output;
mod soak;
