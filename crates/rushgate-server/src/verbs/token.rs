//! API tokens over HTTP: for operators whose own token has no scopes, because a token can have any.

use rushgate::Error;
use rushgate::wire::schema::LABEL;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Authenticator, NewToken, TokenFile, TokenView};
use crate::call::Call;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::scope::Scope;

/// Uses the token file of this server, on a thread that may block: the file may be on a slow disk, and is locked by one
/// caller at a time. An operator with scopes is refused, because it could create a token without any.
async fn with_file<B, T: Send + 'static>(
    call: &Call<B>,
    use_it: impl FnOnce(&TokenFile) -> Result<T, Error> + Send + 'static,
) -> Result<T, Problem> {
    if !call.caller.is_unlimited() {
        return Err(Problem::new(Code::Forbidden, "only a token without scopes can manage tokens"));
    }
    let Authenticator::Tokens(authenticator) = &call.app.authenticator else {
        return Err(Problem::plain(Code::NoTokens));
    };
    let file = authenticator.file().clone();
    let used = tokio::task::spawn_blocking(move || use_it(&file)).await;
    Ok(used.map_err(|error| Error::bug("the token file was not used").caused_by(error))??)
}

pub(crate) async fn list(call: Call) -> Answer<Vec<TokenView>> {
    Ok(Reply::ok(with_file(&call, TokenFile::views).await?))
}

/// A created token.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedView {
    /// ID of the token.
    id: String,
    /// The token. It is not shown again: the server stores only its hash.
    token: String,
}

pub(crate) async fn create(call: Call<NewToken>) -> Answer<CreatedView> {
    let new = call.body.clone();
    let (entry, token) = with_file(&call, |file| file.create(new)).await?;
    Ok(Reply::created(CreatedView { id: entry.id, token }))
}

/// A key to create, with which a shop signs tokens for its buyers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
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
    let KeyBody { label, scopes } = call.body.clone();
    let key = with_file(&call, |file| file.create_key(label, scopes)).await?;
    Ok(Reply::created(KeyView { secret: key.secret(), id: key.id, alg: "HS256" }))
}

/// The outcome of a revocation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevokedView {
    /// ID of the token or key.
    revoked: String,
}

pub(crate) async fn revoke(call: Call) -> Answer<RevokedView> {
    let id = call.path.get("token").to_owned();
    let revoked = id.clone();
    match with_file(&call, move |file| file.revoke(&revoked)).await? {
        true => Ok(Reply::ok(RevokedView { revoked: id })),
        false => Err(Problem::new(Code::NotFound, format_args!("no such token: `{id}`"))),
    }
}
