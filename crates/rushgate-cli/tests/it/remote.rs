//! Every command of a store gives the same output against a server as against the store itself.

use std::collections::BTreeSet;

use crate::common::{Running, Said, Shop, masked, serve};
use rusqlite::Connection;
use serde_json::Value;

/// Where a side runs its commands.
struct Side {
    shop: Shop,
    /// Variables of its commands.
    variables: Vec<(&'static str, String)>,
    /// The latest values of fields that differ between the sides.
    known: Vec<(&'static str, String)>,
    _server: Option<(Running, Shop)>,
}

impl Side {
    /// The store on a file.
    fn local() -> Self {
        Self { shop: Shop::new(), variables: Vec::new(), known: Vec::new(), _server: None }
    }

    /// A server with a store on a file in a directory of its own, and an operator's token.
    fn remote() -> Self {
        let of_server = Shop::new();
        let made = of_server.json(&["token", "create", "cli", "--role", "operator"]);
        let (running, address) = serve(&of_server, &["--tokens", "tokens.json"]);
        let variables = vec![
            ("RUSHGATE_URL", format!("http://{address}")),
            ("RUSHGATE_TOKEN", made["token"].as_str().unwrap().to_owned()),
        ];
        let shop = Shop::new();
        Self { shop, variables, known: Vec::new(), _server: Some((running, of_server)) }
    }

    /// Runs a line. `{ticket}` and the like are values of earlier answers.
    fn run(&mut self, line: &str) -> Said {
        let words: Vec<String> = line.split(' ').map(|word| self.filled(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.shop.command(&words);
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        let mut said = Said::from(command.output().unwrap());
        let url = self.variables.first().map_or("sqlite:rushgate.db", |(_, url)| url);
        for text in [&mut said.out, &mut said.err] {
            *text = text.replace(url, "the store");
        }
        if let Ok(json) = serde_json::from_str(&said.out) {
            self.learn(&json);
        }
        said
    }

    fn filled(&self, word: &str) -> String {
        let known = self.known.iter().rev();
        known.fold(word.replace('~', " "), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    }

    fn learn(&mut self, json: &Value) {
        match json {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => {
                for name in ["ticket", "id", "receipt", "token"] {
                    if let Some(Value::String(text)) = fields.get(name) {
                        self.known.retain(|(known, _)| *known != name);
                        self.known.push((name, text.clone()));
                    }
                }
                fields.values().for_each(|value| self.learn(value));
            }
            _ => {}
        }
    }
}

/// The text with `*` in place of times and IDs, and of numbers that differ between two processes.
fn masked_text(text: &str) -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    // A worker is named `HOST:PID`.
    let before = ["\"due_for_ms\":", "\"lag_ms\":", &format!("{}:", host.trim())];
    text.lines().map(|line| masked(&before.iter().fold(line.to_owned(), without_number)).0).collect()
}

/// The line without the number that follows each `before`.
fn without_number(line: String, before: &&str) -> String {
    let parts = line.split(before).enumerate().map(|(at, part)| match at {
        0 => part,
        _ => part.trim_start_matches(|c: char| c.is_ascii_digit()),
    });
    parts.collect::<Vec<_>>().join(&format!("{before}*"))
}

/// Lines that both sides run, in this order. `~` is a space within a word. Together they have every command that works
/// on a store.
const LINES: &str = "\
lock run l -- sh -c echo~$RUSHGATE_LOCK
lock ls
lock run l -- sh -c exit~7
lock show l
lock release l --token 00000000000000000000000000000000
lock force-release l
lock run l --wait 0s -- rushgate-is-not-there
--json lock ls
queue ls
queue enqueue mail a --payload {\"to\":\"ann\"} --kind welcome --key k
queue enqueue mail a --payload 1
queue enqueue mail a --payload 2 --replace
queue enqueue mail b --payload \"b\" --priority 1 --unique-for 1h
queue enqueue mail c --delay 1h --payload-file nothing-there
queue enqueue mail c --delay 1h --deadline 2h
queue enqueue mail bad~id
queue ls
queue ls mail
--json queue ls mail
queue ls mail --state scheduled
queue ls mail -n 1 --after a
queue top mail -n 3
queue stats
queue stats mail
queue stats nothing
queue show mail a
queue show mail nothing
queue why mail c
--json queue why mail a
queue limit mail --bound 10 --keep 1h/100 --events 50 --rate 100/1m
queue limit mail
--json queue claim mail --lease 1m
queue extend mail --ticket {ticket} --percent 50 --note half
queue show mail b
queue complete mail --ticket {ticket} --result {\"sent\":3}
queue complete mail --ticket {ticket}
queue wait mail b --for 1s
queue wait mail a --for 0s
--json queue claim mail
queue retry mail --ticket {ticket} --error down --delay 0s
--json queue claim mail
queue release mail --ticket {ticket}
--json queue claim mail
queue retry mail --ticket {ticket} --give-up --error never
queue dead ls mail
queue show mail a
queue dead requeue mail a
--json queue top mail
queue dequeue mail --ticket {ticket}
queue dequeue mail --ticket {ticket}
queue enqueue mail d
queue clear-unique mail b
queue clear-unique mail b
queue events mail
--json queue events mail --after 2
queue watch mail -n 1
queue export mail
queue import copy nothing-there
queue reschedule mail d --delay 1h
queue reschedule mail nothing
queue cancel mail --all --dry-run
queue cancel mail d
queue cancel mail --state scheduled
queue pause mail
queue resume mail
queue enqueue batch report --open
queue enqueue batch page --part-of report
queue close-batch batch report
queue show batch report
queue pop batch
queue enqueue batch x --after nothing
--json queue claim batch
queue retry batch --ticket {ticket} --give-up --error no
queue dead delete batch --all
queue cron add reports nightly --cron 0~3~*~*~* --zone UTC --payload \"all\"
queue cron add reports nightly --cron 0~4~*~*~* --zone UTC --payload \"all\"
queue cron ls reports
queue cron pause reports nightly
queue cron resume reports nightly
queue cron run reports nightly
queue cron next --every 1m -n 1
queue cron rm reports nightly
queue cron rm reports nightly
queue worker ls reports
queue worker set reports nobody stop
queue delete reports --dry-run
queue delete reports
queue stats reports
queue enqueue work one --payload 1
queue enqueue work two --payload 2 --max-attempts 1
work work --until-empty --exec sh -c cat;~echo~to~stderr~>&2;~test~$RUSHGATE_TASK~=~one
queue show work two
queue dead ls work
sale ls
sale create phones --sku phone=3:1 --hold 1h
sale create phones --sku phone=3:1
sale show phones
sale reserve phones --buyer ann --line phone --key k
sale open phones
--json sale reserve phones --buyer ann --line phone --key k
sale reserve phones --buyer ann --line phone --key other
sale confirm phones {id}
sale confirm phones {id}
--json sale reserve phones --buyer bob --line phone --key k
sale restore phones {receipt}
sale restore phones nonsense
sale cancel phones {id}
sale stock add phones phone 2
sale stock withdraw phones phone 1
sale stock withdraw phones phone 100
sale expire phones
sale events phones
--json sale events phones --after 2 -n 3
sale orders ls phones
sale orders retry phones
sale audit phones
sale room set phones --rate 100/1s --draw
sale room join phones --buyer ann
sale room show phones
sale room enter phones --buyer ann
sale room close-entry phones
sale room draw phones --beacon 07~12
sale room enter phones --buyer nobody
sale room close phones
sale room close phones
sale create tracked --sku a=1 --orders sqlite:orders.db
sale open tracked
sale reserve tracked --buyer ann --line a --key k --orders sqlite:orders.db
sale work tracked --orders sqlite:orders.db --until-empty
sale halt tracked
sale rebuild tracked --orders sqlite:orders.db --receipts-first 1s
sale audit tracked --orders sqlite:orders.db
sale end phones
sale show phones
sale ls
sale show nothing
outbox stats sqlite:shop.db
outbox relay sqlite:shop.db --until-empty
outbox ls sqlite:shop.db
outbox retry sqlite:shop.db --all
outbox delete sqlite:shop.db --all
queue pop mail -n 5
doctor
--json doctor";

/// Commands that have no store, or make one of their own, with the reason.
const OTHERS: [(&str, &str); 16] = [
    ("bench", "it measures a store in load of its own"),
    ("completions", "it prints a script"),
    ("functions check", "it is about a Redis server"),
    ("functions install", "it is about a Redis server"),
    ("functions print", "it is about a Redis server"),
    ("man", "it writes pages"),
    ("queue cron tend", "it runs until it is stopped; see `a_scheduler_fires_through_a_server`"),
    ("rush", "it simulates a sale; see `rush_http.rs`"),
    ("sale draw verify", "it reads a file"),
    ("serve", "it is the server"),
    ("token create", "it writes the token file of a server"),
    ("token key", "it writes the token file of a server"),
    ("token ls", "it reads the token file of a server"),
    ("token revoke", "it writes the token file of a server"),
    ("token sign", "it reads the token file of a server"),
    ("top", "it draws on a terminal"),
];

/// The application's database, with an outbox of two tasks, one of which is refused.
fn with_outbox(side: &Side) {
    let conn = Connection::open(side.shop.path("shop.db")).unwrap();
    conn.execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    let said = side.shop.run(&["outbox", "stats", "sqlite:shop.db"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let rows = "('mail', 'o1', '1'), ('bad name', 'o2', '2')";
    conn.execute_batch(&format!("INSERT INTO rushgate_outbox (queue, id, payload) VALUES {rows}")).unwrap();
}

#[test]
fn every_command_says_the_same_against_a_server_as_against_its_store() {
    let (mut local, mut remote) = (Side::local(), Side::remote());
    with_outbox(&local);
    with_outbox(&remote);
    for line in LINES.lines() {
        let (here, there) = (local.run(line), remote.run(line));
        assert_eq!(
            here.status, there.status,
            "{line}: {}{}\n---\n{}{}",
            here.out, here.err, there.out, there.err
        );
        // A server has no file, and its own name and address.
        let is_doctor = line.ends_with("doctor");
        if !is_doctor {
            assert_eq!(masked_text(&here.out), masked_text(&there.out), "stdout of `{line}`");
            assert_eq!(masked_text(&here.err), masked_text(&there.err), "stderr of `{line}`");
        }
        if line == "--json doctor" {
            let (here, there): (Value, Value) =
                (serde_json::from_str(&here.out).unwrap(), serde_json::from_str(&there.out).unwrap());
            for field in ["durability", "queues", "tasks", "dead_letters", "locks_held", "sales", "warnings"]
            {
                assert_eq!(here[field], there[field], "{field}");
            }
            assert!(there["server"].as_str().unwrap().contains("behind Rushgate"), "{there}");
        }
    }
}

#[test]
fn every_command_is_compared_or_has_a_reason_not_to_be() {
    let shop = Shop::new();
    shop.ok(&["man", "--dir", "pages"]);
    let pages: BTreeSet<String> = std::fs::read_dir(shop.path("pages"))
        .unwrap()
        .filter_map(|page| {
            let name = page.unwrap().file_name().into_string().unwrap();
            Some(name.strip_prefix("rushgate-")?.strip_suffix(".1")?.to_owned())
        })
        .collect();
    let is_group = |page: &String| pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    let known = |page: &str| {
        let has = |line: &str| {
            let line = line.strip_prefix("--json ").unwrap_or(line).replace(' ', "-") + "-";
            line.starts_with(&format!("{page}-"))
        };
        LINES.lines().any(has) || OTHERS.iter().any(|(other, _)| other.replace(' ', "-") == page)
    };
    let unknown: Vec<_> = pages.iter().filter(|page| !is_group(page) && !known(page)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(pages.len() > 60, "{pages:?}");
}

/// A server with tokens, its address and an operator's token.
fn server() -> (Running, Shop, String, String) {
    let of_server = Shop::new();
    let token = of_server.json(&["token", "create", "cli", "--role", "operator"])["token"].clone();
    let (running, address) = serve(&of_server, &["--tokens", "tokens.json"]);
    (running, of_server, format!("http://{address}"), token.as_str().unwrap().to_owned())
}

#[test]
fn a_profile_names_a_place_and_its_token_and_a_flag_overrides_it() {
    let (_running, of_server, url, token) = server();
    of_server.ok(&["queue", "enqueue", "remote", "a"]);
    let shop = Shop::new();
    let user = shop.path("config/rushgate");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(shop.path("token"), &token).unwrap();
    let token_file = shop.path("token");
    let profile = format!("[profiles.far]\nurl = {url:?}\ntoken_file = {token_file:?}\n");
    std::fs::write(user.join("rushgate.toml"), profile).unwrap();
    let near = "orders = \"sqlite:local.db\"\n[profiles.near]\nstore = \"sqlite:near.db\"\n";
    std::fs::write(shop.path("rushgate.toml"), near).unwrap();
    shop.ok(&["--store", "sqlite:near.db", "queue", "enqueue", "near", "a"]);
    let run = |args: &[&str], variables: &[(&str, &str)]| -> Said {
        let mut command = shop.command(args);
        command.env("XDG_CONFIG_HOME", shop.path("config")).envs(variables.iter().copied());
        command.output().unwrap().into()
    };
    let ls = ["queue", "ls"];
    assert_eq!(run(&[&["--profile", "far"][..], &ls].concat(), &[]).out, "remote\n");
    assert_eq!(run(&[&ls[..], &["--profile", "near"]].concat(), &[]).out, "near\n");
    assert_eq!(run(&ls, &[("RUSHGATE_PROFILE", "far")]).out, "remote\n");
    // The ledger outside of profiles belongs to the store outside of them.
    let ledger_of = |args: &[&str]| {
        let said = run(&[args, &["doctor"]].concat(), &[]);
        said.out + &said.err
    };
    assert!(ledger_of(&["--store", "sqlite:near.db"]).contains("local.db"));
    assert!(!ledger_of(&["--profile", "near"]).contains("local.db"));
    // A flag overrides variables, and a URL overrides a profile.
    assert_eq!(
        run(&[&ls[..], &["--store", "sqlite:near.db"]].concat(), &[("RUSHGATE_PROFILE", "far")]).out,
        "near\n"
    );
    let both = [("RUSHGATE_PROFILE", "far"), ("RUSHGATE_STORE", "sqlite:near.db")];
    assert_eq!(run(&ls, &both).out, "near\n");
    assert_eq!(run(&[&ls[..], &["--profile", "far"]].concat(), &both).out, "remote\n");
    let said = run(&[&ls[..], &["--profile", "far", "--store", "sqlite:near.db"]].concat(), &[]);
    assert!(said.status == 2 && said.err.contains("exclude each other"), "{}", said.err);
    // A server overrides a profile as a store does, and a flag for one overrides the variable of the other.
    let token = ("RUSHGATE_TOKEN", token.as_str());
    let of_server = ("RUSHGATE_URL", url.as_str());
    let of_store = ("RUSHGATE_STORE", "sqlite:near.db");
    assert_eq!(run(&ls, &[of_server, token, ("RUSHGATE_PROFILE", "near")]).out, "remote\n");
    assert_eq!(run(&["--url", &url, "queue", "ls"], &[of_store, token]).out, "remote\n");
    assert_eq!(run(&["queue", "--store", "sqlite:near.db", "ls"], &[of_server, token]).out, "near\n");
    assert_eq!(run(&["--profile", "near", "queue", "ls"], &[of_server, of_store]).out, "near\n");
    let said = run(&[&ls[..], &["--profile", "nowhere"]].concat(), &[]);
    assert!(said.status == 2 && said.err.contains("[profiles.nowhere]"), "{}", said.err);
    let said = run(&["--profile", "far", "-v", "queue", "ls"], &[]);
    assert!(said.err.contains(&url) && !said.err.contains(token.1), "the token is not shown: {}", said.err);
}

/// A directory may be a stranger's: its file must not choose who gets the user's token.
#[test]
fn a_directory_does_not_choose_who_gets_the_users_token() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (shop, home) = (Shop::new(), Shop::new());
    std::fs::write(home.path("secret"), "rg_1_2").unwrap();
    let linked = shop.path("linked");
    std::os::unix::fs::symlink(home.path("secret"), &linked).unwrap();
    let refuses = |file: &str, args: &[&str], token: &str, words: &str| {
        std::fs::write(shop.path("rushgate.toml"), file).unwrap();
        let mut command = shop.command(&[args, &["queue", "ls"]].concat());
        command.env("RUSHGATE_TOKEN", token).env("XDG_CONFIG_HOME", home.path("config"));
        let said: Said = command.output().unwrap().into();
        assert!(said.status == 2 && said.err.contains(words), "{file}: {}", said.err);
        assert!(listener.accept().is_err(), "{file}: the command connected to the server");
    };
    let profile = ["--profile", "p"];
    let token = "RUSHGATE_TOKEN is sent only to one that you name";
    refuses(&format!("url = {url:?}"), &[], "rg_1_2", token);
    refuses(&format!("url = \"{url}/@\""), &[], "rg_1_2", token);
    refuses(&format!("[profiles.p]\nurl = {url:?}"), &profile, "rg_1_2", token);
    for file in [home.path("secret"), linked] {
        let file = format!("[profiles.p]\nurl = {url:?}\ntoken_file = {file:?}");
        refuses(&file, &profile, "", "outside of its directory");
    }
    // The completion of names asks the server, too.
    std::fs::write(shop.path("rushgate.toml"), format!("url = {url:?}")).unwrap();
    let mut typed = shop.command(&["--", "rushgate", "queue", "stats", ""]);
    typed.env("RUSHGATE_TOKEN", "rg_1_2").env("RUSHGATE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
    assert!(typed.output().unwrap().status.success());
    assert!(listener.accept().is_err(), "the completion connected to the server");
}

#[test]
fn a_command_has_one_place_a_store_or_a_server() {
    let shop = Shop::new();
    let url = "http://127.0.0.1:1";
    let refused = |variables: &[(&str, &str)], args: &[&str], words: &str| {
        let mut command = shop.command(args);
        let said: Said = command.envs(variables.iter().copied()).output().unwrap().into();
        assert!(said.status == 2 && said.err.contains(words), "{args:?}: {}", said.err);
        assert!(!said.err.contains("secret"), "{}", said.err);
    };
    let both = [("RUSHGATE_STORE", "sqlite:a.db"), ("RUSHGATE_URL", url)];
    refused(
        &[],
        &["--store", "sqlite:a.db", "--url", url, "queue", "ls"],
        "--store and --url exclude each other",
    );
    refused(&[], &["--url", url, "queue", "ls", "--profile", "p"], "--url and --profile exclude each other");
    refused(&both, &["queue", "ls"], "RUSHGATE_STORE and RUSHGATE_URL are both set");
    refused(&[], &["--store", "https://secret@h", "queue", "ls"], "set it as --url (RUSHGATE_URL)");
    refused(&[], &["--url", "redis://:secret@h", "queue", "ls"], "for a store, set --store (RUSHGATE_STORE)");
    refused(&[], &["--url", "127.0.0.1:7979", "rush"], "use https://HOST[:PORT]");
    refused(&[("RUSHGATE_URL", url)], &["serve"], "`serve` requires a store");
    refused(&[("RUSHGATE_URL", url)], &["functions", "check"], "requires a store, not a server");
    std::fs::write(shop.path("rushgate.toml"), "store = \"sqlite:a.db\"\nurl = \"https://h\"\n").unwrap();
    refused(&[], &["queue", "ls"], "`store` and `url` exclude each other");
    std::fs::write(shop.path("rushgate.toml"), "store = \"https://secret@h\"\n").unwrap();
    refused(&[], &["queue", "ls"], "set it as `url`");
    std::fs::write(shop.path("rushgate.toml"), format!("url = {url:?}\n")).unwrap();
    assert_eq!(shop.run(&["queue", "ls"]).status, 4, "the server of the file is away");
}

#[test]
fn a_refused_token_is_status_3_and_an_unreachable_server_status_4() {
    let (running, of_server, url, _token) = server();
    let worker = of_server.json(&["token", "create", "w", "--role", "worker", "--scope", "queue:mail"]);
    let worker = worker["token"].as_str().unwrap();
    let run = |token: &str, args: &[&str]| -> Said {
        let mut command = of_server.command(&[&["--json", "--url", &url], args].concat());
        command.env("RUSHGATE_TOKEN", token).output().unwrap().into()
    };
    // The server rereads its tokens within a fraction of a second.
    while run(worker, &["queue", "stats", "mail"]).status == 3 {}
    let refused = |said: Said, words: &str| {
        assert_eq!(said.status, 3, "{}", said.err);
        let error = said.error();
        assert_eq!(error["code"], "forbidden", "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("rushgate token create"), "{error}");
    };
    refused(run("", &["queue", "ls"]), "requires a valid API token");
    refused(run("rg_1_2", &["queue", "ls"]), "requires a valid API token");
    refused(run(worker, &["queue", "pause", "mail"]), "requires the role operator");
    refused(run(worker, &["queue", "top", "other"]), "scopes do not cover this queue");
    refused(run(worker, &["token", "create", "x", "--role", "operator"]), "requires the role operator");
    drop(running);
    assert_eq!(run(worker, &["queue", "ls"]).status, 4);
}

#[test]
fn tokens_are_managed_at_the_server_of_the_url() {
    let (_running, of_server, url, token) = server();
    let shop = Shop::new();
    let run = |token: &str, args: &[&str]| -> Said {
        let mut command = shop.command(&[&["--json"], args].concat());
        command.env("RUSHGATE_URL", &url).env("RUSHGATE_TOKEN", token).output().unwrap().into()
    };
    let json =
        |said: &Said| -> Value { serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err)) };
    let made =
        json(&run(&token, &["token", "create", "mailer", "--role", "worker", "--scope", "queue:mail*"]));
    let key = json(&run(&token, &["token", "key", "shop", "--scope", "sale:*"]));
    assert_eq!(key["alg"], "HS256");
    let listed = json(&run(&token, &["token", "ls"]));
    assert_eq!(listed, of_server.json(&["token", "ls"]), "as its file says");
    assert!(!shop.path("tokens.json").exists());
    let mailer = made["token"].as_str().unwrap();
    while run(mailer, &["queue", "stats", "mail"]).status == 3 {}
    let scoped = of_server.json(&["token", "create", "o", "--role", "operator", "--scope", "queue:*"]);
    let scoped = scoped["token"].as_str().unwrap();
    while run(scoped, &["queue", "ls"]).status == 3 {}
    let said = run(scoped, &["token", "create", "x", "--role", "operator"]);
    assert!(said.status == 3 && said.err.contains("token without scopes"), "{}", said.err);
    let id = made["id"].as_str().unwrap();
    assert_eq!(json(&run(&token, &["token", "revoke", id]))["revoked"], id);
    let again = run(&token, &["token", "revoke", id]);
    assert_eq!((again.status, again.error()["code"].as_str()), (1, Some("not_found")));
    while run(mailer, &["queue", "ls"]).status != 3 {}
    let said = run(&token, &["token", "sign", "ann"]);
    assert!(said.status == 2 && said.err.contains("does not sign tokens"), "{}", said.err);
}

#[test]
fn a_scheduler_fires_through_a_server() {
    let (_running, _of_server, url, token) = server();
    let shop = Shop::new();
    let start = |args: &[&str]| {
        let mut command = shop.command(&[&["--url", &url], args].concat());
        command.env("RUSHGATE_TOKEN", &token);
        command
    };
    let json = |args: &[&str]| -> Value {
        let said: Said = start(&[&["--json"], args].concat()).output().unwrap().into();
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
    };
    json(&["queue", "cron", "add", "q", "often", "--every", "1s"]);
    let tending = Running::of(start(&["queue", "cron", "tend", "q"]));
    while json(&["queue", "stats", "q"])["ready"] == 0 {}
    tending.signal(rustix::process::Signal::TERM);
    assert_eq!(tending.end().status, 0);
}
