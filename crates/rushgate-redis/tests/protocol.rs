//! `docs/protocol.md` and the pages in `docs/protocol` agree with the Lua files.

use std::collections::BTreeMap;

use rushgate_core::{BuyerId, IdempotencyKey, ReservationId, SaleId, SaleSecret};
use rushgate_redis::functions::reference;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Set to rewrite the generated parts of the pages.
const WRITE: &str = "RUSHGATE_WRITE_TABLES";

fn read(page: &str) -> String {
    std::fs::read_to_string(format!("{DOCS}/{page}")).unwrap_or_else(|error| panic!("docs/{page}: {error}"))
}

#[test]
fn the_page_on_the_protocol_says_what_the_lua_files_say() {
    let mut pages = BTreeMap::new();
    for (name, place, part) in reference() {
        let page = pages.entry(name).or_insert_with(|| read(name));
        let (begin, end) = (format!("<!-- {place}: generated -->\n"), format!("<!-- {place}: end -->\n"));
        let from = page.find(&begin).unwrap_or_else(|| panic!("docs/{name} has no place for {place}"));
        let from = from + begin.len();
        let to = page.find(&end).unwrap_or_else(|| panic!("docs/{name}: the place for {place} has no end"));
        page.replace_range(from..to, &format!("{}\n", part.trim_end()));
    }
    for (name, page) in pages {
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(format!("{DOCS}/{name}"), page).expect("the page can be written");
        } else {
            assert!(read(name) == page, "docs/{name} is out of date: run with {WRITE}=1");
        }
    }
}

#[test]
fn the_page_has_a_reservation_to_compare_with() {
    let secret = SaleSecret::from_bytes(std::array::from_fn(|at| at as u8));
    let sale = SaleId::new("phones").unwrap();
    let (buyer, key) = (BuyerId::new("ann").unwrap(), IdempotencyKey::new("click-1").unwrap());
    let id = ReservationId::derive(secret, &sale, &buyer, &key);
    assert!(read("protocol/sales.md").contains(&format!("`{id}`")), "{id}");
}
