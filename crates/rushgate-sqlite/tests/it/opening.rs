//! Errors when opening unusable files, which must stay unchanged.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Process, fresh, refused, say, store, this_program, url, with_child};
use rushgate_core::{Store, Verbs};
use rushgate_sqlite::SqliteStore;
use rusqlite::Connection;

/// Opens the file, which must fail and leave the file unchanged, alone in its folder.
#[track_caller]
fn refused_unchanged(path: &Path, code: &str, words: &str) {
    let before = fs::read(path).unwrap();
    refused(SqliteStore::open(&url(path)), code, words);
    assert!(fs::read(path).unwrap() == before, "the file was changed");
    let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "something was left beside the file");
}

#[test]
fn a_directory_is_no_store() {
    let (folder, _) = fresh();
    let error = refused(SqliteStore::open(&url(folder.path())), "misconfigured", "is a directory");
    assert!(error.to_string().starts_with("open the store `sqlite:/"), "{error}");
    assert!(error.hint_text().unwrap().contains("/rushgate.db"));
}

#[test]
fn a_missing_directory_is_named_and_not_made() {
    let (folder, _) = fresh();
    let inside = folder.path().join("none");
    refused(SqliteStore::open(&url(&inside.join("store.db"))), "misconfigured", "none` does not exist");
    assert!(!inside.exists());
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let (_folder, path) = fresh();
    fs::write(&path, "Dear diary, ".repeat(1_000)).unwrap();
    refused_unchanged(&path, "corrupt", "is not an SQLite database");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let (_folder, path) = fresh();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    refused_unchanged(&path, "misconfigured", "of another program");
}

#[test]
fn a_database_that_names_another_program_is_left_alone() {
    let (_folder, path) = fresh();
    Connection::open(&path).unwrap().execute_batch("PRAGMA application_id = 7").unwrap();
    refused_unchanged(&path, "misconfigured", "of another program");
}

#[tokio::test]
async fn a_schema_of_a_newer_build_is_left_alone() {
    let (_folder, path) = fresh();
    store(&path).close().await.unwrap();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    refused_unchanged(&path, "misconfigured", "has schema 99, this build supports schemas up to");
}

#[tokio::test]
async fn a_file_whose_first_page_is_damaged_is_left_alone() {
    let (_folder, path) = fresh();
    store(&path).close().await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..1_000].fill(0xAB);
    fs::write(&path, bytes).unwrap();
    refused_unchanged(&path, "corrupt", "is damaged");
}

#[test]
fn a_url_that_makes_no_sense_is_refused_before_anything_is_touched() {
    for url in ["sqlite:", "postgres:x", "sqlite:x?durability=maybe", "sqlite:x?speed=high"] {
        assert!(SqliteStore::open(url).unwrap_err().is_invalid(), "{url}");
    }
    assert!(!Path::new("x").exists());
}

#[tokio::test]
async fn closing_leaves_one_file_with_everything_in_it() {
    let (folder, path) = fresh();
    let (one, two) = (store(&path), store(&path));
    one.enqueue(common::op(1), &common::queue("q"), vec![common::task("a", 10)]).await.unwrap();
    one.close().await.unwrap();
    two.close().await.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(store(&copy).stats(&common::queue("q")).await.unwrap().ready, 1);
}

// ── without write permission ─────────────────────────────────────────────────────────────────────────────────────────

/// Output of a child without permissions that opens the file.
fn told_without_rights(folder: &Path, path: &Path) -> String {
    // Root may write anything, so the child runs as nobody. It needs a copy of this program that it may read.
    let root = rustix::process::geteuid().is_root();
    let program = folder.with_extension("program");
    fs::copy(this_program(), &program).unwrap();
    let mut command = Command::new(&program);
    if root {
        command.uid(65_534).gid(65_534);
    }
    command.current_dir("/");
    let said = Process::of(with_child(command, "opening::child_opens", path)).finish();
    fs::remove_file(program).unwrap();
    said.join(" ")
}

#[tokio::test]
async fn a_new_file_is_its_owners_alone_and_one_that_is_there_keeps_its_mode() {
    let (folder, path) = fresh();
    let opened = store(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    opened.close().await.unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o660)).unwrap();
    store(&path).close().await.unwrap();
    assert_eq!(mode(&path), 0o660);
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused_at_once() {
    let (folder, path) = fresh();
    store(&path).close().await.unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let before = fs::read(&path).unwrap();
    let said = told_without_rights(folder.path(), &path);
    assert!(said.starts_with("misconfigured:") && said.contains("is not writable"), "{said}");
    assert!(said.contains("permission"), "{said}");
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn a_directory_that_may_not_be_written_is_refused_at_once() {
    let (folder, path) = fresh();
    store(&path).close().await.unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let before = fs::read(&path).unwrap();
    let said = told_without_rights(folder.path(), &path);
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    assert!(said.starts_with("misconfigured:") && said.contains("its directory"), "{said}");
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
#[ignore = "started by other tests in a process of its own"]
fn child_opens() {
    let Some(path) = common::named_file() else { return };
    match SqliteStore::open(&url(&path)) {
        Ok(_) => say("opened"),
        Err(error) => {
            say(format_args!("{}: {error} {}", error.code(), error.hint_text().unwrap_or_default()))
        }
    }
}
