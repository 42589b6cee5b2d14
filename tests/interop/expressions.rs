//! Regular expressions: what this master takes means the same to Mooncake's own.

use mooring_proto::mooncake::*;

use crate::client::{Client, TENANT, WRITER, config};
use crate::differential::{mount, program_for};
use crate::masters::{Pair, Side};
use crate::tell;

/// Keys that tell expressions from each other.
const KEYS: &[&str] = &[
    "abc",
    "a.c",
    "ABC",
    "a\nc",
    "a\rc",
    "x-1",
    "x_2",
    "ключ",
    "a b",
    "foo/bar",
    "2024-01-01",
    "tab\tx",
    "}",
    "a]b",
    "aXb",
    "abab",
    "\\",
    "é",
    "word boundary",
    "aaa",
    "]",
    "<a>",
    "-",
];

/// Expressions of every kind, and what is an expression to the one and not to the other.
const EXPRESSIONS: &[&str] = &[
    "a",
    "^a",
    "c$",
    "a.c",
    "a\\.c",
    "[a-c]+",
    "[[:alpha:]]+-",
    "[[:digit:]]{4}",
    "\\d{4}",
    "\\w+",
    "\\s",
    "\\bbound",
    "\\Bord",
    "(?:ab)+",
    "(ab)\\1",
    "(?=a)a",
    "(?!a)b",
    "(?<=a)b",
    "(?i)abc",
    "a*?b",
    "a++",
    "a**",
    "a{2",
    "{",
    "}",
    "a{,3}",
    "a{1,2}",
    "\\x41",
    "\\u0041",
    "\\cA",
    "\\t",
    "\\0",
    "\\n",
    "\\/",
    "\\-",
    "[\\w-]+",
    "[\\d-z]",
    "[]a]",
    "[^]a]",
    "[]",
    "[^]",
    "()",
    "|",
    "a|",
    "\\e",
    "\\a",
    "\\z",
    "\\Z",
    "\\A",
    "\\Q.\\E",
    "\\p{L}",
    "\\pL",
    "(?P<n>a)",
    "(?<n>a)",
    ".",
    "^$",
    "*a",
    "+",
    "?",
    "(a",
    "a)",
    ")",
    "[",
    "[a",
    "[z-a]",
    "\\",
    "\\_",
    "\\@",
    "\\\"",
    "\\%",
    "é",
    "[é]",
    "é+",
    "к",
    "[[.a.]]",
    "[[=a=]]",
    "[[:w:]]",
    "[a&&b]",
    "[a--b]",
    "[[a]b]",
    "(?#c)a",
    "\\1",
    "(a)\\2",
    "a{0}",
    "a{1001}",
    "\\h",
    "\\R",
    "\\<",
    "\\>",
    "\\`",
    "$a",
    "a^",
    "^*",
    "$+",
    "\\b*",
    " ",
    "#",
    "\\ ",
    "\\#",
    "\\&",
    "\\~",
    "~",
    "&",
    "\\y",
    "\\v",
    "\\f",
    "\\r",
    "\\D",
    "\\W",
    "\\S",
    "[\\D]",
    "[\\b]",
    "a\\b",
    "[a-\\d]",
    "[-a]",
    "[a-]",
    "x[-_]",
    "\\u{41}",
    "\\x{41}",
    "\\x4",
    "\\xC3\\xA9",
    "\\u00e9",
    "\\U00000041",
    "(?s).",
    "(?m)^c",
    "(?x) a",
    "(?-u)a",
    "(?",
    "((((a))))",
    "a{2}{3}",
    "a{1,2}?",
    ".{3,}$",
    "[^\\n]c",
    "[^a]c",
    "(a|b)*c",
    "^(?:a|x).*",
    "[\\]a]",
    "[\\-]",
    "[+*.]",
];

fn put(client: &mut Client, key: &str) {
    let start = PutStart {
        client: WRITER,
        key: key.into(),
        slice_length: 100,
        config: config(),
        tenant: TENANT,
    };
    client.call(&start, |answer| assert!(answer.is_ok(), "{key:?}"));
    let meta = ObjectMeta { key: key.into(), object_checksum: None };
    let end = PutEnd { client: WRITER, meta, replica_type: ReplicaType::ALL, tenant: TENANT };
    client.call(&end, Expected::unwrap);
}

fn matching(client: &mut Client, expression: &str) -> Expected<Vec<String>> {
    let call = GetReplicaListByRegex { regex: expression.into(), tenant: TENANT };
    client.call(&call, |answer| {
        answer.map(|found| {
            let mut keys: Vec<String> = found.0.iter().map(|(key, _)| key.to_string()).collect();
            keys.sort();
            keys
        })
    })
}

#[test]
fn an_expression_means_the_same_to_both_or_is_refused_here() {
    let test = "an_expression_means_the_same_to_both_or_is_refused_here";
    let Some(program) = program_for(test) else { return };
    let pair = Pair::start(&program, &["--client_ttl=600"]);
    mount(&pair, 1..=1, 16 << 20);
    let mut theirs = pair.connect(Side::Theirs);
    let mut ours = pair.connect(Side::Ours);
    for key in KEYS {
        put(&mut theirs, key);
        put(&mut ours, key);
    }
    let mut refused = Vec::new();
    let mut same = 0;
    for expression in EXPRESSIONS {
        let (one, other) = (matching(&mut theirs, expression), matching(&mut ours, expression));
        if one == other {
            same += 1;
        } else {
            assert_eq!(other, Err(ErrorCode::INVALID_PARAMS), "{expression}: theirs {one:?}");
            refused.push(*expression);
        }
    }
    tell(test, format!("{same} the same, {} refused: {refused:?}", refused.len()));
    assert!(same > refused.len(), "{refused:?}");
}
