//! `rushgate.toml` in the working directory: what the options are if nobody gives them.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use crate::exit::Fault;

const FILE: &str = "rushgate.toml";

/// What may be written in the file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The store's URL.
    pub(crate) store: Option<String>,
    /// The ledger's URL.
    pub(crate) orders: Option<String>,
}

impl Config {
    /// Reads the file, if there is one.
    pub(crate) fn load() -> Result<Self, Fault> {
        match std::fs::read_to_string(Path::new(FILE)) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Fault::usage(format_args!("{FILE} cannot be read: {error}"))),
        }
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            Fault::usage(format_args!("{FILE}, line {line}: {}", error.message()))
                .hint("it may hold `store = \"sqlite:PATH\"` and `orders = \"sqlite:PATH\"`")
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
}
