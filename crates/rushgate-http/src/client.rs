//! Routes of a server that are no verbs of a store.

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use rushgate_core::{Effect, Error, IdempotencyKey, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::Api;
use crate::url::Address;

/// A client of the routes of a server. Its errors are those of [`HttpStore`](crate::HttpStore).
pub struct Client(Api);

impl Client {
    /// A client of the server at `http[s]://[TOKEN@]HOST[:PORT][/PATH]`. Without a token in the URL, the variable
    /// `RUSHGATE_TOKEN` may have one.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for an unusable URL or token.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self(Api::new(Address::of(url)?)?))
    }

    /// Reads `path`, such as `/v1/tokens`.
    ///
    /// # Errors
    /// The server refused the request or could not be reached.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(self.0.ask(Method::GET, path, Bytes::new(), Effect::Read).await?)
    }

    /// Sends a request that takes effect each time it is sent. It is repeated only if the server refused it for the
    /// moment.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`may_have_happened`](Error::may_have_happened) if the answer was lost.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        read(self.0.ask(Method::POST, path, Bytes::from(body.to_string()), Effect::Write).await?)
    }

    /// Sends one request and returns the answer, whatever its status. It is not repeated.
    ///
    /// # Errors
    /// The server could not be reached; [`may_have_happened`](Error::may_have_happened) if the answer was lost.
    pub async fn try_post(
        &self,
        path: &str,
        key: Option<&IdempotencyKey>,
        body: &Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes)> {
        self.0.exchange(&Method::POST, path, key, body).await
    }

    /// A client of the same server with a connection pool of its own.
    pub fn another(&self) -> Self {
        Self(self.0.another())
    }

    /// Deletes what `path` names.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(self.0.ask(Method::DELETE, path, Bytes::new(), Effect::Write).await?)
    }
}

fn read<T: DeserializeOwned>(json: Value) -> Result<T> {
    serde_json::from_value(json)
        .map_err(|error| Error::bug("cannot read an answer of the server").caused_by(error))
}
