//! `run mandelbrot`: a picture of the Mandelbrot set, one coroutine per row.
//!
//! Rows differ a thousandfold in cost, which makes the job a test of load balance. A pixel
//! depends only on its place, so any number of workers draws the same picture.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::colour::{Light, Palette};
use super::picture::{self, Target};
use super::settled;
use crate::cli::MandelbrotArgs;
use crate::measure::progress::Progress;
use crate::names;
use crate::report::{self, Outcome};

/// The middle of the picture and half of its side, in the complex plane.
const CENTRE: (f64, f64) = (-0.7, 0.0);
const REACH: f64 = 1.35;

/// Samples along each side of a pixel. The border of the set is finer than any grid, and one
/// sample per pixel would turn it into noise.
const SAMPLES: u32 = 2;

/// Squared distance from the origin at which a point has escaped. It is large because the smooth
/// count is exact only in the limit.
const ESCAPE: f64 = 1e6;

/// Runs the job, writes the picture and prints the result.
pub(crate) fn run(args: &MandelbrotArgs) -> anyhow::Result<ExitCode> {
    let target = Target::check(&args.out)?;
    let view = View { size: args.size, iterations: args.iterations };
    // Allocated here first, so that too little memory gives an error message and not an abort.
    drop(view.blank()?);
    let palette = Palette::new();
    let report = report::measure("mandelbrot", "rows", &args.common, |progress| {
        draw(view, &palette, &args.out, progress)
    })?;
    target.write(&picture::encode(args.size, &report.outcome.pixels)?)?;
    report.publish(&args.common)
}

/// Size and depth of the picture.
#[derive(Clone, Copy)]
struct View {
    size: u32,
    iterations: u32,
}

/// A drawn picture.
#[derive(PartialEq, Serialize)]
struct Picture<'a> {
    #[serde(flatten, serialize_with = "names::fields")]
    out: &'a Path,
    size: u32,
    iterations: u32,
    /// The share of the picture that the set covers, in per cent.
    covered_percent: f64,
    #[serde(rename = "pixels_sha256", serialize_with = "digest")]
    pixels: Vec<u8>,
}

/// Serialises a digest of the pixels.
fn digest<S: Serializer>(pixels: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    names::in_hex(&Sha256::digest(pixels), serializer)
}

/// Draws the picture; runs as the root task.
fn draw<'a>(view: View, palette: &Palette, out: &'a Path, progress: &Progress) -> Picture<'a> {
    let mut pixels = view.blank().expect("there was enough memory before");
    progress.expect(u64::from(view.size));
    let rows = pixels.chunks_exact_mut(view.size as usize * 3);
    let members: u64 = cygnet::scope(|s| {
        let tasks: Vec<_> = (0..view.size)
            .zip(rows)
            .map(|(y, row)| {
                s.spawn(move || {
                    let members = view.draw_row(y, palette, row);
                    progress.step();
                    members
                })
            })
            .collect();
        tasks.into_iter().map(|task| settled(task.join())).sum()
    });
    let View { size, iterations } = view;
    let samples = (u64::from(size) * u64::from(SAMPLES)).pow(2);
    let covered_percent = 100.0 * members as f64 / samples as f64;
    Picture { out, size, iterations, covered_percent, pixels }
}

impl View {
    /// The bytes of a black picture.
    fn blank(self) -> anyhow::Result<Vec<u8>> {
        let length = self.size as usize * self.size as usize * 3;
        let mut pixels = Vec::new();
        pixels.try_reserve_exact(length).map_err(|_| {
            anyhow!(
                "there is not enough memory for a picture of this size ({})",
                report::human_bytes(length as u64)
            )
        })?;
        pixels.resize(length, 0);
        Ok(pixels)
    }

    /// Draws row `y` and returns how many of its samples belong to the set.
    fn draw_row(self, y: u32, palette: &Palette, row: &mut [u8]) -> u64 {
        let step = 2.0 * REACH / f64::from(self.size * SAMPLES);
        let place = |sample: u32| (f64::from(sample) + 0.5) * step - REACH;
        let mut members = 0;
        for (x, pixel) in (0..self.size).zip(row.chunks_exact_mut(3)) {
            let mut light = Light::default();
            for (dx, dy) in (0..SAMPLES * SAMPLES).map(|i| (i % SAMPLES, i / SAMPLES)) {
                let c = (
                    CENTRE.0 + place(x * SAMPLES + dx),
                    // Pictures grow downwards, the complex plane upwards.
                    CENTRE.1 - place(y * SAMPLES + dy),
                );
                match escape(c, self.iterations) {
                    Some(escape) => light.add(palette.light(escape.count, escape.normal)),
                    None => members += 1,
                }
            }
            pixel.copy_from_slice(&light.to_srgb(f64::from(SAMPLES * SAMPLES)));
        }
        members
    }
}

/// How a point escaped.
struct Escape {
    /// The smooth number of steps.
    count: f64,
    /// The direction in which the potential grows: the slope of the landscape, for its shading.
    normal: (f64, f64),
}

/// Iterates z -> z * z + c from zero. Returns `None` if the point stays for all `iterations`.
fn escape((cr, ci): (f64, f64), iterations: u32) -> Option<Escape> {
    if in_largest_parts(cr, ci) {
        return None;
    }
    let (mut zr, mut zi) = (0.0, 0.0);
    // The derivative of z by c.
    let (mut dr, mut di) = (0.0, 0.0);
    // A value that recurs exactly is a cycle, so the point is a member. The mark moves at powers
    // of two, so that a cycle of any length is found eventually.
    let (mut mark, mut next_mark) = ((0.0, 0.0), 8);
    for n in 0..iterations {
        (dr, di) = (2.0 * (zr * dr - zi * di) + 1.0, 2.0 * (zr * di + zi * dr));
        (zr, zi) = (zr * zr - zi * zi + cr, 2.0 * zr * zi + ci);
        let square = zr * zr + zi * zi;
        if square > ESCAPE {
            let count = f64::from(n) + 2.0 - (0.5 * square.ln()).log2();
            return Some(Escape { count: count.max(0.0), normal: direction((zr, zi), (dr, di)) });
        }
        if (zr, zi) == mark {
            return None;
        }
        if n == next_mark {
            (mark, next_mark) = ((zr, zi), next_mark.saturating_mul(2));
        }
    }
    None
}

/// Whether the point lies in the main cardioid or in the largest disc, where most members are.
fn in_largest_parts(cr: f64, ci: f64) -> bool {
    let x = cr - 0.25;
    let q = x * x + ci * ci;
    q * (q + x) <= 0.25 * ci * ci || (cr + 1.0) * (cr + 1.0) + ci * ci <= 0.0625
}

/// z divided by d, scaled to length one.
fn direction((zr, zi): (f64, f64), (dr, di): (f64, f64)) -> (f64, f64) {
    let (ur, ui) = (zr * dr + zi * di, zi * dr - zr * di);
    let length = ur.hypot(ui);
    if length.is_normal() { (ur / length, ui / length) } else { (0.0, 0.0) }
}

impl Outcome for Picture<'_> {
    /// Writes nothing: the picture is the result.
    fn write_text(&self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn summary(&self) -> String {
        format!(
            "{}: {size} by {size} pixels, {:.1} % in the set",
            names::for_message(self.out),
            self.covered_percent,
            size = self.size,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_and_other_points_escape() {
        for member in [(0.0, 0.0), (-1.0, 0.0), (-2.0, 0.0), (0.0, 1.0), (-0.12, 0.74)] {
            assert!(escape(member, 10_000).is_none(), "{member:?}");
        }
        for stranger in [(0.3, 0.0), (-2.01, 0.0), (1.0, 1.0), (-0.75, 0.1)] {
            assert!(escape(stranger, 10_000).is_some(), "{stranger:?}");
        }
    }

    #[test]
    fn the_count_is_smooth_where_the_number_of_steps_jumps() {
        let counts: Vec<_> = (0..1000)
            .map(|i| escape((0.5 + f64::from(i) / 1000.0, 0.5), 100).unwrap().count)
            .collect();
        for pair in counts.windows(2) {
            assert!((pair[0] - pair[1]).abs() < 0.02, "{pair:?}");
        }
    }
}
