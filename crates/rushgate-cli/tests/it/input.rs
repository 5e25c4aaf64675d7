//! Bad arguments, files and pipes: a helpful message, the right exit status, and no panic.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Said, Shop};

/// Checks that the command fails with this status and message.
fn refused(shop: &Shop, status: i32, args: &[&str], part: &str) {
    let said = shop.run(args);
    assert_eq!(said.status, status, "{args:?}: {}{}", said.out, said.err);
    assert!(said.err.contains(part), "{args:?} should say {part:?}: {}", said.err);
    assert!(said.out.is_empty(), "{args:?}: {}", said.out);
}

#[test]
fn only_a_command_that_enqueues_is_notified_of_its_payload() {
    let shop = Shop::new();
    let cron = ["queue", "cron", "add", "q", "a", "--cron", "0 3 * * *", "{}"];
    refused(&shop, 2, &cron, "pass the payload with --payload");
    let said = shop.run(&["queue", "claim", "q", "{}"]);
    assert!(said.err.contains("unexpected argument") && !said.err.contains("payload"), "{}", said.err);
}

#[test]
fn what_is_typed_wrong_is_a_usage_error() {
    let shop = Shop::new();
    let long = "x".repeat(201);
    for (args, part) in [
        (&["lock", "run", "a", "--lease", "5", "--", "true"][..], "`5` has no unit; use 5s or 5ms"),
        (&["lock", "run", "a", "--lease", "0s", "--", "true"], "the lease is 0s; it must be 10 ms to 24 h"),
        (&["lock", "run", "a", "--lease", "999999d", "--", "true"], "it must be 10 ms to 24 h"),
        (&["lock", "run", "a", "--wait", "25h", "--", "true"], "the wait is 1d 1h; it must be at most 1d"),
        (&["lock", "run", "a", "--wait", "-5s", "--", "true"], "unexpected argument"),
        (&["lock", "run", "", "--", "true"], "the lock name is empty"),
        (&["lock", "run", "a b", "--", "true"], "contains ' '"),
        (&["lock", "run", "a\u{7}", "--", "true"], "contains '\\u{7}'"),
        (&["lock", "run", &long, "--", "true"], "201 bytes"),
        (&["lock", "run", "a", "--label", "a\nb", "--", "true"], "control character"),
        (&["lock", "run", "a"], "required"),
        (&["queue", "enqueue", "", "a"], "the queue name is empty"),
        (&["queue", "enqueue", "q", ""], "the task ID is empty"),
        (&["queue", "enqueue", "q", "a", "--payload", "{"], "the payload is not JSON"),
        (&["queue", "enqueue", "q", "{}"], "pass the payload with --payload"),
        (&["queue", "enqueue", "q", "a", "{}"], "pass the payload with --payload"),
        (&["queue", "enqueue", "q", "a", "--payload-file", "none"], "cannot read the payload from `none`"),
        (&["queue", "enqueue", "q", "a", "--priority", "10"], "it must be 0 (first) to 9"),
        (&["queue", "enqueue", "q", "a", "--max-attempts", "0"], "it must be 1 to 1000"),
        (&["queue", "enqueue", "q", "a", "--delay", "401d"], "the delay"),
        (&["queue", "enqueue", "q", "a", "--delay", "1s", "--at", "1h"], "cannot be used with"),
        (&["queue", "enqueue", "q", "a", "--replace", "--earliest"], "cannot be used with"),
        (&["queue", "cancel", "q", "--id-prefix", ""], "a value is required for '--id-prefix <TEXT>'"),
        (&["queue", "claim", "q", "-n", "0"], "it must be 1 to 1000"),
        (&["queue", "claim", "q", "--lease", "0s"], "the lease"),
        (&["queue", "complete", "q", "--ticket", "made-up"], "the ticket is malformed"),
        (&["queue", "limit", "q", "--bound", "many"], "use a number, or none"),
        (&["queue", "limit", "q", "--rate", "5"], "use a number and a duration, such as 100/1m, or none"),
        (&["queue", "limit", "q", "--rate", "0/1s"], "the rate is 0; it must be 1 to 10000"),
        (
            &["queue", "limit", "q", "--fifo", "true", "--key-concurrency", "2"],
            "the concurrency per key must be 1",
        ),
        (&["queue", "dead", "requeue", "q"], "required"),
        (&["work", "q", "--concurrency", "0", "--exec", "true"], "the concurrency"),
        (&["sale", "create", "s", "--sku", "phone"], "use NAME=UNITS"),
        (&["sale", "create", "s", "--sku", "phone=99999999999"], "99999999999 is out of range"),
        (&["sale", "create", "s", "--sku", "phone=1:99999999999"], "99999999999 is out of range"),
        (
            &["sale", "reserve", "s", "--buyer", "a", "--key", "k", "--line", "phone=99999999999"],
            "99999999999 is out of range",
        ),
        (&["sale", "create", "s", "--sku", "phone=1", "--closes-at", "1000000000000"], "is in the past"),
        (&["--orders", "foo", "rush"], "the ledger's URL has no scheme"),
        (&["sale", "create", "s", "--sku", "phone=0"], "the stock is 0"),
        (&["sale", "create", "s", "--sku", "phone=1:0"], "the limit per buyer is 0"),
        (&["sale", "create", "s", "--sku", "phone=1", "--hold", "0s"], "the hold time"),
        (&["sale", "create", "s", "--sku", "phone=1", "--sku", "phone=1"], "listed twice"),
        (&["sale", "confirm", "s", "x"], "32 hexadecimal digits"),
        (&["--store", "postgres://secret@host", "queue", "ls"], "the scheme `postgres`"),
        (&["--store", "sqlite:a.db?durabilty=power", "queue", "resume", "q"], "unknown option"),
        (&["--no-such-flag"], "unexpected argument"),
        (&["lokc"], "unrecognized subcommand"),
        (&["--quiet", "--verbose", "queue", "ls"], "cannot be used with"),
    ] {
        refused(&shop, 2, args, part);
    }
    let said = shop.run(&["--store", "postgres://secret@host", "queue", "ls"]);
    assert!(!said.err.contains("secret"), "{}", said.err);
}

#[test]
fn a_payload_over_the_limit_is_refused_with_its_limit() {
    let shop = Shop::new();
    let large = vec![b'1'; (1 << 20) + 1];
    let said = shop.with_stdin(&["queue", "enqueue", "q", "a", "--payload", "-"], &large);
    assert_eq!(said.status, 2, "{}", said.err);
    assert!(said.err.contains("the payload exceeds the maximum of 1048576 bytes"), "{}", said.err);
    assert!(said.err.contains("hint: store the content elsewhere"), "{}", said.err);
}

#[test]
fn with_json_an_error_is_one_object_on_stderr() {
    let shop = Shop::new();
    for args in [&["--json", "queue", "enqueue", "", "a"][..], &["queue", "--json", "lokc"]] {
        let said = shop.run(args);
        assert_eq!((said.status, said.err.lines().count()), (2, 1), "{}", said.err);
        let error = said.error();
        assert!(error["code"].is_string() && error["message"].is_string(), "{error}");
        assert_eq!(error["may_have_happened"], false);
        assert!(error.as_object().unwrap().contains_key("hint"), "{error}");
    }
}

#[test]
fn the_store_is_named_by_option_environment_or_file_in_that_order() {
    let shop = Shop::new();
    let made = |name: &str| shop.path(name).exists();
    shop.ok(&["queue", "resume", "q"]);
    assert!(made("rushgate.db"));
    std::fs::write(shop.path("rushgate.toml"), "store = \"sqlite:file.db\"\n").unwrap();
    shop.ok(&["queue", "resume", "q"]);
    assert!(made("file.db"));
    let by_environment = |args: &[&str]| {
        let said = shop.command(args).env("RUSHGATE_STORE", "sqlite:env.db").output().unwrap();
        assert!(said.status.success());
    };
    by_environment(&["queue", "resume", "q", "--store", "sqlite:option.db"]);
    assert!(made("option.db") && !made("env.db"));
    by_environment(&["queue", "resume", "q"]);
    assert!(made("env.db"));
}

#[test]
fn an_unknown_key_in_the_file_is_an_error_with_its_line() {
    let shop = Shop::new();
    std::fs::write(shop.path("rushgate.toml"), "store = \"sqlite:a.db\"\nstroe = 1\n").unwrap();
    refused(&shop, 2, &["queue", "ls"], "rushgate.toml, line 2: unknown field `stroe`");
    std::fs::write(shop.path("rushgate.toml"), "store =\n").unwrap();
    refused(&shop, 2, &["queue", "ls"], "rushgate.toml, line 1: ");
    shop.ok(&["help"]);
    shop.ok(&["completions", "bash"]);
}

#[test]
fn a_store_that_cannot_be_used_is_status_4_with_a_hint() {
    let shop = Shop::new();
    std::fs::create_dir(shop.path("directory")).unwrap();
    std::fs::write(shop.path("garbage"), "this is no database at all".repeat(100)).unwrap();
    let other = rusqlite::Connection::open(shop.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE notes (text)").unwrap();
    let newer = shop.path("newer.db");
    shop.ok(&["--store", "sqlite:newer.db", "queue", "resume", "q"]);
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 999).unwrap();
    for (store, part) in [
        ("sqlite:directory", "`directory` is a directory"),
        ("sqlite:garbage", "`garbage` is not an SQLite database"),
        ("sqlite:other.db", "another program"),
        ("sqlite:newer.db", "has schema 999"),
        ("sqlite:none/store.db", "the directory `none` does not exist"),
    ] {
        for verb in [&["queue", "enqueue", "q", "a"][..], &["lock", "run", "a", "--", "true"], &["doctor"]] {
            let said = shop.run(&[&["--store", store][..], verb].concat());
            assert_eq!(said.status, 4, "{store} {verb:?}: {}", said.err);
            assert!(said.err.contains(part) && said.err.contains("\nhint: "), "{store}: {}", said.err);
        }
    }
}

#[test]
fn a_store_that_may_not_be_written_is_status_4_with_a_hint() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "q", "a"]);
    let store = shop.path("rushgate.db");
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // Root ignores file permissions, so the command then runs as another user.
    let program = shop.path("rushgate");
    std::fs::copy(env!("CARGO_BIN_EXE_rushgate"), &program).unwrap();
    allow(&program, 0o755);
    allow(&store, 0o444);
    allow(shop.dir.path(), 0o555);
    let mut command = std::process::Command::new(&program);
    command.args(["queue", "enqueue", "q", "b"]).current_dir(shop.dir.path()).env_remove("RUSHGATE_STORE");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let said: Said = command.output().unwrap().into();
    allow(shop.dir.path(), 0o755);
    assert_eq!(said.status, 4, "{}{}", said.out, said.err);
    assert!(said.err.contains("\nhint: grant the user"), "{}", said.err);
}

#[test]
fn readers_that_leave_and_files_that_are_closed_are_no_panic() {
    let shop = Shop::new();
    (0..50).for_each(|n| drop(shop.ok(&["queue", "enqueue", "q", &format!("{n}-{}", "x".repeat(150))])));
    for args in
        [&["queue", "ls", "q"][..], &["--json", "queue", "ls", "q"], &["help"], &["completions", "bash"]]
    {
        let mut child = shop.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said: Said = child.wait_with_output().unwrap().into();
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{args:?}");
    }
    let closed = |redirect: &str| {
        let script = format!("exec \"$0\" queue enqueue q new --replace --payload - {redirect}");
        let binary = env!("CARGO_BIN_EXE_rushgate");
        let output = std::process::Command::new("sh")
            .args(["-c", &script, binary])
            .current_dir(shop.dir.path())
            .env_remove("RUSHGATE_STORE")
            .stdin(Stdio::null())
            .output();
        Said::from(output.unwrap())
    };
    for redirect in ["<&-", "2>&- <&-"] {
        let said = closed(redirect);
        assert_eq!(said.status, 2, "nothing is no JSON: {}", said.err);
        assert!(!said.err.contains("panicked"), "{}", said.err);
    }
}

#[test]
fn a_full_stdout_says_that_the_step_was_carried_out() {
    let shop = Shop::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = shop.command(&["--json", "queue", "enqueue", "q", "a"]);
    let said: Said = command.stdout(full).output().unwrap().into();
    assert_eq!(said.status, 5, "{}", said.err);
    assert_eq!(said.error()["may_have_happened"], true);
    assert_eq!(shop.json(&["queue", "ls", "q"])[0]["id"], "a");
}

#[test]
fn colour_is_used_where_it_is_wanted_and_nowhere_else() {
    let shop = Shop::new();
    let red = |args: &[&str]| shop.run(args).err.contains("\x1b[");
    assert!(!red(&["queue", "enqueue", "", "a"]));
    assert!(red(&["queue", "enqueue", "", "a", "--color", "always"]));
    assert!(!red(&["queue", "enqueue", "", "a", "--color", "never"]));
    assert!(red(&["--color=always", "--no-such-flag"]));
    assert!(!red(&["--color=never", "--no-such-flag"]));
}

#[test]
fn quiet_says_errors_only_and_verbose_says_more() {
    let shop = Shop::new();
    assert_eq!(shop.run(&["--quiet", "queue", "pop", "q"]).err, "");
    assert_eq!(shop.run(&["queue", "pop", "q"]).err, "no task is due\n");
    assert!(shop.run(&["--verbose", "queue", "pop", "q"]).err.contains("SQLite 3."));
    assert!(shop.run(&["--quiet", "queue", "pop", ""]).err.starts_with("error: "));
}

#[test]
fn the_front_page_ends_with_the_exit_statuses() {
    let shop = Shop::new();
    let help = shop.ok(&["help"]);
    for part in ["\nLocks, queues, sales:\n", "  lock  ", "RUSHGATE_STORE", "\nExamples:\n"] {
        assert!(help.contains(part), "{part:?} is not in {help}");
    }
    let statuses = help.split("Exit status:\n").nth(1).unwrap();
    let numbers: Vec<_> =
        statuses.lines().take(7).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "70"]);
    assert_eq!(shop.ok(&["--help"]), help);
    assert!(shop.ok(&["help", "lock", "run"]).contains("Examples:\n  rushgate lock run"));
}

#[test]
fn doctor_describes_the_store_and_its_problems() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    shop.ok(&["queue", "pause", "mail"]);
    let found = shop.json(&["doctor"]);
    assert_eq!(
        (&found["durability"], &found["queues"], &found["tasks"]),
        (&"D2".into(), &1.into(), &1.into())
    );
    assert!(found["schema"].as_u64().unwrap() >= 1 && found["file_bytes"].as_u64().unwrap() > 0, "{found}");
    assert!(found["free_bytes"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["warnings"][0]["what"], "queue mail is paused");
    assert_eq!(found["warnings"][0]["fix"], "resume it with `rushgate queue resume mail`");
    let memory = shop.ok(&["--store", "sqlite::memory:", "doctor"]);
    assert!(memory.contains("D0: an acknowledged write survives nothing"), "{memory}");
}

#[test]
fn doctor_looks_at_the_ledger_and_at_what_a_server_is_told() {
    let shop = Shop::new();
    let whats = |args: &[&str]| -> Vec<String> {
        let warnings = shop.json(args)["warnings"].clone();
        warnings.as_array().unwrap().iter().map(|of| of["what"].as_str().unwrap().to_owned()).collect()
    };
    shop.ok(&["sale", "create", "s", "--sku", "phone=1", "--ledger", "true"]);
    shop.ok(&["sale", "open", "s"]);
    assert_eq!(whats(&["doctor"]), ["sale s has a ledger, which was not checked"]);
    let ledger = ["--orders", "sqlite:orders.db", "doctor", "--strict"];
    assert_eq!(shop.run(&ledger).status, 1, "there is none");
    shop.ok(&["token", "create", "me", "--role", "operator"]);
    std::fs::write(
        shop.path("rushgate.toml"),
        "[serve]\nlisten = \"0.0.0.0:7979\"\ntokens = \"tokens.json\"\nconnections = 4000000000\n",
    )
    .unwrap();
    let found = whats(&["doctor"]);
    assert!(found.iter().any(|what| what.contains("0.0.0.0:7979 is served without TLS")), "{found:?}");
    assert!(found.iter().any(|what| what.contains("`connections` needs 4000000100")), "{found:?}");
    assert!(!found.iter().any(|what| what.contains("tokens.json")), "made for its owner alone: {found:?}");
    std::fs::set_permissions(shop.path("tokens.json"), PermissionsExt::from_mode(0o644)).unwrap();
    let found = whats(&["doctor"]);
    assert!(found.iter().any(|what| what.contains("other users of this machine can read")), "{found:?}");
    shop.ok(&["token", "revoke", shop.json(&["token", "ls"])[0]["id"].as_str().unwrap()]);
    let found = whats(&["doctor"]);
    assert!(found.iter().any(|what| what.contains("every request is refused")), "{found:?}");
}

#[test]
fn bench_prints_rate_and_latency_and_leaves_nothing_behind() {
    let shop = Shop::new();
    for subject in ["lock", "queue", "sale"] {
        let said = shop.json(&["bench", subject, "--seconds", "1", "--callers", "4"]);
        assert_eq!(said["bench"], subject);
        assert!(said["cycles_per_second"].as_f64().unwrap() > 0.0, "{said}");
        assert!(said["latency_us"]["p50"].as_u64() <= said["latency_us"]["p99"].as_u64(), "{said}");
    }
    assert_eq!(std::fs::read_dir(shop.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_look_makes_no_file() {
    let shop = Shop::new();
    let looks = [
        &["doctor"][..],
        &["lock", "ls"],
        &["lock", "show", "a"],
        &["queue", "ls"],
        &["queue", "top", "q"],
        &["queue", "stats"],
        &["queue", "dead", "ls", "q"],
        &["sale", "ls"],
        &["sale", "show", "s"],
        &["sale", "events", "s"],
        &["sale", "orders", "ls", "s"],
        &["sale", "audit", "s"],
    ];
    for args in looks {
        let said = shop.run(args);
        assert_eq!(said.status, 4, "{args:?}: {}", said.err);
        assert!(said.err.contains("file `rushgate.db` does not exist\nhint: "), "{args:?}: {}", said.err);
    }
    assert!(!shop.path("rushgate.db").exists());
    shop.ok(&["sale", "create", "s", "--sku", "phone=1", "--ledger", "true"]);
    let said = shop.run(&["sale", "audit", "s", "--orders", "sqlite:typo.db"]);
    assert_eq!(said.status, 4, "{}", said.err);
    assert!(said.err.contains("file `typo.db` does not exist"), "{}", said.err);
    assert!(!shop.path("typo.db").exists());
    shop.ok(&["--store", "sqlite::memory:", "queue", "ls"]);
}

#[test]
fn a_usage_error_as_json_is_whole() {
    let shop = Shop::new();
    let message = |args: &[&str]| {
        let said = shop.run(args);
        assert_eq!(said.status, 2, "{}", said.err);
        said.error()["message"].as_str().unwrap().to_owned()
    };
    let missing = message(&["--json", "sale", "create", "phones"]);
    assert!(missing.contains("were not provided") && missing.contains("--sku <NAME=UNITS"), "{missing}");
    let unknown = message(&["--json", "lokc"]);
    assert!(unknown.contains("'lokc'") && unknown.contains("'lock'"), "{unknown}");
    assert!(!unknown.contains("Usage:") && !unknown.starts_with("error"), "{unknown}");
}

#[test]
fn every_page_of_the_help_fits_eighty_columns() {
    let shop = Shop::new();
    for page in
        [&["help"][..], &["help", "rush"], &["help", "lock"], &["help", "lock", "run"], &["help", "work"]]
    {
        let help: Said = shop.command(page).env("COLUMNS", "80").output().unwrap().into();
        let is_wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("Usage:");
        let wide: Vec<_> = help.out.lines().filter(is_wide).collect();
        assert!(help.out.contains("\nExample") && wide.is_empty(), "{page:?}: {wide:#?}");
    }
    assert!(shop.ok(&["help", "queue", "cron"]).contains("nightly \\\n    --cron"), "no line is left out");
    assert!(shop.ok(&["help", "lock"]).contains("Example:\n  rushgate lock run nightly"));
    assert_eq!(shop.ok(&["help", "rush"]).matches(" 0 ").count(), 1, "the exit statuses are listed once");
}
