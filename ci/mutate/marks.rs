//! Marks, and the mutants that they make of the code after them.
//!
//! A mark is a comment on a line of its own, in front of the code that it applies to:
//!
//! ```text
//! // MUTANT(protocol.step): kind, kind
//! ```
//!
//! Each kind is one mutant. It changes the following *statement*, its *condition*, or the
//! operations in its *head*, which extends to the first `;` or to the block. In front of `&&` or
//! `||`, the condition is the operand that follows.
//!
//! * `skip` leaves the statement out.
//! * `late` executes the statement after the one that follows it.
//! * `false`, `true` replace the condition by a constant, without evaluating it. They also apply
//!   to the guard of a match arm, an initial value or a result.
//! * `relaxed` makes all orderings in the head `Relaxed`, and takes a load out of the total
//!   order.
//! * `acquire` keeps only the acquire half of the orderings in the head.
//! * `release` keeps only the release half of the orderings in the head.
//! * `split` turns the update in the head into a load and a later store.
//! * `first STATEMENT` executes that statement first. It takes the rest of the line.
//! * `with EXPRESSION` replaces the condition, the initial value or the result by that
//!   expression. It takes the rest of the line.

use crate::lexer::{Kind, Token, tokens};

/// A change of the source that a model or test should catch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mutant {
    /// The name in the mark, followed by the kind if the mark has several.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The line of code that it changes.
    pub(crate) code: String,
}

/// A replacement of a part of the source. An insertion replaces an empty part.
struct Edit {
    start: usize,
    end: usize,
    text: String,
    /// Order of insertions at one place: closing text comes before opening text, and what is
    /// opened first is closed last.
    rank: i64,
}

struct Rewriter<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    edits: Vec<Edit>,
    opened: i64,
}

const MARK: &str = "// MUTANT";
const KINDS: [&str; 8] =
    ["skip", "late", "false", "true", "relaxed", "acquire", "release", "split"];
const UPDATES: [&str; 9] = [
    "swap",
    "compare_exchange",
    "compare_exchange_weak",
    "fetch_update",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "fetch_max",
];

/// Returns the file with its mutants, numbered from `first`.
pub(crate) fn rewrite(
    file: &str,
    source: &str,
    first: usize,
) -> Result<(String, Vec<Mutant>), String> {
    let line_of = |at: usize| source[..at].matches('\n').count() + 1;
    let (comments, code): (Vec<Token>, Vec<Token>) = tokens(source)
        .map_err(|e| format!("{file}: {e}"))?
        .into_iter()
        .partition(|token| token.kind == Kind::Comment);
    let mut rewriter = Rewriter { source, tokens: code, edits: Vec::new(), opened: 0 };
    let mut mutants = Vec::new();
    for comment in comments.iter().filter(|c| c.text(source).starts_with(MARK)) {
        let line = line_of(comment.start);
        let complain = |what: String| format!("{file}:{line}: {what}");
        let before = source[..comment.start].rsplit('\n').next().unwrap_or("");
        if !before.trim().is_empty() {
            return Err(complain("a mark needs a line of its own".to_owned()));
        }
        let (name, kinds) = parse(comment.text(source)).map_err(&complain)?;
        let next = rewriter.tokens.partition_point(|token| token.start < comment.end);
        if next == rewriter.tokens.len() {
            return Err(complain("nothing follows the mark".to_owned()));
        }
        for kind in &kinds {
            let number = first + mutants.len();
            rewriter.apply(kind, number, next).map_err(&complain)?;
            let code = rewriter.tokens[next].start;
            let code = source[code..].lines().next().unwrap_or("").trim().to_owned();
            let name = match kinds.len() {
                1 => name.clone(),
                _ => format!("{name}/{kind}"),
            };
            mutants.push(Mutant { name, kind: kind.clone(), file: file.to_owned(), line, code });
        }
    }
    let mut text = rewriter.finish();
    if !mutants.is_empty() {
        text.push_str("\n#[allow(unused_imports)]\nuse crate::shim::mutants::{Split as _, SplitNumber as _};\n");
    }
    Ok((text, mutants))
}

/// Parses the name and the kinds of a mark.
fn parse(comment: &str) -> Result<(String, Vec<String>), String> {
    let wrong =
        || format!("a mark must have the form '// MUTANT(protocol.step): kind, kind': {comment}");
    let rest =
        comment.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('(')).ok_or_else(wrong)?;
    let (name, kinds) = rest.split_once("): ").ok_or_else(wrong)?;
    let well_formed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
    if !name.contains('.') || !name.chars().all(well_formed) {
        return Err(wrong());
    }
    if kinds.starts_with("with ") || kinds.starts_with("first ") {
        return Ok((name.to_owned(), vec![kinds.to_owned()]));
    }
    let kinds: Vec<String> = kinds.split(", ").map(str::to_owned).collect();
    match kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
        Some(kind) => Err(format!("unknown kind of mutant: '{kind}'")),
        None => Ok((name.to_owned(), kinds)),
    }
}

impl Rewriter<'_> {
    fn text(&self, token: usize) -> &str {
        self.tokens.get(token).map_or("", |token| token.text(self.source))
    }

    fn is(&self, token: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(i, text)| self.text(token + i) == *text)
    }

    fn apply(&mut self, kind: &str, number: usize, at: usize) -> Result<(), String> {
        match kind {
            "skip" => {
                let end = self.statement(at)?;
                self.wrap(at, end, format!("if !crate::shim::mutants::is({number}) {{ "), " }");
            }
            "late" => {
                let end = self.statement(at)?;
                let second = self.statement(end)?;
                let again = &self.source[self.tokens[at].start..self.tokens[end - 1].end];
                let again = format!(" if crate::shim::mutants::is({number}) {{ {again} }}");
                self.wrap(at, end, format!("if !crate::shim::mutants::is({number}) {{ "), " }");
                if [";", "}"].contains(&self.text(second - 1)) {
                    self.insert_after(second - 1, again);
                } else {
                    // The statement is a result.
                    let close = format!(";{again} later");
                    self.wrap(end, second, "let later = ".to_owned(), &close);
                }
            }
            "false" => {
                self.condition(at, format!("(!crate::shim::mutants::is({number}) && ("), "))")?
            }
            "true" => {
                self.condition(at, format!("(crate::shim::mutants::is({number}) || ("), "))")?
            }
            "relaxed" | "acquire" | "release" => self.weaken(kind, number, at)?,
            "split" => self.split(number, at)?,
            _ if kind.starts_with("first ") => {
                let here = self.tokens[at].start;
                let text = format!(
                    "if crate::shim::mutants::is({number}) {{ {} }} ",
                    &kind["first ".len()..]
                );
                self.edits.push(Edit { start: here, end: here, text, rank: 0 });
            }
            _ => {
                let with = kind.strip_prefix("with ").ok_or("no such kind")?;
                let open = format!("(if crate::shim::mutants::is({number}) {{ {with} }} else {{ ");
                self.condition(at, open, " })")?;
            }
        }
        Ok(())
    }

    /// Returns the token after the end of the statement that begins at `at`.
    fn statement(&self, at: usize) -> Result<usize, String> {
        let block = ["if", "while", "for", "loop", "match", "unsafe", "{"].contains(&self.text(at));
        let mut depth = 0_usize;
        for token in at..self.tokens.len() {
            match self.text(token) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => {
                    return if token > at {
                        Ok(token)
                    } else {
                        Err("no statement follows".to_owned())
                    };
                }
                ")" | "]" => depth -= 1,
                "}" => {
                    depth -= 1;
                    let goes_on = ["else", ".", ";"].contains(&self.text(token + 1));
                    if depth == 0 && block && !goes_on {
                        return Ok(token + 1);
                    }
                }
                ";" if depth == 0 => return Ok(token + 1),
                _ => {}
            }
        }
        Err("the statement has no end".to_owned())
    }

    /// Returns the end of the operations before the first block.
    fn head(&self, at: usize) -> usize {
        // A pattern may have braces, too.
        let pattern = self.text(at) == "let";
        let value = |token: &usize| self.is_assignment(*token);
        let start = if pattern { (at..self.tokens.len()).find(value).unwrap_or(at) } else { at };
        let mut depth = 0_usize;
        for token in start..self.tokens.len() {
            match self.text(token) {
                "{" if depth == 0 && token > 0 && self.text(token - 1) != "unsafe" => return token,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => return token,
                ")" | "]" | "}" => depth -= 1,
                ";" if depth == 0 => return token,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Wraps the condition, the initial value or the result that begins at `at`.
    fn condition(&mut self, at: usize, open: String, close: &str) -> Result<(), String> {
        let operand = self.is(at, &["&", "&"]) || self.is(at, &["|", "|"]);
        let mut start = match self.text(at) {
            "if" | "while" | "return" => at + 1,
            "let" => {
                1 + self
                    .find(at, |this, t| this.is_assignment(t))
                    .ok_or("no initial value follows")?
            }
            _ if operand => at + 2,
            _ => at,
        };
        let plain = start == at;
        let mut end = self.head(start);
        if self.text(start) == "let" {
            return Err("a pattern is not a condition".to_owned());
        }
        let found = (start..end).filter(|token| self.is_outside(start, *token)).find(|token| {
            let next = self.is(*token, &["&", "&"]) || self.is(*token, &["|", "|"]);
            let ends = self.is(*token, &["=", ">"]) || self.text(*token) == ",";
            ends || operand && next && *token > start
        });
        if let Some(token) = found {
            end = token;
            if plain && self.text(token) == "=" {
                // The arm of a match: this is its guard.
                let guard = |t: &usize| self.text(*t) == "if" && self.is_outside(start, *t);
                let Some(guard) = (start..token).find(guard) else {
                    let text = format!("if {open}true{close} ");
                    let here = self.tokens[token].start;
                    self.edits.push(Edit { start: here, end: here, text, rank: 0 });
                    return Ok(());
                };
                start = guard + 1;
            }
        }
        if end <= start {
            return Err("no condition follows".to_owned());
        }
        if self.tokens[start..end].iter().any(|t| t.text(self.source) == "let") {
            return Err("a condition with a pattern: mark the operand".to_owned());
        }
        self.wrap(start, end, open, close);
        Ok(())
    }

    fn is_assignment(&self, token: usize) -> bool {
        let operators = ["=", "!", "<", ">", "+", "-", "*", "/", "&", "|", "^"];
        self.text(token) == "="
            && !["=", ">"].contains(&self.text(token + 1))
            && !operators.contains(&self.text(token - 1))
    }

    /// Whether a token is outside all brackets that open after `start`.
    fn is_outside(&self, start: usize, token: usize) -> bool {
        let mut depth = 0_i64;
        for t in start..token {
            match self.text(t) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
        }
        depth == 0
    }

    fn find(&self, at: usize, which: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        (at..self.head(at)).find(|token| self.is_outside(at, *token) && which(self, *token))
    }

    fn weaken(&mut self, kind: &str, number: usize, at: usize) -> Result<(), String> {
        let head = self.head(at);
        let before = self.edits.len();
        let mut token = at;
        while token < head {
            if self.is(token, &["Ordering", ":", ":"]) {
                let open = format!("crate::shim::mutants::{kind}({number}, ");
                self.wrap(token, token + 4, open, ")");
                token += 4;
            } else if self.text(token) == "load_in_total_order" && kind == "relaxed" {
                self.replace(token, "crate::shim::mutants::load_weaker".to_owned());
                self.insert_after(token + 1, format!("{number}, "));
                token += 1;
            } else {
                token += 1;
            }
        }
        if self.edits.len() == before {
            return Err(format!("no ordering follows that could be {kind}"));
        }
        Ok(())
    }

    fn split(&mut self, number: usize, at: usize) -> Result<(), String> {
        let updates = |this: &Self, token: usize| {
            UPDATES.contains(&this.text(token))
                && this.text(token - 1) == "."
                && this.text(token + 1) == "("
        };
        let token = (at..self.head(at)).find(|t| updates(self, *t)).ok_or("no update follows")?;
        let name = format!("split_{}", self.text(token));
        self.replace(token, name);
        self.insert_after(token + 1, format!("{number}, "));
        Ok(())
    }

    /// Puts text around the tokens in `start..end`.
    fn wrap(&mut self, start: usize, end: usize, open: String, close: &str) {
        self.opened += 1;
        let (from, to) = (self.tokens[start].start, self.tokens[end - 1].end);
        self.edits.push(Edit { start: from, end: from, text: open, rank: self.opened });
        self.edits.push(Edit { start: to, end: to, text: close.to_owned(), rank: -self.opened });
    }

    fn replace(&mut self, token: usize, text: String) {
        let Token { start, end, .. } = self.tokens[token];
        self.edits.push(Edit { start, end, text, rank: i64::MAX });
    }

    /// Inserts text after a token, and after text that closes there.
    fn insert_after(&mut self, token: usize, text: String) {
        let at = self.tokens[token].end;
        self.edits.push(Edit { start: at, end: at, text, rank: 0 });
    }

    fn finish(mut self) -> String {
        self.edits.sort_by_key(|edit| (edit.start, edit.rank));
        let mut text = String::new();
        let mut at = 0;
        for edit in &self.edits {
            text.push_str(&self.source[at..edit.start]);
            text.push_str(&edit.text);
            at = edit.end;
        }
        text.push_str(&self.source[at..]);
        text
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
