//! The operations as a function library on the server, so that programs in any language can use the same locks, queues
//! and sales through their ordinary Redis client: `FCALL rushgate_lock_acquire …`.
//!
//! The library is built from the same Lua files that [`RedisStore`](crate::RedisStore) sends as scripts. Arguments and
//! answers are the same, and both can be used at the same time. `docs/protocol.md` describes every function.

use std::sync::Arc;

use rushgate_core::{Error, Result};

use crate::command::Command;
use crate::conn::Refusal;
use crate::driver::Driver;
use crate::fault;
use crate::inbox::Inbox;
use crate::lane::Walk;
use crate::library::{self, CODE, FUNCTIONS, Label};
use crate::reply::Fields;
use crate::scripts::Script;
use crate::url::Url;

/// How often the library may change during an installation before that is reported as an error.
const TRIES_MAX: usize = 3;

/// The source of the library, as `FUNCTION LOAD` takes it.
pub fn code() -> &'static str {
    &CODE
}

/// The version of the library.
pub fn version() -> &'static str {
    library::VERSION
}

/// The protocol number, which increases with each incompatible change.
pub fn protocol() -> u32 {
    library::PROTOCOL
}

/// The names of the functions, each with its flags on the server.
pub fn functions() -> Vec<(String, Vec<&'static str>)> {
    let listed = |of: &library::Function| (function_name(of.name), of.header.flags.clone());
    FUNCTIONS.iter().map(listed).collect()
}

/// The SHA-1 of each of the store's scripts, and the name of the corresponding function.
#[doc(hidden)]
pub fn scripts() -> Vec<(&'static str, String)> {
    Script::ALL.iter().map(|script| (script.sha(), function_name(script.function()))).collect()
}

/// The generated parts of `docs/protocol.md` and the pages in `docs/protocol`: the page, the marker and the text.
#[doc(hidden)]
pub fn reference() -> Vec<(&'static str, &'static str, String)> {
    crate::reference::parts()
}

pub(crate) fn function_name(name: &str) -> String {
    format!("{}_{name}", library::NAME)
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
    /// A library that was edited after it was generated.
    Edited {
        /// The version that was edited.
        version: String,
    },
    /// A library of the same name that is not Rushgate's.
    Foreign,
}

impl State {
    fn of(code: Option<&str>) -> Self {
        let Some(code) = code else { return Self::Missing };
        if code == self::code() {
            return Self::Same;
        }
        match Label::of(code) {
            None => Self::Foreign,
            Some(Label { version, is_intact: false, .. }) => Self::Edited { version },
            Some(Label { version, .. }) => match order(&version).cmp(&order(library::VERSION)) {
                std::cmp::Ordering::Less => Self::Older { version },
                std::cmp::Ordering::Equal => Self::OtherBuild,
                std::cmp::Ordering::Greater => Self::Newer { version },
            },
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
            Self::Edited { .. } => "edited",
            Self::Foreign => "foreign",
        }
    }

    /// The version on the server, if Rushgate's library is there.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Foreign => None,
            Self::Same | Self::OtherBuild => Some(library::VERSION),
            Self::Older { version } | Self::Newer { version } | Self::Edited { version } => Some(version),
        }
    }

    /// Whether installing would lose something that this build does not have: the library is newer, or not Rushgate's.
    fn is_kept(&self) -> bool {
        *self == Self::Foreign
            || self.version().is_some_and(|version| order(version) > order(library::VERSION))
    }
}

/// The numeric components of a version.
fn order(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// The result of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The same library was already there.
    Unchanged,
    /// The library was installed.
    Done {
        /// The previous state.
        was: State,
    },
    /// Nothing was changed, because the library on the server is newer or not Rushgate's.
    Refused {
        /// The current state.
        is: State,
    },
}

/// The function library on a store's servers: on one, or on every primary of a Cluster.
pub struct Functions {
    driver: Arc<Driver>,
}

impl Functions {
    /// Connects to the servers of a store and checks them, as [`RedisStore::open`](crate::RedisStore::open) does.
    ///
    /// # Errors
    /// Those of `RedisStore::open`. None of them changes data.
    pub async fn connect(url: &str) -> Result<Self> {
        let Url { deployment, shown } = Url::parse(url)?;
        let driver = Driver::start(deployment, Inbox::new()).await;
        let driver = driver.map_err(|error| error.doing(format_args!("open the store `{shown}`")))?;
        Ok(Self { driver: Arc::new(driver) })
    }

    /// The state of the library. In a Cluster, the state on the first node whose library is not the same.
    ///
    /// # Errors
    /// The servers are unavailable, or their user may not list functions. Nothing was changed.
    pub async fn state(&self) -> Result<State> {
        self.on_each(async |servers| {
            for server in &servers {
                let state = state_on(server).await?;
                if state != State::Same {
                    return Ok(state);
                }
            }
            Ok(State::Same)
        })
        .await
    }

    /// Installs this build's library in place of the one on the server. The server replaces it atomically, stores it
    /// with its data and replicates it. A newer library, and one of the same name that is not Rushgate's, are kept
    /// unless `force` is set; in a Cluster no node is changed then.
    ///
    /// # Errors
    /// The servers are unavailable, or their user may not install functions. The library may have been installed if
    /// [`may_have_happened`](Error::may_have_happened) says so; installing again is safe.
    pub async fn install(&self, force: bool) -> Result<Installed> {
        self.on_each(async move |servers| {
            for server in &servers {
                let is = state_on(server).await?;
                if is.is_kept() && !force {
                    return Ok(Installed::Refused { is });
                }
            }
            let mut installed = Installed::Unchanged;
            for server in &servers {
                match install_on(server, force).await? {
                    Installed::Unchanged => {}
                    done @ Installed::Done { .. } if installed == Installed::Unchanged => installed = done,
                    Installed::Done { .. } => {}
                    refused @ Installed::Refused { .. } => return Ok(refused),
                }
            }
            Ok(installed)
        })
        .await
    }

    /// Runs steps with a pinned connection to each server.
    async fn on_each<T, S>(&self, steps: impl FnOnce(Vec<Walk>) -> S + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        S: Future<Output = Result<T>> + Send + 'static,
    {
        let driver = Arc::clone(&self.driver);
        self.driver.run(async move { steps(driver.walks().await?).await }).await
    }
}

async fn state_on(server: &Walk) -> Result<State> {
    let list = Command::new("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(library::NAME).arg("WITHCODE");
    let mut libraries = server.try_ask(list).await?.map_err(|refusal| refused(&refusal))?.list()?;
    if libraries.is_empty() {
        return Ok(State::of(None));
    }
    Ok(State::of(Some(&code_of(libraries.list()?)?)))
}

async fn install_on(server: &Walk, force: bool) -> Result<Installed> {
    for _ in 0..TRIES_MAX {
        let is = state_on(server).await?;
        if is == State::Same {
            return Ok(Installed::Unchanged);
        }
        if is.is_kept() && !force {
            return Ok(Installed::Refused { is });
        }
        let load = Command::new("FUNCTION").arg("LOAD");
        // Without REPLACE, so that a newer library that another process installs right now is not overwritten.
        let load = if is == State::Missing { load } else { load.arg("REPLACE") };
        match server.try_ask(load.arg(code())).await? {
            Ok(_) => return Ok(Installed::Done { was: is }),
            Err(refusal) if is == State::Missing && is_there_now(&refusal) => {}
            Err(refusal) => return Err(refused(&refusal)),
        }
    }
    Err(Error::unavailable("other clients keep installing and deleting the library"))
}

fn is_there_now(refusal: &Refusal) -> bool {
    refusal.text.starts_with("Library ") && refusal.text.ends_with("already exists")
}

fn refused(refusal: &Refusal) -> Error {
    if refusal.code == "NOPERM" {
        let why = format_args!("the user lacks a permission on the server: {}", refusal.text);
        return Error::misconfigured(why)
            .hint("grant the user +function, or install the library as another user");
    }
    if refusal.text.ends_with("already exists") {
        let why = format_args!("another library has a function of the same name: {}", refusal.text);
        return Error::misconfigured(why)
            .hint("find it with FUNCTION LIST, and remove it with FUNCTION DELETE");
    }
    fault::refused(refusal)
}

/// The source in the server's description of a library, which alternates names and values.
fn code_of(mut library: Fields) -> Result<String> {
    loop {
        let (name, value) = (library.text()?, library.next()?);
        if name == "library_code" {
            return value.text();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(version: &str) -> String {
        code().replacen(library::VERSION, version, 1)
    }

    #[test]
    fn a_library_is_known_by_its_first_lines_and_their_sum() {
        assert_eq!(State::of(None), State::Missing);
        assert_eq!(State::of(Some(code())), State::Same);
        assert_eq!(
            State::of(Some("#!lua name=rushgate\nredis.register_function('f', print)")),
            State::Foreign
        );
        assert_eq!(State::of(Some(&made("0.0.9"))), State::Older { version: "0.0.9".into() });
        assert_eq!(State::of(Some(&made("0.10.0"))), State::Newer { version: "0.10.0".into() });
        let edited = code().replace("2000000", "3000000");
        assert_ne!(edited, code());
        assert_eq!(State::of(Some(&edited)), State::Edited { version: library::VERSION.into() });
    }

    #[test]
    fn what_is_newer_or_foreign_is_kept() {
        for (state, kept) in [
            (State::Missing, false),
            (State::OtherBuild, false),
            (State::Older { version: "0.0.1".into() }, false),
            (State::Edited { version: "0.0.1".into() }, false),
            (State::Edited { version: "99.0.0".into() }, true),
            (State::Newer { version: "99.0.0".into() }, true),
            (State::Foreign, true),
        ] {
            assert_eq!(state.is_kept(), kept, "{state:?}");
        }
    }
}
