//! Finds the commit that `--version` prints.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=RUSHGATE_COMMIT");
    let commit = std::env::var("RUSHGATE_COMMIT").ok().or_else(|| {
        // The reflog changes with each commit and checkout; HEAD alone may only name a branch.
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
        git(&["rev-parse", "--short=9", "HEAD"])
    });
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=RUSHGATE_VERSION={version}");
}

/// Output of a git command; `None` outside a checkout, as in a packaged crate.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
