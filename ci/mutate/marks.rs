//! Marks, and what they make of the code that follows them.
//!
//! A mark is a comment on a line of its own, in front of what it is about:
//!
//! ```text
//! // MUTANT(protocol.step): kind, kind
//! ```
//!
//! Each kind is one mutant. It changes the *statement* that follows, its *condition*, or the operations of its *head*, which
//! goes to the first `;` or to the block. In front of `&&` or `||` the condition is the operand that follows.
//!
//! | kind | the mutant |
//! | --- | --- |
//! | `skip` | leaves the statement out |
//! | `late` | executes the statement after the one that follows it |
//! | `false`, `true` | takes the condition for false, or true, and does not look; also the guard of a match arm, an initial value, a result |
//! | `relaxed` | all orders in the head are Relaxed, and a load in the total order is in none |
//! | `acquire` | of the orders in the head only the half that sees is left |
//! | `release` | of the orders in the head only the half that publishes is left |
//! | `split` | the update in the head is a load, and after that a store |
//! | `first STATEMENT` | executes this before what follows; takes the rest of the line |
//! | `with EXPRESSION` | has this expression for the condition, the initial value, or the result; takes the rest of the line |

use crate::lexer::{Kind, Token, tokens};

/// One thing that is taken from the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mutant {
    /// What the mark says, and the kind, if it has several.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The line that it is about.
    pub(crate) code: String,
}

/// A replacement of a part of the source, of no length for an insertion.
struct Edit {
    start: usize,
    end: usize,
    text: String,
    /// Of insertions at one place: what closes comes before what opens, and what is opened first is closed last.
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

/// The file with its mutants in it, of which the first has the number `first`.
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
            return Err(complain("a mark has a line of its own".to_owned()));
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

/// The name and the kinds of a mark.
fn parse(comment: &str) -> Result<(String, Vec<String>), String> {
    let wrong = || format!("no mark of the form '// MUTANT(protocol.step): kind, kind': {comment}");
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
        Some(kind) => Err(format!("no kind of mutant: '{kind}'")),
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
                    // A result.
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

    /// Behind the end of the statement that begins here.
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

    /// The operations before the first block: up to its end.
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

    /// From where to where the condition goes that begins here, an initial value, or a result.
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
            return Err("a pattern is no condition".to_owned());
        }
        let found = (start..end).filter(|token| self.is_outside(start, *token)).find(|token| {
            let next = self.is(*token, &["&", "&"]) || self.is(*token, &["|", "|"]);
            let ends = self.is(*token, &["=", ">"]) || self.text(*token) == ",";
            ends || operand && next && *token > start
        });
        if let Some(token) = found {
            end = token;
            if plain && self.text(token) == "=" {
                // The arm of a match: its guard.
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

    /// Whether a token is in no bracket that begins behind `start`.
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
            return Err(format!("nothing has an order that could be {kind}"));
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

    /// Puts something around the tokens from `start` to before `end`.
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

    /// Behind what closes there.
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
