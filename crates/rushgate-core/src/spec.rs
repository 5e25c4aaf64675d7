//! JSON form of a sale's specification, as stores and ledgers keep it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::text::{hex, unhex};
use crate::{Error, HoldTime, Result, SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, Timestamp};

impl SaleSpec {
    /// Serializes the specification with its secret, without the ID. Every writer produces the same text for the same
    /// sale.
    pub fn to_json(&self) -> String {
        let mut fields = fields(self);
        fields["secret"] = hex(&self.secret.to_bytes()).into();
        fields.to_string()
    }

    /// Serializes the specification without the ID and the secret, for readers that must not sign.
    pub fn to_public_json(&self) -> String {
        fields(self).to_string()
    }

    /// Parses the output of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`is_corrupt`](Error::is_corrupt) for any other text.
    pub fn from_json(id: &SaleId, stored: &[u8]) -> Result<Self> {
        let fields: Option<Value> = serde_json::from_slice(stored).ok();
        let read = || {
            let fields = fields?;
            let secret = unhex("the secret", fields["secret"].as_str()?).ok()?;
            read(id, &fields, SaleSecret::from_bytes(secret))
        };
        read().ok_or_else(unreadable)
    }

    /// Parses the output of [`to_public_json`](Self::to_public_json) and adds the secret.
    ///
    /// # Errors
    /// [`is_corrupt`](Error::is_corrupt) for any other text.
    pub fn from_public_json(id: &SaleId, stored: &[u8], secret: SaleSecret) -> Result<Self> {
        let fields: Option<Value> = serde_json::from_slice(stored).ok();
        fields.and_then(|fields| read(id, &fields, secret)).ok_or_else(unreadable)
    }
}

fn unreadable() -> Error {
    Error::corrupt("cannot parse the stored specification of a sale")
}

fn fields(spec: &SaleSpec) -> Value {
    let skus: Vec<Value> =
        spec.skus.iter().map(|sku| json!([sku.sku.as_str(), sku.units, sku.per_buyer])).collect();
    let moment = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let mut fields = json!({
        "hold_us": spec.hold.as_micros(),
        "opens_us": moment(spec.opens_at),
        "closes_us": moment(spec.closes_at),
        "ledger": spec.ledger,
        "skus": skus,
    });
    if !spec.metadata.is_empty() {
        fields["metadata"] = spec.metadata.as_str().into();
    }
    fields
}

fn read(id: &SaleId, spec: &Value, secret: SaleSecret) -> Option<SaleSpec> {
    let moment = |name: &str| spec[name].as_u64().map(Timestamp::from_micros);
    let sku = |row: &Value| {
        Some(SkuSpec {
            sku: Sku::as_stored(row[0].as_str()?).ok()?,
            units: u32::try_from(row[1].as_u64()?).ok()?,
            per_buyer: u32::try_from(row[2].as_u64()?).ok()?,
        })
    };
    Some(SaleSpec {
        id: id.clone(),
        skus: spec["skus"].as_array()?.iter().map(sku).collect::<Option<_>>()?,
        hold: HoldTime::new(Duration::from_micros(spec["hold_us"].as_u64()?)).ok()?,
        opens_at: moment("opens_us"),
        closes_at: moment("closes_us"),
        ledger: spec["ledger"].as_bool()?,
        metadata: match &spec["metadata"] {
            Value::Null => String::new(),
            text => text.as_str()?.to_owned(),
        },
        secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_survives_and_is_written_alike() {
        let spec = SaleSpec {
            id: SaleId::new("s").unwrap(),
            skus: vec![SkuSpec { sku: Sku::new("\"seat\\").unwrap(), units: 5, per_buyer: 2 }],
            hold: HoldTime::new(Duration::from_secs(5)).unwrap(),
            opens_at: Some(Timestamp::from_micros(u64::MAX)),
            closes_at: None,
            ledger: true,
            metadata: r#"{ "title": "\u00e9" }"#.to_owned(),
            secret: SaleSecret::from_bytes([9; 16]),
        };
        let written = spec.to_json();
        let read = SaleSpec::from_json(&spec.id, written.as_bytes()).unwrap();
        assert_eq!(read, spec);
        assert_eq!(read.to_json(), written);
        assert!(SaleSpec::from_json(&spec.id, b"{}").unwrap_err().is_corrupt());
        let public = spec.to_public_json();
        assert!(!public.contains("secret") && !public.contains("0909"), "{public}");
        assert_eq!(SaleSpec::from_public_json(&spec.id, public.as_bytes(), spec.secret).unwrap(), spec);
        let plain = SaleSpec { metadata: String::new(), ..spec };
        assert!(!plain.to_json().contains("metadata"));
        assert_eq!(SaleSpec::from_json(&plain.id, plain.to_json().as_bytes()).unwrap(), plain);
    }
}
