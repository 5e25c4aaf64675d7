//! Measures how many requests for a sold-out sale one core answers per second, with every check: replay,
//! cart, window, probe.
//!
//! `cargo run --profile dist -p rushgate --example admission_speed`

use std::time::Instant;

use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Rushgate, SaleBuilder, Sku};

const BUYERS: usize = 100_000;
const ROUNDS: usize = 50;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the store");
    let client = Rushgate::connect(&format!("sqlite:{}", dir.path().join("shop.db").display())).await?;
    client.create_sale(SaleBuilder::new("phones").sku("phone", 1_000, 1)).await?;
    let sale = client.sale("phones")?;
    sale.open().await?;
    let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
    let key = IdempotencyKey::new("01JD6T1C3Z8Q5V9K2M4N7P0R6S")?;
    for n in 0..1_000 {
        let owner = BuyerId::new(format!("owner-{n}"))?;
        let Reserved::Reserved(hold) = sale.reserve(&owner, &cart, &key).await? else {
            panic!("one is left")
        };
        sale.confirm(hold.id).await?;
    }
    let buyers: Vec<_> = (0..BUYERS).map(|n| BuyerId::new(format!("buyer-{n}"))).collect::<Result<_, _>>()?;
    sale.reserve(&buyers[0], &cart, &key).await?;

    let started = Instant::now();
    for _ in 0..ROUNDS {
        for buyer in &buyers {
            let answer = sale.reserve(buyer, &cart, &key).await?;
            assert!(matches!(answer, Reserved::SoldOut { .. }));
        }
    }
    let took = started.elapsed();
    let answers = (BUYERS * ROUNDS) as f64 / took.as_secs_f64();
    let stats = sale.admission_stats();
    println!("{answers:.0} answers/s, {:.0} ns each; {stats:?}", 1e9 / answers);
    assert!(stats.probes as f64 <= 1.0 + took.as_secs_f64() * 21.0, "probes are rare");
    client.close().await
}
