//! Pages for operators and buyers: files in the binary, which load data through this server's API only.

use crate::body::Body;
use hyper::http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::conditional::{self, IfNoneMatch};

/// A page runs only its own scripts and connects only to its own server. It shows stored content as text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The shop page also shows pictures of the sale's metadata, which may be on other servers.
const SHOP_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// RapiDoc, which shows the API reference, sets `style` attributes.
const REFERENCE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// One file of the pages.
#[derive(Clone, Copy)]
pub(crate) struct File {
    name: &'static str,
    media: &'static str,
    content: &'static [u8],
}

macro_rules! file {
    ($name:literal, $media:expr) => {
        File { name: $name, media: $media, content: include_bytes!(concat!("../page/", $name)) }
    };
}

impl File {
    /// A large vendored file is compressed. Every browser can read it.
    fn is_gzip(self) -> bool {
        self.name.ends_with(".gz")
    }

    fn policy(self) -> &'static str {
        match self.name {
            "shop.html" => SHOP_POLICY,
            "reference.html" => REFERENCE_POLICY,
            _ => POLICY,
        }
    }
}

const LIVE: File = file!("live.html", HTML);
const SHOP: File = file!("shop.html", HTML);
const REFERENCE: File = file!("reference.html", HTML);

/// Files that the pages load.
const FILES: &[File] = &[
    file!("icon.svg", "image/svg+xml"),
    file!("page.css", STYLE),
    file!("console.css", STYLE),
    file!("shop.css", STYLE),
    file!("reference.css", STYLE),
    file!("common.js", SCRIPT),
    file!("words.js", SCRIPT),
    file!("words-zh.js", SCRIPT),
    file!("router.js", SCRIPT),
    file!("state.js", SCRIPT),
    file!("parts.js", SCRIPT),
    file!("dialogs.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("answers.js", SCRIPT),
    file!("live.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("sales.js", SCRIPT),
    file!("sale.js", SCRIPT),
    file!("verbs.js", SCRIPT),
    file!("drop.js", SCRIPT),
    file!("queues.js", SCRIPT),
    file!("queue.js", SCRIPT),
    file!("tasks.js", SCRIPT),
    file!("task.js", SCRIPT),
    file!("json.js", SCRIPT),
    file!("locks.js", SCRIPT),
    file!("log.js", SCRIPT),
    file!("keys.js", SCRIPT),
    file!("shop.js", SCRIPT),
    file!("shop-page.js", SCRIPT),
    file!("demo-payment.js", SCRIPT),
    file!("embed.js", SCRIPT),
    file!("reference.js", SCRIPT),
    file!("vendor/preact.js", SCRIPT),
    file!("vendor/uPlot.iife.min.js", SCRIPT),
    file!("vendor/uPlot.min.css", STYLE),
    file!("vendor/rapidoc-min.js.gz", SCRIPT),
];

/// All files with their paths: the screens of the operator console, the shop page of each sale at `/shop/{sale}`, the
/// API reference at `/docs`, and the files that they load. `router.js` says which screen a path shows.
pub(crate) fn all() -> impl Iterator<Item = (String, File)> {
    let screens = [
        "/", "/sales", "/sales/{*screen}", "/queues", "/queues/{*screen}", "/locks", "/locks/{*screen}",
        "/log",
    ];
    let pages =
        screens.map(|path| (path, LIVE)).into_iter().chain([("/shop/{sale}", SHOP), ("/docs", REFERENCE)]);
    let pages = pages.map(|(path, file)| (path.to_owned(), file));
    pages.chain(FILES.iter().map(|file| (format!("/page/{}", file.name), *file)))
}

/// Serves the file, or 304 if the browser has it.
pub(crate) fn show(file: File, headers: &HeaderMap) -> Response<Body> {
    let tag = conditional::tag(file.content);
    let has_it = IfNoneMatch::of(headers).has(&tag);
    let mut response = Response::new(if has_it { Body::empty() } else { Body::from(file.content) });
    if has_it {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, file.media),
        (header::CONTENT_SECURITY_POLICY, file.policy()),
        (header::REFERRER_POLICY, "no-referrer"),
        // Browsers revalidate the file on each load.
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if file.is_gzip() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

/// The console, which shows that it has no such screen.
pub(crate) fn not_found() -> Response<Body> {
    let mut response = show(LIVE, &HeaderMap::new());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().remove(header::ETAG);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own files, with their text.
    fn own() -> impl Iterator<Item = (File, &'static str)> {
        let files =
            FILES.iter().chain(&[LIVE, SHOP, REFERENCE]).filter(|file| !file.name.starts_with("vendor/"));
        files.map(|file| (*file, std::str::from_utf8(file.content).unwrap()))
    }

    #[test]
    fn pages_load_nothing_from_elsewhere_and_only_what_there_is() {
        for (page, content) in own().filter(|(file, _)| file.media == HTML) {
            let loaded = content.split(['"', '\'']).filter(|part| part.starts_with("/page/"));
            for path in loaded {
                let name = path.trim_start_matches("/page/");
                assert!(FILES.iter().any(|file| file.name == name), "{}: {path}", page.name);
            }
        }
        for (file, content) in own() {
            let names_another = content.replace("http://www.w3.org/2000/svg", "").contains("://");
            assert!(!names_another, "{} names another server", file.name);
            for forbidden in [
                "innerHTML",
                "insertAdjacentHTML",
                "dangerouslySetInnerHTML",
                "eval(",
                "onclick=",
                " style=\"",
            ] {
                assert!(!content.contains(forbidden), "{} has {forbidden}", file.name);
            }
        }
    }

    #[test]
    fn every_word_of_the_pages_is_there_in_both_languages() {
        let keys = |name: &str| {
            let (_, text) = own().find(|(file, _)| file.name == name).unwrap();
            let words = text.lines().filter(|line| line.starts_with("  "));
            let lines = words.filter_map(|line| line.trim().split_once(": ").map(|(key, _)| key.to_owned()));
            lines.collect::<std::collections::BTreeSet<_>>()
        };
        let english = keys("words.js");
        assert!(english.len() > 30, "{}", english.len());
        assert_eq!(english, keys("words-zh.js"));
        for (file, content) in own() {
            // `t('word')` in a script, and not the end of another name such as `split('`.
            let calls = content.match_indices("t('").filter(|(at, _)| {
                !content[..*at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '.')
            });
            let said = calls.map(|(at, _)| &content[at + 3..]).filter_map(|rest| rest.split('\'').next());
            // `word="word"` of a component.
            let given = content.split(" word=\"").skip(1).filter_map(|rest| rest.split('"').next());
            for word in given.chain(said) {
                assert!(english.contains(word), "{}: {word}", file.name);
            }
        }
    }
}
