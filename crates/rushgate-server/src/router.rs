//! Router: finds the page or route of a request by path, then by method.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use rushgate::store::normalized;

use crate::app::App;
use crate::body::{self, Body};
use crate::call::{self, PathParams};
use crate::limits::Peer;
use crate::pages::{self, File};
use crate::problem::{Code, Problem};
use crate::route::{Route, mark};
use crate::table;

/// All paths.
pub(crate) struct Router {
    paths: matchit::Router<Place>,
    app: Arc<App>,
}

/// What a path serves.
enum Place {
    Page(File),
    Routes(Vec<Route>),
}

impl Router {
    /// Adds every path of the table, and the pages. Panics if two paths conflict; every test would fail then.
    pub fn new(app: Arc<App>) -> Self {
        let mut places: BTreeMap<String, Place> =
            pages::all().map(|(path, file)| (path, Place::Page(file))).collect();
        for route in table::routes() {
            match places.entry(route.path.to_owned()).or_insert_with(|| Place::Routes(Vec::new())) {
                Place::Routes(routes) => routes.push(route),
                Place::Page(_) => unreachable!("{} is a page", route.path),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, place) in places {
            paths.insert(path, place).expect("the paths of the table are distinct");
        }
        Self { paths, app }
    }

    /// Answers one request.
    pub async fn answer(&self, peer: Peer, request: Request<Incoming>) -> Response<Body> {
        let (head, mut body) = request.into_parts();
        let origin = head.headers.get(header::ORIGIN).cloned();
        let sends_when_asked = head.headers.contains_key(header::EXPECT);
        let found = self.place(&head);
        // If the head is ambiguous, the start of the body is too.
        let is_unclear = found.as_ref().is_err_and(|problem| problem.code() == Code::BadRequest);
        let mut response = match found {
            Ok((Place::Page(file), _)) => show(*file, &head),
            Ok((Place::Routes(routes), params)) => {
                let origins = &self.app.origins;
                match origins.preflight(&head.method, &head.headers, || allowed(routes)) {
                    Some(response) => response,
                    None => match chosen(routes, params, &head.method) {
                        Ok((route, params)) => route.answer(&self.app, params, peer, head, &mut body).await,
                        Err(problem) => problem.into_response(),
                    },
                }
            }
            Err(problem) if problem.code() == Code::NotFound && is_opened_in_a_browser(&head) => {
                pages::not_found()
            }
            Err(problem) => problem.into_response(),
        };
        // A request refused early still has its body to come. Unread, it would reset the connection before
        // the client has the answer.
        let is_late = response.status() == StatusCode::REQUEST_TIMEOUT;
        if is_late || is_unclear || !body::is_drained(&mut body, sends_when_asked).await {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.app.origins.mark(origin, &mut response);
        mark(&mut response);
        response
    }

    /// Finds the place for a path, with its decoded parameters.
    fn place(&self, head: &Parts) -> Result<(&Place, Option<PathParams>), Problem> {
        call::check_head(&head.uri, &head.headers)?;
        let found = self
            .paths
            .at(head.uri.path())
            .map_err(|_| Problem::new(Code::NotFound, "no such route; see /openapi.json"))?;
        let read = |(place, value)| {
            let value = percent_decode_str(value).decode_utf8().ok()?;
            // Scopes are compared with this text, so it must be the normalized name that the store sees.
            Some((String::from(place), normalized(&value).into_owned()))
        };
        let params: Option<Vec<_>> = found.params.iter().map(read).collect();
        Ok((found.value, params.map(PathParams)))
    }
}

/// The route for a method, and the parameters of its path.
fn chosen<'a>(
    routes: &'a [Route],
    params: Option<PathParams>,
    method: &Method,
) -> Result<(&'a Route, PathParams), Problem> {
    let params =
        params.ok_or_else(|| Problem::new(Code::BadPath, "the percent-decoded path is not UTF-8"))?;
    // hyper omits the body of an answer to HEAD.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let route = routes.iter().find(|route| route.method == *method);
    let route = route.ok_or_else(|| Problem::plain(Code::MethodNotAllowed).allow(allowed(routes)))?;
    Ok((route, params))
}

/// True for a URL that a person opened in a browser: it asks for HTML, and is not of the API.
fn is_opened_in_a_browser(head: &Parts) -> bool {
    let mut accepted = head.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    head.method == Method::GET
        && !head.uri.path().starts_with("/v1/")
        && accepted.any(|media| media.contains("text/html"))
}

fn show(file: File, head: &Parts) -> Response<Body> {
    match head.method {
        Method::GET | Method::HEAD => pages::show(file, &head.headers),
        _ => Problem::plain(Code::MethodNotAllowed)
            .allow(HeaderValue::from_static("GET, HEAD"))
            .into_response(),
    }
}

fn allowed(routes: &[Route]) -> HeaderValue {
    let mut methods: Vec<_> = routes.iter().map(|route| route.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    HeaderValue::from_str(&methods.join(", ")).unwrap_or(HeaderValue::from_static("GET"))
}
