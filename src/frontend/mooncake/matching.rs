//! The keys that match a regular expression.
//!
//! The existing master takes ECMAScript and searches anywhere in the key. Here it is the syntax of the
//! crate `regex`, which covers what operators write and, unlike the other, takes a time that grows with
//! the length of the key and no faster: no expression of a peer can stop the master. Look-around and
//! back-references are refused, and so is what the two would read in different ways (`dialect`).

use bytes::Bytes;
use mooring_proto::mooncake::{ErrorCode, Expected, Str};
use regex::bytes::{Regex, RegexBuilder};

use super::dialect;
use super::errors::whole;
use super::router::Scope;
use crate::frontend::bulk;

/// Keys that match, one behind the other.
#[derive(Default)]
pub(super) struct Page {
    bytes: Bytes,
    ends: Vec<usize>,
}

impl Page {
    /// The bytes that hold the keys.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = Str<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| Str(&self.bytes[start..*end]))
    }
}

/// Every readable key that matches, by pages, with `hidden` also those that wait for the owners of
/// their segments. What is put while the search goes on may be missed.
///
/// # Errors
/// `INVALID_PARAMS` for an expression that cannot be used or that matches too much at once.
pub(super) async fn keys(
    scope: &Scope<'_>,
    expression: Str<'_>,
    hidden: bool,
) -> Expected<Vec<Page>> {
    let regex = compile(expression)?;
    let core = scope.ask().core;
    let (mut pages, mut bytes) = (Vec::new(), 0);
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let found = bulk::list_keys(core, None, from, PAGE_KEYS, hidden).await.map_err(whole)?;
        let mut page = Vec::new();
        let mut ends = Vec::new();
        for entry in found.keys.iter().filter(|entry| regex.is_match(&entry.key)) {
            page.extend_from_slice(&entry.key);
            ends.push(page.len());
        }
        bytes += page.len() + ends.len() * size_of::<usize>();
        if bytes > MATCHES_BYTES_MAX {
            tracing::debug!(%expression, "an expression matches too many keys");
            return Err(ErrorCode::INVALID_PARAMS);
        }
        if !ends.is_empty() {
            pages.push(Page { bytes: page.into(), ends });
        }
        cursor = found.next;
    }
    Ok(pages)
}

fn compile(expression: Str<'_>) -> Expected<Regex> {
    let text = std::str::from_utf8(expression.0).map_err(|_| ErrorCode::INVALID_PARAMS)?;
    dialect::check(text).map_err(|error| {
        tracing::debug!(%error, "a regular expression is refused");
        ErrorCode::INVALID_PARAMS
    })?;
    // Keys are bytes: a dot stands for one of them, but not for the end of a line in either form, as in
    // the existing master.
    let mut builder = RegexBuilder::new(text);
    let built = builder.unicode(false).crlf(true).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| {
        tracing::debug!(%error, "a regular expression is refused");
        ErrorCode::INVALID_PARAMS
    })
}

/// Keys that a shard looks at in one go: some tens of microseconds.
const PAGE_KEYS: u32 = 1024;

/// All keys that match, in memory at once: some millions of them.
const MATCHES_BYTES_MAX: usize = 256 << 20;

/// A compiled expression; far above what an operator writes.
const REGEX_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_anywhere_in_the_bytes_of_a_key() {
        for (expression, key, matches) in [
            ("b", b"abc".as_slice(), true),
            ("^b", b"abc", false),
            ("^a.c$", b"a\xffc", true),
            ("[0-9]{2,}", b"rank7_12", true),
            ("a|z$", b"xyz", true),
            ("\\d+@\\w+", b"5@m", true),
            ("a.b", b"a\rb", false),
            ("a.b", b"a\nb", false),
            ("a$", b"a\nb", false),
        ] {
            let regex = compile(Str::from(expression)).unwrap();
            assert_eq!(regex.is_match(key), matches, "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for expression in ["(", "a(?=b)", "(a)\\1", "[]a]", "(((a{900}){900}){900})"] {
            let refused = compile(Str::from(expression)).map(|_| ());
            assert_eq!(refused, Err(ErrorCode::INVALID_PARAMS), "{expression}");
        }
    }

    #[test]
    fn a_page_gives_its_keys_back() {
        let page = Page { bytes: Bytes::from_static(b"abccd"), ends: vec![1, 3, 5] };
        let keys: Vec<_> = page.keys().map(|key| key.to_string()).collect();
        assert_eq!(keys, ["a", "bc", "cd"]);
    }
}
