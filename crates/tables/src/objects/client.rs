//! How servers are asked: over TLS with the certificates of the machine, with bounded answers, and without a word of a
//! query or an answer in what errors say.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{LOCATION, RANGE};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt;

use super::limits::Limits;
use crate::error::Problem;

/// How often an HTTPS server may send us on.
const MAX_REDIRECTS: usize = 5;

/// Bytes that an answer other than of an object may have: a page of a listing has a thousand names of a kilobyte.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Bytes of a request that are sent before a server has to say a word.
const SENT_IN_SILENCE: u64 = 64 << 10;

/// Bytes of a refusal that are looked at.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// What the last answers of a server say about an error, which the store's own error may not.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    failure: Mutex<Option<Problem>>,
    ignores_ranges: AtomicBool,
}

impl Facts {
    fn note(&self, problem: Problem) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }

    /// Why the last request failed that did.
    pub(crate) fn failure(&self) -> Option<Problem> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the server sends all of an object where a part is asked for.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.ignores_ranges.load(Ordering::Relaxed)
    }
}

/// Makes the clients of a store.
#[derive(Debug)]
pub(crate) struct Connector {
    /// The address of an HTTPS server's object, asked for as it was given.
    pub(crate) verbatim: Option<Verbatim>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) limits: Limits,
}

/// An address that may be signed.
#[derive(Clone)]
pub(crate) struct Verbatim(pub(crate) reqwest::Url);

impl std::fmt::Debug for Verbatim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verbatim")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow = options.get_config_value(&ClientConfigKey::AllowHttp);
        let is_plain = match &self.verbatim {
            Some(Verbatim(url)) => url.scheme() == "http",
            None => allow.as_deref() == Some("true"),
        };
        let tls = tls();
        let redirect = || match self.verbatim.is_some() {
            true => Policy::custom(move |attempt| {
                let is_as_safe =
                    attempt.url().scheme() == "https" || is_plain && is_here(attempt.url());
                match attempt.previous().len() <= MAX_REDIRECTS && is_as_safe {
                    true => attempt.follow(),
                    false => attempt.error(Redirected),
                }
            }),
            // A store that sends a signed request elsewhere is not followed.
            false => Policy::none(),
        };
        let client = |silence: Option<Duration>| {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .https_only(!is_plain)
                .redirect(redirect())
                // The address may be signed, and is nobody's business that we are sent to.
                .referer(false)
                .connect_timeout(self.limits.connect)
                .user_agent(concat!("vesica/", env!("CARGO_PKG_VERSION")));
            // What is for this machine or its cloud alone, and without TLS, is nothing for a proxy.
            let builder = if is_plain {
                builder.no_proxy()
            } else {
                builder
            };
            let builder = match silence {
                Some(silence) => builder.read_timeout(silence),
                None => builder,
            };
            builder.build().map_err(|e| object_store::Error::Generic {
                store: "client",
                source: Box::new(e.without_url()),
            })
        };
        Ok(HttpClient::new(Service {
            client: client(Some(self.limits.silence))?,
            sender: client(None)?,
            verbatim: self.verbatim.clone(),
            facts: self.facts.clone(),
            limits: self.limits,
        }))
    }
}

fn is_here(url: &reqwest::Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// TLS with the certificates that the machine trusts; with none if it has none.
fn tls() -> rustls::ClientConfig {
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the cipher suites of TLS 1.2 and 1.3")
    };
    match builder().with_platform_verifier() {
        Ok(trusting) => trusting.with_no_client_auth(),
        Err(_) => builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth(),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("redirected too often, or away from TLS")]
struct Redirected;

/// Asks servers, and keeps what they say within bounds.
#[derive(Debug)]
struct Service {
    client: reqwest::Client,
    /// For parts, which a server may be silent about for as long as it takes them.
    sender: reqwest::Client,
    verbatim: Option<Verbatim>,
    facts: Arc<Facts>,
    limits: Limits,
}

impl Service {
    fn note(&self, is_metadata: bool, problem: Problem) {
        self.facts.note(match is_metadata {
            true => Problem::NoCredentials,
            false => problem,
        });
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = match &self.verbatim {
            Some(Verbatim(url)) => url.clone(),
            None => parts.uri.to_string().parse().map_err(|_| malformed())?,
        };
        let is_metadata = is_metadata(&url);
        let bytes = body.content_length() as u64;
        let range = asked(&parts.headers);
        let mut asked = reqwest::Request::new(parts.method, url);
        *asked.headers_mut() = parts.headers;
        *asked.body_mut() = Some(reqwest::Body::wrap(body));
        let answer = match bytes > SENT_IN_SILENCE {
            false => self.client.execute(asked).await.map_err(|e| transport(&e)),
            true => {
                match tokio::time::timeout(self.limits.for_bytes(bytes), self.sender.execute(asked))
                    .await
                {
                    Ok(answer) => answer.map_err(|e| transport(&e)),
                    Err(_) => Err((HttpErrorKind::Timeout, Problem::TimedOut)),
                }
            }
        };
        let answer = answer.map_err(|(kind, problem)| {
            self.note(is_metadata, problem.clone());
            HttpError::new(kind, problem)
        })?;
        let answer: http::Response<reqwest::Body> = answer.into();
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = Limited::new(body, MAX_REFUSAL_BYTES).collect();
            let body = tokio::time::timeout(self.limits.answer, body).await;
            let body = body.ok().and_then(|body| Some(body.ok()?.to_bytes()));
            let body = body.unwrap_or_default();
            self.note(is_metadata, refusal(parts.status, &parts.headers, &body));
            let body = HttpResponseBody::new(Full::new(body).map_err(|never| match never {}));
            return Ok(HttpResponse::from_parts(parts, body));
        }
        if range.is_some() && parts.status != StatusCode::PARTIAL_CONTENT {
            self.facts.ignores_ranges.store(true, Ordering::Relaxed);
        }
        let most = match (range, parts.status) {
            (Some(bytes), StatusCode::PARTIAL_CONTENT) => bytes,
            // Read as it comes, to the length that it says.
            _ if self.verbatim.is_some() => usize::MAX,
            _ => MAX_ANSWER_BYTES,
        };
        let facts = self.facts.clone();
        let body = Limited::new(body, most).map_err(move |e| {
            let (kind, problem) = match e.downcast::<reqwest::Error>() {
                Ok(e) => transport(&e),
                Err(_) => (HttpErrorKind::Decode, Problem::TooLong),
            };
            facts.note(problem.clone());
            HttpError::new(kind, problem)
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

fn malformed() -> HttpError {
    HttpError::new(HttpErrorKind::Decode, Problem::Malformed)
}

/// Whether a machine of a cloud is asked for credentials.
fn is_metadata(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    matches!(
        host,
        "169.254.169.254" | "169.254.170.2" | "metadata.google.internal" | "metadata"
    )
}

/// Bytes that a request asks for, if for a part.
fn asked(headers: &HeaderMap) -> Option<usize> {
    let range = headers.get(RANGE)?.to_str().ok()?;
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    usize::try_from(end.checked_sub(start)?.checked_add(1)?).ok()
}

/// What a failed request or a broken answer is. Of an error only its last cause is told, which names no address.
fn transport(e: &reqwest::Error) -> (HttpErrorKind, Problem) {
    let mut causes = vec![];
    let mut cause = e.source();
    while let Some(deeper) = cause {
        causes.push(deeper);
        cause = deeper.source();
    }
    let is = |kinds: &[std::io::ErrorKind]| {
        let mut io = causes
            .iter()
            .filter_map(|c| c.downcast_ref::<std::io::Error>());
        io.any(|e| kinds.contains(&e.kind()))
    };
    use std::io::ErrorKind as K;
    if e.is_redirect() || causes.iter().any(|cause| cause.is::<Redirected>()) {
        return (HttpErrorKind::Unknown, Problem::Redirects);
    }
    if e.is_timeout() || is(&[K::TimedOut]) {
        return (HttpErrorKind::Timeout, Problem::TimedOut);
    }
    let last = causes.last().map_or("no answer".to_owned(), |cause| {
        let line = cause.to_string();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let last: String = last.chars().take(200).collect();
    let is_tls = causes.iter().any(|cause| cause.is::<rustls::Error>());
    match (e.is_connect(), e.is_body() || e.is_decode()) {
        // The next attempt would meet the same certificate.
        (true, _) if is_tls => (HttpErrorKind::Unknown, Problem::Unreachable(last)),
        (true, _) => (HttpErrorKind::Connect, Problem::Unreachable(last)),
        (_, true) => (HttpErrorKind::Interrupted, Problem::Short),
        _ => (HttpErrorKind::Interrupted, Problem::Unreachable(last)),
    }
}

/// What a refusal says.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Problem {
    let code = code(headers, body);
    match (status, code.as_deref()) {
        (_, Some("NoSuchBucket" | "ContainerNotFound")) => Problem::NoBucket,
        (
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::BAD_REQUEST,
            Some("PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed"),
        ) => Problem::Region,
        (StatusCode::MOVED_PERMANENTLY, _) if !headers.contains_key(LOCATION) => Problem::Region,
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Problem::Missing,
        (StatusCode::PRECONDITION_FAILED, _) => Problem::Changed,
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Problem::Denied(code),
        _ if status.is_redirection() => Problem::Redirects,
        _ => Problem::Refused {
            status: status.as_u16(),
            code,
        },
    }
}

/// The code of an error in the XML of a store, such as `SlowDown`, or in Azure's header.
fn code(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let in_header = headers
        .get("x-ms-error-code")
        .and_then(|code| code.to_str().ok());
    let body = String::from_utf8_lossy(body);
    let in_body = || Some(body.split_once("<Code>")?.1.split_once("</Code>")?.0);
    let code = in_header.or_else(in_body)?;
    let is_word = code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_word && !code.is_empty()).then(|| code.to_owned())
}
