//! What stands where a path could: `s3://bucket/key`.

use std::borrow::Cow;
use std::path::Path;

use vesica_files::{holds_key, legible};

use crate::error::{Error, Result};

/// What is behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    GoogleCloudStorage,
    Azure,
    /// HTTPS, and HTTP on the loopback interface.
    Http,
}

/// The address of an object, or of several.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// What all objects of a bucket have in common: `s3://bucket/`.
    base: String,
    /// The rest; of HTTPS without the query.
    key: String,
    /// What is requested over HTTPS. Its query may hold a signature, which nobody is shown.
    secret_url: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.shown())
    }
}

impl Address {
    /// The address that a path is; `None` if it is one of a file.
    ///
    /// # Errors
    /// Usage: a scheme that is not known, an address with a password, HTTP that is not on the loopback interface.
    pub(crate) fn of(path: &Path) -> Option<Result<Address>> {
        let (scheme, rest) = split(path)?;
        Some(Address::parse(scheme, rest).map_err(|e| e.in_path(&shown(path))))
    }

    fn parse(scheme: &str, rest: &str) -> Result<Address> {
        let lower = scheme.to_ascii_lowercase();
        let (scheme, name) = match lower.as_str() {
            "s3" | "s3a" => (Scheme::S3, "s3"),
            "gs" => (Scheme::GoogleCloudStorage, "gs"),
            "az" | "abfs" | "abfss" => (Scheme::Azure, lower.as_str()),
            "https" | "http" => (Scheme::Http, lower.as_str()),
            _ => {
                return Err(Error::usage_with(
                    format!("{lower}:// is not known"),
                    "addresses begin with s3://, gs://, az://, abfs:// or https://; files need none",
                ));
            }
        };
        let ends: &[char] = match scheme {
            Scheme::Http => &['/', '?', '#'],
            _ => &['/'],
        };
        let (host, key) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let key = key.strip_prefix('/').unwrap_or(key);
        let (_, secret) = split_secret(scheme, key);
        if host.is_empty() || host.contains(['?', '#', '*']) {
            return Err(Error::usage(
                "the address has no name of a bucket or server",
            ));
        }
        let is_account = scheme == Scheme::Azure && !host.contains(':');
        let has_secret = secret && scheme != Scheme::Http || !has_port_or_nothing(host);
        if host.contains('@') && !is_account || has_secret {
            return Err(Error::usage_with(
                "credentials are no part of an address",
                "put them into the environment, as AWS_…, AZURE_… or GOOGLE_…",
            ));
        }
        let is_http = scheme == Scheme::Http;
        if name == "http" && !is_loopback(host) {
            return Err(Error::usage_with(
                "HTTP without TLS is not taken",
                "use https://",
            ));
        }
        let (key, _) = split_secret(scheme, key);
        Ok(Address {
            scheme,
            base: format!("{name}://{host}/"),
            key: key.to_owned(),
            secret_url: is_http.then(|| format!("{name}://{rest}")),
        })
    }

    /// What the address is called in messages: without a query.
    pub(crate) fn shown(&self) -> String {
        format!("{}{}", self.base, self.key)
    }

    #[cfg(feature = "object-stores")]
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The bucket, the container with its account, or the server.
    #[cfg(feature = "object-stores")]
    pub(crate) fn host(&self) -> &str {
        let (_, host) = self.base.split_once("://").unwrap_or_default();
        host.trim_end_matches('/')
    }

    #[cfg(feature = "object-stores")]
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    #[cfg(feature = "object-stores")]
    pub(crate) fn secret_url(&self) -> Option<&str> {
        self.secret_url.as_deref()
    }
}

/// An address, for a build that knows of none.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn not_built() -> Error {
    Error::usage("this build reads and writes files alone, not objects at addresses")
}

/// Whether a path is an address rather than one of a file.
pub fn is_address(path: &Path) -> bool {
    split(path).is_some()
}

/// What a path or address is called in messages. Of an address that is without a query and without a password, either of
/// which may be a credential.
pub fn shown(path: &Path) -> String {
    let Some((scheme, rest)) = split(path) else {
        return without_password(&path.display().to_string());
    };
    let (host, key) = match rest.split_once('/') {
        Some((host, key)) => (host, Some(key)),
        None => (rest, None),
    };
    let kind = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" => Scheme::S3,
        _ => Scheme::Http,
    };
    let host = match host.rsplit_once('@') {
        Some((user, host)) if kind == Scheme::Http || user.contains(':') => host,
        _ => host,
    };
    let (host, _) = split_secret(Scheme::Http, host);
    if !has_port_or_nothing(host) {
        // A password that had a slash in it.
        return format!("{scheme}://…");
    }
    match key {
        Some(key) => format!("{scheme}://{host}/{}", split_secret(kind, key).0),
        None => format!("{scheme}://{host}"),
    }
}

/// A text with every address in it as [`shown`] calls it, without words that [nobody reads](legible), and nothing of a text with
/// a private key in it.
///
/// ```
/// let line = vesica_tables::redacted("no option 'https://host/a.csv?sig=secret'");
/// assert_eq!(line, "no option 'https://host/a.csv'");
/// ```
pub fn redacted(text: &str) -> Cow<'_, str> {
    if holds_key(text.as_bytes()) {
        return "there is a private key in what would be said, which is not shown".into();
    }
    if !text.contains(['?', '@']) && !text.contains("://") {
        return legible(text);
    }
    let ends_word = |c: char| c.is_whitespace() || "'\"`<>".contains(c);
    let words = text.split_inclusive(ends_word).map(|piece| {
        let (word, end) = match piece.char_indices().next_back() {
            Some((at, last)) if ends_word(last) => piece.split_at(at),
            _ => (piece, ""),
        };
        let Some(colon) = word.find("://") else {
            // An address may have blanks before what signs it.
            return format!(
                "{}{end}",
                without_password(split_secret(Scheme::S3, word).0)
            );
        };
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let before = word[..colon].trim_end_matches(is_scheme).len();
        // As in an option, `--https://…`.
        let scheme = word[before..colon].find(|c: char| c.is_ascii_alphabetic());
        let (before, address) = word.split_at(before + scheme.unwrap_or(0));
        format!("{before}{}{end}", shown(Path::new(address)))
    });
    legible(&words.collect::<String>()).into_owned().into()
}

/// Schemes of addresses that people have at hand.
const SCHEMES: [&str; 12] = [
    "abfs",
    "abfss",
    "az",
    "ftp",
    "gs",
    "http",
    "https",
    "mysql",
    "postgres",
    "postgresql",
    "s3",
    "s3a",
];

/// Text that is no address, but may have been meant as one, as `https:/user:password@host` and `user:password@host`, without
/// what is before the host then.
fn without_password(text: &str) -> String {
    let whole = || text.to_owned();
    let Some((before, host)) = text.rsplit_once('@') else {
        return whole();
    };
    let Some(end) = before.find([':', '/', '\\']) else {
        return whole();
    };
    let (start, rest) = before.split_at(end);
    let user = rest.trim_start_matches([':', '/', '\\']);
    let between = &rest[..rest.len() - user.len()];
    let scheme = start.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let scheme = scheme.unwrap_or_default().to_ascii_lowercase();
    let is_known = SCHEMES.contains(&&*scheme);
    let is_number = host.bytes().all(|byte| byte.is_ascii_digit());
    // What is behind a slash is a path.
    let first = user.split(['/', '\\']).next().unwrap_or_default();
    match between == ":" || is_known || first.contains(':') && between != "/" {
        // `name:given@1` is a profile.
        _ if is_number => whole(),
        true if is_known => format!("{start}{between}…@{host}"),
        true => format!("…@{host}"),
        false => whole(),
    }
}

/// The scheme of an address and what comes after it.
fn split(path: &Path) -> Option<(&str, &str)> {
    let (scheme, rest) = path.to_str()?.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// A key without what may be a credential, and whether there was such a thing. A question mark in an object store is a
/// pattern, unless a signature follows.
fn split_secret(scheme: Scheme, key: &str) -> (&str, bool) {
    const SIGNED: [&str; 5] = ["sig=", "signature=", "x-amz-", "x-goog-", "token="];
    let is_secret = |query: &str| {
        let lower = query.to_ascii_lowercase();
        scheme == Scheme::Http || SIGNED.iter().any(|word| lower.contains(word))
    };
    let ends: &[char] = if scheme == Scheme::Http {
        &['?', '#']
    } else {
        &['?']
    };
    match key.find(ends) {
        Some(at) if is_secret(&key[at..]) => (&key[..at], true),
        _ => (key, false),
    }
}

/// The text that percent signs and digits stand for.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Whether nothing but a port is after the name of a server.
fn has_port_or_nothing(host: &str) -> bool {
    let name = host.rsplit_once(']').map_or(host, |(_, port)| port);
    let port = name.split_once(':').map_or("", |(_, port)| port);
    port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a server is this machine, to which nothing goes over a network.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Address>> {
        Address::of(Path::new(text))
    }

    #[test]
    fn addresses_and_paths() {
        for path in [
            "a.csv",
            "/a/b",
            "a:/b",
            "s3:/b/k",
            "://x",
            "1s3://b/k",
            "C:\\x",
        ] {
            assert!(parse(path).is_none(), "{path}");
        }
        for (text, scheme, base, key) in [
            ("s3://b/k.csv", Scheme::S3, "s3://b/", "k.csv"),
            ("S3A://b/d/*.csv", Scheme::S3, "s3://b/", "d/*.csv"),
            ("s3://b", Scheme::S3, "s3://b/", ""),
            (
                "gs://b/y=202?/m=*/",
                Scheme::GoogleCloudStorage,
                "gs://b/",
                "y=202?/m=*/",
            ),
            ("az://c/k", Scheme::Azure, "az://c/", "k"),
            (
                "abfss://c@a.dfs.core.windows.net/k",
                Scheme::Azure,
                "abfss://c@a.dfs.core.windows.net/",
                "k",
            ),
            ("https://h:8/a?X=1#f", Scheme::Http, "https://h:8/", "a"),
            (
                "http://127.0.0.1:9/a",
                Scheme::Http,
                "http://127.0.0.1:9/",
                "a",
            ),
        ] {
            let address = parse(text).unwrap().unwrap();
            assert_eq!(
                (address.scheme, &*address.base, &*address.key),
                (scheme, base, key)
            );
        }
        for text in [
            "ftp://h/a",
            "file:///a",
            "s3://",
            "s3:///k",
            "http://h/a",
            "http://127.0.0.1.example/a",
            "http://localhost@example/a",
            "https://user:word@h/a",
            "s3://id:word@b/k",
            "s3://id:wo/rd@b/k",
            "https://user:wo/rd@h/a",
            "az://c/k?sv=2&sig=abc",
            "s3://b/k?X-Amz-Signature=abc",
        ] {
            let error = parse(text).unwrap().unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Usage, "{text}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        for (text, expected) in [
            ("no /a b.csv?sig=SECRET: x", "no /a b.csv x"),
            ("is it a?b.csv or c? no", "is it a?b.csv or c? no"),
            ("(https://h/a?SECRET)", "(https://h/a"),
            ("no '--https://h/a?x=SECRET'", "no '--https://h/a'"),
            (
                "a MC4CAQAwBQYDK2VwBCIEIAAA",
                "there is a private key in what would be said, which is not shown",
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
        for (text, expected) in [
            ("https://h/a.csv?X-Amz-Signature=SECRET", "https://h/a.csv"),
            ("https://h?SECRET", "https://h"),
            ("https://u:SECRET@h/a#SECRET", "https://h/a"),
            ("ftp://u:SECRET@h/a?SECRET", "ftp://h/a"),
            ("az://c/k?sv=1&SIG=SECRET", "az://c/k"),
            ("s3://id:SECRET@b/k", "s3://b/k"),
            ("s3://id:SEC/SECRET@b/k", "s3://…"),
            ("https://u:SEC/SECRET@h/a", "https://…"),
            ("https://[::1]:80/a?SECRET", "https://[::1]:80/a"),
            (
                "abfs://c@a.dfs.core.windows.net/k",
                "abfs://c@a.dfs.core.windows.net/k",
            ),
            ("s3://b/a?.csv", "s3://b/a?.csv"),
            ("dir/a?b.csv", "dir/a?b.csv"),
            // What was meant as an address.
            ("https:/u:SECRET@h/a", "https:/…@h/a"),
            ("HTTPS:u:SECRET@h/a", "HTTPS:…@h/a"),
            ("https//u:SECRET@h/a", "https//…@h/a"),
            (r"https:\\u:SECRET@h/a", r"https:\\…@h/a"),
            ("https:/u:SEC/SECRET@h/a", "https:/…@h/a"),
            ("https:/SECRET@h/a", "https:/…@h/a"),
            ("s3:/id:SECRET@b/k", "s3:/…@b/k"),
            ("postgresql:/u:SECRET@h/a", "postgresql:/…@h/a"),
            ("u:SECRET@h/a", "…@h/a"),
            ("//u:SECRET@h/a", "…@h/a"),
            ("/data/run:1/a@b.csv", "/data/run:1/a@b.csv"),
            ("/data:1/a@b.csv", "/data:1/a@b.csv"),
            ("data/a@b.csv", "data/a@b.csv"),
            (r"C:\data\a@b.csv", r"C:\data\a@b.csv"),
            ("me@h", "me@h"),
            ("name:given@1", "name:given@1"),
        ] {
            assert_eq!(shown(Path::new(text)), expected);
            assert!(!redacted(&format!("{text} {text}")).contains("SECRET"));
            let said = redacted(&format!("--x='{text}': is \"{text}\" and {text}")).into_owned();
            let expected = format!("--x='{expected}': is \"{expected}\" and {expected}");
            assert_eq!(said, expected);
            if let Some(parsed) = parse(text) {
                let told = match parsed {
                    Ok(address) => format!("{address:?}"),
                    Err(error) => format!("{error} {error:?}"),
                };
                assert!(!told.contains("SECRET"), "{told}");
            }
        }
    }
}
