//! Identity files and fingerprints.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use vesica_session::{Command, Error, ErrorClass, Fingerprint, FingerprintError, Identity};

#[test]
fn an_identity_survives_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.pem");
    let identity = Identity::generate().unwrap();
    identity.save(&path).unwrap();
    let loaded = Identity::load(&path).unwrap();
    assert_eq!(loaded.fingerprint(), identity.fingerprint());
    assert_eq!(*loaded.to_pem(), *identity.to_pem());
    assert_ne!(
        Identity::generate().unwrap().fingerprint(),
        identity.fingerprint()
    );
}

#[test]
fn an_identity_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.pem");
    fs::write(&path, "precious").unwrap();
    let error = Identity::generate().unwrap().save(&path).unwrap_err();
    assert!(matches!(error, Error::IdentityFile { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Usage);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_an_identity() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.pem");
    Identity::generate().unwrap().save(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Identity::load(&path).unwrap_err();
    assert!(matches!(error, Error::ExposedSecret { .. }), "{error}");
}

#[test]
fn what_is_no_identity_is_refused_without_showing_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.pem");
    let identity = Identity::generate().unwrap();
    // The file is its owner's alone from now on.
    identity.save(&path).unwrap();
    let write = |text: &str| fs::write(&path, text).unwrap();
    let good = identity.to_pem().to_string();
    let bad = [
        String::new(),
        "secret".into(),
        good.replace("PRIVATE KEY", "PUBLIC KEY"),
        good.replace("PRIVATE KEY", "EC PRIVATE KEY"),
        good.replacen("MC4", "MC5", 1),
        good[..good.len() / 2].into(),
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n".into(),
        "x".repeat(100_000),
    ];
    for text in bad {
        write(&text);
        let error = Identity::load(&path).unwrap_err();
        assert!(matches!(error, Error::NotAnIdentity { .. }), "{error}");
        assert!(error.remedy().unwrap().commands().eq([Command::Keygen]));
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(Identity::from_pem(text.as_bytes()).is_err());
    }
    // Whoever can read it sees no key.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        write("id\n1\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let fingerprint = identity.fingerprint().to_string();
    for (path, found) in [
        (&*path, "a text file"),
        (dir.path(), "a directory"),
        (Path::new(&fingerprint), "a fingerprint"),
    ] {
        let error = Identity::load(path).unwrap_err();
        assert!(matches!(error, Error::NotAnIdentity { .. }), "{error}");
        let words = format!("this is {found}, and not an identity");
        assert!(error.to_string().ends_with(&words), "{error}");
    }
    let error = Identity::load(dir.path().join("none")).unwrap_err();
    assert!(matches!(error, Error::NoIdentity(_)), "{error}");
    assert!(error.remedy().unwrap().commands().eq([Command::Keygen]));
}

#[test]
fn a_key_of_openssl_is_an_identity() {
    // RFC 8410, section 10.3.
    let pem = "-----BEGIN PRIVATE KEY-----\n\
               MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
               -----END PRIVATE KEY-----\n";
    let identity = Identity::from_pem(pem.as_bytes()).unwrap();
    let spki = [
        &[
            0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
        ][..],
        &[
            0x19, 0xbf, 0x44, 0x09, 0x69, 0x84, 0xcd, 0xfe, 0x85, 0x41, 0xba, 0xc1, 0x67, 0xdc,
            0x3b, 0x96, 0xc8, 0x50, 0x86, 0xaa, 0x30, 0xb6, 0xb6, 0xcb, 0x0c, 0x5c, 0x38, 0xad,
            0x70, 0x31, 0x66, 0xe1,
        ],
    ]
    .concat();
    assert_eq!(identity.fingerprint(), Fingerprint::of_public_key(&spki));
    assert_eq!(*identity.to_pem(), pem);
}

#[test]
fn debug_hides_the_secret() {
    let identity = Identity::generate().unwrap();
    let shown = format!("{identity:?}");
    assert_eq!(
        shown,
        format!("Identity {{ fingerprint: {}, .. }}", identity.fingerprint())
    );
}

#[test]
fn a_fingerprint_survives_its_text() {
    let fingerprint = Identity::generate().unwrap().fingerprint();
    let text = fingerprint.to_string();
    assert_eq!(text.len(), 60);
    assert_eq!(text.parse(), Ok(fingerprint));
    assert_eq!(
        format!("  {}\n", text.to_uppercase()).parse(),
        Ok(fingerprint)
    );
    assert_eq!(
        serde_json::to_string(&fingerprint).unwrap(),
        format!("\"{text}\"")
    );
}

#[test]
fn what_is_in_the_place_of_a_fingerprint_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.pem");
    Identity::generate().unwrap().save(&path).unwrap();
    for (text, words) in [
        (
            path.to_str().unwrap(),
            "this is an identity, and not a fingerprint: copy it",
        ),
        (dir.path().to_str().unwrap(), "this is a directory, and"),
        ("shop.example:7340", "this is an address, and"),
        ("the charity", "copy it from"),
        ("", "a variable that was to have it may be empty: copy it"),
    ] {
        let error = text.parse::<Fingerprint>().unwrap_err();
        let remedy = error.remedy_of(text);
        assert!(remedy.to_string().starts_with(words), "{remedy}");
        assert!(remedy.commands().eq([Command::Fingerprint]));
    }
}

#[test]
fn typing_mistakes_are_told_from_other_peers() {
    let text = Fingerprint::of_public_key(b"a key").to_string();
    for i in 4..text.len() {
        let mut typo = text.clone().into_bytes();
        typo[i] = if typo[i] == b'a' { b'b' } else { b'a' };
        let typo = String::from_utf8(typo).unwrap();
        assert_eq!(typo.parse::<Fingerprint>(), Err(FingerprintError::Checksum));
        if i + 1 < text.len() {
            let mut swapped = text.clone().into_bytes();
            swapped.swap(i, i + 1);
            let swapped = String::from_utf8(swapped).unwrap();
            if swapped != text {
                assert!(swapped.parse::<Fingerprint>().is_err());
            }
        }
    }
    let parse = |text: &str| text.parse::<Fingerprint>();
    assert_eq!(parse(&text[..59]), Err(FingerprintError::Length(55)));
    assert_eq!(
        parse(&format!("{text}a")),
        Err(FingerprintError::Length(57))
    );
    assert_eq!(parse(&text[4..]), Err(FingerprintError::Prefix));
    assert_eq!(parse(" "), Err(FingerprintError::Empty));
    assert_eq!(
        parse(&text.replace(&text[10..11], "1")),
        Err(FingerprintError::Character('1'))
    );
}

proptest! {
    #[test]
    fn no_text_makes_parsing_panic(text in ".{0,80}", bytes: Vec<u8>) {
        let _ = text.parse::<Fingerprint>();
        let _ = format!("vs1:{text}").parse::<Fingerprint>();
        let _ = Identity::from_pem(&bytes);
        let _ = Identity::from_pem(text.as_bytes());
    }
}
