//! `cygnet run mandelbrot` leaves a whole picture or none.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Scratch, assert_ends, cygnet, json, run, run_in, stderr};

/// Decodes an RGB picture.
fn decode(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    (info.width, info.height, pixels)
}

/// Draws a small picture to `out`.
fn draw(out: &Path, workers: &str) {
    let out = out.to_str().expect("text");
    let args = ["run", "mandelbrot", "--size", "96", "--iterations", "300", "--workers", workers];
    assert_ends(&run(args.iter().chain(&["--out", out])), 0);
}

#[test]
fn the_picture_opens_and_does_not_depend_on_the_number_of_workers() {
    let dir = Scratch::new("picture");
    let pictures = ["1", "2", "3"].map(|workers| {
        draw(&dir.at(workers), workers);
        fs::read(dir.at(workers)).unwrap()
    });
    let (width, height, pixels) = decode(&pictures[0]);
    assert_eq!((width, height), (96, 96));
    assert!(pictures.iter().all(|picture| *picture == pictures[0]));
    let pixel = |x: usize, y: usize| &pixels[(y * 96 + x) * 3..][..3];
    assert_eq!(pixel(48, 48), [0, 0, 0], "the set is black");
    assert_ne!(pixel(0, 0), [0, 0, 0], "its surroundings are not");
    assert_eq!(dir.names(), ["1", "2", "3"], "nothing else is left");
}

#[test]
fn json_describes_the_picture() {
    let dir = Scratch::new("picture-json");
    let out = dir.text("f.png");
    let args = ["run", "mandelbrot", "--json", "--compare-serial", "--size", "33", "--out", &out];
    let output = run(args);
    let report = json(&output);
    assert_eq!(report["job"], "mandelbrot");
    assert_eq!(report["size"], 33);
    assert_eq!(report["path"], out);
    assert_eq!(report["pixels_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(report["figures"]["tasks"], 34, "the root and one per row");
    assert!(report["ratio"].is_f64());
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_work() {
    let dir = Scratch::new("picture-refused");
    dir.write("file", "");
    for (out, reason) in [
        ("missing/f.png", "No such file or directory"),
        ("file/f.png", "Not a directory"),
        (".", "it is a directory"),
        ("new/", "it is not the name of a file"),
    ] {
        // Drawing this picture would take days.
        let args =
            ["run", "mandelbrot", "--size", "32768", "--iterations", "100000000", "--out", out];
        let output = run_in(&dir, args);
        let text = stderr(&output);
        assert_ends(&output, 1);
        assert!(text.starts_with("cygnet: cannot write "), "{text}");
        assert!(text.trim_end().ends_with(reason), "{out}: {text}");
    }
    assert_eq!(dir.names(), ["file"]);
}

#[test]
fn a_link_is_kept_and_the_file_behind_it_replaced() {
    let dir = Scratch::new("picture-link");
    dir.write("real/old.png", "old");
    symlink("real/old.png", dir.at("link.png")).unwrap();
    draw(&dir.at("link.png"), "2");
    assert!(dir.at("link.png").is_symlink());
    assert_eq!(decode(&fs::read(dir.at("real/old.png")).unwrap()).0, 96);
}

#[test]
fn a_pipe_is_written_into_and_not_replaced() {
    let dir = Scratch::new("picture-pipe");
    let pipe = dir.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let bytes = thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut bytes = Vec::new();
            BufReader::new(File::open(&pipe).unwrap()).read_to_end(&mut bytes).unwrap();
            bytes
        });
        draw(&pipe, "2");
        reader.join().unwrap()
    });
    assert_eq!(decode(&bytes).0, 96);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn an_interruption_leaves_the_old_picture() {
    let dir = Scratch::new("picture-interrupted");
    dir.write("f.png", "old");
    let mut child = cygnet(["run", "mandelbrot", "--size", "8192", "--out", "f.png"])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The command is at work as soon as it has more than one thread.
    let bound = Instant::now() + Duration::from_secs(60);
    let threads = format!("/proc/{}/task", child.id());
    while fs::read_dir(&threads).unwrap().count() < 2 {
        assert!(Instant::now() < bound, "the command never began");
        thread::yield_now();
    }
    // SAFETY: the call reads no memory. The child has not been waited for, so its process id is
    // not reused.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    assert!(!child.wait().unwrap().success());
    assert_eq!(dir.names(), ["f.png"]);
    assert_eq!(fs::read(dir.at("f.png")).unwrap(), b"old");
}

#[test]
fn sizes_out_of_range_are_errors_of_usage() {
    for size in ["0", "32769", "-1", "many"] {
        assert_ends(&run(["run", "mandelbrot", "--out", "x.png", &format!("--size={size}")]), 2);
    }
}
