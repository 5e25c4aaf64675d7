//! `docs/protocol.md` says what the Lua files say.

use rushgate_core::{BuyerId, IdempotencyKey, ReservationId, SaleId, SaleSecret};
use rushgate_redis::functions::reference;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
/// Set to write those parts of the page anew.
const WRITE: &str = "RUSHGATE_WRITE_TABLES";

#[test]
fn the_page_on_the_protocol_says_what_the_lua_files_say() {
    let written = std::fs::read_to_string(PAGE).expect("the page is there");
    let mut page = written.clone();
    for (place, part) in reference() {
        let (begin, end) = (format!("<!-- {place}: generated -->\n"), format!("<!-- {place}: end -->\n"));
        let from =
            page.find(&begin).unwrap_or_else(|| panic!("the page has no place for {place}")) + begin.len();
        let to = page.find(&end).unwrap_or_else(|| panic!("the place for {place} has no end"));
        page.replace_range(from..to, &format!("{}\n", part.trim_end()));
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    } else {
        assert!(written == page, "docs/protocol.md is out of date: run with {WRITE}=1");
    }
}

#[test]
fn the_page_has_a_reservation_to_compare_with() {
    let secret = SaleSecret::from_bytes(std::array::from_fn(|at| at as u8));
    let sale = SaleId::new("phones").unwrap();
    let (buyer, key) = (BuyerId::new("ann").unwrap(), IdempotencyKey::new("click-1").unwrap());
    let id = ReservationId::derive(secret, &sale, &buyer, &key);
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page.contains(&format!("`{id}`")), "{id}");
}
