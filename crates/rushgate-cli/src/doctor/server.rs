//! Checks of the function library on the store's server, and of the settings of `rushgate serve`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rushgate_redis::functions::{Functions, State};
use rushgate_server::{TokenFile, check_certificate};

use super::findings::Findings;
use crate::files;
use crate::functions::what;
use crate::globals::is_http;
use crate::settings::{ServeOptions, Settings, Tls};

/// Open files other than connections.
const OTHERS: u64 = 100;

/// Checks the function library, which programs in other languages call. A server without it may simply have
/// no such programs.
pub(super) async fn look_at_functions(url: &str, findings: &mut Findings) {
    // The library of a server's store is the concern of that server.
    if url.starts_with("sqlite:") || is_http(url) {
        return;
    }
    let state = match state_of_functions(url).await {
        Ok(state) => state,
        Err(error) => {
            let fix = "run `rushgate functions check` for details";
            return findings.failed("cannot check the function library", &error.into(), fix);
        }
    };
    findings.functions = Some(state.word());
    findings.functions_in_words = Some(what(&state));
    let fix = match state {
        State::Missing | State::Same => return,
        State::Newer { .. } => "run `rushgate functions install --force` to replace it",
        State::OtherBuild | State::Older { .. } => "run `rushgate functions install` to replace it",
    };
    findings.warn(format!("functions: the server has {}", what(&state)), fix);
}

async fn state_of_functions(url: &str) -> rushgate::Result<State> {
    Functions::connect(url).await?.state().await
}

/// Checks the settings of `serve` in rushgate.toml and the environment. Without any, there may be no server.
pub(super) fn look(options: ServeOptions, findings: &mut Findings) {
    if options == ServeOptions::default() {
        return;
    }
    match options.settle() {
        Ok(settings) => look_at_settings(&settings, findings),
        Err(fault) => {
            findings.warn(format!("`rushgate serve` would not start: {fault}"), "correct its settings")
        }
    }
}

fn look_at_settings(settings: &Settings, findings: &mut Findings) {
    let is_public = !settings.listen.ip().is_loopback();
    if is_public && settings.tls().is_none() {
        findings.warn(
            format!("{} is served without TLS: tokens are visible on the network", settings.listen),
            "set `tls_cert` and `tls_key`, or run a TLS proxy on the same machine",
        );
    }
    if is_public && settings.tokens.is_none() {
        findings.warn(
            format!("every client that can reach {} is an operator", settings.listen),
            "run `rushgate token create`, and set `tokens`",
        );
    }
    if let Some(path) = &settings.tokens {
        look_at_tokens(path, findings);
    }
    if let Some(Tls { certificate, key }) = settings.tls() {
        if let Err(error) = check_certificate(certificate, key) {
            findings
                .warn(error.to_string(), "correct the TLS files: `rushgate serve` does not start with them");
        }
        look_at_secret(key, findings);
    }
    let wanted = u64::from(settings.connections.get()) + OTHERS;
    if let Some(limit) = files::raise_limit().filter(|limit| *limit < wanted) {
        findings.warn(
            format!("the limit of open files is {limit}, and `connections` needs {wanted}"),
            "raise the limit (`ulimit -n`, LimitNOFILE); otherwise further connections wait",
        );
    }
}

fn look_at_tokens(path: &Path, findings: &mut Findings) {
    match TokenFile::at(path).list() {
        Ok(tokens) if tokens.is_empty() => findings.warn(
            format!("every request is refused: `{}` has no tokens", path.display()),
            "create one with `rushgate token create`",
        ),
        Ok(_) => look_at_secret(path, findings),
        Err(error) => findings
            .warn(error.to_string(), "correct the token file: `rushgate serve` does not start without it"),
    }
}

fn look_at_secret(path: &Path, findings: &mut Findings) {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        findings.warn(
            format!("other users of this machine can read `{}`", path.display()),
            format!("run chmod 600 {}", path.display()),
        );
    }
}
