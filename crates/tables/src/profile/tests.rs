use std::collections::HashMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::error::ErrorClass;

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

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let path = format!("{}/../../vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn known_answers() {
    let Vectors { vectors } = read("normalization.json");
    assert!(vectors.len() >= 550);
    let mut wrong = Vec::new();
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
        let found = profile.normalize(&input);
        if found != expected {
            wrong.push(format!("{profile} {input:?}: {found:?} for {expected:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[derive(Deserialize)]
struct PhoneVectors {
    profile: String,
    read_in: Vec<String>,
    numbers: Vec<PhoneVector>,
}

#[derive(Deserialize)]
struct PhoneVector {
    number: String,
    international: String,
    national: String,
    national_read_in: HashMap<String, String>,
}

/// The same text in the digits of another script, given its zero.
fn digits_from(text: &str, zero: char) -> String {
    let other = |c: char| match c.to_digit(10) {
        Some(digit) => char::from_u32(u32::from(zero) + digit).unwrap(),
        None => c,
    };
    text.chars().map(other).collect()
}

#[test]
fn numbers_of_every_region_read_under_thirty() {
    let vectors: PhoneVectors = read("phone.json");
    assert!(vectors.numbers.len() > 450 && vectors.read_in.len() == 30);
    for vector in &vectors.numbers {
        let PhoneVector {
            number,
            international,
            national,
            ..
        } = vector;
        let with_code = [
            number.clone(),
            international.clone(),
            format!("tel:{};ext=123", international.replace(' ', "-")),
            digits_from(international, '\u{660}'),
            digits_from(international, '\u{966}'),
            digits_from(number, '\u{ff10}'),
        ];
        let elsewhere = vector.national_read_in.keys();
        for region in vectors.read_in.iter().chain(elsewhere) {
            let profile: Profile = format!("phone:{region}").parse().unwrap();
            assert_eq!(profile.id(), vectors.profile);
            for text in &with_code {
                let expected = Normalized::Valid(Cow::Borrowed(number.as_str()));
                assert_eq!(profile.normalize(text), expected, "{profile} {text:?}");
            }
            let expected = match vector.national_read_in.get(region) {
                Some(number) => Normalized::Valid(Cow::Borrowed(number.as_str())),
                None => Normalized::Invalid,
            };
            for text in [national.clone(), digits_from(national, '\u{660}')] {
                assert_eq!(profile.normalize(&text), expected, "{profile} {text:?}");
            }
        }
    }
}

/// A digest of what a profile makes of many texts.
fn fingerprint(profile: Profile, texts: impl Iterator<Item = String>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        if let Normalized::Valid(canonical) = profile.normalize(&text) {
            hasher.update(canonical.as_bytes());
        }
        hasher.update(b"\0");
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// What a profile yields depends on tables of other crates. Where this fails after an update, the
/// profile has changed: it needs a new version and a new row in docs/tables.md.
#[test]
fn tables_are_those_of_the_version() {
    // Every country code, and both ends and the middle of its numbers of every length.
    let numbers = (1..1000).flat_map(|code| {
        (4..14usize).flat_map(move |length| {
            ["2", "5", "9"].map(|digit| format!("+{code}{}", digit.repeat(length)))
        })
    });
    // Without the large blocks of ideographs, syllables and private characters.
    let characters = || {
        let blocks = [0..0x3400, 0xa000..0xac00, 0xf900..0x17000, 0x1aff0..0x20000];
        blocks.into_iter().flatten().filter_map(char::from_u32)
    };
    let around = |profile: &str, [before, behind]: [&str; 2]| {
        let texts = characters().map(|c| format!("{before}{c}{behind}"));
        fingerprint(profile.parse().unwrap(), texts)
    };
    let found = [
        fingerprint("phone:US".parse().unwrap(), numbers),
        around("text/1", ["a", "b"]),
        around("email/1", ["a", "@x.org"]),
        around("email/1", ["a@x", "y.org"]),
        around("text", ["a", "b"]),
        around("email", ["a", "@x.org"]),
        around("email", ["a@x", "y.org"]),
        around("name", ["a", "b"]),
    ];
    let known = [
        "3427b63322988cf6",
        "a429736618d298eb",
        "9b8bfc80ee886d84",
        "37deb56a6897cb42",
        "177a3314f4dcb339",
        "071071b4cbccd80e",
        "eb5e6635ffb1ae6d",
        "c1b402cb4efa0286",
    ];
    assert_eq!(found, known);
}

#[test]
fn names_and_versions() {
    for (name, id) in ALL {
        let profile: Profile = name.parse().unwrap();
        assert_eq!(profile.to_string(), name);
        assert_eq!(profile.id(), id);
        assert_eq!(profile.in_version_of(id), Some(profile));
        // A version may be named, also that which a name has anyway.
        let (_, version) = id.rsplit_once('/').unwrap();
        let end = name.find(['/', '@']).unwrap_or(name.len());
        let plain = &name[..end];
        assert_eq!(
            format!("{plain}/{version}").parse::<Profile>().unwrap(),
            profile
        );
        let (kind, _) = plain.split_once(':').unwrap_or((plain, ""));
        let written = Profile::written(id).unwrap();
        match (kind, written.parse::<Profile>()) {
            ("phone" | "pair-phone" | "meta-phone", _) => {
                let region = &plain[plain.len() - 2..];
                assert_eq!(written.replace("REGION", region), name);
            }
            ("date" | "timestamp" | "decimal", Ok(found)) => {
                assert_eq!((found.id(), &*written), (id.into(), kind))
            }
            (_, found) => assert_eq!(found.unwrap(), profile, "{id}"),
        }
        for cut in ["@1", "@65535"] {
            if !name.contains('@') {
                let (name, id) = (format!("{name}{cut}"), format!("{id}{cut}"));
                let profile: Profile = name.parse().unwrap();
                assert_eq!((profile.to_string(), profile.id()), (name, id.clone()));
                let written = Profile::written(&id).unwrap();
                assert!(written.ends_with(cut), "{written}");
            }
        }
    }
    assert_eq!(
        Profile::written("phone/3@2").as_deref(),
        Some("phone:REGION/3@2")
    );
    for id in [
        "",
        "phone/2",
        "email/9",
        "nothing/1",
        "postcode/1",
        "name:given/1@0",
    ] {
        assert_eq!(Profile::written(id), None, "{id}");
    }
    for name in [
        "",
        "Email",
        "email/3",
        "email/0",
        "text@",
        "text@0",
        "text@-1",
        "text@+1",
        "text@65536",
        "text@1/1",
        "text@1@1",
        "name:middle",
        "name:",
        "date:YDM",
        "date:",
        "postcode",
        "postcode:UK",
        "postcode:GBR",
        "meta-phone",
        "uid2-email:GB",
        "exact/3",
        "exact/",
        "phone:GB/1",
        "phone:GB/2",
        "pair-phone:GB/1",
        "integer:34/2",
        "phone",
        "phone:",
        "phone:GBR",
        "phone:ZZ",
        "pair-phone",
        "pair-phone:ZZ",
        "pair-email:GB",
        "phone:AQ",
        "phone:001",
        "sha256",
        "ipv4/1",
        "timestamp:",
        "timestamp:h",
        "decimal:2",
        "integer:",
        "integer:0",
        "integer:65",
        "integer:x",
    ] {
        let error = name.parse::<Profile>().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.remedy().is_some());
    }
}

/// One of every kind, with the version that is in the contract.
const ALL: [(&str, &str); 41] = [
    ("exact", "exact/2"),
    ("exact/1", "exact/1"),
    ("text", "text/2"),
    ("text/1", "text/1"),
    ("email", "email/2"),
    ("email/1", "email/1"),
    ("phone:GB", "phone/4"),
    ("phone:US", "phone/4"),
    ("phone:AR", "phone/4"),
    ("phone:GB/3", "phone/3"),
    ("name", "name/1"),
    ("name:given", "name:given/1"),
    ("name:family", "name:family/1"),
    ("sha256-hex", "sha256-hex/1"),
    ("pair-email", "pair-email/1"),
    ("pair-phone:GB", "pair-phone/3"),
    ("pair-phone:GB/2", "pair-phone/2"),
    ("uid2-email", "uid2-email/1"),
    ("google-email", "google-email/1"),
    ("meta-phone:GB", "meta-phone/1"),
    ("postcode:GB", "postcode:GB/1"),
    ("postcode:US", "postcode:US/1"),
    ("postcode:AD", "postcode:AD/1"),
    ("ipv4", "ipv4/2"),
    ("ipv6", "ipv6/1"),
    ("integer:20", "integer:20/1"),
    ("integer:34", "integer:34/1"),
    ("integer", "integer/1"),
    ("decimal", "decimal/1"),
    ("decimal:comma", "decimal/1"),
    ("timestamp", "timestamp/1"),
    ("timestamp:s", "timestamp/1"),
    ("timestamp:ms", "timestamp/1"),
    ("timestamp:us", "timestamp/1"),
    ("timestamp:ns", "timestamp/1"),
    ("date", "date/1"),
    ("date:DMY", "date/1"),
    ("date:MDY", "date/1"),
    ("date:YMD", "date/1"),
    ("uuid", "uuid/1"),
    ("text@3", "text/2@3"),
];

fn profiles() -> impl Strategy<Value = Profile> {
    let uncut = ALL.iter().filter(|(name, _)| !name.contains('@'));
    prop::sample::select(
        uncut
            .map(|(name, _)| name.parse().unwrap())
            .collect::<Vec<_>>(),
    )
}

/// Mostly plausible values, some of any characters.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ +()0-9-]{0,20}",
        "[+-]?[0-9]{1,15}[.,][0-9]{1,3}([eE][+-]?[0-9]{1,2})?",
        "[0-9]{1,3}([.,' ][0-9]{3}){1,4}([.,]0{1,2})?",
        "[0-9]{1,7}",
        "[+-]?0{0,2}[0-9]{1,30}(\\.0{0,3})?",
        "[0-9]{3,4}-?[01][0-9]-?[0-3][0-9]([T ]00:00(:00)?(\\.0)?Z?)?",
        "\\{?[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){4}[0-9a-fA-F]{8}\\}?",
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}",
        "[0-9a-fA-F]{0,4}(::?[0-9a-fA-F]{1,4}){1,7}",
        "[+-]?[0-9]{0,20}\\.?[0-9]{0,20}",
        "[0-9]{4}-[01][0-9]-[0-2][0-9][ T][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,10})?)?(Z|[+-][01][0-9]:?[0-5][0-9])?",
        "\\PC{0,5}@\\PC{0,8}(\\.org)?",
        "[' ]{0,3}(mailto:)?[' ]{0,2}[a-zA-Z.+'\u{200d}]{1,5}@(gmail|x)\\.com",
        "[0-3]?[0-9][./ -][0-3]?[0-9][./ -]([0-9]{2}){1,2}( 00:00)?",
        "(Dr|Mr|Sr|')?[. ]{0,2}[A-Zé´’'()\u{200c}-]{0,5} ?[a-z\u{301}\u{327}]{0,3} ?(Jr|Senior|III|Sr)?[.]?",
        "['´\u{1100}\u{1161}\u{304b}\u{3099}Dr. ]{0,6}",
        "['’\u{200c}\u{200d}\u{200e}\u{fe0f}a\u{ff21}\u{645}\u{915}\u{94d}\u{301}\u{1f468}– ´]{0,8}",
        "[A-Za-z]{1,2}[0-9]{1,2}[A-Za-z]? ?[0-9][A-Za-z]{2}",
        "[ a-zA-Z\u{ad}\u{301}\u{345}\u{3a3}ßİﬁ½\u{1e9e}\u{200b}]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn canonical_values_are_fixed_points(profile in profiles(), value in values()) {
        if let Normalized::Valid(canonical) = profile.normalize(&value) {
            prop_assert!(!canonical.is_empty());
            // Canonical numbers have a point.
            let profile = match profile.to_string() == "decimal:comma" {
                true => "decimal".parse().unwrap(),
                false => profile,
            };
            prop_assert_eq!(profile.normalize(&canonical), Normalized::Valid(canonical.clone()));
        }
    }
}
