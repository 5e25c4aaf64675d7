//! The specification of a sale as text, as stores and ledgers keep it.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Error, HoldTime, QueueName, Result, SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, Timestamp};

impl SaleSpec {
    /// As JSON without the id, the secret included: the same text for the same sale, whoever writes it.
    pub fn to_json(&self) -> String {
        write(self)
    }

    /// The inverse of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`is_corrupt`](Error::is_corrupt) for a text that it did not make.
    pub fn from_json(id: &SaleId, stored: &[u8]) -> Result<Self> {
        read(id, stored).ok_or_else(|| Error::corrupt("the stored specification of a sale cannot be read"))
    }
}

fn write(spec: &SaleSpec) -> String {
    let skus: Vec<Value> =
        spec.skus.iter().map(|sku| json!([sku.sku.as_str(), sku.units, sku.per_buyer])).collect();
    let moment = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let mut secret = String::new();
    for byte in spec.secret.to_bytes() {
        let _ = write!(secret, "{byte:02x}");
    }
    let spec = json!({
        "hold_us": spec.hold.as_micros(),
        "opens_us": moment(spec.opens_at),
        "closes_us": moment(spec.closes_at),
        "orders": spec.orders.as_ref().map(QueueName::as_str),
        "secret": secret,
        "skus": skus,
    });
    spec.to_string()
}

fn read(id: &SaleId, stored: &[u8]) -> Option<SaleSpec> {
    let spec: Value = serde_json::from_slice(stored).ok()?;
    let moment = |name: &str| spec[name].as_u64().map(Timestamp::from_micros);
    let sku = |row: &Value| {
        Some(SkuSpec {
            sku: Sku::new(row[0].as_str()?).ok()?,
            units: u32::try_from(row[1].as_u64()?).ok()?,
            per_buyer: u32::try_from(row[2].as_u64()?).ok()?,
        })
    };
    let orders = match &spec["orders"] {
        Value::Null => None,
        name => Some(QueueName::new(name.as_str()?).ok()?),
    };
    Some(SaleSpec {
        id: id.clone(),
        skus: spec["skus"].as_array()?.iter().map(sku).collect::<Option<_>>()?,
        hold: HoldTime::new(Duration::from_micros(spec["hold_us"].as_u64()?)).ok()?,
        opens_at: moment("opens_us"),
        closes_at: moment("closes_us"),
        orders,
        secret: SaleSecret::from_bytes(
            u128::from_str_radix(spec["secret"].as_str()?, 16).ok()?.to_be_bytes(),
        ),
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
            orders: Some(QueueName::new("orders").unwrap()),
            secret: SaleSecret::from_bytes([9; 16]),
        };
        let written = spec.to_json();
        let read = SaleSpec::from_json(&spec.id, written.as_bytes()).unwrap();
        assert_eq!(read, spec);
        assert_eq!(read.to_json(), written);
        assert!(SaleSpec::from_json(&spec.id, b"{}").unwrap_err().is_corrupt());
    }
}
