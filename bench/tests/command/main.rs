//! The command, run as a user runs it. All tests form one program, so that slow tests run side by
//! side.

mod common;
mod compare;
mod hash;
mod jobs;
mod mandelbrot;
mod output;
mod scale;
mod soak;
