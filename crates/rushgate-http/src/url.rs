//! The URL of a server: `http[s]://[TOKEN@]HOST[:PORT][/PATH]`.

use hyper::Uri;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;
use rushgate_core::{Error, Result};

/// Environment variable with the API token of a URL that has none.
const TOKEN: &str = "RUSHGATE_TOKEN";

/// URL of a server, and the API token for it.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The URL without a token and without a slash at its end.
    pub base: String,
    /// Value of `Authorization`. Its `Debug` does not show the token.
    pub bearer: Option<HeaderValue>,
}

impl Address {
    /// Parses a URL, `http[s]://[TOKEN@]HOST[:PORT][/PATH]`. Without a token in it, `RUSHGATE_TOKEN` may have one.
    pub fn of(url: &str) -> Result<Self> {
        Self::with(url, std::env::var(TOKEN).ok())
    }

    fn with(url: &str, token: Option<String>) -> Result<Self> {
        let (base, own) = split(url)?;
        let token = own.or(token).map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let bearer = token.map(|token| bearer(&token)).transpose()?;
        Ok(Self { base, bearer })
    }

    /// Whether the token travels without encryption to another machine.
    pub(crate) fn is_exposed(&self) -> bool {
        let host =
            self.base.parse().ok().and_then(|uri: Uri| Some(uri.host()?.to_owned())).unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_local =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.bearer.is_some() && self.base.starts_with("http:") && !is_local
    }
}

/// The URL without its token, and the token. The text may contain a secret, so errors omit it.
fn split(url: &str) -> Result<(String, Option<String>)> {
    let unusable = |why: &str| {
        Error::invalid("the server's URL", why).hint("use https://HOST[:PORT] or http://HOST[:PORT]")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| unusable("has no scheme"))?;
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let base = format!("{scheme}://{host}{}", path.trim_end_matches('/'));
    let uri: Uri = base.parse().map_err(|_| unusable("is malformed"))?;
    if host.is_empty() || uri.host().is_none_or(str::is_empty) {
        return Err(unusable("has no host"));
    }
    if uri.query().is_some() || url.contains('#') {
        return Err(unusable("must not have a query or a fragment"));
    }
    // `TOKEN@`, or `:TOKEN@` as for a password.
    let token = user.map(|user| user.split_once(':').map_or(user, |(_, token)| token));
    let token = token.map(|token| percent_decode_str(token).decode_utf8_lossy().into_owned());
    Ok((base, token))
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
        Error::invalid("the API token", "must be one line of visible ASCII characters")
            .hint("pass it as `rushgate token create` printed it")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, token: Option<&str>) -> (String, Option<String>) {
        let Address { base, bearer } = Address::with(url, token.map(str::to_owned)).unwrap();
        (base, bearer.map(|bearer| bearer.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_url_has_a_host_and_may_have_a_path_and_a_token() {
        let bearer = |token: &str| Some(format!("Bearer {token}"));
        assert_eq!(read("http://127.0.0.1:7979", None), ("http://127.0.0.1:7979".into(), None));
        assert_eq!(read("https://h/gate/", Some(" rg_1 \n")), ("https://h/gate".into(), bearer("rg_1")));
        assert_eq!(read("https://rg_2@h", Some("rg_1")), ("https://h".into(), bearer("rg_2")));
        assert_eq!(read("https://:rg_3@[::1]:1", None), ("https://[::1]:1".into(), bearer("rg_3")));
        assert_eq!(read("http://h", Some("")), ("http://h".into(), None));
    }

    #[test]
    fn an_unusable_url_is_refused_without_its_token() {
        for wrong in
            ["http://", "http://secret@", "https://h?secret", "https://h#secret", "http://a b", "https:h"]
        {
            let error = Address::with(wrong, None).err().unwrap_or_else(|| panic!("{wrong}"));
            assert!(error.is_invalid() && !format!("{error:?}").contains("secret"), "{error:?}");
        }
        let error = Address::with("http://h", Some("a\nb".into())).err().unwrap();
        assert!(error.is_invalid() && !format!("{error:?}").contains("a\nb"), "{error:?}");
    }

    #[test]
    fn a_token_is_exposed_only_on_its_way_to_another_machine_without_encryption() {
        for (url, exposed) in [
            ("http://rg@shop.example", true),
            ("http://rg@10.0.0.1:7979", true),
            ("http://shop.example", false),
            ("https://rg@shop.example", false),
            ("http://rg@localhost:7979", false),
            ("http://rg@[::1]:7979", false),
        ] {
            assert_eq!(Address::with(url, None).unwrap().is_exposed(), exposed, "{url}");
        }
    }
}
