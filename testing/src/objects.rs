//! A server of objects on the loopback interface: as much of S3 and of HTTP as tests ask for, and whatever an answer can
//! have wrong with it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// With the slash that it begins with.
    pub path: String,
    /// What comes after a question mark.
    pub query: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// All of it.
    pub body: Vec<u8>,
}

impl Request {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self
            .query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .find(|pair| pair.0 == name)
            .map(|pair| decoded(pair.1))
    }

    /// The bytes that are asked for, and the one after them.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (start, end) = self
            .headers
            .get("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((start.parse().ok()?, end.parse::<usize>().ok()? + 1))
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// What is sent back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Such as 200.
    pub status: u16,
    /// Besides the length, unless that is among them.
    pub headers: Vec<(String, String)>,
    /// Once.
    pub body: Vec<u8>,
    /// The body again and again, for as long as the connection lasts.
    pub is_endless: bool,
    /// Between two bytes of the body.
    pub pause: Option<Duration>,
}

impl Answer {
    /// An answer of a status and a body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: body.into(),
            is_endless: false,
            pause: None,
        }
    }

    /// With a header.
    pub fn header(mut self, name: &str, value: impl ToString) -> Answer {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// With a body that does not end.
    pub fn endless(mut self) -> Answer {
        self.is_endless = true;
        self
    }

    /// With a pause between two bytes of the body.
    pub fn slow(mut self, pause: Duration) -> Answer {
        self.pause = Some(pause);
        self
    }

    /// An error of S3.
    pub fn error(status: u16, code: &str) -> Answer {
        Answer::new(status, format!("<Error><Code>{code}</Code></Error>"))
    }
}

type Hook = Box<dyn FnMut(&Request) -> Option<Answer> + Send>;

#[derive(Default)]
struct State {
    /// By path, with how often each was written before.
    objects: BTreeMap<String, (Vec<u8>, usize)>,
    uploads: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    begun: usize,
    requests: Vec<Request>,
    hook: Option<Hook>,
}

/// A server while it is not dropped. Objects are `/bucket/key`; parts of them are given where they are asked for.
pub struct ObjectServer {
    address: String,
    state: Arc<Mutex<State>>,
}

impl ObjectServer {
    /// Starts a server without objects, with the bucket `b`.
    pub fn start() -> ObjectServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::downgrade(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else {
                    return;
                };
                std::thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        ObjectServer { address, state }
    }

    /// Its address, `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The settings with which clients of S3 find it.
    pub fn settings(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        let settings = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test-key-of-nobody"),
            ("AWS_SECRET_ACCESS_KEY", "test-secret-of-nobody"),
        ];
        let owned = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        owned.to_vec()
    }

    /// Writes an object, as somebody else may.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        put(&mut self.state.lock().unwrap(), path, bytes.into());
    }

    /// An object as it is.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        state.objects.get(path).map(|object| object.0.clone())
    }

    /// How many uploads have been begun and are neither complete nor aborted.
    pub fn uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }

    /// What was asked for since this was last called.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Asks `hook` for answers first.
    pub fn answer(&self, hook: impl FnMut(&Request) -> Option<Answer> + Send + 'static) {
        self.state.lock().unwrap().hook = Some(Box::new(hook));
    }
}

fn put(state: &mut State, path: &str, bytes: Vec<u8>) {
    let before = state.objects.get(path).map_or(0, |object| object.1 + 1);
    state.objects.insert(path.to_owned(), (bytes, before));
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut out, mut input) = (stream.try_clone()?, BufReader::new(stream));
    while let Some(request) = read_request(&mut input)? {
        let answer = {
            let mut state = state.lock().unwrap();
            state.requests.push(request.clone());
            let hook = state.hook.as_mut();
            match hook.and_then(|hook| hook(&request)) {
                Some(answer) => answer,
                None => usual(&mut state, &request),
            }
        };
        let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let has = |wanted: &str| {
            answer
                .headers
                .iter()
                .any(|h| h.0.eq_ignore_ascii_case(wanted))
        };
        let says_length = has("content-length") || has("transfer-encoding") || answer.is_endless;
        if !says_length {
            head.push_str(&format!("content-length: {}\r\n", answer.body.len()));
        }
        head.push_str("\r\n");
        out.write_all(head.as_bytes())?;
        if request.method != "HEAD" {
            for byte in answer.body.iter().filter(|_| answer.pause.is_some()) {
                out.write_all(&[*byte])?;
                std::thread::sleep(answer.pause.unwrap_or_default());
            }
            if answer.pause.is_none() {
                out.write_all(&answer.body)?;
            }
            if answer.is_endless {
                loop {
                    out.write_all(&answer.body)?;
                }
            }
        }
        out.flush()?;
        if has("content-length") && request.method != "HEAD" {
            return Ok(()); // it may not be the right one
        }
    }
    Ok(())
}

fn read_request(input: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (decoded(path), query.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(Request {
        method,
        path,
        query,
        headers,
        body,
    }))
}

/// What an honest server answers.
fn usual(state: &mut State, request: &Request) -> Answer {
    let has = |name: &str| request.parameter(name).is_some();
    let upload = request.parameter("uploadId");
    if request.path != "/b" && !request.path.starts_with("/b/") {
        return Answer::error(404, "NoSuchBucket");
    }
    match (request.method.as_str(), upload) {
        ("GET" | "HEAD", None) if has("list-type") => list(state, request),
        ("GET" | "HEAD", None) => object(state, request),
        ("POST", None) if has("uploads") => {
            state.begun += 1;
            let id = state.begun.to_string();
            let xml = format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            state.uploads.insert(id, BTreeMap::new());
            Answer::new(200, xml)
        }
        ("PUT", Some(id)) => {
            let part = request.parameter("partNumber").unwrap().parse().unwrap();
            match state.uploads.get_mut(&id) {
                Some(parts) => {
                    parts.insert(part, request.body.clone());
                    Answer::new(200, "").header("ETag", format!("\"part{part}\""))
                }
                None => Answer::error(404, "NoSuchUpload"),
            }
        }
        ("POST", Some(id)) => match state.uploads.remove(&id) {
            Some(parts) => {
                let whole = parts.into_values().collect::<Vec<_>>().concat();
                put(state, &request.path, whole);
                Answer::new(
                    200,
                    "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>",
                )
            }
            None => Answer::error(404, "NoSuchUpload"),
        },
        ("DELETE", Some(id)) => {
            state.uploads.remove(&id);
            Answer::new(204, "")
        }
        _ => Answer::error(405, "MethodNotAllowed"),
    }
}

fn object(state: &State, request: &Request) -> Answer {
    let Some((bytes, version)) = state.objects.get(&request.path) else {
        return Answer::error(404, "NoSuchKey");
    };
    let answer = |status, bytes: &[u8]| {
        Answer::new(status, bytes)
            .header("ETag", format!("\"{version}\""))
            .header("Last-Modified", "Wed, 25 Nov 2026 10:00:00 GMT")
    };
    match request.range() {
        Some((start, _)) if start >= bytes.len() => Answer::error(416, "InvalidRange"),
        Some((start, end)) => {
            let end = end.min(bytes.len());
            let range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
            answer(206, &bytes[start..end]).header("Content-Range", range)
        }
        None => answer(200, bytes),
    }
}

fn list(state: &State, request: &Request) -> Answer {
    let prefix = request.parameter("prefix").unwrap_or_default();
    let token = request.parameter("continuation-token").unwrap_or_default();
    let most = request
        .parameter("max-keys")
        .map_or(1000, |most| most.parse().unwrap());
    let bucket = format!("{}/", request.path.trim_end_matches('/'));
    let (mut contents, mut prefixes, mut next) = (String::new(), Vec::new(), String::new());
    let keys = state
        .objects
        .iter()
        .filter_map(|(path, object)| Some((path.strip_prefix(&bucket)?, object)));
    let mut count = 0;
    for (key, (bytes, version)) in
        keys.filter(|(key, _)| key.starts_with(&prefix) && **key > *token)
    {
        if count == most {
            break;
        }
        let below = key[prefix.len()..]
            .split_once('/')
            .map(|(name, _)| format!("{prefix}{name}/"));
        match below.filter(|_| request.parameter("delimiter").is_some()) {
            Some(below) if prefixes.contains(&below) => {}
            Some(below) => prefixes.push(below),
            None => contents.push_str(&format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-25T10:00:00.000Z</LastModified><ETag>\"{version}\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            )),
        }
        count += 1;
        next = key.to_owned();
    }
    let is_cut = count == most;
    let next = match is_cut {
        true => format!("<NextContinuationToken>{next}</NextContinuationToken>"),
        false => String::new(),
    };
    let prefixes = prefixes
        .iter()
        .map(|p| format!("<CommonPrefixes><Prefix>{p}</Prefix></CommonPrefixes>"));
    let prefixes: String = prefixes.collect();
    Answer::new(
        200,
        format!(
            "<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>{next}{contents}{prefixes}</ListBucketResult>"
        ),
    )
}
