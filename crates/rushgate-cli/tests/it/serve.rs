//! `rushgate serve` and `rushgate token`, tested over plain HTTP.

use crate::common::{Running, Shop, ask, serve};
use rushgate_test::servers::{Certificates, PostgresServer};
use rustix::process::Signal;

#[test]
fn a_server_serves_and_ends_in_order_when_it_is_told() {
    let shop = Shop::new();
    let (running, address) = serve(&shop, &[]);
    let (status, ready) = ask(&address, "GET", "/readyz", "", "");
    assert_eq!((status, ready["durability"].as_str()), (200, Some("D2")));
    let (status, _) = ask(&address, "POST", "/v1/queues/mail/tasks", "", "{\"id\":\"a\"}");
    assert_eq!(status, 201);
    running.signal(Signal::TERM);
    let said = running.end();
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    assert_eq!(shop.json(&["queue", "stats", "mail"])["ready"], 1);
}

#[test]
fn a_sale_is_sold_into_a_ledger_of_the_server() {
    let shop = Shop::new();
    let (running, address) = serve(&shop, &["--orders", "sqlite:orders.db"]);
    let post = |path: &str, headers: &str, body: &str| ask(&address, "POST", path, headers, body);
    assert_eq!(post("/v1/sales", "", "{\"id\":\"s\",\"skus\":[{\"sku\":\"x\",\"units\":1}]}").0, 201);
    assert_eq!(post("/v1/sales/s/open", "", "").0, 200);
    let lines = "{\"buyer\":\"ann\",\"lines\":[{\"sku\":\"x\"}]}";
    let (status, hold) = post("/v1/sales/s/reservations", "Idempotency-Key: k\r\n", lines);
    assert_eq!(status, 202, "{hold}");
    let path = format!("/v1/sales/s/reservations/{}/confirm", hold["id"].as_str().unwrap());
    let (status, confirmed) = post(&path, "Prefer: wait=30\r\n", "");
    assert_eq!((status, confirmed["state"].as_str()), (200, Some("confirmed")));
    running.signal(Signal::INT);
    assert_eq!(running.end().status, 0);
    assert_eq!(shop.json(&["--orders", "sqlite:orders.db", "sale", "audit", "s"])["ok"], true);
}

#[test]
fn a_sale_that_is_created_through_a_server_has_the_servers_ledger() {
    let has_ledger = |options: &[&str], words: &[&str]| {
        let of_server = Shop::new();
        let (_running, address) = serve(&of_server, options);
        let (shop, url) = (Shop::new(), format!("http://{address}"));
        let create = [&["--url", &url, "sale", "create", "s", "--sku", "x=1"][..], words].concat();
        shop.ok(&create);
        shop.json(&["--url", &url, "sale", "show", "s"])["ledger"].as_bool().unwrap()
    };
    let of_server = ["--orders", "sqlite:orders.db"];
    assert!(has_ledger(&of_server, &[]));
    assert!(!has_ledger(&of_server, &["--ledger", "false"]));
    assert!(!has_ledger(&[], &[]));
}

/// If the server restarts while Postgres is down, the sale continues.
#[test]
fn a_server_starts_while_its_ledger_is_away_and_carries_the_orders_when_it_is_back() {
    let (shop, mut postgres) = (Shop::new(), PostgresServer::start());
    let url = postgres.url();
    postgres.stop();
    let (running, address) = serve(&shop, &["--orders", &url]);
    let sale = r#"{"id":"phones","skus":[{"sku":"phone","units":3}],"ledger":true}"#;
    assert_eq!(ask(&address, "POST", "/v1/sales", "", sale).0, 201);
    assert_eq!(ask(&address, "POST", "/v1/sales/phones/open", "", "").0, 200);
    let cart = r#"{"buyer":"ann","lines":[{"sku":"phone"}]}"#;
    let reservations = "/v1/sales/phones/reservations";
    let (status, hold) = ask(&address, "POST", reservations, "Idempotency-Key: k\r\n", cart);
    assert_eq!(status, 202, "{hold}");
    let reservation = format!("{reservations}/{}", hold["id"].as_str().unwrap());
    let (status, pending) = ask(&address, "POST", &format!("{reservation}/confirm"), "", "");
    assert_eq!((status, pending["state"].as_str()), (202, Some("confirming")), "{pending}");
    assert_eq!(ask(&address, "GET", "/v1/sales/phones/audit", "", "").0, 503, "the ledger cannot be asked");
    postgres.start_again();
    let (status, sold) = ask(&address, "GET", &reservation, "Prefer: wait=60\r\n", "");
    assert_eq!((status, sold["state"].as_str()), (200, Some("confirmed")), "{sold}");
    let (status, audit) = ask(&address, "GET", "/v1/sales/phones/audit", "", "");
    assert!(status == 200 && audit["ok"] == true, "{audit}");
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
}

#[test]
fn tokens_are_made_listed_asked_for_and_revoked() {
    let shop = Shop::new();
    let made = shop.json(&["token", "create", "mailer", "--role", "worker", "--scope", "queue:mail*"]);
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let listed = shop.json(&["token", "ls"]);
    assert_eq!((&listed[0]["role"], &listed[0]["scopes"][0]), (&"worker".into(), &"queue:mail*".into()));
    let (running, address) = serve(&shop, &["--tokens", "tokens.json"]);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(ask(&address, "GET", "/v1/queues/mail", "", "").1["code"], "unauthorized");
    assert_eq!(ask(&address, "GET", "/v1/queues/mail", &bearer, "").0, 200);
    assert_eq!(ask(&address, "GET", "/v1/queues/pay", &bearer, "").1["code"], "forbidden");
    assert_eq!(shop.json(&["token", "revoke", id])["revoked"], id);
    assert_eq!(shop.run(&["token", "revoke", id]).status, 1);
    running.signal(Signal::TERM);
    let said = running.end();
    let all = format!("{}{}", said.out, said.err);
    assert!(!all.contains(token) && said.status == 0, "{all}");
}

#[test]
fn an_address_in_use_is_wrong_usage_and_says_what_to_do() {
    let shop = Shop::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = shop.run(&["serve", "--listen", &address]);
    let wanted = format!(
        "error: Cannot bind {address}: address already in use.\nhint: Pass --listen to use another address.\n"
    );
    assert_eq!((said.status, said.err), (2, wanted));
    let said = shop.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert!(
        said.status == 2 && said.err.contains("without tokens: other machines can reach it.\nhint: "),
        "{}",
        said.err
    );
}

#[test]
fn more_is_said_in_words() {
    let shop = Shop::new();
    let (running, _) = serve(&shop, &["-v"]);
    running.signal(Signal::TERM);
    let said = running.end();
    assert!(said.err.contains(" to the store: ") && !said.err.contains(" { "), "{}", said.err);
}

#[test]
fn a_label_does_nothing_to_a_terminal() {
    let shop = Shop::new();
    let label = "red\u{1b}[31m\nforged\u{202e}  operator";
    for verb in [&["create", "--role", "worker"][..], &["key"]] {
        let token = |label| shop.run(&[&["token"], verb, &[label]].concat());
        let refused = token(label);
        assert_eq!(refused.status, 2, "{}", refused.err);
        assert!(
            refused.err.contains("control character") && !refused.err.contains('\u{1b}'),
            "{}",
            refused.err
        );
        assert_eq!(token("plain").status, 0);
    }
    // The file can be edited by hand.
    let tokens = shop.path("tokens.json");
    let edited = std::fs::read_to_string(&tokens)
        .unwrap()
        .replace("\"plain\"", &serde_json::to_string(label).unwrap());
    std::fs::write(tokens, edited).unwrap();
    let listed = shop.run(&["token", "ls"]);
    assert!(
        !listed.out.contains(['\u{1b}', '\u{202e}'])
            && listed.out.contains("red\\u{1b}[31m\\nforged\\u{202e}"),
        "{}",
        listed.out
    );
    assert_eq!(listed.out.lines().count(), 3, "{}", listed.out);
    assert_eq!(shop.json(&["token", "ls"])[0]["label"], label);
}

#[test]
fn a_key_signs_tokens_of_buyers() {
    let shop = Shop::new();
    assert_eq!(shop.run(&["token", "sign", "ann"]).status, 1);
    let key = shop.json(&["token", "key", "shop", "--scope", "sale:phones"]);
    let (id, secret) = (key["id"].as_str().unwrap(), key["secret"].as_str().unwrap());
    let listed = shop.json(&["token", "ls"]);
    assert_eq!((&listed[0]["id"], &listed[0]["signs"]), (&key["id"], &true.into()));
    assert!(!shop.ok(&["token", "ls"]).contains(secret));
    let token = shop.ok(&["token", "sign", "ann", "--for", "1h"]);
    let (running, address) = serve(&shop, &["--tokens", "tokens.json"]);
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    assert_eq!(ask(&address, "GET", "/v1/sales", &bearer, "").0, 200);
    assert_eq!(ask(&address, "GET", "/v1/queues", &bearer, "").1["code"], "forbidden");
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
    assert_eq!(shop.run(&["token", "sign", "ann", "--key", "00000000"]).status, 1);
    shop.ok(&["token", "key", "another"]);
    let said = shop.run(&["token", "sign", "ann"]);
    assert!(said.status == 2 && said.err.contains("--key"), "{}", said.err);
    shop.ok(&["token", "sign", "ann", "--key", id]);
    assert_eq!(shop.run(&["token", "key", "x", "--scope", "queue:mail"]).status, 2);
    shop.ok(&["token", "revoke", id]);
    assert_eq!(shop.json(&["token", "ls"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_server_is_not_opened_to_the_world_by_mistake() {
    let shop = Shop::new();
    let said = shop.run(&["--json", "serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((said.status, said.error()["code"].as_str().unwrap()), (2, "usage"));
    // Without tokens every client is an operator, and only buyers are limited.
    for option in ["--limit-buyer", "--limit-address"] {
        let said = shop.run(&["serve", "--listen", "127.0.0.1:0", option, "3/1h"]);
        assert!(said.status == 2 && said.err.contains("tokens"), "{}", said.err);
    }
    let said = shop.run(&["token", "create", "x", "--role", "worker", "--scope", "mail"]);
    assert!(said.status == 2 && said.err.contains("the scope"), "{}", said.err);
}

#[test]
fn an_option_is_taken_from_the_flag_then_the_variable_then_the_file() {
    let shop = Shop::new();
    let waits = |args: &[&str], variable: Option<&str>| {
        let mut command = shop.command(&[&["serve"], args].concat());
        command.envs(variable.map(|value| ("RUSHGATE_SERVE_LONGEST_WAIT", value)));
        let mut running = Running::of(command);
        let url = running.line();
        let address = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}")).to_owned();
        let lock = "{\"lease_ms\":60000}";
        ask(&address, "POST", "/v1/locks/held/acquire", "", lock);
        let began = std::time::Instant::now();
        let busy = ask(&address, "POST", "/v1/locks/held/acquire", "Prefer: wait=30\r\n", lock);
        let waited = began.elapsed().as_secs();
        assert_eq!(busy.1["code"], "lock_busy");
        running.signal(Signal::TERM);
        assert_eq!(running.end().status, 0);
        waited
    };
    // The port is in the file, too, so that the server uses a free one.
    let file = "[serve]\nlisten = \"127.0.0.1:0\"\nlongest_wait = \"1s\"\n";
    std::fs::write(shop.path("rushgate.toml"), file).unwrap();
    assert_eq!(waits(&[], None), 1, "the file's");
    assert_eq!(waits(&[], Some("2s")), 2, "the variable's");
    assert_eq!(waits(&["--longest-wait", "0s"], Some("2s")), 0, "the flag's");
}

#[test]
fn the_reference_is_printed_even_beside_a_broken_file_and_serves_as_one() {
    let shop = Shop::new();
    std::fs::write(shop.path("rushgate.toml"), "[serve]\ngrace = 5\n").unwrap();
    let said = shop.run(&["serve"]);
    assert!(said.status == 2 && said.err.contains("rushgate.toml, line 2, `serve.grace`"), "{}", said.err);
    let printed = shop.run(&["serve", "--print-config"]);
    assert_eq!((printed.status, printed.err.as_str()), (0, ""));
    assert!(printed.out.contains("#listen = \"127.0.0.1:7979\""), "{}", printed.out);
    std::fs::write(shop.path("rushgate.toml"), &printed.out).unwrap();
    let (running, address) = serve(&shop, &[]);
    assert_eq!(ask(&address, "GET", "/healthz", "", "").0, 200);
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
}

#[test]
fn options_that_contradict_each_other_are_refused_wherever_they_come_from() {
    let shop = Shop::new();
    std::fs::write(shop.path("rushgate.toml"), "[serve]\ntokens = \"tokens.json\"\n").unwrap();
    let said = shop.run(&["serve", "--insecure"]);
    assert_eq!(said.status, 2);
    assert!(said.err.contains("`insecure` and `tokens` cannot be used together"), "{}", said.err);
}

#[test]
fn a_check_says_whether_the_server_that_is_configured_is_ready() {
    let shop = Shop::new();
    let (running, address) = serve(&shop, &[]);
    let said = shop.run(&["serve", "--check", "--listen", &address]);
    assert_eq!((said.status, said.out), (0, format!("http://{address} is ready\n")));
    let port = address.rsplit(':').next().unwrap();
    std::fs::write(shop.path("rushgate.toml"), format!("[serve]\nlisten = \"0.0.0.0:{port}\"\n")).unwrap();
    assert_eq!(shop.json(&["serve", "--check"])["ready"], true, "anywhere is asked at loopback");
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
    let said = shop.run(&["--json", "serve", "--check"]);
    assert_eq!((said.status, said.error()["code"].as_str()), (1, Some("not_ready")));
}

/// The words of a Dockerfile instruction that is written as a JSON list.
fn listed(dockerfile: &str, instruction: &str) -> Vec<String> {
    let line = dockerfile.lines().rfind(|line| line.starts_with(instruction)).unwrap();
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

#[test]
fn the_dockerfile_names_what_there_is_and_its_command_serves_behind_tokens_and_is_healthy() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dockerfile = std::fs::read_to_string(root.join("Dockerfile")).unwrap();
    let ignored = std::fs::read_to_string(root.join(".dockerignore")).unwrap();
    for kept in ignored.lines().filter_map(|line| line.strip_prefix('!')) {
        assert!(root.join(kept).exists(), "{kept}");
    }
    let entry = listed(&dockerfile, "ENTRYPOINT");
    let copied = "COPY --from=build /src/target/dist/rushgate /usr/local/bin/rushgate";
    assert!(dockerfile.lines().any(|line| line == copied) && entry == ["/usr/local/bin/rushgate"]);
    assert!(dockerfile.contains("cargo build --profile dist --locked -p rushgate-cli"));
    let toolchain = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let version = toolchain.split('"').nth(1).unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{version}-")), "one toolchain: {version}");
    assert!(!dockerfile.contains("cmake"), "nothing needs it");
    assert!(dockerfile.contains(":nonroot\n") && !dockerfile.contains("USER root"));

    // Uses the image's variables, command and health check, with a free port.
    let shop = Shop::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("0.0.0.0:{}", taken.local_addr().unwrap().port());
    drop(taken);
    let (_, rest) = dockerfile.split_once("\nENV ").unwrap();
    let (variables, _) = rest.split_once("\nEXPOSE 7979\n").unwrap();
    let variables: Vec<_> = variables.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    assert!(variables.contains(&("RUSHGATE_SERVE_LISTEN", "0.0.0.0:7979")), "{variables:?}");
    let command = |args: &[String]| {
        let mut command = shop.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
        command.envs(variables.iter().copied()).env("RUSHGATE_SERVE_LISTEN", &listen);
        command
    };
    let mut running = Running::of(command(&listed(&dockerfile, "CMD")));
    let url = running.line();
    assert_eq!(url, format!("http://{listen}"));
    let health = listed(&dockerfile, "HEALTHCHECK");
    assert_eq!(health[0], entry[0]);
    let healthy = command(&health[1..]).output().unwrap();
    assert_eq!(healthy.status.code(), Some(0), "{healthy:?}");
    let refused = ask(&listen.replace("0.0.0.0", "127.0.0.1"), "GET", "/v1/sales", "", "");
    assert_eq!(refused.1["code"], "unauthorized");
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
    assert!(shop.path("orders.db").exists() && shop.path("rushgate.db").exists());
}

#[test]
fn a_server_with_a_certificate_speaks_tls_alone_and_is_checked_over_it() {
    let (shop, certificates) = (Shop::new(), Certificates::make());
    let files = [certificates.certificate(), certificates.key()].map(|path| path.display().to_string());
    let tls = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let mut running = shop.start(&[&["serve", "--listen", "127.0.0.1:0"][..], &tls].concat());
    let url = running.line();
    let address = url.strip_prefix("https://").unwrap_or_else(|| panic!("{url}"));
    let check = ["--json", "serve", "--check", "--listen", address];
    assert_eq!(shop.json(&[&check[1..], &tls].concat())["url"], url.as_str());
    assert_eq!(shop.run(&check).status, 1, "in the clear there is no answer");
    let others = Certificates::make();
    let other = others.certificate().display().to_string();
    let said = shop.run(&[&check[..], &["--tls-cert", &other, "--tls-key", &files[1]]].concat());
    assert_eq!((said.status, said.err.contains("not_ready")), (1, true), "another server's: {}", said.err);
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
    let said = shop.run(&["serve", "--tls-cert", &files[0]]);
    assert_eq!(said.status, 2, "{}", said.err);
}
