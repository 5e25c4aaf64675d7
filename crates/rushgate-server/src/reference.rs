//! Generates the tables of `docs/http.md` from the table of routes and the problem codes, and `clients/operations.json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use crate::problem::Code;
use crate::route::{COMMON, KeyUse, Row};
use crate::table::routes;

fn route_table() -> String {
    let mut text = String::from(
        "| route | what it does | role | key | wait | refuses with |\n|---|---|---|---|---|---|\n",
    );
    for route in routes() {
        let Row { method, path, says, needs, .. } = &*route;
        let role = needs.map_or("anybody", |role| role.word());
        let key = match route.key {
            KeyUse::None => "",
            KeyUse::Answers | KeyUse::Token => "may",
            KeyUse::AnswersRequired | KeyUse::Buyer => "must",
        };
        let wait = if route.waits { "yes" } else { "" };
        let codes: Vec<_> = route.refuses.iter().map(|code| format!("`{}`", code.word())).collect();
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "| `{method} {path}` | {says} | {role} | {key} | {wait} | {} |", codes.join(" "));
    }
    text
}

fn code_table() -> String {
    let mut text =
        String::from("| code | status | again | what it says | any route |\n|---|---|---|---|---|\n");
    for code in Code::ALL {
        let again = if code.is_retryable() { "yes" } else { "" };
        let any = if COMMON.contains(code) { "yes" } else { "" };
        let (word, status, says) = (code.word(), code.status(), code.title());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{word}` | {status} | {again} | {says} | {any} |");
    }
    text
}

/// The page with regenerated tables.
fn written(page: &str) -> String {
    let mut page = page.to_owned();
    for (name, table) in [("routes", route_table()), ("codes", code_table())] {
        let (begin, end) = (format!("<!-- {name}: made by a test -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page has no {name}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{name} have no end"));
        page = format!("{before}{begin}{table}{end}{after}");
    }
    page
}

/// Method and path of each operation, by the `operationId` of the OpenAPI description, one per line.
fn operations() -> String {
    let routes = routes().into_iter().map(|route| (route.verb, json!([route.method.as_str(), route.path])));
    let routes: BTreeMap<_, _> = routes.collect();
    let lines: Vec<_> = routes.iter().map(|(verb, of)| format!("  \"{verb}\": {of}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// Compares a file with what the code makes of it, or rewrites it.
fn compare(file: &str, written: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    let written = written(&is);
    if std::env::var_os("RUSHGATE_WRITE_TABLES").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        assert!(is == written, "{file} differs from the code; RUSHGATE_WRITE_TABLES=1 rewrites it");
    }
}

#[test]
fn the_page_about_the_api_is_that_of_the_code() {
    compare("docs/http.md", written);
}

#[test]
fn the_operations_of_the_clients_are_those_of_the_code() {
    compare("clients/operations.json", |_| operations());
}
