//! Rushgate over HTTP: locks, queues and sales for every language.
//!
//! A [`Server`] puts one [`Rushgate`](rushgate::Rushgate) behind a listener. It holds no rule of a lock, a queue or a
//! sale: each route reads its request, calls the facade's method of the same name and says what came of it. One table of
//! routes is the source of the router, of the description of the API and of the test of who may do what.
//!
//! - Answers are JSON; refusals and errors are problem+json (RFC 9457) with a stable [`Code`].
//! - `Prefer: wait=SECONDS` has a request wait for a lock, a task or an order, without polling. A connection that is
//!   dropped leaves nothing behind: no place in line, no lock, no claimed task.
//! - `Idempotency-Key` makes it safe to ask again.
//! - Bearer tokens have a [`Role`] and [`Scope`]s, and are kept in a [`TokenFile`] as hashes.
//!
//! What each route takes and answers is in `docs/http.md`.

mod access;
mod attempts;
mod audit_log;
mod body;
mod call;
mod check;
mod clerks;
mod conditional;
mod cors;
mod events;
mod keys;
mod limits;
mod metrics;
mod openapi;
mod pages;
mod problem;
#[cfg(test)]
mod reference;
mod reply;
mod route;
mod router;
mod serve;
mod shop;
mod signed;
mod strict;
mod table;
mod tls;
mod verbs;

pub use access::{Kind, NewToken, Role, Scope, TokenEntry, TokenFile};
pub use check::{BuyerCheck, CheckRules, Verdict, Visit};
pub use cors::Origin;
pub use problem::Code;
pub use serve::{Bound, ServeReport, Server};
pub use signed::SigningKey;
pub use tls::check_certificate;
