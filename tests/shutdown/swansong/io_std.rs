//! Interrupted readers and writers of std, which the document does not speak of.

use super::of_each_kind;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};

#[test]
fn an_interrupted_std_reader_gives_what_it_reads_or_its_end() {
    of_each_kind(|swansong| {
        let mut reader = swansong.interrupt(Cursor::new(b"abcdef"));
        let mut two = [0; 2];
        assert_eq!(reader.read(&mut two).unwrap(), 2);
        assert_eq!(&two, b"ab");
        swansong.shut_down();
        assert_eq!(reader.read(&mut two).unwrap(), 0);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert_eq!(reader.position(), 2, "what was left stays");
    });
}

#[test]
fn an_interrupted_std_buffered_reader_has_an_empty_buffer_after_the_stop() {
    of_each_kind(|swansong| {
        let mut reader = swansong.interrupt(BufReader::new(&b"one\ntwo\n"[..]));
        let mut line = String::new();
        assert_eq!(reader.read_line(&mut line).unwrap(), 4);
        assert_eq!(reader.fill_buf().unwrap(), b"two\n");
        swansong.shut_down();
        assert_eq!(reader.fill_buf().unwrap(), b"");
        assert_eq!(reader.read_line(&mut line).unwrap(), 0);
        assert_eq!(reader.into_inner().buffer(), b"two\n");
    });
}

#[test]
fn an_interrupted_std_writer_takes_nothing_after_the_stop_but_can_be_flushed() {
    struct Flushes(Vec<u8>, usize);
    impl Write for Flushes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.1 += 1;
            Ok(())
        }
    }
    of_each_kind(|swansong| {
        let mut writer = swansong.interrupt(Flushes(Vec::new(), 0));
        writer.write_all(b"abc").unwrap();
        swansong.shut_down();
        assert_eq!(writer.write(b"def").unwrap(), 0);
        let error = writer.write_all(b"def").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WriteZero);
        writer.flush().unwrap();
        assert_eq!((&writer.0[..], writer.1), (&b"abc"[..], 1));
    });
}

#[test]
fn a_guarded_std_reader_and_writer_pass_through() {
    of_each_kind(|swansong| {
        let mut both = swansong.guarded(Cursor::new(Vec::new()));
        swansong.shut_down();
        both.write_all(b"written").unwrap();
        both.flush().unwrap();
        both.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        both.read_to_string(&mut text).unwrap();
        assert_eq!((&text[..], swansong.guard_count()), ("written", 1));
    });
}

/// A receive that is under way is not woken by the stop; each step looks first.
#[test]
fn an_interrupted_receiver_of_std_gives_what_was_sent_before_the_stop() {
    of_each_kind(|swansong| {
        let (to, from) = crate::common::mpsc::channel();
        (0..4).for_each(|n| to.send(n).unwrap());
        let mut items = swansong.interrupt(from.iter());
        assert_eq!((items.next(), items.next()), (Some(0), Some(1)));
        swansong.shut_down();
        assert_eq!(items.next(), None);
        assert_eq!(from.try_recv(), Ok(2), "it stays where it was");
    });
}
