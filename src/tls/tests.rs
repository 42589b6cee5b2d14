use std::fs;

use rcgen::{CertificateParams, KeyPair};

use super::*;

fn pair(directory: &std::path::Path, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let paths = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    fs::write(&paths.0, certificate.pem()).unwrap();
    fs::write(&paths.1, key.serialize_pem()).unwrap();
    paths
}

#[test]
fn a_fingerprint_reads_back_as_it_was_written() {
    let fingerprint = std::array::from_fn(|index| index as u8 * 7);
    assert_eq!(parse_fingerprint(&hexadecimal(&fingerprint)), Some(fingerprint));
    let with_colons = "AB:".repeat(31) + "ab";
    assert_eq!(parse_fingerprint(&with_colons), Some([0xab; 32]));
    for text in ["", "ab", &"ab".repeat(33), &"xy".repeat(32)] {
        assert_eq!(parse_fingerprint(text), None, "{text}");
    }
}

#[test]
fn files_are_read_again_on_reload_and_a_broken_one_leaves_the_former_state() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(directory.path(), "one");
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: None };
    let tls = ServerTls::from_files(files).unwrap();

    let (other_certificate, other_key) = pair(directory.path(), "two");
    fs::copy(&other_certificate, &certificate).unwrap();
    assert!(tls.reload().is_err(), "the key is that of the former certificate");
    fs::copy(&other_key, &key).unwrap();
    let fresh = tls.reload().unwrap().unwrap();
    assert_ne!(fresh.fingerprint(), tls.fingerprint());
}

#[test]
fn a_file_that_is_of_no_use_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(directory.path(), "one");
    let empty = directory.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let cases = [
        TlsFiles { certificate: empty.clone(), key: key.clone(), client_ca: None },
        TlsFiles { certificate: certificate.clone(), key: empty.clone(), client_ca: None },
        TlsFiles { certificate, key, client_ca: Some(empty) },
    ];
    for files in cases {
        let error = ServerTls::from_files(files).err().unwrap();
        assert!(error.to_string().contains("empty.pem"), "{error}");
    }
}

#[test]
fn a_certificate_of_version_1_is_refused_with_a_way_to_make_one_of_version_3() {
    // As the verifier names it.
    let fault = rustls::OtherError(Arc::new(webpki_fault()));
    let error = TlsError::Unusable(rustls::CertificateError::Other(fault).into()).to_string();
    assert!(error.contains("version 1") && error.contains("-extfile"), "{error}");
    let other = TlsError::Unusable(rustls::Error::DecryptError).to_string();
    assert!(!other.contains("version"), "{other}");
}

fn webpki_fault() -> std::io::Error {
    std::io::Error::other("UnsupportedCertVersion")
}
