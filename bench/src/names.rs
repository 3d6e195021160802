//! File names in the form that each reader needs.
//!
//! A name is a string of bytes. `sha256sum --check` needs a backslash escape for bytes that would
//! break a line, a person at a terminal needs a word that a shell would read back, and JSON needs
//! text, with the exact bytes where text cannot hold them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

use serde::Serializer;

/// Writes one line of a check-sum list exactly as GNU `sha256sum` does.
///
/// A backslash, line feed or carriage return in the name is written as `\\`, `\n` or `\r`, and the
/// line then starts with a backslash to say so.
pub(crate) fn write_checksum_line(
    out: &mut dyn Write,
    digest: &str,
    name: &Path,
) -> io::Result<()> {
    let bytes = name.as_os_str().as_bytes();
    fn escape(byte: &u8) -> &[u8] {
        match byte {
            b'\\' => &b"\\\\"[..],
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            byte => slice::from_ref(byte),
        }
    }
    let escaped: Vec<u8> = bytes.iter().flat_map(escape).copied().collect();
    write!(out, "{}{digest}  ", if escaped == bytes { "" } else { "\\" })?;
    out.write_all(&escaped)?;
    out.write_all(b"\n")
}

/// Formats the name for a message: unchanged if it is plain text, otherwise as a `$'...'` word
/// that a shell reads back to the same bytes. So a name can neither forge a line of its own nor
/// reach the terminal as a control sequence.
pub(crate) fn for_message(name: &Path) -> Cow<'_, str> {
    match name.to_str() {
        Some("") => Cow::Borrowed("''"),
        Some(text) if !text.chars().any(char::is_control) => Cow::Borrowed(text),
        _ => Cow::Owned(quoted(name.as_os_str().as_bytes())),
    }
}

/// The bytes as a `$'...'` word.
fn quoted(bytes: &[u8]) -> String {
    let mut word = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' | '\r' | '\t' | '\\' | '\'' => word.extend(letter.escape_default()),
                letter if letter.is_control() => {
                    push_octal(&mut word, letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                letter => word.push(letter),
            }
        }
        push_octal(&mut word, chunk.invalid());
    }
    word.push('\'');
    word
}

/// Appends each byte as a backslash and three octal digits.
fn push_octal(word: &mut String, bytes: &[u8]) {
    word.extend(bytes.iter().map(|byte| format!("\\{byte:03o}")));
}

/// Lower-case hexadecimal digits of the bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serialises a name as fields of an object: `path` always, and `path_hex` only if the name is not
/// UTF-8.
///
/// `path` then has U+FFFD where text cannot hold the bytes, and `path_hex` has all bytes of the
/// name, two hexadecimal digits each.
pub(crate) fn fields<S: Serializer>(name: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = vec![("path", name.to_string_lossy())];
    if name.to_str().is_none() {
        fields.push(("path_hex", hex(name.as_os_str().as_bytes()).into()));
    }
    serializer.collect_map(fields)
}

/// Serialises bytes as a string of hexadecimal digits.
pub(crate) fn in_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(bytes))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn line_breaks_and_backslashes_of_a_line_are_escaped_and_announced() {
        for (name, expected) in [
            (&b" a\tb\xff"[..], &b"d1   a\tb\xff\n"[..]),
            (b"a\nb\rc\\d", b"\\d1  a\\nb\\rc\\\\d\n"),
        ] {
            let mut out = Vec::new();
            write_checksum_line(&mut out, "d1", Path::new(OsStr::from_bytes(name))).unwrap();
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_message_keeps_plain_names_and_quotes_the_others() {
        let form = |name: &[u8]| for_message(Path::new(OsStr::from_bytes(name))).into_owned();
        assert_eq!(form("plain näme".as_bytes()), "plain näme");
        assert_eq!(form(b""), "''");
        assert_eq!(form(b"a\nb'c\x1b\xff1"), r"$'a\nb\'c\033\3771'");
    }

    #[test]
    fn json_has_the_bytes_of_a_name_that_is_not_text() {
        let json = |name: &[u8]| {
            let mut text = Vec::new();
            let name = Path::new(OsStr::from_bytes(name));
            fields(name, &mut serde_json::Serializer::new(&mut text)).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(json(b"a\nb"), r#"{"path":"a\nb"}"#);
        assert_eq!(json(b"a\xff"), "{\"path\":\"a\u{fffd}\",\"path_hex\":\"61ff\"}");
    }
}
