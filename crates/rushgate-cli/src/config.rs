//! `rushgate.toml` in the working directory: defaults for options.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use crate::exit::Fault;
use crate::settings::ServeOptions;

const FILE: &str = "rushgate.toml";

/// Content of the file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The store's URL.
    pub(crate) store: Option<String>,
    /// The ledger's URL.
    pub(crate) orders: Option<String>,
    /// The options of `rushgate serve`.
    pub(crate) serve: ServeOptions,
}

impl Config {
    /// Reads the file, if there is one.
    pub(crate) fn load() -> Result<Self, Fault> {
        match std::fs::read_to_string(Path::new(FILE)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Fault::usage(format_args!("cannot read {FILE}: {error}"))),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let unreadable = |error: &toml::de::Error, key: String| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            // For an unknown field, the message already contains the name.
            let is_named = key == "." || error.message().starts_with("unknown field");
            let key = if is_named { String::new() } else { format!(", `{key}`") };
            Fault::usage(format_args!("{FILE}, line {line}{key}: {}", error.message()))
                .hint("run `rushgate serve --print-config` to print a file with every key and its default")
        };
        let reader = toml::Deserializer::parse(text).map_err(|error| unreadable(&error, ".".to_owned()))?;
        serde_path_to_error::deserialize(reader).map_err(|error| {
            let key = error.path().to_string();
            unreadable(error.inner(), key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_urls_are_read() {
        let config = Config::parse("store = \"sqlite:a.db\"\norders = \"sqlite:b.db\"\n").unwrap();
        assert_eq!(config.store.as_deref(), Some("sqlite:a.db"));
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
