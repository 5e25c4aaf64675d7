//! The source of the function library, its state on a server, and its installation.

use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Error, Result};
use tokio::time::sleep;

use crate::command::Command;
use crate::fault;
use crate::function::Function;
use crate::link::PinnedConnection;
use crate::reply::{Answered, Refusal};

/// The name of the library on a server. The number is that of the protocol.
pub const NAME: &str = "rushgate_1";
/// Raised with each incompatible change: of keys, arguments, answers or packed records.
pub(crate) const PROTOCOL: u32 = 1;
/// The version of the library, which is the version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Processes that find no library at the same moment wait for a random time up to this one before they install it, so
/// that most find it installed.
const INSTALL_SPREAD: Duration = Duration::from_millis(10);
/// How often the library may change during an installation before that is reported as an error.
const TRIES_MAX: usize = 3;

/// The source of the library, as `FUNCTION LOAD` takes it.
pub fn code() -> &'static str {
    include_str!("../lua/rushgate.lua")
}

/// The version of the library.
pub fn version() -> &'static str {
    VERSION
}

/// The protocol number, which increases with each incompatible change.
pub fn protocol() -> u32 {
    PROTOCOL
}

/// The hash of the library's content, in its second line.
fn build() -> &'static str {
    code().lines().nth(1).and_then(|label| label.rsplit(' ').next()).unwrap_or_default()
}

/// The library on a server, compared with the library of this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The server has none.
    Missing,
    /// The same library.
    Same,
    /// The same version with other content: an unreleased build.
    OtherBuild,
    /// An older version.
    Older {
        /// Its version.
        version: String,
    },
    /// A newer version.
    Newer {
        /// Its version.
        version: String,
    },
}

impl State {
    fn of(version: String, other_build: &str) -> Self {
        match order(&version).cmp(&order(VERSION)) {
            std::cmp::Ordering::Less => Self::Older { version },
            std::cmp::Ordering::Equal if other_build == build() => Self::Same,
            std::cmp::Ordering::Equal => Self::OtherBuild,
            std::cmp::Ordering::Greater => Self::Newer { version },
        }
    }

    /// A stable identifier of the state.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Same => "same",
            Self::OtherBuild => "other_build",
            Self::Older { .. } => "older",
            Self::Newer { .. } => "newer",
        }
    }

    /// The version on the server.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Missing => None,
            Self::Same | Self::OtherBuild => Some(VERSION),
            Self::Older { version } | Self::Newer { version } => Some(version),
        }
    }

    /// Whether a store installs its own library: there is none, or an older one.
    fn is_outdated(&self) -> bool {
        matches!(self, Self::Missing | Self::OtherBuild | Self::Older { .. })
    }
}

/// The numeric components of a version.
fn order(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Whether opening a connection installs the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Install,
    Leave,
}

impl Library {
    pub(crate) async fn prepare(self, server: &PinnedConnection) -> Result<()> {
        let installed = match self {
            Self::Install => ensure_on(server).await?,
            Self::Leave => return Ok(()),
        };
        match installed {
            Err(error) if error.is_misconfigured() => Err(error),
            Err(error) => {
                // The server accepts no writes at the moment. The first call afterwards installs the library.
                tracing::warn!("the function library is not installed yet: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Installs the library on a server that has none or an older one. If the server refuses to replace an older one, that
/// one is used. The inner error says why a server without the library refused it.
pub(crate) async fn ensure_on(server: &PinnedConnection) -> Result<Result<()>> {
    if !state_on(server).await?.is_outdated() {
        return Ok(Ok(()));
    }
    // One process installs it for all that found none.
    let pause = INSTALL_SPREAD.mul_f64(rand::rng().random_range(0.0..1.0));
    sleep(pause).await;
    let Err(error) = install_on(server, State::is_outdated).await? else { return Ok(Ok(())) };
    if state_on(server).await? == State::Missing {
        return Ok(Err(error));
    }
    tracing::warn!("the function library on the server is not that of this version: {error}");
    Ok(Ok(()))
}

/// Installs the library if its state demands it, and returns the state before. The inner error is a refusal of the
/// server, which changed nothing.
pub(crate) async fn install_on(
    server: &PinnedConnection,
    is_due: impl Fn(&State) -> bool,
) -> Result<Result<State>> {
    for _ in 0..TRIES_MAX {
        let is = state_on(server).await?;
        if !is_due(&is) {
            return Ok(Ok(is));
        }
        let load = Command::new("FUNCTION").arg("LOAD");
        // Without REPLACE, so that a newer library that another process installs right now is not overwritten.
        let load = if is == State::Missing { load } else { load.arg("REPLACE") };
        match server.try_ask(load.arg(code())).await? {
            Ok(_) => return Ok(Ok(is)),
            Err(refusal) if is == State::Missing && is_there_now(&refusal) => {}
            Err(refusal) => return Ok(Err(not_installed(&refusal))),
        }
    }
    Ok(Err(Error::misconfigured(format_args!(
        "the server has a library named {NAME} without the function {}, or other clients keep deleting it",
        Function::Version.name()
    ))
    .hint(format_args!("find it with FUNCTION LIST, and remove it with FUNCTION DELETE {NAME}"))))
}

pub(crate) async fn state_on(server: &PinnedConnection) -> Result<State> {
    let ask = Command::new("FCALL").arg(Function::Version.name()).arg("0");
    let answer: Answered = server.try_ask(ask).await?;
    match answer {
        Ok(reply) => {
            let mut fields = reply.list()?;
            let (_protocol, version, build) = (fields.int()?, fields.text()?, fields.text()?);
            Ok(State::of(version, &build))
        }
        Err(refusal) if fault::lacks_function(&refusal) => Ok(State::Missing),
        Err(refusal) => Err(fault::refused(&refusal)),
    }
}

fn is_there_now(refusal: &Refusal) -> bool {
    refusal.text.starts_with("Library ") && refusal.text.ends_with("already exists")
}

fn not_installed(refusal: &Refusal) -> Error {
    if refusal.code == "NOPERM" {
        let why = format_args!(
            "the server lacks this version of the function library, and the user may not install it: {}",
            refusal.text
        );
        return Error::misconfigured(why).hint(
            "run `rushgate functions install` as a user with the permissions +function|load and +fcall, or grant \
             them to this one",
        );
    }
    if refusal.text.ends_with("already exists") {
        let why = format_args!("another library has a function of the same name: {}", refusal.text);
        return Error::misconfigured(why)
            .hint("find it with FUNCTION LIST, and remove it with FUNCTION DELETE");
    }
    fault::refused(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_version_and_its_hash() {
        assert_eq!(State::of(VERSION.into(), build()), State::Same);
        assert_eq!(State::of(VERSION.into(), "0"), State::OtherBuild);
        assert_eq!(State::of("0.0.9".into(), build()), State::Older { version: "0.0.9".into() });
        assert_eq!(State::of("0.10.0".into(), build()), State::Newer { version: "0.10.0".into() });
        assert!(NAME.ends_with(&format!("_{PROTOCOL}")) && Function::Version.name().starts_with(NAME));
    }
}
