//! Real servers, which the tests start and stop themselves.

mod postgres;

pub use postgres::PostgresServer;
