//! `rushgate.toml` in the working directory: defaults for options. Profiles can also be in the file of the user.

use std::collections::BTreeMap;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::exit::Fault;
use crate::globals;
use crate::settings::ServeOptions;

const FILE: &str = "rushgate.toml";

/// Content of the file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The store's URL.
    store: Option<String>,
    /// URL of a server, in place of a store.
    url: Option<String>,
    /// The ledger's URL.
    pub(crate) orders: Option<String>,
    /// Stores and servers by name, for `--profile`.
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// The options of `rushgate serve`.
    pub(crate) serve: ServeOptions,
}

/// A store or a server, its ledger and the API token for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Profile {
    /// The store's URL.
    store: Option<String>,
    /// URL of a server, in place of a store.
    url: Option<String>,
    /// The ledger's URL.
    pub(crate) orders: Option<String>,
    /// File with the API token of the server.
    token_file: Option<PathBuf>,
    /// Whether the profile is in the file of the user, which may send any token anywhere.
    #[serde(skip)]
    is_of_user: bool,
}

/// The two keys of a file, of which one may be set.
const KEYS: [&str; 2] = ["`store`", "`url`"];

impl Profile {
    /// URL of the store, or of the server with the token if the profile has one.
    pub(crate) fn place(&self) -> Result<String, Fault> {
        let place = globals::place(self.store.clone(), self.url.clone(), KEYS)?;
        let place = place.ok_or_else(|| Fault::usage("a profile requires `store` or `url`"))?;
        let Some(file) = &self.token_file else {
            return if self.is_of_user { Ok(place) } else { without_the_users_token(place) };
        };
        let unreadable = |error| {
            Fault::usage(format_args!("cannot read the API token from `{}`: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        if !self.is_of_user && !is_within_directory(file).map_err(unreadable)? {
            return Err(Fault::usage(format_args!(
                "the token file `{}` of a profile in ./{FILE} is outside of its directory",
                file.display()
            ))
            .hint(format_args!("put the profile into {}", place_of_user())));
        }
        let token = text.trim();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if token.is_empty() || !token.chars().all(is_token) {
            return Err(Fault::usage(format_args!("`{}` does not contain an API token", file.display()))
                .hint("write the token there as `rushgate token create` printed it"));
        }
        match place.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) if !rest.contains('@') => {
                Ok(format!("{scheme}://{token}@{rest}"))
            }
            _ => Err(Fault::usage("`token_file` requires `url`, without a token in it")),
        }
    }
}

impl Config {
    /// Reads the file, if there is one.
    pub(crate) fn load() -> Result<Self, Fault> {
        Self::read(Path::new(FILE))
    }

    /// URL of the store or of the server.
    pub(crate) fn place(&self) -> Result<Option<String>, Fault> {
        globals::place(self.store.clone(), self.url.clone(), KEYS)?.map(without_the_users_token).transpose()
    }

    /// The profile of this name: that of the working directory, or else that of the user.
    pub(crate) fn profile(&self, name: &str) -> Result<Profile, Fault> {
        if let Some(profile) = self.profiles.get(name) {
            return Ok(profile.clone());
        }
        let config = of_user().as_deref().map(Self::read).transpose()?.unwrap_or_default();
        let profile =
            config.profiles.get(name).cloned().map(|profile| Profile { is_of_user: true, ..profile });
        profile.ok_or_else(|| {
            let place = place_of_user();
            Fault::usage(format_args!("there is no profile `{name}`")).hint(format_args!(
                "add a section [profiles.{name}] with `store` or `url` to {FILE} or {place}"
            ))
        })
    }

    fn read(file: &Path) -> Result<Self, Fault> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse_file(&file.display().to_string(), &text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Fault::usage(format_args!("cannot read {}: {error}", file.display()))),
        }
    }

    /// Parses a file of the working directory.
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        Self::parse_file(FILE, text)
    }

    fn parse_file(file: &str, text: &str) -> Result<Self, Fault> {
        let unreadable = |error: &toml::de::Error, key: String| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            // For an unknown field, the message already contains the name.
            let is_named = key == "." || error.message().starts_with("unknown field");
            let key = if is_named { String::new() } else { format!(", `{key}`") };
            Fault::usage(format_args!("{file}, line {line}{key}: {}", error.message()))
                .hint("run `rushgate serve --print-config` to print a file with every key and its default")
        };
        let reader = toml::Deserializer::parse(text).map_err(|error| unreadable(&error, ".".to_owned()))?;
        serde_path_to_error::deserialize(reader).map_err(|error| {
            let key = error.path().to_string();
            unreadable(error.inner(), key)
        })
    }
}

/// The place, unless it is a server that would get the user's token. A directory may be a stranger's, so its file must not
/// choose who gets the token.
fn without_the_users_token(place: String) -> Result<String, Fault> {
    let rest = place.split_once("://").map_or("", |(_, rest)| rest);
    let has_own = rest.split('/').next().is_some_and(|authority| authority.contains('@'));
    let is_set = env::var_os("RUSHGATE_TOKEN").is_some_and(|token| !token.is_empty());
    if !globals::is_http(&place) || has_own || !is_set {
        return Ok(place);
    }
    Err(Fault::usage(format_args!(
        "./{FILE} names a server, and RUSHGATE_TOKEN is sent only to one that you name"
    ))
    .hint(format_args!(
        "pass --url or set RUSHGATE_URL, or name the server in a profile in {}",
        place_of_user()
    )))
}

/// Whether a file is in the working directory, after links are followed.
fn is_within_directory(file: &Path) -> std::io::Result<bool> {
    Ok(file.canonicalize()?.starts_with(Path::new(".").canonicalize()?))
}

/// The user's file as shown in messages.
fn place_of_user() -> String {
    of_user().map_or_else(|| format!("~/.config/rushgate/{FILE}"), |file| file.display().to_string())
}

/// The user's file: `rushgate/rushgate.toml` in the directory of configuration files.
fn of_user() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    Some(directory?.join("rushgate").join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_a_store_or_a_server_with_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "rg_1_2\n").unwrap();
        let text = format!(
            "[profiles.shop]\nurl = \"https://h\"\ntoken_file = {token:?}\n[profiles.local]\nstore = \"sqlite:a.db\""
        );
        let config = Config::parse(&text).unwrap();
        let of_user = || Profile { is_of_user: true, ..config.profile("shop").unwrap() };
        assert_eq!(of_user().place().unwrap(), "https://rg_1_2@h");
        assert_eq!(config.profile("local").unwrap().place().unwrap(), "sqlite:a.db");
        for (written, words) in [("", "does not contain"), ("two words", "does not contain")] {
            std::fs::write(&token, written).unwrap();
            let fault = of_user().place().unwrap_err().to_string();
            assert!(fault.contains(words), "{written}: {fault}");
        }
        std::fs::remove_file(&token).unwrap();
        assert!(of_user().place().unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn a_profile_is_a_store_or_a_server_and_not_both() {
        for (text, said) in [
            ("", "a profile requires `store` or `url`"),
            ("store = \"https://secret@h\"", "`store` is the URL of a server, not of a store"),
            ("url = \"redis://:secret@h\"", "`url` is not the URL of a server"),
            ("store = \"sqlite:a.db\"\nurl = \"https://h\"", "`store` and `url` exclude each other"),
        ] {
            let config = Config::parse(&format!("[profiles.shop]\n{text}")).unwrap();
            assert_eq!(config.profile("shop").unwrap().place().unwrap_err().to_string(), said);
            if !text.is_empty() {
                assert_eq!(Config::parse(text).unwrap().place().unwrap_err().to_string(), said);
            }
        }
    }

    #[test]
    fn both_urls_are_read() {
        let config = Config::parse("store = \"sqlite:a.db\"\norders = \"sqlite:b.db\"\n").unwrap();
        assert_eq!(config.place().unwrap().as_deref(), Some("sqlite:a.db"));
        assert_eq!(config.orders.as_deref(), Some("sqlite:b.db"));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line() {
        let fault = Config::parse("store = \"sqlite:a.db\"\n\nstroe = 1\n").unwrap_err();
        assert!(fault.to_string().starts_with("rushgate.toml, line 3: unknown field `stroe`"), "{fault}");
    }

    #[test]
    fn a_value_that_cannot_be_is_an_error_with_its_line_and_its_key() {
        for (text, said) in [
            ("store = 1", "line 1, `store`: invalid type: integer `1`"),
            ("[serve]\nlisten = \"7979\"", "line 2, `serve.listen`: invalid socket address"),
            ("[serve]\nlisten = 7979", "line 2, `serve.listen`: invalid type"),
            ("[serve]\n\ngrace = 5", "line 3, `serve.grace`: invalid type: integer `5`"),
            ("[serve]\ngrace = \"5\"", "line 2, `serve.grace`: `5` has no unit; use 5s or 5ms"),
            ("[serve]\nconnections = 0", "line 2, `serve.connections`: invalid value: integer `0`"),
            ("[serve]\nconnections = 5000000000", "line 2, `serve.connections`: invalid value"),
            ("[serve]\ndemo = \"yes\"", "line 2, `serve.demo`: invalid type"),
            ("[serve]\nhosts = \"a\"", "line 2, `serve.hosts`: invalid type"),
            ("[serve]\nhosts = [\"a\", 5]", "line 2, `serve.hosts[1]`: invalid type"),
            ("[serve]\norigins = [\"*\"]", "line 2, `serve.origins[0]`: the origin `*` contains a wildcard"),
            ("[serve]\nlisen = 1", "line 2: unknown field `lisen`"),
            ("[serve]\ngrace = \"1s\"\ngrace = \"2s\"", "line 3: duplicate key"),
        ] {
            let fault = Config::parse(text).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("rushgate.toml, {said}")), "{text}: {fault}");
        }
    }
}
