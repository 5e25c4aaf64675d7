//! Rushgate over HTTP: locks, queues and sales for every language.
//!
//! A [`Server`] exposes one [`Rushgate`](rushgate::Rushgate) client over HTTP. It contains no logic of locks,
//! queues or sales: each route parses its request, calls the client's method of the same name and returns the
//! outcome. The router, the OpenAPI description and the authorization tests are all generated from one table
//! of routes.
//!
//! - Answers are JSON; refusals and errors are problem+json (RFC 9457) with a stable [`Code`].
//! - With `Prefer: wait=SECONDS`, a request waits for a lock, a task or an order without polling. If the
//!   client disconnects, nothing is left behind: no waiter, no lock, no claimed task.
//! - `Idempotency-Key` makes retries safe.
//! - Bearer tokens have a [`Role`] and [`Scope`]s. A [`TokenFile`] stores their hashes.
//!
//! `docs/http.md` documents every route.

mod access;
mod app;
mod attempts;
mod audit_log;
mod body;
mod call;
mod check;
mod conditional;
mod cors;
mod curl;
mod events;
mod example;
mod flow;
mod history;
mod keys;
mod latency;
mod limits;
mod live;
mod metrics;
mod openapi;
mod pages;
mod problem;
mod read;
#[cfg(test)]
mod reference;
mod reply;
mod route;
mod router;
mod scope;
mod serve;
mod services;
mod signed;
mod snapshot;
mod table;
mod tls;
mod verbs;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use access::{NewToken, Role, TokenEntry, TokenFile, TokenView};
pub use check::{BuyerCheck, CheckRules, Verdict, Visit};
pub use cors::Origin;
pub use problem::Code;
pub use scope::{Kind, Scope};
pub use serve::{Bound, ServeReport, Server};
pub use signed::SigningKey;
pub use tls::check_certificate;

/// Time since the Unix epoch, by the server's clock.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
