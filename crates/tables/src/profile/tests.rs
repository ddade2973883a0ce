use super::*;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    profile: String,
    input: String,
    result: String,
    output: Option<String>,
}

#[test]
fn known_answers() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vectors/normalization.json"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let Vectors { vectors } = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() >= 70);
    for Vector {
        profile,
        input,
        result,
        output,
    } in vectors
    {
        let expected = match (result.as_str(), output) {
            ("valid", Some(output)) => Normalized::Valid(Cow::Owned(output)),
            ("blank", None) => Normalized::Blank,
            ("invalid", None) => Normalized::Invalid,
            other => panic!("{other:?}"),
        };
        let profile: Profile = profile.parse().unwrap();
        assert_eq!(profile.normalize(&input), expected, "{profile} {input:?}");
    }
}

#[test]
fn names_and_versions() {
    for name in ["exact", "text", "email", "phone:GB", "sha256-hex"] {
        let profile: Profile = name.parse().unwrap();
        assert_eq!(profile.to_string(), name);
        assert!(name.starts_with(profile.id().strip_suffix("/1").unwrap()));
    }
    for name in [
        "",
        "Email",
        "email/1",
        "phone",
        "phone:",
        "phone:GBR",
        "phone:ZZ",
        "sha256",
    ] {
        let error = name.parse::<Profile>().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint().is_some());
    }
}

fn profiles() -> impl Strategy<Value = Profile> {
    prop::sample::select(vec![
        Profile::Exact,
        Profile::Text,
        Profile::Email,
        "phone:GB".parse().unwrap(),
        "phone:US".parse().unwrap(),
        Profile::Sha256Hex,
    ])
}

/// Mostly plausible values, some of any characters.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ +()0-9-]{0,20}",
        "\\PC{0,5}@\\PC{0,8}(\\.org)?",
        "[ a-zA-Z\u{ad}\u{301}\u{345}\u{3a3}ßİﬁ½\u{1e9e}\u{200b}]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn canonical_values_are_fixed_points(profile in profiles(), value in values()) {
        if let Normalized::Valid(canonical) = profile.normalize(&value) {
            prop_assert!(!canonical.is_empty());
            prop_assert_eq!(profile.normalize(&canonical), Normalized::Valid(canonical.clone()));
        }
    }
}
