//! Tables of `docs/reference/configuration.md`, made from the command line and from the reference configuration.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command};

use crate::args;
use crate::settings::REFERENCE;

/// Commands whose defaults are on the page.
const COMMANDS: [&[&str]; 8] = [
    &["lock", "run"],
    &["queue", "enqueue"],
    &["queue", "claim"],
    &["work"],
    &["sale", "create"],
    &["sale", "room", "set"],
    &["sale", "rebuild"],
    &["token", "sign"],
];

/// Keys of `rushgate.toml` in its order, with the value on the line.
fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = REFERENCE.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    lines.filter(|(key, _)| !key.starts_with(' '))
}

/// Whether the line of a key shows an example, because the key has no default.
fn is_example(key: &str) -> bool {
    let before = REFERENCE.split_once(&format!("\n#{key} = ")).map_or("", |(before, _)| before);
    before.lines().last().is_some_and(|line| line.ends_with("for example:"))
}

/// Help text of an option without its default, and the default.
fn help(arg: &Arg) -> (String, Option<String>) {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let default = text.split_once(" [default: ").and_then(|(text, rest)| Some((text, rest.split_once(']')?)));
    match default {
        Some((text, (default, rest))) => (format!("{text}{rest}"), Some(default.to_owned())),
        None => (text, None),
    }
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// A value in code font. Words that describe a default stay words.
fn code(default: &str) -> String {
    if default.contains(' ') { default.to_owned() } else { format!("`{default}`") }
}

fn flag(arg: &Arg) -> String {
    format!("`--{}`", arg.get_long().unwrap_or_default())
}

fn key_table(command: &Command) -> String {
    let serve = command.find_subcommand("serve").expect("there is `serve`");
    let mut text = String::from("| Key | Default | Flag, variable | Meaning |\n|---|---|---|---|\n");
    for (key, value) in keys() {
        let args = serve.get_arguments().chain(command.get_arguments());
        let arg =
            args.into_iter().find(|arg| arg.get_id() == key).unwrap_or_else(|| panic!("no option {key}"));
        let (meaning, default) = help(arg);
        let default = match (is_example(key), default) {
            (false, _) => format!("`{value}`"),
            (true, Some(default)) => code(&default),
            (true, None) => "none".to_owned(),
        };
        let example = if is_example(key) { format!(" Example: `{key} = {value}`.") } else { String::new() };
        let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (flag, meaning) = (flag(arg), sentence(&meaning));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{key}` | {default} | {flag}<br>`{variable}` | {meaning}{example} |");
    }
    text
}

fn default_table(command: &Command) -> String {
    let mut text = String::from("| Command | Option | Default | Meaning |\n|---|---|---|---|\n");
    for path in COMMANDS {
        let command = path.iter().fold(command, |command, name| {
            command.find_subcommand(name).unwrap_or_else(|| panic!("no command {path:?}"))
        });
        for arg in command.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set()) {
            let (meaning, said) = help(arg);
            let set = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
            let takes_value = arg.get_action().takes_values() && !arg.is_hide_default_value_set();
            let Some(default) = said.or(set).filter(|_| takes_value) else { continue };
            let (path, flag, default) = (path.join(" "), flag(arg), code(&default));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| `rushgate {path}` | {flag} | {default} | {} |", sentence(&meaning));
        }
    }
    text
}

/// The page with new tables.
fn written(page: &str) -> String {
    let command = args::command();
    let mut page = page.to_owned();
    for (name, table) in [("keys", key_table(&command)), ("defaults", default_table(&command))] {
        let (begin, end) = (format!("<!-- {name}: made by a test -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page has no {name}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{name} have no end"));
        page = format!("{before}{begin}{table}{end}{after}");
    }
    page
}

/// Variables of all commands.
fn variables(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

#[test]
fn the_page_about_the_configuration_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let written = written(&page);
    for variable in variables(&args::command()) {
        assert!(
            written.contains(&format!("`{variable}`")),
            "docs/reference/configuration.md lacks {variable}"
        );
    }
    if std::env::var_os("RUSHGATE_WRITE_TABLES").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        let how = "RUSHGATE_WRITE_TABLES=1 rewrites it";
        assert!(page == written, "docs/reference/configuration.md differs from the code; {how}");
    }
}
