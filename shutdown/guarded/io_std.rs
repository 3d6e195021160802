use super::Guarded;
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
