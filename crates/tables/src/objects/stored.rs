//! Which object an address is of: the same for all of its spellings, whichever of a store's names, protocols and settings they
//! take.

use std::path::Path;

use glob::Pattern;

#[cfg(not(feature = "object-stores"))]
use super::address::Address;
use super::address::Scheme;
#[cfg(feature = "object-stores")]
use super::address::{Address, unescaped};
use crate::names::{FITTING, is_no_data, names_column, names_no_data};

/// What names an object for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    store: Scheme,
    /// Of Azure; `None` if it may be any.
    account: Option<String>,
    /// The bucket or container, or the name of another server; `None` if it may be any.
    bucket: Option<String>,
    key: String,
    /// Whether it may stand for others: a store can list its objects, and other servers cannot.
    is_listed: bool,
}

impl StoredObject {
    /// Without a way to read any there are none, so that what an address is need not be known.
    #[cfg(not(feature = "object-stores"))]
    pub(crate) fn of(address: &Address) -> StoredObject {
        StoredObject {
            store: address.scheme,
            account: None,
            bucket: Some(address.shown()),
            key: String::new(),
            is_listed: false,
        }
    }

    pub(crate) fn is_same(&self, other: &StoredObject) -> bool {
        self.is_in_same_bucket(other) && self.key == other.key
    }

    fn is_in_same_bucket(&self, other: &StoredObject) -> bool {
        let may_be = |own: &Option<String>, its: &Option<String>| match (own, its) {
            (Some(own), Some(its)) => own == its,
            _ => true,
        };
        self.store == other.store
            && may_be(&self.account, &other.account)
            && may_be(&self.bucket, &other.bucket)
    }

    /// Whether an object would be among those of this, a directory or a pattern.
    pub(crate) fn would_find(&self, object: &StoredObject) -> bool {
        let wanted = &*self.key;
        let (directory, name) = object.key.rsplit_once('/').unwrap_or(("", &object.key));
        let is_pattern = wanted.contains(['*', '?', '[']);
        let fits = |text: &str| match Pattern::new(wanted) {
            Ok(pattern) if is_pattern => pattern.matches_with(text, FITTING),
            _ => text == wanted,
        };
        let may_be = names_no_data(wanted) || !is_no_data(Path::new(name));
        let mut above = Path::new(directory).ancestors();
        let is_in = above.find(|above| {
            let name = above.file_name().unwrap_or_default().to_string_lossy();
            !names_column(&name) || above.to_str().is_some_and(&fits)
        });
        let is_in = is_in.and_then(Path::to_str).is_some_and(&fits);
        let is_among = is_in || is_pattern && fits(&object.key);
        self.is_listed && self.is_in_same_bucket(object) && may_be && is_among
    }
}

#[cfg(feature = "object-stores")]
mod canonical {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use reqwest::Url;

    use super::*;

    type Variables = [(String, String)];

    /// The value of a setting as the store's client reads it: the last variable of one of these names counts.
    fn setting<'a>(vars: &'a Variables, prefix: &str, names: &[&str]) -> Option<&'a str> {
        let is_it = |(name, _): &&(String, String)| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| names.contains(&&*rest.to_ascii_lowercase()))
        };
        vars.iter().rfind(is_it).map(|(_, value)| &**value)
    }

    fn is_on(value: Option<&str>) -> bool {
        let value = value.unwrap_or_default().to_ascii_lowercase();
        ["1", "true", "on", "yes", "y"].contains(&&*value)
    }

    impl StoredObject {
        /// With the settings of stores among these variables, which name servers.
        pub(crate) fn of(address: &Address, vars: &Variables) -> StoredObject {
            let (host, key) = (address.host(), address.key());
            let (server, object) = match address.scheme {
                Scheme::S3 => {
                    let endpoint = setting(vars, "AWS_", &["endpoint_url_s3"]);
                    let endpoint =
                        endpoint.or_else(|| setting(vars, "AWS_", &["endpoint_url", "endpoint"]));
                    let is_virtual = setting(vars, "AWS_", &["virtual_hosted_style_request"]);
                    let path = match is_on(is_virtual) {
                        // The endpoint has the bucket's name in it.
                        true => key.to_owned(),
                        false => format!("{host}/{key}"),
                    };
                    let server = endpoint.map(|url| (url.to_owned(), path));
                    (server, in_bucket(Scheme::S3, None, host, key))
                }
                Scheme::GoogleCloudStorage => {
                    let server = setting(vars, "GOOGLE_", &["base_url"]);
                    let server = server.map(|url| (url.to_owned(), format!("{host}/{key}")));
                    let object = in_bucket(Scheme::GoogleCloudStorage, None, host, key);
                    (server, object)
                }
                Scheme::Azure => of_azure(host, key, vars),
                Scheme::Http => {
                    let url = address.secret_url().map(str::to_owned);
                    let object = in_bucket(Scheme::Http, None, host, key);
                    (url.map(|url| (url, String::new())), object)
                }
            };
            let at_server = server.and_then(|(url, path)| {
                let url = Url::parse(&url).ok()?;
                let before = unescaped(url.path()).unwrap_or_else(|| url.path().to_owned());
                let path = format!("{}/{path}", before.trim_matches('/'));
                Some(at_server(&name_of(&url)?, path.trim_matches('/')))
            });
            StoredObject {
                is_listed: address.scheme != Scheme::Http,
                ..at_server.unwrap_or(object)
            }
        }
    }

    /// The server that a setting names, with the path there, and the object otherwise.
    fn of_azure(
        host: &str,
        key: &str,
        vars: &Variables,
    ) -> (Option<(String, String)>, StoredObject) {
        let (container, account) = match host.split_once('@') {
            Some((container, host)) => (container, host.split('.').next()),
            None => (host, setting(vars, "AZURE_", &["storage_account_name"])),
        };
        let path = format!("{container}/{key}");
        let server = match is_on(setting(vars, "AZURE_", &["storage_use_emulator"])) {
            true => {
                let url = setting(vars, "AZURITE_", &["blob_storage_url"]);
                let account = account.unwrap_or("devstoreaccount1");
                let url = url.unwrap_or("http://127.0.0.1:10000").to_owned();
                Some((url, format!("{account}/{path}")))
            }
            false => setting(vars, "AZURE_", &["storage_endpoint", "endpoint"])
                .map(|url| (url.to_owned(), path)),
        };
        (server, in_bucket(Scheme::Azure, account, container, key))
    }

    /// Names of buckets, containers and accounts are in lower case where they are parts of a server's.
    fn in_bucket(store: Scheme, account: Option<&str>, bucket: &str, key: &str) -> StoredObject {
        let key = key.trim_matches('/');
        StoredObject {
            store,
            account: account.map(str::to_ascii_lowercase),
            bucket: Some(bucket.to_ascii_lowercase()),
            key: match store {
                // In paths a plus may be a blank.
                Scheme::S3 => key.replace('+', " "),
                _ => key.to_owned(),
            },
            is_listed: false,
        }
    }

    /// The name of a server, and its port if it is not that of HTTPS. All names of this machine are one.
    fn name_of(url: &Url) -> Option<String> {
        let host = url.host_str()?.trim_end_matches('.');
        let of_ipv6 = |host: &str| {
            let host = host.strip_prefix('[')?.strip_suffix(']')?;
            host.parse::<Ipv6Addr>().ok().map(|ip| ip.to_canonical())
        };
        let of_ipv4 = |host: &str| host.parse::<Ipv4Addr>().ok().map(Into::into);
        let is_here = match of_ipv6(host).or_else(|| of_ipv4(host)) {
            Some(ip) => ip.is_loopback() || ip.is_unspecified(),
            None => host == "localhost" || host.ends_with(".localhost"),
        };
        let host = if is_here { "localhost" } else { host };
        Some(match url.port_or_known_default() {
            Some(port) if port != 443 => format!("{host}:{port}"),
            _ => host.to_owned(),
        })
    }

    /// What is at a path of a server: by the bucket in the server's name or in front of the key.
    fn at_server(server: &str, path: &str) -> StoredObject {
        let host = server.split(':').next().unwrap_or_default();
        let names: Vec<&str> = host.split('.').collect();
        let is_s3 = |name: &&str| {
            *name == "s3" || name.starts_with("s3-") || name.starts_with("s3express-")
        };
        match &names[..] {
            [.., "amazonaws", "com" | "eu"] | [.., "amazonaws", "com", "cn"] => {
                match names.iter().rposition(is_s3) {
                    Some(0) => in_path(Scheme::S3, None, path),
                    Some(at) => in_bucket(Scheme::S3, None, &names[..at].join("."), path),
                    None => in_bucket(Scheme::Http, None, server, path),
                }
            }
            [
                bucket @ ..,
                "storage" | "commondatastorage" | "www",
                "googleapis",
                "com",
            ]
            | [bucket @ .., "storage", "cloud", "google", "com"] => {
                of_google(&bucket.join("."), path)
            }
            [account, "blob" | "dfs", "core" | "fabric", _, ..] => {
                let account = account.strip_suffix("-secondary").unwrap_or(account);
                in_path(Scheme::Azure, Some(account), path)
            }
            _ => in_bucket(Scheme::Http, None, server, path),
        }
    }

    fn in_path(store: Scheme, account: Option<&str>, path: &str) -> StoredObject {
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        in_bucket(store, account, bucket, key)
    }

    /// Google's server has an API of its own: `storage/v1/b/BUCKET/o/KEY`.
    fn of_google(bucket: &str, path: &str) -> StoredObject {
        let store = Scheme::GoogleCloudStorage;
        let api = path.strip_prefix("download/").unwrap_or(path);
        let api = api.strip_prefix("storage/v1/b/");
        match (bucket, api.and_then(|api| api.split_once("/o/"))) {
            ("", Some((bucket, key))) => in_bucket(store, None, bucket, key),
            ("", None) => in_path(store, None, path),
            _ => in_bucket(store, None, bucket, path),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn object(text: &str, settings: &[(&str, &str)]) -> StoredObject {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let vars: Vec<_> = settings.iter().map(own).collect();
            let address = Address::of(Path::new(text)).unwrap().unwrap();
            StoredObject::of(&address, &vars)
        }

        /// Each list is of spellings of one object, and no object is in two of them.
        #[test]
        fn all_spellings_of_an_object_are_one() {
            let lists: [&[&str]; 7] = [
                &[
                    "s3://b/d/k k%.csv",
                    "S3A://b/d/k k%.csv",
                    "s3://b//d/k k%.csv",
                    "https://b.s3.amazonaws.com/d/k%20k%25.csv",
                    "https://B.S3.AmazonAWS.com./d/k+k%25.csv?X-Amz-Signature=s",
                    "https://b.s3.eu-west-1.amazonaws.com:443/%64/k%20k%25.csv#f",
                    "https://b.s3-eu-west-1.amazonaws.com/x/../d/./k%20k%25.csv",
                    "https://b.s3.dualstack.eu-west-1.amazonaws.com/x/%2e%2E/d/k%20k%25.csv",
                    "https://s3.amazonaws.com:00443/b/d/k%20k%25.csv",
                    "https://s3.cn-north-1.amazonaws.com.cn//b/d/k%20k%25.csv",
                    r"https://s3.eu-west-1.amazonaws.com/b\d\k%20k%25.csv",
                ],
                &["s3://b/d/K", "https://b.s3.amazonaws.com/d/K"],
                &[
                    "s3://my.s3.bucket/k",
                    "https://my.s3.bucket.s3.eu-west-1.amazonaws.com/k",
                    "https://s3.eu-west-1.amazonaws.com/my.s3.bucket/k",
                ],
                &[
                    "gs://b/d/k",
                    "https://storage.googleapis.com/b/d/k",
                    "https://b.storage.googleapis.com:443/d%2Fk",
                    "https://B.commondatastorage.googleapis.com/d/k",
                    "https://storage.cloud.google.com/b/d/k?authuser=0",
                    "https://storage.googleapis.com/storage/v1/b/b/o/d%2Fk?alt=media",
                    "https://www.googleapis.com/download/storage/v1/b/b/o/d%2Fk?alt=media",
                ],
                &[
                    "abfs://c@a.dfs.core.windows.net/k",
                    "abfss://C@A.dfs.core.windows.net/k",
                    "https://a.blob.core.windows.net/c/k?sig=s",
                    "https://A-secondary.blob.core.windows.net:443/c/k",
                    "https://a.dfs.core.windows.net/c/k",
                ],
                &[
                    "http://127.0.0.1:9/b/k",
                    "http://localhost:9/b/k",
                    "http://[::1]:9//b/k",
                    "https://127.1:9/b/k",
                    "https://0x7f000001:9/b/k",
                    "https://[::ffff:127.0.0.1]:9/b/k",
                    "https://LocalHost:9/b/k",
                ],
                &["https://example.com/b/k", "https://EXAMPLE.com:443/%62/k"],
            ];
            let all = |at: usize| lists[at].iter().map(move |text| (at, *text));
            let all: Vec<_> = (0..lists.len()).flat_map(all).collect();
            for (list, one) in &all {
                for (other_list, other) in &all {
                    let same = object(one, &[]).is_same(&object(other, &[]));
                    assert_eq!(same, list == other_list, "{one} {other}");
                }
            }
        }

        /// Servers that the environment names, as the clients of stores read it.
        #[test]
        fn endpoints_are_those_of_the_clients() {
            let minio = "http://localhost:9000";
            let azurite = "http://localhost:10000/devstoreaccount1/c/k";
            for (settings, stored, requested, same) in [
                (
                    &[("AWS_ENDPOINT_URL_S3", minio)][..],
                    "s3://b/k",
                    "http://127.0.0.1:9000/b/k",
                    true,
                ),
                (
                    &[("AWS_ENDPOINT_URL", minio)],
                    "s3://b/k",
                    "http://[::1]:9000/b/k",
                    true,
                ),
                (
                    &[("AWS_ENDPOINT", minio)],
                    "s3://b/k",
                    "http://localhost:9000/b/k",
                    true,
                ),
                (
                    &[("AWS_endpoint", minio)],
                    "s3://b/k",
                    "http://localhost:9000/b/k",
                    true,
                ),
                (
                    &[("ENDPOINT", minio)],
                    "s3://b/k",
                    "http://localhost:9000/b/k",
                    false,
                ),
                (
                    &[
                        ("AWS_ENDPOINT_URL_S3", "https://h/"),
                        ("AWS_ENDPOINT_URL", minio),
                    ],
                    "s3://b/k",
                    "https://H:443/b/k",
                    true,
                ),
                (
                    &[("AWS_ENDPOINT_URL", "https://h/s3/")],
                    "s3://b/k",
                    "https://h/s3/b/k",
                    true,
                ),
                (
                    &[
                        ("AWS_ENDPOINT_URL", "https://b.h"),
                        ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "True"),
                    ],
                    "s3://b/k",
                    "https://b.h/k",
                    true,
                ),
                (
                    &[("AWS_ENDPOINT_URL", "https://storage.googleapis.com")],
                    "s3://b/k",
                    "gs://b/k",
                    true,
                ),
                (
                    &[("AWS_ENDPOINT_URL", minio)],
                    "s3://b/k",
                    "https://b.s3.amazonaws.com/k",
                    false,
                ),
                (
                    &[("GOOGLE_BASE_URL", "https://h:4443")],
                    "gs://b/k",
                    "https://h:4443/b/k",
                    true,
                ),
                (
                    &[("AZURE_ENDPOINT", "https://h/")],
                    "az://c/k",
                    "https://h/c/k",
                    true,
                ),
                (
                    &[("AZURE_STORAGE_ENDPOINT", "https://h/")],
                    "abfs://c@a/k",
                    "https://h/c/k",
                    true,
                ),
                (
                    &[("AZURE_STORAGE_USE_EMULATOR", "1")],
                    "az://c/k",
                    azurite,
                    true,
                ),
                (
                    &[("AZURE_STORAGE_ACCOUNT_NAME", "a")],
                    "az://c/k",
                    "https://a.blob.core.windows.net/c/k",
                    true,
                ),
                (
                    &[("AZURE_STORAGE_ACCOUNT_NAME", "a")],
                    "az://c/k",
                    "https://b.blob.core.windows.net/c/k",
                    false,
                ),
                (&[], "az://c/k", "https://b.blob.core.windows.net/c/k", true),
            ] {
                let found = object(stored, settings).is_same(&object(requested, settings));
                assert_eq!(found, same, "{settings:?} {stored} {requested}");
            }
        }

        #[test]
        fn directories_and_patterns_are_of_the_object_too() {
            let settings = [("AWS_ENDPOINT_URL", "https://h/s3")];
            for (input, output, among) in [
                ("s3://b/d", "s3a://b/d/new.csv", true),
                ("s3://b/d/*.csv", "s3://b/d/new.csv", true),
                ("s3://b/d", "s3://b/e/new.csv", false),
                ("https://h/s3/b/d", "s3://b/d/new.csv", false),
            ] {
                let found = object(input, &settings).would_find(&object(output, &settings));
                assert_eq!(found, among, "{input} {output}");
            }
            let settings = [("AZURE_STORAGE_ACCOUNT_NAME", "a")];
            for (input, output, among) in [
                (
                    "az://c/d",
                    "abfss://c@a.dfs.core.windows.net/d/new.csv",
                    true,
                ),
                (
                    "abfs://c@a.dfs.core.windows.net/d/*",
                    "az://c/d/new.csv",
                    true,
                ),
                (
                    "abfs://c@b.dfs.core.windows.net/d/*",
                    "az://c/d/new.csv",
                    false,
                ),
            ] {
                let found = object(input, &settings).would_find(&object(output, &settings));
                assert_eq!(found, among, "{input} {output}");
            }
        }
    }
}
