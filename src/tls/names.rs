//! Whom a verified certificate speaks for.

use mooring_proto::client::tls::fingerprint;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// What the certificate of a peer says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Its subject alternative names: those of hosts, and URIs.
    names: Vec<String>,
    /// Of subject and names, so that it outlives the renewal of a certificate.
    id: [u8; 32],
    /// Whether there are any.
    is_named: bool,
}

impl Principal {
    /// Reads a certificate in DER whose chain and signature were verified.
    pub(crate) fn of(certificate: &[u8]) -> Principal {
        // Without a name that can be read a certificate stands for itself alone.
        let unnamed =
            || Principal { names: Vec::new(), id: fingerprint(certificate), is_named: false };
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return unnamed() };
        let Ok(alternatives) = parsed.subject_alternative_name() else { return unnamed() };
        let mut names = Vec::new();
        let mut said = Vec::new();
        for name in alternatives.iter().flat_map(|found| &found.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::URI(name) => names.push((*name).to_owned()),
                _ => {}
            }
            said.push(format!("{name:?}"));
        }
        said.sort_unstable();
        let subject = parsed.subject().as_raw();
        if said.is_empty() && parsed.subject().iter().next().is_none() {
            return unnamed();
        }
        let mut text = Vec::new();
        for part in std::iter::once(subject).chain(said.iter().map(String::as_bytes)) {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        Principal { names, id: fingerprint(&text), is_named: true }
    }

    /// The same for all certificates of one subject with the same names, and another one for others.
    pub(crate) fn id(&self) -> [u8; 32] {
        self.id
    }

    /// Whether a renewed certificate is known as the same one: it has a subject or names, and they can
    /// be read.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Whether one of its names is meant by one of these patterns.
    pub(crate) fn is_one_of(&self, patterns: &[NamePattern]) -> bool {
        patterns.iter().any(|pattern| self.names.iter().any(|name| pattern.matches(name)))
    }
}

/// Names that an operator means: one, or with a `*` at its end or its start all that begin or end so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamePattern {
    Exactly(String),
    BeginsWith(String),
    EndsWith(String),
}

impl NamePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says what is allowed.
    pub(crate) fn parse(text: &str) -> Result<NamePattern, String> {
        let (begins, ends) = (text.strip_suffix('*'), text.strip_prefix('*'));
        let rest = begins.or(ends).unwrap_or(text);
        // Both kinds of names are ASCII in a certificate. What matches none would take a role away
        // from everybody.
        let is_part = |part: &str| {
            !part.is_empty() && part.chars().all(|it| it.is_ascii_graphic() && !"*,".contains(it))
        };
        let is_whole = begins.or(ends).is_none();
        if !is_part(rest) || (is_whole && !rest.contains(':') && !is_host(rest)) {
            return Err(
                "allowed is the name of a host or a URI as it stands in a certificate, with a \
                        * at its start or its end for any that ends or begins so"
                    .to_owned(),
            );
        }
        // Names of hosts know no case, and URIs of roles have none in the part that matters.
        let lower =
            |rest: &str| if rest.contains(':') { rest.to_owned() } else { rest.to_lowercase() };
        Ok(match (begins, ends) {
            (Some(_), _) => NamePattern::BeginsWith(lower(rest)),
            (None, Some(_)) => NamePattern::EndsWith(lower(rest)),
            (None, None) => NamePattern::Exactly(lower(rest)),
        })
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            NamePattern::Exactly(whole) => name == whole,
            // A star stands for something.
            NamePattern::BeginsWith(start) => name.len() > start.len() && name.starts_with(start),
            NamePattern::EndsWith(end) => name.len() > end.len() && name.ends_with(end),
        }
    }
}

/// Whether a certificate may name a host so.
fn is_host(name: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_letter);
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_name: &str, hosts: &[&str], uris: &[&str]) -> Principal {
        let hosts: Vec<String> = hosts.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        Principal::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    fn patterns(texts: &[&str]) -> Vec<NamePattern> {
        texts.iter().map(|text| NamePattern::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_renewed_certificate_is_the_same_principal_and_another_name_another_one() {
        let first = certificate("a", &["a.example"], &["spiffe://place/a"]);
        assert_eq!(first.id(), certificate("a", &["a.example"], &["spiffe://place/a"]).id());
        for other in [
            certificate("b", &["a.example"], &["spiffe://place/a"]),
            certificate("a", &["b.example"], &["spiffe://place/a"]),
            certificate("a", &["a.example"], &["spiffe://place/b"]),
            certificate("a", &["a.example", "spiffe"], &["spiffe://place/a"]),
            certificate("a", &[], &[]),
        ] {
            assert_ne!(first.id(), other.id(), "{other:?}");
        }
    }

    #[test]
    fn names_of_hosts_and_uris_are_matched_whole_or_by_their_start_or_end() {
        let store = certificate("x", &["Store-1.kv.svc"], &["spiffe://place/ns/kv/sa/store"]);
        for pattern in [
            "store-1.kv.svc",
            "STORE-1.kv.svc",
            "*.kv.svc",
            "store-*",
            "spiffe://place/ns/kv/sa/store",
            "spiffe://place/ns/kv/*",
        ] {
            assert!(store.is_one_of(&patterns(&["other", pattern])), "{pattern}");
        }
        for pattern in [
            "store-1",
            "kv.svc",
            "x",
            "spiffe://place/ns/kv/sa/Store",
            "spiffe://place/ns/kv/sa/store*",
            "*.svc.example",
        ] {
            assert!(!store.is_one_of(&patterns(&[pattern])), "{pattern}");
        }
        assert!(!certificate("x", &[], &[]).is_one_of(&patterns(&["x", "*x"])));
    }

    #[test]
    fn a_pattern_with_stars_elsewhere_or_nothing_else_is_refused() {
        for text in ["", "*", "a*b", "*a*", "a b", "a,b", "**"] {
            assert!(NamePattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_can_stand_in_no_certificate_is_refused() {
        let long = "a".repeat(64);
        for text in ["a\nb", "a\u{7f}", "*.\u{1b}[31m", "ü.example", "spiffe://ü", "a\tb*"] {
            assert!(NamePattern::parse(text).is_err(), "{text:?}");
        }
        for text in ["a..b", "a.", ".a", "a/b", "a@b", &long] {
            assert!(NamePattern::parse(text).is_err(), "{text}");
        }
        for text in ["a_b.c-d", "10.0.0.1", "spiffe://place/ns/kv", "*/sa/store", "*.b", "a.*"] {
            assert!(NamePattern::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_stands_for_itself_alone() {
        let (one, other) = (Principal::of(b"no certificate"), Principal::of(b"another one"));
        assert_ne!(one.id(), other.id());
        assert_eq!(one, Principal::of(b"no certificate"));
        let nameless = || {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            Principal::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
        };
        let (first, renewed) = (nameless(), nameless());
        assert_ne!(first.id(), renewed.id());
        assert!(!one.is_named() && !first.is_named() && certificate("a", &[], &[]).is_named());
    }
}
