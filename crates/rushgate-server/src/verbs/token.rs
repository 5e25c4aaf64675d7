//! API tokens over HTTP: for operators whose own token has no scopes, because a token can have any.

use rushgate::BuyerId;
use rushgate::wire::schema::LABEL;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Door, NewToken, Role, TokenFile, TokenView};
use crate::call::Call;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::scope::Scope;

/// The token file of this server. An operator with scopes could otherwise create a token without any.
fn file<B>(call: &Call<B>) -> Result<&TokenFile, Problem> {
    if !call.caller.is_unlimited() {
        return Err(Problem::new(Code::Forbidden, "only a token without scopes can manage tokens"));
    }
    match &call.shop.door {
        Door::Tokens(door) => Ok(door.file()),
        Door::Open => Err(Problem::new(Code::NotFound, "this server has no tokens: start it with --tokens")),
    }
}

pub(crate) async fn list(call: Call) -> Answer<Vec<TokenView>> {
    Ok(Reply::ok(file(&call)?.views()?))
}

/// A token to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// Purpose of the token, as shown to operators: at most 200 bytes without control characters.
    #[schemars(extend("pattern" = LABEL))]
    label: String,
    /// Role of the bearer.
    role: Role,
    /// What it is for, such as `lock:a`, `queue:mail*` or `sale:*`. Default: everything.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    scopes: Vec<Scope>,
    /// The only buyer that it is for.
    #[serde(default)]
    buyer: Option<BuyerId>,
}

/// A created token.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedView {
    /// ID of the token.
    id: String,
    /// The token. It is not shown again: the server stores only its hash.
    token: String,
}

pub(crate) async fn create(call: Call<TokenBody>) -> Answer<CreatedView> {
    let TokenBody { label, role, scopes, buyer } = &call.body;
    check_label(label)?;
    let new = NewToken { label: label.clone(), role: *role, scopes: scopes.clone(), buyer: buyer.clone() };
    let (entry, token) = file(&call)?.create(new)?;
    Ok(Reply::created(CreatedView { id: entry.id, token }))
}

/// A key to create, with which a shop signs tokens for its buyers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// Purpose of the key, as shown to operators: at most 200 bytes without control characters.
    #[schemars(extend("pattern" = LABEL))]
    label: String,
    /// Sales that it is for, such as `sale:phones` or `sale:*`. Default: all.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    scopes: Vec<Scope>,
}

/// A created key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KeyView {
    /// ID of the key: `kid` in the header of a signed token.
    id: String,
    /// `HS256`.
    alg: &'static str,
    /// The key's 32 bytes in base64url.
    secret: String,
}

pub(crate) async fn create_key(call: Call<KeyBody>) -> Answer<KeyView> {
    let KeyBody { label, scopes } = &call.body;
    check_label(label)?;
    let key = file(&call)?.create_key(label.clone(), scopes.clone())?;
    Ok(Reply::created(KeyView { secret: key.secret(), id: key.id, alg: "HS256" }))
}

/// The outcome of a revocation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevokedView {
    /// ID of the token or key.
    revoked: String,
}

pub(crate) async fn revoke(call: Call) -> Answer<RevokedView> {
    let id = call.path.get("token");
    match file(&call)?.revoke(id)? {
        true => Ok(Reply::ok(RevokedView { revoked: id.to_owned() })),
        false => Err(Problem::new(Code::NotFound, format_args!("no such token: `{id}`"))),
    }
}

fn check_label(label: &str) -> Result<(), Problem> {
    const LABEL_MAX: usize = 200;
    match label.len() <= LABEL_MAX && !label.contains(char::is_control) {
        true => Ok(()),
        false => {
            let why = format_args!("the label must have at most {LABEL_MAX} bytes and no control characters");
            Err(Problem::new(Code::Invalid, why).field("label"))
        }
    }
}
