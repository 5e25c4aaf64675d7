//! Settings of `rushgate serve`: flag, else environment, else `[serve]` in `rushgate.toml`, else default.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, Command, FromArgMatches};
use rushgate::queue::Rate;
use rushgate_server::{CheckRules, Origin};
use serde::Deserialize;

use crate::duration;
use crate::exit::Fault;

/// The reference configuration: every key with its meaning and default, all commented out.
pub(crate) const REFERENCE: &str = include_str!("../reference.toml");

/// Declares the options of `serve` once: help, flag, variable, key of the file, type and default.
macro_rules! options {
    ($($(#[$attribute:meta])* $name:ident, $variable:literal: $type:ty $(= $default:expr)?;)*) => {
        /// Settings from one source. A key of the file is the name of the field; a variable is `RUSHGATE_SERVE_`
        /// plus that name.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Args, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct ServeOptions {
            $(
                $(#[$attribute])*
                #[arg(env = $variable, hide_env = true)]
                pub(crate) $name: Option<$type>,
            )*
        }

        /// Complete settings of a server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct Settings {
            $(pub(crate) $name: settled!($type $(, $default)?),)*
        }

        impl ServeOptions {
            /// These settings, completed by those of `file`.
            pub(crate) fn or(self, file: Self) -> Self {
                Self { $($name: self.$name.or(file.$name),)* }
            }

            fn with_defaults(self) -> Settings {
                Settings { $($name: self.$name$(.unwrap_or_else(|| $default))?,)* }
            }
        }
    };
}

/// Type of a setting: optional if it has no default.
macro_rules! settled {
    ($type:ty) => { Option<$type> };
    ($type:ty, $default:expr) => { $type };
}

options! {
    /// Listen address [default: 127.0.0.1:7979].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen, "RUSHGATE_SERVE_LISTEN": SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 7979));
    /// Create and open a demo sale of 5,000 phones. Without --store its data is deleted when the server stops.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    demo, "RUSHGATE_SERVE_DEMO": bool = false;
    /// Require API tokens from this file; `rushgate token create` creates them.
    #[arg(long, value_name = "FILE")]
    tokens, "RUSHGATE_SERVE_TOKENS": PathBuf;
    /// Serve HTTPS with the certificate and chain from this PEM file; requires --tls-key.
    #[arg(long, value_name = "FILE")]
    tls_cert, "RUSHGATE_SERVE_TLS_CERT": PathBuf;
    /// Private key of the certificate, in PEM. Changed files are reloaded.
    #[arg(long, value_name = "FILE")]
    tls_key, "RUSHGATE_SERVE_TLS_KEY": PathBuf;
    /// Append an audit log of admin actions to this file, one line of JSON each.
    #[arg(long, value_name = "FILE")]
    audit_log, "RUSHGATE_SERVE_AUDIT_LOG": PathBuf;
    /// Allow addresses other than loopback without tokens: every client is an operator.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    insecure, "RUSHGATE_SERVE_INSECURE": bool = false;
    /// Without tokens, also accept requests for this host name. Loopback names are always accepted. Repeat, or
    /// separate with commas.
    #[arg(long = "host", value_name = "NAME", value_delimiter = ',')]
    hosts, "RUSHGATE_SERVE_HOSTS": Vec<String> = Vec::new();
    /// Allow requests from pages of this origin (CORS), such as https://shop.example. Repeat, or separate with
    /// commas.
    #[arg(long = "origin", value_name = "ORIGIN", value_delimiter = ',')]
    origins, "RUSHGATE_SERVE_ORIGINS": Vec<Origin> = Vec::new();
    /// Rate limit per buyer, such as 20/10s, if the token names the buyer.
    #[arg(long, value_parser = duration::rate, value_name = "N/DURATION")]
    #[serde(deserialize_with = "duration::read_rate")]
    limit_buyer, "RUSHGATE_SERVE_LIMIT_BUYER": Rate;
    /// Rate limit for buyers per client address, such as 100/10s.
    #[arg(long, value_parser = duration::rate, value_name = "N/DURATION")]
    #[serde(deserialize_with = "duration::read_rate")]
    limit_address, "RUSHGATE_SERVE_LIMIT_ADDRESS": Rate;
    /// Trust X-Forwarded-For from this proxy. Repeat, or separate with commas.
    #[arg(long = "proxy", value_name = "ADDRESS", value_delimiter = ',')]
    proxies, "RUSHGATE_SERVE_PROXIES": Vec<IpAddr> = Vec::new();
    /// Bot check: POST a signed request to this URL before a buyer joins a waiting room, or reserves where there is
    /// none.
    #[arg(long, value_name = "URL")]
    check_url, "RUSHGATE_SERVE_CHECK_URL": String;
    /// File with the secret that signs bot checks [default: RUSHGATE_CHECK_SECRET].
    #[arg(long, value_name = "FILE")]
    check_secret_file, "RUSHGATE_SERVE_CHECK_SECRET_FILE": PathBuf;
    /// Time limit of a bot check [default: 2s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(deserialize_with = "duration::read")]
    check_timeout, "RUSHGATE_SERVE_CHECK_TIMEOUT": Duration = CheckRules::default().timeout;
    /// How long a buyer who passed is not checked again [default: 10m].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(deserialize_with = "duration::read")]
    check_remember, "RUSHGATE_SERVE_CHECK_REMEMBER": Duration = CheckRules::default().remember;
    /// Admit buyers while the bot check is unavailable, instead of refusing them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    check_open, "RUSHGATE_SERVE_CHECK_OPEN": bool = CheckRules::default().admit_unknown;
    /// URL where a buyer gets the proof for the bot check; sent with refusals and linked on the shop page.
    #[arg(long, value_name = "URL")]
    check_page, "RUSHGATE_SERVE_CHECK_PAGE": String;
    /// Maximum wait of a request for a lock, a task or an order [default: 1m].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(deserialize_with = "duration::read")]
    longest_wait, "RUSHGATE_SERVE_LONGEST_WAIT": Duration = Duration::from_secs(60);
    /// Time limit for the headers of a request, and again for its body. Idle connections are closed after this time
    /// too [default: 10s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(deserialize_with = "duration::read")]
    arrival, "RUSHGATE_SERVE_ARRIVAL": Duration = Duration::from_secs(10);
    /// Grace period for running requests after the server is stopped [default: 10s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    #[serde(deserialize_with = "duration::read")]
    grace, "RUSHGATE_SERVE_GRACE": Duration = Duration::from_secs(10);
    /// Maximum number of connections [default: 50000].
    #[arg(long, value_name = "N")]
    connections, "RUSHGATE_SERVE_CONNECTIONS": NonZeroU32 = const { NonZeroU32::new(50_000).expect("not zero") };
}

impl ServeOptions {
    /// Settings from the environment for commands other than `serve`. Unreadable variables are ignored here.
    pub(crate) fn of_environment() -> Self {
        let command = Self::augment_args(Command::new("serve"));
        let said = command.try_get_matches_from(["serve"]);
        said.and_then(|said| Self::from_arg_matches(&said)).unwrap_or_default()
    }

    /// The settings with defaults filled in.
    pub(crate) fn settle(self) -> Result<Settings, Fault> {
        let settings = self.with_defaults();
        settings.check_combinations()?;
        Ok(settings)
    }
}

/// Certificate and key files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tls<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
}

impl Settings {
    /// The server's URL, if it listens on `address`.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        format!("{}://{address}", if self.tls_cert.is_some() { "https" } else { "http" })
    }

    /// Certificate and key files.
    pub(crate) fn tls(&self) -> Option<Tls<'_>> {
        let (certificate, key) = (self.tls_cert.as_deref()?, self.tls_key.as_deref()?);
        Some(Tls { certificate, key })
    }

    /// The rules of the bot check.
    pub(crate) fn check_rules(&self) -> CheckRules {
        CheckRules {
            timeout: self.check_timeout,
            remember: self.check_remember,
            admit_unknown: self.check_open,
        }
    }

    /// The options can come from different sources, so combinations are checked only here.
    fn check_combinations(&self) -> Result<(), Fault> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Fault::usage("`tls_cert` and `tls_key` must be set together"));
        }
        if self.check_url.is_none() && (self.check_secret_file.is_some() || self.check_page.is_some()) {
            return Err(Fault::usage("`check_secret_file` and `check_page` require `check_url`"));
        }
        let open = [("insecure", self.insecure), ("hosts", !self.hosts.is_empty())];
        match open.into_iter().find(|(_, is_set)| *is_set && self.tokens.is_some()) {
            Some((key, _)) => Err(Fault::usage(format_args!("`{key}` and `tokens` cannot be used together"))
                .hint(
                    "remove one of them: `insecure` and `hosts` apply only to a server without tokens; check \
                     flags, RUSHGATE_SERVE_… variables and [serve] in rushgate.toml",
                )),
            None => self.check_limits(),
        }
    }

    /// Without tokens every client is an operator, and operators are neither limited nor checked.
    fn check_limits(&self) -> Result<(), Fault> {
        let of_buyers = [
            ("limit_buyer", self.limit_buyer.is_some()),
            ("limit_address", self.limit_address.is_some()),
            ("check_url", self.check_url.is_some()),
        ];
        match of_buyers.into_iter().find(|(_, is_set)| *is_set && self.tokens.is_none()) {
            Some((key, _)) => Err(Fault::usage(format_args!("`{key}` requires `tokens`")).hint(
                "set `tokens`: without tokens every client is an operator, and this setting applies only to \
                 buyers",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::args;
    use crate::config::Config;

    /// Keys without a default; the reference shows an example of each.
    const UNSET: &[&str] = &[
        "store", "url", "orders", "tokens", "tls_cert", "tls_key", "audit_log", "limit_buyer",
        "limit_address", "check_url", "check_secret_file", "check_page",
    ];

    /// Lines of the reference that set a key: `#key = value`. Prose is `# prose`.
    fn lines() -> Vec<(String, String)> {
        let set = REFERENCE.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
        set.filter(|(key, _)| !key.starts_with(' '))
            .map(|(key, value)| (key.to_owned(), format!("{key} = {value}")))
            .collect()
    }

    /// The reference with those lines uncommented.
    fn in_force(is_wanted: impl Fn(&str) -> bool) -> Config {
        let lines = lines();
        let set = |line: &str| lines.iter().find(|(key, set)| is_wanted(key) && line == format!("#{set}"));
        let text: Vec<_> = REFERENCE.lines().map(|line| set(line).map_or(line, |(_, set)| set)).collect();
        Config::parse(&text.join("\n")).unwrap()
    }

    #[test]
    fn the_reference_has_every_option_and_its_variable_and_nothing_else() {
        let command = args::command();
        let serve = command.find_subcommand("serve").unwrap();
        let verbs = ["print_config", "check"];
        let options: Vec<_> =
            serve.get_arguments().filter(|arg| !verbs.contains(&arg.get_id().as_str())).collect();
        let mut names: BTreeSet<_> = options.iter().map(|arg| arg.get_id().to_string()).collect();
        for option in &options {
            let name = option.get_id().as_str();
            let variable = format!("RUSHGATE_SERVE_{}", name.to_uppercase());
            assert_eq!(option.get_env().unwrap(), variable.as_str());
            assert!(REFERENCE.contains(&variable), "{variable}");
            let flag = format!("--{}", option.get_long().unwrap());
            assert!(REFERENCE.contains(&flag), "{flag}");
        }
        names.extend(["store", "url", "orders"].map(str::to_owned));
        let keys: Vec<_> = lines().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), names.len(), "each once: {keys:?}");
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), names);
    }

    #[test]
    fn the_reference_reads_back_as_the_defaults() {
        assert_eq!(Config::parse(REFERENCE).unwrap(), Config::default(), "as it is, it says nothing");
        let defaults = ServeOptions::default().settle().unwrap();
        let stated = in_force(|key| !UNSET.contains(&key)).serve;
        for (key, is_stated) in [
            ("listen", stated.listen.is_some()),
            ("demo", stated.demo.is_some()),
            ("insecure", stated.insecure.is_some()),
            ("hosts", stated.hosts.is_some()),
            ("origins", stated.origins.is_some()),
            ("proxies", stated.proxies.is_some()),
            ("check_timeout", stated.check_timeout.is_some()),
            ("check_remember", stated.check_remember.is_some()),
            ("check_open", stated.check_open.is_some()),
            ("longest_wait", stated.longest_wait.is_some()),
            ("arrival", stated.arrival.is_some()),
            ("grace", stated.grace.is_some()),
            ("connections", stated.connections.is_some()),
        ] {
            assert!(is_stated, "{key} was not read");
        }
        assert_eq!(stated.settle().unwrap(), defaults);
    }

    #[test]
    fn what_has_no_default_is_said_to_have_none_and_its_example_is_read() {
        let all = in_force(|key| key != "url");
        assert!(all.place().unwrap().is_some() && all.orders.is_some() && all.serve.tokens.is_some());
        assert!(in_force(|key| key != "store").place().unwrap().is_some());
        for key in UNSET {
            let (before, _) = REFERENCE.split_once(&format!("\n#{key} = ")).unwrap();
            assert!(before.lines().last().unwrap().ends_with("for example:"), "{key}");
        }
    }

    #[test]
    fn the_help_names_the_defaults_that_hold() {
        let Settings { listen, longest_wait, arrival, grace, connections, .. } =
            ServeOptions::default().settle().unwrap();
        let command = args::command();
        let serve = command.find_subcommand("serve").unwrap();
        let usual = CheckRules::default();
        for (id, default) in [
            ("check_timeout", format!("{}s", usual.timeout.as_secs())),
            ("check_remember", format!("{}m", usual.remember.as_secs() / 60)),
            ("listen", listen.to_string()),
            ("longest_wait", format!("{}m", longest_wait.as_secs() / 60)),
            ("arrival", format!("{}s", arrival.as_secs())),
            ("grace", format!("{}s", grace.as_secs())),
            ("connections", connections.to_string()),
        ] {
            let option = serve.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            let help = option.get_help().unwrap().to_string();
            assert!(help.contains(&format!("[default: {default}]")), "{id}: {help}");
        }
    }

    #[test]
    fn what_is_typed_wins_over_the_file_key_by_key() {
        let file =
            Config::parse("[serve]\nlisten = \"[::1]:1\"\ngrace = \"1s\"\nhosts = [\"a\"]\ndemo = true\n");
        let typed = ServeOptions {
            grace: Some(Duration::from_secs(2)),
            demo: Some(false),
            ..ServeOptions::default()
        };
        let settled = typed.or(file.unwrap().serve).settle().unwrap();
        assert_eq!(settled.listen, "[::1]:1".parse().unwrap());
        assert_eq!((settled.grace, settled.demo), (Duration::from_secs(2), false));
        assert_eq!(settled.hosts, ["a"]);
    }

    #[test]
    fn tokens_go_with_nothing_that_is_for_a_server_without() {
        for text in ["tokens = \"t\"\ninsecure = true", "tokens = \"t\"\nhosts = [\"a\"]"] {
            let said = Config::parse(&format!("[serve]\n{text}\n")).unwrap().serve;
            let fault = said.settle().unwrap_err().to_string();
            assert!(fault.contains("`tokens` cannot be used together"), "{fault}");
        }
        let off = Config::parse("[serve]\ntokens = \"t\"\ninsecure = false\nhosts = []\n").unwrap().serve;
        assert!(off.settle().is_ok());
    }
}
