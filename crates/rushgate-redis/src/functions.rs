//! The function library: every step of a store on Redis or Valkey is a call of one of its functions.
//!
//! `lua/rushgate.lua` is the library as the server gets it. Opening a [`RedisStore`](crate::RedisStore) installs it,
//! and programs in any language call the same functions through their ordinary Redis client:
//! `FCALL rushgate_1_lock_acquire …`. `docs/protocol.md` describes every function.
//!
//! The name of the library and of its functions contains the number of the protocol. Libraries of two protocols can
//! be on one server, so programs of both can run at the same time.

use std::sync::Arc;

use rushgate_core::Result;

use crate::dispatcher::Dispatcher;
use crate::function::Function;
use crate::inbox::Inbox;
use crate::library::{Library, install_on, state_on};
use crate::link::PinnedConnection;
use crate::url::Url;

pub use crate::library::{NAME, State, code, protocol, version};

/// The names of the functions, each with whether it only reads and so may be called with `FCALL_RO`.
pub fn functions() -> Vec<(&'static str, bool)> {
    Function::ALL.iter().map(|function| (function.name(), function.only_looks())).collect()
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
    /// Nothing was changed, because the library on the server is newer.
    Refused {
        /// The current state.
        is: State,
    },
}

/// The function library on a store's servers: on one, or on every primary of a Cluster.
pub struct Functions {
    dispatcher: Arc<Dispatcher>,
}

impl Functions {
    /// Connects to the servers of a store and checks them, as [`RedisStore::open`](crate::RedisStore::open) does. Does
    /// not install the library.
    ///
    /// # Errors
    /// Those of `RedisStore::open`. None of them changes data.
    pub async fn connect(url: &str) -> Result<Self> {
        let Url { deployment, shown } = Url::parse(url)?;
        let dispatcher = Dispatcher::start(deployment, Inbox::new(), Library::Leave).await;
        let dispatcher = dispatcher.map_err(|error| error.doing(format_args!("open the store `{shown}`")))?;
        Ok(Self { dispatcher: Arc::new(dispatcher) })
    }

    /// The state of the library. In a Cluster, the state on the first node whose library is not the same.
    ///
    /// # Errors
    /// The servers are unavailable, or their user may not call functions. Nothing was changed.
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
    /// with its data and replicates it. A newer library is kept unless `force` is set; in a Cluster no node is changed
    /// then.
    ///
    /// # Errors
    /// The servers are unavailable, or their user may not install functions. The library may have been installed if
    /// [`may_have_happened`](rushgate_core::Error::may_have_happened) says so; installing again is safe.
    pub async fn install(&self, force: bool) -> Result<Installed> {
        self.on_each(async move |servers| {
            let may_replace = |is: &State| force || !matches!(is, State::Newer { .. });
            for server in &servers {
                let is = state_on(server).await?;
                if !may_replace(&is) {
                    return Ok(Installed::Refused { is });
                }
            }
            let mut installed = Installed::Unchanged;
            for server in &servers {
                let was = install_on(server, |is| *is != State::Same && may_replace(is)).await??;
                if was != State::Same && installed == Installed::Unchanged {
                    installed = Installed::Done { was };
                }
            }
            Ok(installed)
        })
        .await
    }

    /// Runs steps with a pinned connection to each server.
    async fn on_each<T, S>(
        &self,
        steps: impl FnOnce(Vec<PinnedConnection>) -> S + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        S: Future<Output = Result<T>> + Send + 'static,
    {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.dispatcher.run(async move { steps(dispatcher.pinned().await?).await }).await
    }
}
