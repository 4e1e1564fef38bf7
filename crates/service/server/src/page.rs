//! The page: the static files of a directory, for people who use the service with a browser.
//!
//! All files are read when the service starts. A request looks a name up in that list and reads no disk: no path leads
//! out of the list, and files take no descriptors that keys need.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use unspoken_wire::ProblemCode;

use crate::authorization::{ConnectionAuthorization, PageUse};
use crate::error::ServerError;
use crate::refusal::Refusal;

/// The file that a directory is answered with.
const INDEX: &str = "index.html";

/// Most files of a page, and most bytes of all of them.
const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 64 << 20;

/// What an error calls it.
const WHAT: &str = "the page,";

/// Bytes of a file that are given to a connection at once.
const PIECE_BYTES: usize = 32 << 10;

/// First parts of paths that belong to the service.
const RESERVED: [&str; 5] = ["v1", "healthz", "readyz", "metrics", "openapi.json"];

/// Media types by the end of a file name.
const MEDIA: [(&str, &str); 13] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("woff2", "font/woff2"),
];

/// The policy of the page. `web/static/index.html` has it too, for servers that send no headers, without the last
/// directive, which browsers ignore there.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every response with a file, or about one.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), clipboard-write=(), display-capture=(), \
         encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), identity-credentials-get=(), \
         idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), \
         picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), storage-access=(), \
         usb=(), xr-spatial-tracking=()",
    ),
    // Stored, but used only after the service has said that it is still the same.
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "accept-encoding"),
];

/// The files of a page, by their path in the URL.
pub(crate) struct Page {
    files: HashMap<String, PageFile>,
    bytes: u64,
}

struct PageFile {
    media: &'static str,
    plain: Form,
    /// Compressed forms, the better one first, with their content codings.
    compressed: Vec<(&'static str, Form)>,
}

/// The bytes that are sent, and their entity tag.
struct Form {
    bytes: Bytes,
    tag: HeaderValue,
}

impl Page {
    /// Whether a directory has the file that every page has.
    pub(crate) fn is_in(dir: &Path) -> bool {
        dir.join(INDEX).is_file()
    }

    /// Reads all files of a directory and its subdirectories. Names that begin with a dot are left out, and so are
    /// links that lead out of the directory.
    pub(crate) fn load(dir: &Path) -> Result<Self, ServerError> {
        let root = canonical(dir)?;
        let (mut found, mut bytes) = (BTreeMap::new(), 0);
        let mut open = vec![(root.clone(), String::new())];
        while let Some((path, prefix)) = open.pop() {
            for entry in fs::read_dir(&path).map_err(ServerError::read(WHAT, &path))? {
                let entry = entry.map_err(ServerError::read(WHAT, &path))?;
                let path = entry.path();
                let name = entry.file_name().into_string().map_err(|_| ServerError::PageName { path: path.clone() })?;
                if name.starts_with('.') {
                    continue;
                }
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
                    return Err(ServerError::PageName { path });
                }
                if prefix.is_empty() && RESERVED.contains(&name.as_str()) {
                    return Err(ServerError::PagePath { path });
                }
                let kind = entry.file_type().map_err(ServerError::read(WHAT, &path))?;
                if kind.is_dir() {
                    open.push((path, format!("{prefix}{name}/")));
                    continue;
                }
                let Some(target) = regular_file_in(&root, &path)? else {
                    tracing::warn!(path = %path.display(), "left out of the page: no file of its directory");
                    continue;
                };
                let content = read_file(&target, MAX_BYTES - bytes)?;
                bytes += content.len() as u64;
                found.insert(format!("/{prefix}{name}"), content);
                if found.len() > MAX_FILES || open.len() > MAX_FILES {
                    return Err(ServerError::PageTooLarge { files: MAX_FILES, bytes: MAX_BYTES });
                }
            }
        }
        Ok(Self { files: with_compressed_forms(found), bytes })
    }

    /// Bytes of memory of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.file(path).is_some()
    }

    /// The file at the path of a URL. Only the very name is found: not with escapes, `..` or two slashes.
    fn file(&self, path: &str) -> Option<&PageFile> {
        match path.strip_suffix('/') {
            Some(directory) => self.files.get(&format!("{directory}/{INDEX}")),
            None => self.files.get(path),
        }
    }

    /// The response to a request for a path, if there is a file.
    pub(crate) fn respond(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        connection: &ConnectionAuthorization,
    ) -> Option<Response> {
        let file = self.file(path)?;
        let mut response = match *method {
            Method::GET | Method::HEAD => file.respond(method == Method::HEAD, headers, connection),
            _ => {
                let refusal =
                    Refusal::new(ProblemCode::MethodNotAllowed, "a file takes only GET and HEAD", "send one of these");
                ([(header::ALLOW, "GET,HEAD")], refusal).into_response()
            }
        };
        let all = HEADERS.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(all);
        Some(response)
    }
}

impl PageFile {
    fn respond(&self, head_only: bool, headers: &HeaderMap, connection: &ConnectionAuthorization) -> Response {
        let accepted = self.compressed.iter().find(|(coding, _)| accepts_coding(headers, coding));
        let form = accepted.map_or(&self.plain, |(_, form)| form);
        let mut response = match (is_current(headers, &form.tag), head_only) {
            (true, _) => StatusCode::NOT_MODIFIED.into_response(),
            (false, true) => Body::empty().into_response(),
            (false, false) => {
                Body::new(PageBody { rest: form.bytes.clone(), _sending: connection.use_page() }).into_response()
            }
        };
        let about = response.headers_mut();
        about.insert(header::ETAG, form.tag.clone());
        about.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
        if !is_current(headers, &form.tag) {
            about.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media));
            about.insert(header::CONTENT_LENGTH, form.bytes.len().into());
            if let Some((coding, _)) = accepted {
                about.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
            }
        }
        response
    }
}

fn canonical(path: &Path) -> Result<PathBuf, ServerError> {
    path.canonicalize().map_err(ServerError::read(WHAT, path))
}

/// Where a file is, after links are followed, if it is a regular file in the directory `root`.
fn regular_file_in(root: &Path, path: &Path) -> Result<Option<PathBuf>, ServerError> {
    let target = match canonical(path) {
        Err(ServerError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        target => target?,
    };
    let inside = target.starts_with(root) && target.is_file();
    Ok(inside.then_some(target))
}

/// Reads a file of at most `most` bytes.
fn read_file(path: &Path, most: u64) -> Result<Bytes, ServerError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(path)?.take(most + 1).read_to_end(&mut content)?;
        Ok(content)
    };
    let content = read().map_err(ServerError::read(WHAT, path))?;
    match content.len() as u64 > most {
        true => Err(ServerError::PageTooLarge { files: MAX_FILES, bytes: MAX_BYTES }),
        false => Ok(content.into()),
    }
}

/// Joins each file with its compressed forms, which have its name and an ending.
fn with_compressed_forms(found: BTreeMap<String, Bytes>) -> HashMap<String, PageFile> {
    const CODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];
    let is_form = |name: &str| {
        CODINGS.iter().any(|(_, ending)| name.strip_suffix(ending).is_some_and(|plain| found.contains_key(plain)))
    };
    let file = |name: &String, bytes: &Bytes| {
        let compressed = CODINGS.iter().filter_map(|(coding, ending)| {
            let bytes = found.get(&format!("{name}{ending}"))?;
            Some((*coding, Form::new(bytes)))
        });
        PageFile { media: media_type(name), plain: Form::new(bytes), compressed: compressed.collect() }
    };
    let files = found.iter().filter(|(name, _)| !is_form(name));
    files.map(|(name, bytes)| (name.clone(), file(name, bytes))).collect()
}

impl Form {
    fn new(bytes: &Bytes) -> Self {
        let hash = blake3::hash(bytes).to_hex();
        // Hexadecimal digits are valid in a header.
        let tag = HeaderValue::from_str(&format!("\"{}\"", &hash[..32]));
        Self { bytes: bytes.clone(), tag: tag.unwrap_or(HeaderValue::from_static("\"\"")) }
    }
}

fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    MEDIA.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, media)| media)
}

/// Whether `Accept-Encoding` names a coding, and not with a quality of 0.
fn accepts_coding(headers: &HeaderMap, coding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        named && quality.is_none_or(|text| text.parse::<f32>().is_ok_and(|quality| quality > 0.0))
    })
}

/// Whether `If-None-Match` has this entity tag: the client has the bytes already.
fn is_current(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
}

/// The bytes of a file, piece by piece, so that the end of the body is near the end of the sending.
struct PageBody {
    rest: Bytes,
    _sending: PageUse,
}

impl http_body::Body for PageBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of this repository, wherever it is served from, and the headers that its guide names.
    #[test]
    fn the_page_brings_its_policy_and_the_guide_has_the_headers() {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = one_line(include_str!("../../../../web/static/index.html"));
        let policy = POLICY.strip_suffix("; frame-ancestors 'none'").unwrap();
        let meta = format!(r#"<meta http-equiv="Content-Security-Policy" content="{policy}" />"#);
        let at = page.find(&meta).expect("the page has the policy");
        assert!(at < page.find("<script").unwrap() && at < page.find("<link").unwrap());
        let guide = one_line(include_str!("../../../../web/README.md"));
        assert!(guide.contains(&format!("Content-Security-Policy: {POLICY}")));
    }
}
