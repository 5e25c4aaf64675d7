//! Checks that a server can keep the store's guarantees.

use std::collections::HashMap;

use rushgate_core::{Durability, Error, Result, Warning};

use crate::command::Command;
use crate::fault;
use crate::reply::{Answered, Reply};
use crate::transport::Commands;

/// What is known of a server that passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Its name and version, such as `Redis 7.0.15`.
    pub(crate) server: String,
    /// The server's run ID, which changes with each start.
    pub(crate) run: String,
    pub(crate) durability: Durability,
    /// Replicas that must acknowledge a write before it is acknowledged to the caller.
    pub(crate) replicas: u32,
    /// Whether the user may read the settings. If not, INFO decides.
    pub(crate) sees_settings: bool,
}

/// Warning: the durability class is a lower bound, because the user may not read the server's settings.
pub const UNSEEN_SETTINGS: Warning = Warning {
    what: "the user lacks permission to read the server's settings: writes wait for one replica even if the settings \
           demand more, and `appendfsync always` counts as `everysec`",
    fix: "grant the user +config|get",
};
const LOSES: Warning = Warning {
    what: "a failover may lose acknowledged writes",
    fix: "set `min-replicas-to-write` on every server",
};

impl Checked {
    /// Before the first check.
    pub(crate) fn unknown() -> Self {
        Self {
            server: String::new(),
            run: String::new(),
            durability: Durability::D0,
            replicas: 0,
            sees_settings: true,
        }
    }

    /// Warnings about the server. `may_fail_over` says that another server may replace this one.
    pub(crate) fn warnings(&self, may_fail_over: bool) -> Vec<Warning> {
        let loses = may_fail_over && self.durability < Durability::D3;
        [(!self.sees_settings, UNSEEN_SETTINGS), (loses, LOSES)]
            .into_iter()
            .filter_map(|(is_so, warning)| is_so.then_some(warning))
            .collect()
    }
}

/// The role that a server must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A standalone server.
    Alone,
    /// The primary named by sentinels.
    Primary,
    /// A primary of a Cluster.
    Member,
}

const REPLICAS: &str = "min-replicas-to-write";
const SETTINGS: [&str; 4] = ["maxmemory-policy", "appendonly", "appendfsync", REPLICAS];

/// Queries the server's role and settings, and rejects it with an error that names the setting.
pub(crate) async fn check(conn: &Commands, part: Part) -> Result<Checked> {
    // Every step reads the clock, so TIME shows early whether the user may.
    let mut questions = vec![Command::new("INFO"), Command::new("TIME")];
    questions.extend(SETTINGS.map(|name| Command::new("CONFIG").arg("GET").arg(name)));
    let answers = conn.send(&questions).await.map_err(|broken| fault::ended_at_once(&broken))?;
    let mut answers = answers.into_iter();
    let mut next =
        || answers.next().map_or(Ok(Reply::Nil), |answer| answer.map_err(|no| fault::refused(&no)));
    let mut facts = read_info(&next()?.text()?);
    if is_sentinel(&facts) {
        return Err(fault::is_sentinel());
    }
    next()?;
    // A user that may not read the settings sees most of them in INFO.
    facts.extend(answers.filter_map(read_setting));
    judge(&facts, part)
}

/// The fields of INFO, by name.
pub(crate) fn read_info(info: &str) -> HashMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn is_sentinel(facts: &HashMap<String, String>) -> bool {
    ["redis_mode", "server_mode"].iter().any(|name| facts.get(*name).is_some_and(|mode| mode == "sentinel"))
}

fn read_setting(answer: Answered) -> Option<(String, String)> {
    let Ok(Reply::List(pair)) = answer else { return None };
    let mut pair = pair.into_iter();
    Some((pair.next()?.text().ok()?, pair.next()?.text().ok()?))
}

fn judge(facts: &HashMap<String, String>, part: Part) -> Result<Checked> {
    let fact = |name: &str| facts.get(name).map_or("", String::as_str);
    let (name, version, oldest) = match fact("valkey_version") {
        "" => ("Redis", fact("redis_version"), (7, 0)),
        version => ("Valkey", version, (7, 2)),
    };
    if version.is_empty() {
        return Err(Error::misconfigured("the server does not identify itself as Redis or Valkey")
            .hint("use Redis 7.0, Valkey 7.2 or later"));
    }
    if number_of(version) < oldest {
        return Err(Error::misconfigured(format_args!(
            "{name} {version} is too old; {name} {}.{} or later is required",
            oldest.0, oldest.1
        )));
    }
    if fact("loading") == "1" {
        return Err(Error::unavailable("the server is loading its data")
            .hint("retry when the server has loaded its data"));
    }
    if fact("role") == "slave" {
        return Err(replica(part));
    }
    match (fact("cluster_enabled") == "1", part) {
        (true, Part::Alone | Part::Primary) => {
            return Err(fault::is_member());
        }
        (false, Part::Member) => {
            return Err(fault::no_member());
        }
        _ => {}
    }
    let policy = match fact("maxmemory-policy") {
        "" => fact("maxmemory_policy"),
        policy => policy,
    };
    if policy != "noeviction" {
        return Err(Error::misconfigured(format_args!(
            "the server's `maxmemory-policy` is `{policy}`: it may evict locks, tasks and stock"
        ))
        .hint("set `maxmemory-policy noeviction` in the server's configuration"));
    }
    let demanded = fact(REPLICAS).parse();
    let sees_settings = demanded.is_ok();
    // INFO has the number of good replicas only if some are required, and does not say how many are.
    let replicas = demanded.unwrap_or_else(|_| facts.contains_key("min_slaves_good_slaves").into());
    let (server, run) = (format!("{name} {version}"), fact("run_id").to_owned());
    Ok(Checked { server, run, durability: durability(fact, replicas), replicas, sees_settings })
}

fn replica(part: Part) -> Error {
    match part {
        Part::Alone => Error::misconfigured("the server is a replica and accepts no writes")
            .hint("name the primary in the store's URL"),
        // A failover has just replaced it, or is about to promote it.
        Part::Primary | Part::Member => Error::unavailable("the server is currently a replica"),
    }
}

fn number_of(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What an acknowledged write survives, according to the server's settings.
fn durability<'f>(fact: impl Fn(&str) -> &'f str, replicas: u32) -> Durability {
    if fact("appendonly") != "yes" && fact("aof_enabled") != "1" {
        return Durability::D0;
    }
    match fact("appendfsync") {
        _ if replicas > 0 => Durability::D3,
        "always" => Durability::D2,
        _ => Durability::D1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(changed: &[(&str, &str)]) -> HashMap<String, String> {
        let good = [
            ("redis_version", "7.0.15"),
            ("role", "master"),
            ("maxmemory-policy", "noeviction"),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("min-replicas-to-write", "0"),
        ];
        good.iter().chain(changed).map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_server_that_will_do_is_known_by_name_and_durability() {
        let checked = judge(&facts(&[]), Part::Alone).unwrap();
        assert_eq!((checked.server.as_str(), checked.durability), ("Redis 7.0.15", Durability::D1));
        let valkey =
            judge(&facts(&[("redis_version", "7.2.4"), ("valkey_version", "8.0.1")]), Part::Alone).unwrap();
        assert_eq!(valkey.server, "Valkey 8.0.1");
    }

    #[test]
    fn the_durability_class_follows_the_settings() {
        for (setting, class) in [
            (("appendonly", "no"), Durability::D0),
            (("appendfsync", "no"), Durability::D1),
            (("appendfsync", "always"), Durability::D2),
            (("min-replicas-to-write", "1"), Durability::D3),
        ] {
            assert_eq!(judge(&facts(&[setting]), Part::Alone).unwrap().durability, class, "{setting:?}");
        }
    }

    #[test]
    fn a_user_who_may_not_read_the_settings_is_warned_and_waits_for_a_replica_where_some_are_demanded() {
        let mut facts = facts(&[("aof_enabled", "1"), ("maxmemory_policy", "noeviction")]);
        for setting in SETTINGS {
            facts.remove(setting);
        }
        let checked = judge(&facts, Part::Primary).unwrap();
        assert_eq!((checked.durability, checked.replicas), (Durability::D1, 0));
        assert_eq!(checked.warnings(true), [UNSEEN_SETTINGS, LOSES]);
        assert_eq!(checked.warnings(false), [UNSEEN_SETTINGS]);
        facts.insert("min_slaves_good_slaves".into(), "0".into());
        let checked = judge(&facts, Part::Primary).unwrap();
        assert_eq!((checked.durability, checked.replicas), (Durability::D3, 1));
        assert_eq!(checked.warnings(true), [UNSEEN_SETTINGS]);
        assert!(UNSEEN_SETTINGS.fix.contains("+config|get"));
    }

    #[test]
    fn a_server_that_will_not_do_is_refused_in_words_that_name_the_setting() {
        for (setting, word) in [
            (("redis_version", "6.2.1"), "6.2.1 is too old"),
            (("valkey_version", "7.1.0"), "Valkey 7.1.0 is too old"),
            (("redis_version", ""), "Redis or Valkey"),
            (("role", "slave"), "replica"),
            (("maxmemory-policy", "allkeys-lru"), "`maxmemory-policy` is `allkeys-lru`"),
            (("maxmemory-policy", "volatile-ttl"), "`volatile-ttl`"),
            (("cluster_enabled", "1"), "Cluster"),
        ] {
            let error = judge(&facts(&[setting]), Part::Alone).unwrap_err();
            assert!(error.is_misconfigured() && error.to_string().contains(word), "{error}");
        }
        assert!(judge(&facts(&[("loading", "1")]), Part::Alone).unwrap_err().is_unavailable());
    }

    #[test]
    fn what_a_server_is_meant_to_be_decides_what_is_wrong_with_it() {
        let member = facts(&[("cluster_enabled", "1")]);
        assert!(judge(&member, Part::Member).is_ok());
        assert!(judge(&member, Part::Primary).unwrap_err().is_misconfigured());
        assert!(judge(&facts(&[]), Part::Member).unwrap_err().is_misconfigured());
        for part in [Part::Primary, Part::Member] {
            let error = judge(&facts(&[("role", "slave")]), part).unwrap_err();
            assert!(error.is_unavailable(), "a failover is under way: {error}");
        }
    }
}
