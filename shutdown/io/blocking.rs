//! The traits of `std::io`.

use super::{Guarded, Interrupt};
use std::io::{BufRead, IoSlice, IoSliceMut, Read, Result, Seek, SeekFrom, Write};

impl<T: Read> Read for Guarded<T> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.value.read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.value.read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        self.value.read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> Result<usize> {
        self.value.read_to_string(buf)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
        self.value.read_exact(buf)
    }
}

impl<T: BufRead> BufRead for Guarded<T> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        self.value.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.value.consume(amount);
    }
}

impl<T: Write> Write for Guarded<T> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.value.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        self.value.write_vectored(bufs)
    }

    fn write_all(&mut self, buf: &[u8]) -> Result<()> {
        self.value.write_all(buf)
    }

    fn flush(&mut self) -> Result<()> {
        self.value.flush()
    }
}

impl<T: Seek> Seek for Guarded<T> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.value.seek(to)
    }
}

/// After the stop there is nothing to read. Each call looks at the stop first; a call that blocks
/// is not woken.
///
/// ```
/// use std::io::Read;
///
/// let swansong = cygnet::shutdown::Swansong::new();
/// let mut reader = swansong.interrupt(&b"some bytes"[..]);
/// let mut some = [0; 4];
/// reader.read_exact(&mut some)?;
/// swansong.shut_down();
/// assert_eq!((&some, reader.read(&mut [0; 10])?), (b"some", 0));
/// assert_eq!(reader.into_inner(), b" bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
impl<T: Read> Read for Interrupt<T> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.stop.is_stopped() { Ok(0) } else { self.value.read(buf) }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        if self.stop.is_stopped() { Ok(0) } else { self.value.read_vectored(bufs) }
    }
}

/// After the stop the buffer is empty, even if the value has buffered bytes. A call that blocks is
/// not woken.
impl<T: BufRead> BufRead for Interrupt<T> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.stop.is_stopped() { Ok(&[]) } else { self.value.fill_buf() }
    }

    fn consume(&mut self, amount: usize) {
        self.value.consume(amount);
    }
}

/// After the stop nothing is written; flushing is passed on even then. Each call looks at the stop
/// first; a call that blocks is not woken.
///
/// ```
/// use std::io::{ErrorKind, Write};
///
/// let swansong = cygnet::shutdown::Swansong::new();
/// let mut writer = swansong.interrupt(Vec::new());
/// writer.write_all(b"in time")?;
/// swansong.shut_down();
/// assert_eq!(writer.write(b"late")?, 0);
/// assert_eq!(writer.write_all(b"late").unwrap_err().kind(), ErrorKind::WriteZero);
/// writer.flush()?;
/// assert_eq!(writer.into_inner(), b"in time");
/// # Ok::<(), std::io::Error>(())
/// ```
impl<T: Write> Write for Interrupt<T> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        if self.stop.is_stopped() { Ok(0) } else { self.value.write(buf) }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize> {
        if self.stop.is_stopped() { Ok(0) } else { self.value.write_vectored(bufs) }
    }

    fn flush(&mut self) -> Result<()> {
        self.value.flush()
    }
}

/// Seeking is passed on even after the stop.
impl<T: Seek> Seek for Interrupt<T> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.value.seek(to)
    }
}
