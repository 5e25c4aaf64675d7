//! Train tickets from A through B to C with three seats: a passenger who rides through keeps one seat for
//! both segments.
//!
//! Each segment is a SKU, each seat a unit number. A reservation asks for the same number in every segment,
//! so that no passenger changes seats, and a seat that becomes free at B is sold again from B on.

use rushgate::sale::{UnitChoice, UnitNumber};
use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Result, Rushgate, Sale, SaleBuilder, Sku};

const SEGMENTS: [&str; 2] = ["A-B", "B-C"];

/// Books a seat for consecutive segments. Returns its number, or `None` if no seat is free in all of them.
async fn book(train: &Sale, passenger: &str, segments: &[&str]) -> Result<Option<UnitNumber>> {
    let line = |segment: &&str| Ok(Line { sku: Sku::new(segment)?, quantity: 1 });
    let journey: Vec<_> = segments.iter().map(line).collect::<Result<_>>()?;
    let (passenger, key) = (BuyerId::new(passenger)?, IdempotencyKey::new("booking-1")?);
    match train.reserve_units(&passenger, &journey, UnitChoice::SameNumber, &key).await? {
        Reserved::Reserved(hold) => {
            train.confirm(hold.id).await?;
            Ok(Some(hold.units[0].1))
        }
        _ => Ok(None),
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let file = format!("sqlite:{}", dir.path().join("train.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let seats = SEGMENTS.iter().fold(SaleBuilder::new("train-1"), |sale, segment| sale.sku(*segment, 3, 1));
    client.create_sale(seats).await?;
    let train = client.sale("train-1")?;
    train.open().await?;

    let mut tickets = Vec::new();
    for (passenger, segments) in [
        ("ann", &SEGMENTS[..1]),
        ("bob", &SEGMENTS[..]),
        ("cem", &SEGMENTS[1..]),
        ("dee", &SEGMENTS[..]),
        ("eve", &SEGMENTS[..]),
        ("fay", &SEGMENTS[1..]),
    ] {
        let seat = book(&train, passenger, segments).await?;
        match seat {
            Some(seat) => println!("{passenger} rides {} in seat {seat}", segments.join(" and ")),
            None => println!("{passenger} finds no seat over {}", segments.join(" and ")),
        }
        tickets.push(seat);
    }
    // Ann gets off at B, and Cem takes her seat there. Dee gets the last seat for both segments; Eve and Fay
    // get none.
    assert_eq!(tickets, [Some(1), Some(2), Some(1), Some(3), None, None]);
    assert!(train.audit(None).await?.ok);
    client.close().await
}
