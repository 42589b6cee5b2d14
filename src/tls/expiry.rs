//! When a certificate runs out.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The end of the validity of a certificate in DER, in seconds since 1970; `None` if it cannot be read.
pub(super) fn ends_s(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_found_in_both_forms_of_time() {
        let cases = [
            (1970, 1, 1, 0),
            (2000, 3, 1, 951_868_800),
            (2024, 2, 29, 1_709_164_800),
            (2026, 12, 1, 1_796_083_200),
            (2049, 12, 31, 2_524_521_600),
            // From 2050 on the year has four digits.
            (2050, 1, 1, 2_524_608_000),
        ];
        for (year, month, day, expected) in cases {
            let found = ends_s(&certificate(year, month, day));
            assert_eq!(found, Some(expected), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn what_is_cut_or_damaged_has_no_end_and_does_no_harm() {
        let whole = certificate(2030, 5, 6);
        for length in 0..whole.len() {
            assert_eq!(ends_s(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len().min(200) {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = ends_s(&damaged);
            }
        }
    }
}
