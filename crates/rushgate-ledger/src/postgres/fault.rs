//! Translates Postgres errors into core's.

use std::error::Error as _;
use std::io;

use deadpool_postgres::{HookError, PoolError};
use rushgate_core::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::words::{Violation, closed};

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the server or the connection.
    Postgres(tokio_postgres::Error),
    /// Another program changed the data between a check and the step that relied on it. A retry sees the change.
    Raced,
    /// A stored value that the ledger never writes.
    Undecodable(String),
    /// The step exceeded its time limit, and its connection was closed.
    NoAnswer,
    /// The pool had no connection.
    Pool(PoolError),
    /// An error that is already translated.
    Told(Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl Fault {
    fn db(&self) -> Option<&DbError> {
        match self {
            Self::Postgres(error) => error.as_db_error(),
            _ => None,
        }
    }

    /// The violated constraint, or `None` for an error of another kind.
    pub(super) fn violation(&self) -> Option<Violation> {
        let error = self.db().filter(|error| error.code().code().starts_with("23"))?;
        Violation::named(error.constraint()?)
    }

    /// True if the transaction was rolled back because of concurrent transactions, so that a retry can succeed.
    pub(super) fn is_worth_another_go(&self) -> bool {
        let Some(error) = self.db() else { return matches!(self, Self::Raced) };
        // Conflicts with what another program wrote in between: a refusal of an order that it recorded, a withdrawal
        // of a unit that it sold or withdrew, an order that it recorded directly.
        let overtaken = ["recorded", "owned", "withdrawn_twice", "order_recorded"];
        let overtaken = error.constraint().is_some_and(|constraint| overtaken.contains(&constraint));
        overtaken
            || [
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::LOCK_NOT_AVAILABLE,
            ]
            .contains(error.code())
    }

    /// True if the connection must not be reused.
    pub(super) fn spoils_the_connection(&self) -> bool {
        match (self, self.db()) {
            // A server that became a replica stays one, and an invalid cached plan stays with its connection.
            (_, Some(error)) => {
                is_fatal(error)
                    || *error.code() == SqlState::READ_ONLY_SQL_TRANSACTION
                    || *error.code() == SqlState::FEATURE_NOT_SUPPORTED
            }
            (Self::Raced | Self::Undecodable(_) | Self::Told(_), _) => false,
            _ => true,
        }
    }

    /// True if the connection died before the step, so that a new one may work.
    pub(super) fn is_lost_connection(&self) -> bool {
        match (self, self.db()) {
            (_, Some(error)) => is_fatal(error) && error.code().code().starts_with("57P"),
            (Self::Postgres(error), None) => error.is_closed() || is_io(error),
            _ => false,
        }
    }

    /// The error of a step that was rolled back or never began: the data is unchanged.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Postgres(error) => postgres_error(error),
            Self::Raced => Error::unavailable("repeated conflicts with other writers")
                .hint("retry the call; nothing was written"),
            Self::Undecodable(why) => Error::corrupt(format_args!("cannot read a row of the ledger: {why}"))
                .hint("check which other programs write to the schema, then restore a backup"),
            Self::NoAnswer => Error::unavailable("Postgres did not answer in time")
                .hint("check the server's load and the network, then retry the call"),
            Self::Pool(error) => pool_error(error),
            Self::Told(error) => error,
        }
    }

    /// The error of a failed COMMIT. The transaction was rolled back only if the server reported ERROR and survived.
    pub(super) fn commit_error(self) -> Error {
        let undone = self.db().is_some_and(|error| !is_fatal(error));
        let error = self.error();
        if undone { error } else { error.maybe_happened() }
    }
}

fn is_fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        // The severity's text may be localized. These codes end a connection too.
        || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(error.code())
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<io::Error>())
}

fn pool_error(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            postgres_error(error)
        }
        PoolError::Timeout(_) => Error::unavailable("no connection to Postgres became available in time")
            .hint("check that the server is up; raise pool= in the URL if all connections are in use"),
        PoolError::Closed => closed(),
        error => Error::bug("the connection pool failed").caused_by(error),
    }
}

fn postgres_error(error: tokio_postgres::Error) -> Error {
    if let Some(db) = error.as_db_error() {
        let told = db_error(db);
        return told.caused_by(error);
    }
    let text = error.to_string();
    let told = if error.is_closed() {
        Error::unavailable("the connection to Postgres was lost")
            .hint("check that the server is up, then retry the call")
    } else if text.starts_with("authentication") || text.starts_with("invalid configuration") {
        Error::misconfigured("Postgres requires credentials that the URL lacks")
            .hint("add the user and the password to the URL")
    } else if text.contains("TLS") {
        let why = error.source().map(ToString::to_string).unwrap_or_default();
        Error::misconfigured(format_args!("cannot establish a TLS connection to Postgres: {why}"))
            .hint("set sslmode= and sslrootcert= in the URL to match the server")
    } else if text.starts_with("error serializing") || text.starts_with("error deserializing") {
        Error::corrupt("a value of the ledger has an unexpected type")
            .hint("check which other programs change the schema, then restore a backup")
    } else if is_io(&error) || text.starts_with("error c") || text.starts_with("timeout") {
        let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        Error::unavailable(format_args!("cannot reach Postgres{why}"))
            .hint("check that the server is up and that the URL names its host and port")
    } else {
        Error::unavailable("Postgres sent an unexpected response")
            .hint("check that the URL names a Postgres server")
    };
    told.caused_by(error)
}

/// The error of a server that is up but accepts no writes.
pub(super) fn takes_no_writes() -> Error {
    Error::misconfigured("Postgres accepts no writes: it is read-only or a replica")
        .hint("name the primary in the URL, and check default_transaction_read_only")
}

/// Classifies by SQLSTATE, because messages may be localized.
fn db_error(error: &DbError) -> Error {
    let code = error.code().code();
    let unavailable =
        |why: &str| Error::unavailable(why).hint("retry the call when the server is up; nothing is lost");
    match code {
        "53100" => Error::full("the disk of Postgres is full")
            .hint("free disk space, then retry the call; nothing was written"),
        "53300" => Error::unavailable("Postgres has reached its maximum number of connections")
            .hint("raise max_connections on the server, or lower pool= in the URL"),
        "53200" => unavailable("Postgres is out of memory"),
        "25006" => takes_no_writes(),
        "57P01" => unavailable("Postgres closed the connection: it is shutting down, or an operator terminated it"),
        "57P02" => unavailable("Postgres is restarting after a crash of one of its processes"),
        "57P03" => unavailable("Postgres is starting up or shutting down"),
        "57014" => Error::unavailable("Postgres canceled the statement: statement_timeout exceeded").hint(
            "check which session holds locks in the ledger (pg_stat_activity), or raise statement_timeout= in the URL",
        ),
        "25P03" => unavailable("Postgres terminated a transaction that was idle for too long"),
        "40001" | "40P01" | "55P03" => Error::unavailable("repeated conflicts with other writers")
            .hint("retry the call; nothing was written"),
        "28P01" | "28000" => Error::misconfigured("Postgres rejected the user or the password")
            .hint("check the user and the password in the URL, and pg_hba.conf on the server"),
        "3D000" => Error::misconfigured("the database does not exist").hint("create it with createdb"),
        "42501" => Error::misconfigured("the user lacks a privilege on the ledger's schema")
            .hint("connect as the schema's owner, or grant INSERT, SELECT and UPDATE on its tables"),
        "XX001" | "XX002" => {
            Error::corrupt("Postgres reports damaged files").hint("stop the writers and restore a backup")
        }
        _ if code.starts_with("08") => unavailable("the connection to Postgres was lost"),
        _ if code.starts_with("53") || code.starts_with("58") => {
            unavailable("Postgres lacks a resource").hint("check the server log")
        }
        _ if code.starts_with("42") || code.starts_with("3F") => Error::misconfigured(format_args!(
            "the ledger's schema differs from the one that Rushgate created (SQLSTATE {code})"
        ))
        .hint("check what changed it; the server log shows the statement"),
        _ if is_fatal(error) => unavailable("Postgres closed the connection"),
        _ => Error::bug(format_args!("Postgres refused a statement of the ledger (SQLSTATE {code})")),
    }
}
