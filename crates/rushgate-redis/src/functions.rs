//! The verbs as a function library on the server, so that programs in any language use the same locks, queues and
//! sales with their ordinary client: `FCALL rushgate_lock_acquire …`.
//!
//! The library is made of the very Lua files that [`RedisStore`](crate::RedisStore) sends as scripts; what they are
//! given and what they answer is the same, and both may be used at once. Keys, arguments and answers of every function
//! are in `docs/protocol.md`.

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

/// How often a library may change under an installation before that is called a fault.
const TRIES_MAX: usize = 3;

/// The library's text, as `FUNCTION LOAD` takes it.
pub fn code() -> &'static str {
    &CODE
}

/// The version of the library.
pub fn version() -> &'static str {
    library::VERSION
}

/// The number of the protocol, which grows when a call that was right becomes wrong.
pub fn protocol() -> u32 {
    library::PROTOCOL
}

/// The names of the functions, and the flags with which the server knows each.
pub fn functions() -> Vec<(String, Vec<&'static str>)> {
    let listed = |of: &library::Function| (function_name(of.name), of.header.flags.clone());
    FUNCTIONS.iter().map(listed).collect()
}

/// By which hash the store's scripts are known, and the function that is the same.
#[doc(hidden)]
pub fn scripts() -> Vec<(&'static str, String)> {
    Script::ALL.iter().map(|script| (script.sha(), function_name(script.function()))).collect()
}

/// The parts of `docs/protocol.md` that follow from the Lua files, by the name of their place in it.
#[doc(hidden)]
pub fn reference() -> Vec<(&'static str, String)> {
    crate::reference::parts()
}

pub(crate) fn function_name(name: &str) -> String {
    format!("{}_{name}", library::NAME)
}

/// What is on a server, beside this build's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Missing,
    /// This very library.
    Same,
    /// One of this version with another content: of a build between two versions.
    OtherBuild,
    /// An older one.
    Older {
        /// Its version.
        version: String,
    },
    /// A newer one.
    Newer {
        /// Its version.
        version: String,
    },
    /// One that was changed after it was made.
    Edited {
        /// The version that it was made from.
        version: String,
    },
    /// One of the same name that Rushgate did not make.
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

    /// A stable word.
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

    /// The version on the server, if there is one of Rushgate's.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Missing | Self::Foreign => None,
            Self::Same | Self::OtherBuild => Some(library::VERSION),
            Self::Older { version } | Self::Newer { version } | Self::Edited { version } => Some(version),
        }
    }

    /// Whether replacing it would take something away that this build does not have: it is newer, or not ours.
    fn is_kept(&self) -> bool {
        *self == Self::Foreign
            || self.version().is_some_and(|version| order(version) > order(library::VERSION))
    }
}

/// The numbers of a version.
fn order(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// What became of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// This library was there already.
    Unchanged,
    /// It is there now, in place of what was.
    Done {
        /// What was there before.
        was: State,
    },
    /// What is there was kept: it is newer, or not Rushgate's. Nothing was changed.
    Refused {
        /// What is there.
        is: State,
    },
}

/// The functions of a store's servers: of one, or of every primary of a Cluster.
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

    /// What is there. Of a Cluster: what is on the first node that has not the same.
    ///
    /// # Errors
    /// The servers could not tell, or their user may not ask. Nothing was changed.
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

    /// Puts this build's library in the place of what is there, in one step of the server: no call finds half of it.
    /// The server keeps it with its data, and passes it on to its replicas. A newer one, and one of the same name that
    /// is not Rushgate's, are kept unless `force` is set; of a Cluster no node is changed then.
    ///
    /// # Errors
    /// The servers could not tell, or their user may not do this. The library may be there all the same if the error
    /// says so; to install again changes nothing then.
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

    /// Carries out steps with a connection to each server.
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
        // Where there is none, nothing is replaced: somebody may install a newer one just now.
        let load = if is == State::Missing { load } else { load.arg("REPLACE") };
        match server.try_ask(load.arg(code())).await? {
            Ok(_) => return Ok(Installed::Done { was: is }),
            Err(refusal) if is == State::Missing && is_there_now(&refusal) => {}
            Err(refusal) => return Err(refused(&refusal)),
        }
    }
    Err(Error::unavailable("others install and delete the library all the time"))
}

fn is_there_now(refusal: &Refusal) -> bool {
    refusal.text.starts_with("Library ") && refusal.text.ends_with("already exists")
}

fn refused(refusal: &Refusal) -> Error {
    if refusal.code == "NOPERM" {
        let why = format_args!("the user may not do this on the server: {}", refusal.text);
        return Error::misconfigured(why).hint("allow it FUNCTION, or let another user install the library");
    }
    if refusal.text.ends_with("already exists") {
        let why = format_args!("another library has a function of the same name: {}", refusal.text);
        return Error::misconfigured(why).hint("FUNCTION LIST shows it, FUNCTION DELETE removes it");
    }
    fault::refused(refusal)
}

/// The text in what the server says of a library, which is names and values in turn.
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
