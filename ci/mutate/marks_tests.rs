use super::*;

/// The code after the mark, without the path of the mutants' module.
fn mutated(kind: &str, code: &str) -> String {
    let source = format!("fn f() {{\n    // MUTANT(a.b): {kind}\n    {code}\n}}\n");
    let (text, mutants) = rewrite("f.rs", &source, 7).expect(code);
    assert_eq!(mutants[0].line, 2);
    let text = text.split_once(&format!("{kind}\n    ")).expect("the mark stays").1;
    let text = text.rsplit_once("\n}\n").expect("the end of f").0;
    text.replace("crate::shim::mutants::", "")
}

fn complaint(mark: &str, code: &str) -> String {
    rewrite("f.rs", &format!("fn f() {{\n    {mark}\n    {code}\n}}\n"), 1).unwrap_err()
}

#[test]
fn a_statement_is_left_out() {
    assert_eq!(mutated("skip", "fence(SeqCst);\n x();"), "if !is(7) { fence(SeqCst); }\n x();");
    assert_eq!(
        mutated("skip", "if a { b; } else { c }\n x();"),
        "if !is(7) { if a { b; } else { c } }\n x();"
    );
    assert_eq!(
        mutated("skip", "unsafe { a }.b({ c; });\n x();"),
        "if !is(7) { unsafe { a }.b({ c; }); }\n x();"
    );
    assert_eq!(mutated("skip", "last(a)"), "if !is(7) { last(a) }");
}

#[test]
fn a_statement_comes_after_the_next() {
    assert_eq!(mutated("late", "a(); b(); c();"), "if !is(7) { a(); } b(); if is(7) { a(); } c();");
    assert_eq!(
        mutated("late", "a(); b()"),
        "if !is(7) { a(); } let later = b(); if is(7) { a(); } later"
    );
}

#[test]
fn a_condition_is_constant() {
    assert_eq!(mutated("false", "if a || b { c }"), "if (!is(7) && (a || b)) { c }");
    assert_eq!(mutated("true", "while f(|| { a }) { c }"), "while (is(7) || (f(|| { a }))) { c }");
    assert_eq!(mutated("false", "let x: bool = a == b;"), "let x: bool = (!is(7) && (a == b));");
    assert_eq!(mutated("true", "a >= b"), "(is(7) || (a >= b))");
    assert_eq!(mutated("false", "return a;"), "return (!is(7) && (a));");
}

#[test]
fn an_operand_is_constant() {
    assert_eq!(
        mutated("false", "|| a(b || c) || d { e }"),
        "|| (!is(7) && (a(b || c))) || d { e }"
    );
    assert_eq!(mutated("true", "&& a == b\n && c;"), "&& (is(7) || (a == b))\n && c;");
}

#[test]
fn an_arm_of_a_match_is_not_taken() {
    assert_eq!(mutated("false", "A if b == c => d,"), "A if (!is(7) && (b == c)) => d,");
    assert_eq!(mutated("false", "A(b) => d,"), "A(b) if (!is(7) && (true)) => d,");
}

#[test]
fn an_initial_value_is_another() {
    assert_eq!(mutated("with b - 1", "let a = b;"), "let a = (if is(7) { b - 1 } else { b });");
}

#[test]
fn something_is_done_before() {
    assert_eq!(mutated("first return", "a();"), "if is(7) { return } a();");
    let source = "fn f() {\n    a();\n    // MUTANT(a.b): first return\n}\n";
    assert!(rewrite("f.rs", source, 7).unwrap().0.contains("{ return } }\n"));
}

#[test]
fn orders_are_weaker_up_to_the_block() {
    let code = "if a.load(Ordering::Acquire) == 1 { b.load(Ordering::Acquire); }";
    let weaker = "if a.load(relaxed(7, Ordering::Acquire)) == 1 { b.load(Ordering::Acquire); }";
    assert_eq!(mutated("relaxed", code), weaker);
    assert_eq!(
        mutated(
            "release",
            "match a.fetch_update(Ordering::AcqRel, Ordering::Acquire, |x| { x }) { _ => {} }"
        ),
        "match a.fetch_update(release(7, Ordering::AcqRel), release(7, Ordering::Acquire), |x| { x }) { _ => {} }"
    );
    assert_eq!(mutated("relaxed", "load_in_total_order(&a) == 1"), "load_weaker(7, &a) == 1");
    assert_eq!(
        mutated("relaxed", "let a = unsafe { b.load(Ordering::Acquire) };"),
        "let a = unsafe { b.load(relaxed(7, Ordering::Acquire)) };"
    );
}

#[test]
fn a_pattern_is_not_a_block() {
    assert_eq!(
        mutated("relaxed", "let A { b, c } = d.load(Ordering::Acquire);"),
        "let A { b, c } = d.load(relaxed(7, Ordering::Acquire));"
    );
    assert_eq!(mutated("true", "let A { b, c } = d;"), "let A { b, c } = (is(7) || (d));");
}

#[test]
fn an_update_is_two_steps() {
    assert_eq!(
        mutated("split", "match a.b.compare_exchange(c, d, E, F) { _ => {} }"),
        "match a.b.split_compare_exchange(7, c, d, E, F) { _ => {} }"
    );
    assert_eq!(mutated("split", "a.swap(b, C) == d"), "a.split_swap(7, b, C) == d");
}

#[test]
fn several_mutants_of_one_place_have_names_and_numbers_of_their_own() {
    let source = "fn f() {\n    // MUTANT(a.b): relaxed, split\n    // MUTANT(a.c): false\n    a.swap(b, Ordering::AcqRel)\n}\n";
    let (text, mutants) = rewrite("f.rs", source, 3).unwrap();
    let names: Vec<_> =
        mutants.iter().map(|m| (m.name.as_str(), m.kind.as_str(), m.line)).collect();
    assert_eq!(
        names,
        [("a.b/relaxed", "relaxed", 2), ("a.b/split", "split", 2), ("a.c", "false", 3)]
    );
    let text = text.replace("crate::shim::mutants::", "");
    assert!(
        text.contains("(!is(5) && (a.split_swap(4, b, relaxed(3, Ordering::AcqRel))))"),
        "{text}"
    );
}

#[test]
fn malformed_marks_are_errors() {
    for mark in [
        "// MUTANT(a.b) skip",
        "// MUTANT(ab): skip",
        "// MUTANT(a.b): leap",
        "// MUTANT a.b: skip",
    ] {
        assert!(complaint(mark, "a();").starts_with("f.rs:2: "), "{mark}");
    }
    assert!(complaint("x(); // MUTANT(a.b): skip", "a();").contains("line of its own"));
}

#[test]
fn a_kind_that_does_not_fit_is_an_error() {
    assert!(complaint("// MUTANT(a.b): relaxed", "a();").contains("order"));
    assert!(complaint("// MUTANT(a.b): split", "a();").contains("update"));
    assert!(complaint("// MUTANT(a.b): skip", "").contains("statement"));
    assert!(complaint("// MUTANT(a.b): false", "if let A = b { c }").contains("pattern"));
    assert!(complaint("// MUTANT(a.b): false", "if a && let B = c { d }").contains("pattern"));
}

#[test]
fn a_file_without_marks_stays_as_it_is() {
    let source = "fn f() { \"// MUTANT(a.b): skip\"; }\n";
    assert_eq!(rewrite("f.rs", source, 1).unwrap(), (source.to_owned(), Vec::new()));
}
