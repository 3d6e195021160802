//! The part of Rust's lexical structure that the rewriting needs: the extent of tokens, and which
//! text is a comment or a string rather than code.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A name, a keyword, or a number.
    Word,
    /// One character of punctuation.
    Punctuation,
    /// A string, a character, or a lifetime.
    Literal,
    /// A comment up to the end of the line.
    Comment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Token {
    pub(crate) fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }
}

/// Splits a file into tokens, leaving out blanks and block comments.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let rest = &source[at..];
        let kind = if bytes[at].is_ascii_whitespace() {
            at += 1;
            continue;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            Kind::Comment
        } else if rest.starts_with("/*") {
            at = block_comment(source, at)?;
            continue;
        } else if let Some(length) = raw_string(rest)? {
            at += length;
            Kind::Literal
        } else if rest.starts_with('"') || rest.starts_with("b\"") || rest.starts_with("c\"") {
            at = string(source, at + rest.find('"').expect("it starts with one"))?;
            Kind::Literal
        } else if rest.starts_with('\'') || rest.starts_with("b'") {
            at = character(source, at);
            Kind::Literal
        } else if is_word(rest.chars().next().expect("not at the end")) {
            at += rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            Kind::Word
        } else {
            at += rest.chars().next().expect("not at the end").len_utf8();
            Kind::Punctuation
        };
        tokens.push(Token { kind, start, end: at });
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn block_comment(source: &str, start: usize) -> Result<usize, String> {
    let (mut at, mut depth) = (start, 0);
    loop {
        let rest = source.get(at..).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or("unterminated comment")?;
        if rest.starts_with("/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if rest.starts_with("*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return Ok(at);
            }
        } else {
            at += rest.chars().next().expect("not empty").len_utf8();
        }
    }
}

/// Returns the length of a raw string, if the text begins with one.
fn raw_string(text: &str) -> Result<Option<usize>, String> {
    let prefix = ["r", "br", "cr"].into_iter().find(|p| {
        let after = text.strip_prefix(p).unwrap_or("");
        after.trim_start_matches('#').starts_with('"')
    });
    let Some(prefix) = prefix else { return Ok(None) };
    let hashes = text[prefix.len()..].bytes().take_while(|b| *b == b'#').count();
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = text[open..].find(&close).ok_or("unterminated raw string")?;
    Ok(Some(open + length + close.len()))
}

/// Returns the end of the string with its opening quotation mark at `start`.
fn string(source: &str, start: usize) -> Result<usize, String> {
    let mut escaped = false;
    for (i, c) in source[start + 1..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok(start + 1 + i + 1),
            _ => {}
        }
    }
    Err("unterminated string".to_owned())
}

/// Returns the end of a character or a lifetime.
fn character(source: &str, start: usize) -> usize {
    let quote = start + source[start..].find('\'').expect("it has one");
    let rest = &source[quote + 1..];
    let first = rest.chars().next().unwrap_or('\'');
    let after = &rest[first.len_utf8()..];
    if first == '\\' {
        // The escaped character may be a quotation mark itself.
        return quote + 3 + rest.get(2..).and_then(|r| r.find('\'')).map_or(0, |i| i + 1);
    }
    if after.starts_with('\'') {
        return quote + 1 + first.len_utf8() + 1;
    }
    quote + 1 + rest.find(|c| !is_word(c)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).unwrap().iter().map(|token| token.text(source)).collect()
    }

    #[test]
    fn punctuation_is_taken_one_by_one() {
        assert_eq!(texts("a += b::c;"), ["a", "+", "=", "b", ":", ":", "c", ";"]);
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let source = r###"f("a;\"{", r#"}"{"#, b"(") /* { /* } */ ( */ // }"###;
        let expected = ["f", "(", r#""a;\"{""#, ",", r###"r#"}"{"#"###, ",", "b\"(\"", ")", "// }"];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        assert_eq!(
            texts(r"'{' '\'' '\u{7d}' &'a x"),
            ["'{'", r"'\''", r"'\u{7d}'", "&", "'a", "x"]
        );
    }

    #[test]
    fn unterminated_tokens_are_errors() {
        for source in ["\"a", "r#\"a\"", "/* /* */"] {
            assert!(tokens(source).is_err(), "{source}");
        }
    }
}
