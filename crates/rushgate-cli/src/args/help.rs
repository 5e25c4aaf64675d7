//! Front page of the help, and the layout of all help pages.

use std::fmt::Write;

use clap::{ColorChoice, Command, CommandFactory};

use super::Cli;
use crate::exit::Exit;

const GROUPS: [(&str, &[&str]); 3] = [
    ("Get started", &["rush", "serve"]),
    ("Locks, queues, sales", &["lock", "queue", "work", "outbox", "sale"]),
    ("Operations", &["top", "doctor", "token", "functions", "bench", "completions", "man", "help"]),
];

/// Ends the list of the options of every command.
const SETTINGS: &str = "\
RUSHGATE_STORE, RUSHGATE_URL, RUSHGATE_ORDERS and RUSHGATE_PROFILE set the first
four too, and so do `store`, `url` and `orders` in rushgate.toml. Durations have
a unit: 250ms, 15s, 2m, 1h.
Data goes to stdout; everything else goes to stderr.";

const EXAMPLES: &str = "\
Examples:
  rushgate rush --stock 10 --buyers 1000000
  rushgate lock run nightly -- ./backup.sh
  rushgate queue enqueue mail order:42 --payload '{\"to\":\"ann\"}'
  rushgate work mail --exec ./send-mail.sh
  rushgate sale create phones --sku phone=10:1";

/// The whole command line, with its front page.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let command = command.mut_args(|arg| arg.global(true).hide_env(true));
    let options = command.clone().help_template("{options}").render_help();
    let options = format!("Options of every command:\n{options}\n{SETTINGS}");
    let about = "Distributed locks, task queues and flash-sale inventory from the shell.";
    let template =
        format!("{about}\n\n{{usage-heading}} {{usage}}\n\n{}{options}{{after-help}}", groups(&command));
    // The help of each command refers to the list.
    explained(command.mut_args(|arg| arg.hide(true)), "rushgate")
        .mut_subcommand("options", |sub| sub.help_template(format!("{options}\n\n{}", statuses())))
        .help_template(template)
        .color(color(std::env::args_os()))
        .after_help(format!("{EXAMPLES}\n\n{}", statuses()))
}

/// The same command; the help of each subcommand ends with an example and its exit statuses.
fn explained(mut command: Command, path: &str) -> Command {
    let names: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(name_of).collect();
    for name in names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(&name, |sub| {
            let sub = explained(sub, &path);
            let end = ending(&sub, &path);
            sub.after_help(end)
        });
    }
    command
}

fn name_of(command: &Command) -> String {
    command.get_name().to_owned()
}

fn ending(command: &Command, path: &str) -> String {
    const SHARED: &str = "Options and exit statuses of every command: `rushgate help options`.";
    let own = match command.get_subcommands().next() {
        Some(first) => format!("Example:\n{}\n\nMore: `rushgate help{}`.", example(first), below(path)),
        None => after_help(command),
    };
    format!("{own}\n\n{SHARED}")
}

fn after_help(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// First example of a command, which represents its group: one line, or several joined by backslashes.
fn example(command: &Command) -> String {
    let help = after_help(command);
    let mut lines = help.lines().skip_while(|line| !line.starts_with("  rushgate "));
    let mut example = lines.next().unwrap_or_default().to_owned();
    while example.ends_with('\\') {
        example.push('\n');
        example.push_str(lines.next().unwrap_or_default());
    }
    example
}

/// Text after `rushgate help` for the commands of a group.
fn below(path: &str) -> String {
    format!("{} COMMAND", path.trim_start_matches("rushgate"))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about =
                about.map_or("Print this help, or the help of a command".to_owned(), ToString::to_string);
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    text
}

fn statuses() -> String {
    let mut text = "Exit status:\n".to_owned();
    for (exit, meaning) in Exit::OWN {
        let _ = writeln!(text, "  {:>2}  {meaning}", exit.status());
    }
    text + "`lock run` exits with its command's status, or 128+n if signal n killed it."
}

/// Color is decided before parsing, because the parser may already print.
fn color(args: impl Iterator<Item = std::ffi::OsString>) -> ColorChoice {
    let args: Vec<_> = args.take_while(|arg| arg != "--").collect();
    let after = args.iter().skip_while(|arg| *arg != "--color").nth(1);
    let joined = args.iter().find_map(|arg| arg.to_str()?.strip_prefix("--color="));
    match joined.or(after.and_then(|arg| arg.to_str())) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        let below: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
        if below.is_empty() {
            found.push((path.to_owned(), command.clone()));
        }
        for sub in below.into_iter().filter(|sub| sub.get_name() != "help") {
            leaves(sub, &format!("{path} {}", sub.get_name()), found);
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn no_example_and_no_line_of_the_front_page_is_wider_than_a_usual_terminal() {
        fn check(command: &Command) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                for line in after_help(sub).lines().filter(|line| line.starts_with(' ')) {
                    assert!(line.chars().count() <= 80, "{}: {line}", sub.get_name());
                }
                check(sub);
            }
        }
        check(&command());
        let groups = groups(&command());
        for line in groups.lines().chain(SETTINGS.lines()).chain(EXAMPLES.lines()).chain(statuses().lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_command_has_an_example_of_itself() {
        let mut found = Vec::new();
        leaves(&command(), "rushgate", &mut found);
        assert!(found.len() > 30, "{}", found.len());
        for (path, command) in found {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "`{path}` has no example");
            assert!(after.contains(&path), "the example of `{path}` does not use it");
            assert!(command.get_about().is_some(), "`{path}` does not say what it does");
        }
    }

    #[test]
    fn every_command_and_group_has_an_example_and_leads_to_the_exit_statuses() {
        fn check(command: &Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                let path = format!("{path} {}", sub.get_name());
                let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    after.contains("`rushgate help options`") && after.contains("Example"),
                    "`{path}`: {after}"
                );
                check(sub, &path);
            }
        }
        check(&command(), "rushgate");
    }

    #[test]
    fn the_front_page_names_every_command() {
        let command = command();
        let shown: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(shown.contains(&&sub.get_name()), "{}", sub.get_name());
        }
    }
}
