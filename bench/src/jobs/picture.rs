//! Writes a picture (PNG) to disk, completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, anyhow, bail};

use crate::{files, names};

/// The destination of a picture, checked before the work begins.
pub(crate) struct Target {
    /// The name as given, for messages.
    given: PathBuf,
    place: Place,
}

/// How the bytes are written.
enum Place {
    /// To a temporary file in the same directory, which is then renamed. No reader sees half a
    /// picture, and an interrupted run leaves the old file.
    Replace(PathBuf),
    /// Directly: to a device or a pipe, which a rename would replace by a file.
    Direct(PathBuf),
}

impl Target {
    /// Checks whether a picture can be written to `path`.
    ///
    /// # Errors
    ///
    /// `path` is a directory; its parent directory does not exist or cannot be written; an
    /// existing file cannot be written.
    pub(crate) fn check(path: &Path) -> anyhow::Result<Self> {
        let place = Self::find(path).with_context(|| cannot_write(path))?;
        Ok(Self { given: path.to_owned(), place })
    }

    fn find(path: &Path) -> anyhow::Result<Place> {
        let place = match fs::metadata(path) {
            Ok(about) if about.is_dir() => bail!("it is a directory"),
            Ok(about) if about.is_file() => {
                // A rename would bypass the file's own permissions.
                OpenOptions::new().write(true).open(path).map_err(plain)?;
                // Replaces the target of a symbolic link, not the link.
                Place::Replace(fs::canonicalize(path).map_err(plain)?)
            }
            Ok(_) => Place::Direct(path.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Place::Replace(path.to_owned())
            }
            Err(error) => return Err(plain(error)),
        };
        if let Place::Replace(file) = &place {
            if file.file_name().is_none() || file.as_os_str().as_encoded_bytes().ends_with(b"/") {
                bail!("it is not the name of a file");
            }
            // Only creating a file tells whether one can be created. It is removed at once, since
            // the work may be interrupted at any time.
            let trial = beside(file);
            create(&trial).map_err(plain).context("a file cannot be made in its directory")?;
            fs::remove_file(&trial).map_err(plain)?;
        }
        Ok(place)
    }

    /// Writes the picture.
    ///
    /// # Errors
    ///
    /// The picture cannot be written. A file that was there before is then unchanged.
    pub(crate) fn write(&self, picture: &[u8]) -> anyhow::Result<()> {
        match &self.place {
            Place::Direct(path) => {
                OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(picture))
            }
            Place::Replace(path) => replace(path, picture),
        }
        .map_err(plain)
        .with_context(|| cannot_write(&self.given))
    }
}

/// The beginning of every error message.
fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", names::for_message(path))
}

/// The system's description of the error, and nothing else.
fn plain(error: io::Error) -> anyhow::Error {
    match error.kind() {
        // Kept as it is: `command` recognises a closed pipe by its kind.
        io::ErrorKind::BrokenPipe => error.into(),
        _ => anyhow!(files::reason(&error)),
    }
}

/// A name in the same directory, unique to this process.
fn beside(file: &Path) -> PathBuf {
    file.with_file_name(format!(".cygnet-{}.png.part", process::id()))
}

/// Creates a file that must not exist yet.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes the bytes to a file beside `path`, then renames that to `path`.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = beside(path);
    let mut file = create(&part)?;
    let written = (|| {
        if let Ok(about) = fs::metadata(path) {
            file.set_permissions(about.permissions())?;
        }
        file.write_all(bytes)?;
        fs::rename(&part, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Encodes a square picture, three bytes per pixel, as PNG.
///
/// # Errors
///
/// The errors of the encoder, which has none for a picture of the right length.
pub(crate) fn encode(size: u32, pixels: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size, size);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}
