//! Completions, man pages, the version and the shared options.

use std::process::{Command, Stdio};

use crate::common::{Said, Shop, serve};
use rushgate_test::servers::{Kind, RedisSetup};
use rustix::process::Signal;

/// Candidates that bash offers for the last word, after it has sourced the script of
/// `rushgate completions bash`.
fn offered(shop: &Shop, words: &[&str]) -> Vec<String> {
    const ASK: &str = r#"
        source <(rushgate completions bash) || exit 1
        COMP_WORDS=(rushgate "$@")
        COMP_CWORD=$#
        _clap_complete_rushgate rushgate "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}"
    "#;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_rushgate"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", ASK, "bash"]).args(words).env("PATH", path);
    for place in ["RUSHGATE_STORE", "RUSHGATE_URL", "RUSHGATE_PROFILE"] {
        command.env_remove(place);
    }
    let said: Said = command.current_dir(shop.dir.path()).stdin(Stdio::null()).output().unwrap().into();
    assert_eq!((said.status, said.err.as_str()), (0, ""), "{words:?}: {}", said.out);
    said.out.split_whitespace().map(str::to_owned).collect()
}

/// Creates two queues and two sales.
fn fill(shop: &Shop, store: &str) {
    shop.ok(&["--store", store, "queue", "enqueue", "mail", "a"]);
    shop.ok(&["--store", store, "queue", "enqueue", "mails", "a"]);
    shop.ok(&["--store", store, "sale", "create", "phones", "--sku", "phone=1"]);
    shop.ok(&["--store", store, "sale", "create", "photos", "--sku", "photo=1"]);
}

#[test]
fn bash_completes_the_names_in_a_store_on_sqlite() {
    let shop = Shop::new();
    fill(&shop, "sqlite:rushgate.db");
    assert_eq!(offered(&shop, &["queue", "stats", ""]), ["mail", "mails", "--help"]);
    assert_eq!(offered(&shop, &["work", "mails"]), ["mails"]);
    assert_eq!(offered(&shop, &["sale", "show", "pho"]), ["phones", "photos"]);
    assert_eq!(offered(&shop, &["sale", "stock", "add", "phon"]), ["phones"]);
    assert_eq!(
        offered(&shop, &["sale", "work", "pho"]),
        ["phones", "photos"],
        "sales, although `work` has queues"
    );
    let mut held = shop.start(&["lock", "run", "nightly", "--", "sh", "-c", "echo held; exec sleep 60"]);
    assert_eq!(held.line(), "held");
    assert_eq!(offered(&shop, &["lock", "show", ""]), ["nightly", "--help"]);
    held.signal(Signal::TERM);
    held.end();
}

#[test]
fn bash_completes_the_names_in_a_store_on_redis() {
    let shop = Shop::new();
    let server = RedisSetup::new(Kind::Redis).start();
    fill(&shop, &server.url());
    assert_eq!(offered(&shop, &["--store", &server.url(), "queue", "top", "m"]), ["mail", "mails"]);
    assert_eq!(offered(&shop, &["sale", "open", "--store", &server.url(), "phot"]), ["photos"]);
    std::fs::write(shop.path("rushgate.toml"), format!("store = \"{}\"\n", server.url())).unwrap();
    assert_eq!(offered(&shop, &["queue", "ls", "mails"]), ["mails"]);
}

#[test]
fn bash_completes_the_names_at_a_server() {
    let (shop, of_server) = (Shop::new(), Shop::new());
    fill(&of_server, "sqlite:rushgate.db");
    let (_running, address) = serve(&of_server, &[]);
    let url = format!("http://{address}");
    assert_eq!(offered(&shop, &["--url", &url, "queue", "top", "m"]), ["mail", "mails"]);
    std::fs::write(shop.path("rushgate.toml"), format!("url = {url:?}\n")).unwrap();
    assert_eq!(offered(&shop, &["sale", "open", "phot"]), ["photos"]);
}

#[test]
fn bash_completes_commands_and_options_and_makes_no_store() {
    let shop = Shop::new();
    assert!(offered(&shop, &["lo"]).contains(&"lock".to_owned()));
    assert_eq!(offered(&shop, &["lock", "run", "--wa"]), ["--wait"]);
    assert_eq!(offered(&shop, &["lock", "run", "--sto"]), ["--store"]);
    assert_eq!(offered(&shop, &["queue", "stats", "mai"]), [""; 0]);
    assert_eq!(offered(&shop, &["--store", "redis://127.0.0.1:1", "queue", "stats", "mai"]), [""; 0]);
    assert_eq!(std::fs::read_dir(shop.dir.path()).unwrap().count(), 0);
}

#[test]
fn every_command_has_a_man_page() {
    let shop = Shop::new();
    let said = shop.json(&["man", "--dir", "share/man/man1"]);
    let page = |name: &str| std::fs::read_to_string(shop.path("share/man/man1").join(name)).unwrap();
    assert!(page("rushgate-lock-run.1").contains("backup.sh"), "{}", page("rushgate-lock-run.1"));
    assert!(page("rushgate-queue-dead-requeue.1").contains(".TH rushgate-queue-dead-requeue 1"));
    assert!(page("rushgate.1").contains("RUSHGATE_STORE"));
    assert!(!page("rushgate-lock-run.1").contains("RUSHGATE_STORE"));
    let pages = std::fs::read_dir(shop.path("share/man/man1")).unwrap().count();
    assert_eq!(said["pages"], pages);
    assert!(pages > 90, "{pages}");
    std::fs::write(shop.path("file"), "").unwrap();
    let said = shop.run(&["man", "--dir", "file/man1"]);
    assert_eq!(said.status, 2);
    assert!(said.err.contains("cannot write man pages to file/man1: Not a directory"), "{}", said.err);
}

#[test]
fn the_options_of_every_command_are_listed_once() {
    let shop = Shop::new();
    for page in [&["help", "options"][..], &["options"], &["help"]] {
        let text = shop.ok(page);
        assert!(text.contains("--store <URL>") && text.contains("--log-format <FORMAT>"), "{page:?}: {text}");
    }
    for page in [&["help", "lock", "run"][..], &["queue", "enqueue", "--help"], &["sale", "-h"]] {
        let text = shop.ok(page);
        assert!(
            !text.contains("--log-format") && text.contains("`rushgate help options`"),
            "{page:?}: {text}"
        );
    }
}

#[test]
fn the_version_names_the_commit() {
    let said = Shop::new().ok(&["--version"]);
    let mut words = said.split_whitespace();
    assert_eq!((words.next(), words.next()), (Some("rushgate"), Some(env!("CARGO_PKG_VERSION"))), "{said}");
    // HEAD may have moved since the build.
    let commit = words.next().unwrap_or_default().trim_matches(['(', ')']);
    assert!(commit.len() >= 9, "{said}");
    let known =
        Command::new("git").args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).status().unwrap();
    assert!(known.success(), "{said}");
}
