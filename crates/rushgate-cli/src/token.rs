//! `rushgate token`: API tokens, in the token file of a server, or at a server.

use anyhow::Result;
use rushgate::Timestamp;
use rushgate_http::Client;
use rushgate_server::{NewToken, TokenFile, TokenView};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::args::serve::{TokenCreateArgs, TokenKeyArgs, TokenSignArgs, TokenVerb, TokensFile};
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, is_http};
use crate::output::{Output, Table, moment};

/// Where the tokens are.
enum Place {
    File(TokenFile),
    Server(Box<Client>),
}

/// A created token.
#[derive(Deserialize)]
struct Created {
    id: String,
    token: String,
}

/// A created key.
#[derive(Deserialize)]
struct Key {
    id: String,
    secret: String,
}

impl Place {
    /// The file that is named, or else the server that is the store, or else the file `tokens.json`.
    fn of(file: TokensFile, globals: &Globals) -> Result<Self> {
        match (file.tokens, globals.store.as_deref()) {
            (None, Some(url)) if is_http(url) => Ok(Self::Server(Box::new(Client::new(url)?))),
            (file, _) => Ok(Self::File(TokenFile::at(file.unwrap_or_else(|| TokensFile::DEFAULT.into())))),
        }
    }

    async fn create(&self, new: NewToken) -> Result<Created> {
        Ok(match self {
            Self::Server(server) => server.post("/v1/tokens", &json!(new)).await?,
            Self::File(file) => {
                let (entry, token) = file.create(new)?;
                Created { id: entry.id, token }
            }
        })
    }

    async fn list(&self) -> Result<Vec<TokenView>> {
        Ok(match self {
            Self::Server(server) => server.get("/v1/tokens").await?,
            Self::File(file) => file.views()?,
        })
    }

    /// Whether there was such a token.
    async fn revoke(&self, id: &str) -> Result<bool> {
        match self {
            Self::File(file) => Ok(file.revoke(id)?),
            // An ID is hexadecimal, so it is safe in a path.
            Self::Server(_) if !id.chars().all(|c| c.is_ascii_hexdigit()) => Ok(false),
            Self::Server(server) => match server.delete::<IgnoredAny>(&format!("/v1/tokens/{id}")).await {
                Ok(_) => Ok(true),
                Err(error) if error.is_not_found() => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }
}

pub(crate) async fn run(verb: TokenVerb, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    match verb {
        TokenVerb::Create(args) => create(args, globals).await,
        TokenVerb::Key(args) => key(args, globals).await,
        TokenVerb::Sign(args) => sign(args, globals),
        TokenVerb::Ls(file) => ls(&Place::of(file, globals)?, output).await,
        TokenVerb::Revoke(args) => revoke(&Place::of(args.file, globals)?, &args.id, output).await,
    }
}

async fn create(args: TokenCreateArgs, globals: &Globals) -> Result<Exit> {
    let (output, TokenCreateArgs { label, role, scopes, buyer, file }) = (globals.output, args);
    let place = Place::of(file, globals)?;
    let Created { id, token } = place.create(NewToken { label, role, scopes, buyer }).await?;
    output.line(&json!({ "id": id, "token": token }), &token)?;
    let keeper = match &place {
        Place::File(file) => format!("`{}`", file.path().display()),
        Place::Server(_) => "the server".to_owned(),
    };
    output.note(format_args!("copy the token now: it is not shown again; {keeper} stores only its hash"));
    Ok(Exit::Done)
}

async fn key(args: TokenKeyArgs, globals: &Globals) -> Result<Exit> {
    let (output, TokenKeyArgs { label, scopes, file }) = (globals.output, args);
    let Key { id, secret } = match Place::of(file, globals)? {
        Place::Server(server) => {
            server.post("/v1/tokens/keys", &json!({ "label": label, "scopes": scopes })).await?
        }
        Place::File(file) => {
            let key = file.create_key(label, scopes)?;
            Key { secret: key.secret(), id: key.id }
        }
    };
    let said = json!({ "id": id, "alg": "HS256", "secret": secret });
    output.line(&said, format_args!("kid {id}\nalg HS256\nsecret {secret}"))?;
    output.note("the secret is in base64url: decode it to get the 32 bytes of the key");
    Ok(Exit::Done)
}

fn sign(args: TokenSignArgs, globals: &Globals) -> Result<Exit> {
    let Place::File(file) = Place::of(args.file, globals)? else {
        return Err(Fault::usage("a server does not sign tokens")
            .hint("sign them in the shop's backend with the key of `token key`, or pass --tokens FILE")
            .into());
    };
    let keys = file.keys()?;
    let key = match (&args.key, &keys[..]) {
        (Some(id), _) => keys.iter().find(|key| key.id == *id),
        (None, [key]) => Some(key),
        (None, []) => None,
        (None, _) => {
            return Err(Fault::usage("the file has several keys").hint("pass --key ID").into());
        }
    };
    let key = key.ok_or_else(|| {
        Fault::refused("not_found", "no such key").hint("create one with `rushgate token key LABEL`")
    })?;
    let token = key.sign(&args.buyer, args.time, &args.scopes)?;
    globals.output.line(&json!({ "key": key.id, "buyer": args.buyer, "token": token }), &token)
}

async fn ls(place: &Place, output: Output) -> Result<Exit> {
    let views = place.list().await?;
    let rows = views.iter().map(|of| {
        let role = if of.signs { format!("signs {}s", of.role.word()) } else { of.role.word().to_owned() };
        let scopes: Vec<_> = of.scopes.iter().map(ToString::to_string).collect();
        let scopes = if scopes.is_empty() { "all".to_owned() } else { scopes.join(" ") };
        let created = Timestamp::from_micros(of.created_ms.saturating_mul(1_000));
        [of.id.clone(), role, of.label.clone(), scopes, moment(created)]
    });
    output.data(&views, Table::new(["ID", "ROLE", "LABEL", "SCOPES", "CREATED"], rows))
}

async fn revoke(place: &Place, id: &str, output: Output) -> Result<Exit> {
    if !place.revoke(id).await? {
        return Err(Fault::refused("not_found", format_args!("no such token: `{id}`"))
            .hint("run `rushgate token ls` to list the tokens")
            .into());
    }
    output.line(&json!({ "revoked": id }), format_args!("revoked {id}"))
}
