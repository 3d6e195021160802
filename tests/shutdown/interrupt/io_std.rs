//! Readers and writers of `std::io`.

use super::stop;
use crate::common::prelude::*;
use crate::of_each_kind;
use cygnet::shutdown::Swansong;
use std::io::{
    BufRead, BufReader, BufWriter, Cursor, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom,
    Write, pipe,
};

/// S61.
#[test]
fn a_reader_is_at_its_end_after_the_stop() {
    of_each_kind(|swansong| {
        let mut reader = swansong.interrupt(Cursor::new(b"0123456789"));
        let mut buf = [0; 2];
        assert_eq!((reader.read(&mut buf).unwrap(), &buf), (2, b"01"));
        let mut other = [0; 1];
        let bufs = &mut [IoSliceMut::new(&mut buf), IoSliceMut::new(&mut other)];
        assert_eq!(reader.read_vectored(bufs).unwrap(), 3);
        assert_eq!((&buf, &other), (b"23", b"4"));
        stop(&swansong);
        assert_eq!(reader.read(&mut buf).unwrap(), 0);
        assert_eq!(reader.read_vectored(&mut [IoSliceMut::new(&mut buf)]).unwrap(), 0);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert_eq!(reader.read_exact(&mut buf).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        // The rest can still be read past the interrupt.
        assert_eq!(reader.position(), 5);
        let mut rest = String::new();
        reader.into_inner().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "56789");
    });
}

#[test]
fn a_buffered_reader_has_an_empty_buffer_after_the_stop() {
    of_each_kind(|swansong| {
        let mut reader = swansong.interrupt(BufReader::new(&b"one\ntwo\nthree\n"[..]));
        let mut line = String::new();
        assert_eq!((reader.read_line(&mut line).unwrap(), &*line), (4, "one\n"));
        assert_eq!(reader.fill_buf().unwrap(), b"two\nthree\n");
        stop(&swansong);
        // Bytes that were seen before the stop may be consumed after it.
        reader.consume(4);
        assert_eq!(reader.fill_buf().unwrap(), b"");
        assert_eq!(reader.read_line(&mut line).unwrap(), 0);
        assert_eq!(reader.by_ref().lines().count(), 0);
        assert_eq!(reader.into_inner().buffer(), b"three\n");
    });
}

/// S61.
#[test]
fn nothing_is_written_after_the_stop_but_the_buffer_is_flushed() {
    of_each_kind(|swansong| {
        let mut writer = swansong.interrupt(BufWriter::new(Vec::new()));
        assert_eq!(writer.write(b"one").unwrap(), 3);
        let bufs = [IoSlice::new(b"tw"), IoSlice::new(b"o")];
        assert_eq!(writer.write_vectored(&bufs).unwrap(), 3);
        writeln!(writer, "{}", 3).unwrap();
        stop(&swansong);
        assert_eq!(writer.write(b"four").unwrap(), 0);
        assert_eq!(writer.write_vectored(&bufs).unwrap(), 0);
        assert_eq!(writer.write_all(b"four").unwrap_err().kind(), ErrorKind::WriteZero);
        writer.write_all(b"").unwrap();
        assert_eq!(writer.get_ref(), b"");
        writer.flush().unwrap();
        assert_eq!(writer.get_ref(), b"onetwo3\n");
    });
}

#[test]
fn a_position_can_be_sought_before_the_stop_and_after_it() {
    let swansong = Swansong::new();
    let mut file = swansong.interrupt(Cursor::new(b"0123456789"));
    assert_eq!(file.seek(SeekFrom::Start(3)).unwrap(), 3);
    stop(&swansong);
    assert_eq!(file.seek(SeekFrom::Current(2)).unwrap(), 5);
    assert_eq!(file.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn errors_go_through() {
    let swansong = Swansong::new();
    let (reader, writer) = pipe().unwrap();
    let mut writer = swansong.interrupt(writer);
    drop(reader);
    assert_eq!(writer.write(b"text").unwrap_err().kind(), ErrorKind::BrokenPipe);
    stop(&swansong);
    assert_eq!(writer.write(b"text").unwrap(), 0);
}

/// A read that blocks is not woken. It ends with the next bytes, and the following read sees the
/// stop. S64.
#[test]
fn a_read_that_blocks_ends_when_something_comes() {
    crate::common::real!("a read that blocks its thread");
    within(|| {
        let swansong = Swansong::new();
        let (reader, mut writer) = pipe().unwrap();
        let mut reader = swansong.interrupt(BufReader::new(reader));
        let lines = thread::spawn(move || {
            let lines: Vec<_> = reader.by_ref().lines().map(Result::unwrap).collect();
            (lines, reader.into_inner())
        });
        stop(&swansong);
        writer.write_all(b"one\ntwo\n").unwrap();
        drop(writer);
        let (mut lines, rest) = lines.join().unwrap();
        assert!(lines.len() <= 1, "{lines:?}");
        lines.extend(rest.lines().map(Result::unwrap));
        assert_eq!(lines, ["one", "two"]);
    });
}

#[test]
fn guarded_readers_and_writers_take_no_notice_of_the_stop() {
    of_each_kind(|swansong| {
        let mut file = swansong.guarded(Cursor::new(b"0123456789".to_vec()));
        stop(&swansong);
        let mut buf = [0; 2];
        assert_eq!((file.read(&mut buf).unwrap(), &buf), (2, b"01"));
        assert_eq!(file.read_vectored(&mut [IoSliceMut::new(&mut buf)]).unwrap(), 2);
        file.read_exact(&mut buf).unwrap();
        assert_eq!((file.fill_buf().unwrap(), &buf), (&b"6789"[..], b"45"));
        file.consume(1);
        let mut text = String::new();
        assert_eq!((file.read_to_string(&mut text).unwrap(), &*text), (3, "789"));
        assert_eq!(file.seek(SeekFrom::Start(1)).unwrap(), 1);
        assert_eq!(file.write(b"a").unwrap(), 1);
        assert_eq!(file.write_vectored(&[IoSlice::new(b"b")]).unwrap(), 1);
        file.write_all(b"c").unwrap();
        file.flush().unwrap();
        file.rewind().unwrap();
        let mut all = Vec::new();
        assert_eq!(file.read_to_end(&mut all).unwrap(), 10);
        assert_eq!((&*all, swansong.guard_count()), (&b"0abc456789"[..], 1));
    });
}
