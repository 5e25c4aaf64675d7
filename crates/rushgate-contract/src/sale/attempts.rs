//! Attempts at a sale, as servers count them.

use rushgate_core::{ATTEMPT_ANSWERS_MAX, ATTEMPT_SERVERS_MAX, ClientId};

use super::*;

async fn count(fixture: &Fixture, sale: &str, server: u64, answers: &[(&str, u64)]) -> Vec<(String, u64)> {
    let answers = answers.iter().map(|(answer, n)| ((*answer).to_owned(), *n)).collect();
    let sale = SaleId::new(sale).expect("a test's name is valid");
    fixture.store.count_attempts(&sale, ClientId::from_u64(server), answers).await.unwrap()
}

fn sums(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(answer, n)| ((*answer).to_owned(), *n)).collect()
}

pub(crate) async fn attempts_are_added_up_over_servers_that_count_them(fixture: Fixture) {
    assert_eq!(count(&fixture, "s", 1, &[]).await, []);
    assert_eq!(
        count(&fixture, "s", 1, &[("sold_out", 5), ("reserved", 2)]).await,
        sums(&[("reserved", 2), ("sold_out", 5)])
    );
    let both = sums(&[("reserved", 3), ("sold_out", 12)]);
    assert_eq!(count(&fixture, "s", u64::MAX, &[("sold_out", 7), ("reserved", 1)]).await, both);
    assert_eq!(count(&fixture, "s", u64::MAX, &[("sold_out", 7), ("reserved", 1)]).await, both, "again");
    assert_eq!(count(&fixture, "s", 1, &[("sold_out", 3)]).await, both, "an older count");
    assert_eq!(count(&fixture, "s", 1, &[("sold_out", 6)]).await, sums(&[("reserved", 3), ("sold_out", 13)]));
    assert_eq!(count(&fixture, "other", 1, &[("sold_out", 1)]).await, sums(&[("sold_out", 1)]));
    let most = (1 << 53) - 1;
    assert_eq!(count(&fixture, "most", 1, &[("held", most)]).await, sums(&[("held", most)]));
}

pub(crate) async fn attempts_of_servers_that_have_ended_stay_in_the_sums(fixture: Fixture) {
    let servers = u64::from(ATTEMPT_SERVERS_MAX) + 3;
    for server in 1..=servers {
        let all = count(&fixture, "s", server, &[("held", 2), ("reserved", 1)]).await;
        assert_eq!(all, sums(&[("held", 2 * server), ("reserved", server)]));
        fixture.advance(ms(1)).await;
    }
    let all = count(&fixture, "s", servers, &[("held", 3)]).await;
    assert_eq!(all, sums(&[("held", 2 * servers + 1), ("reserved", servers)]));
}

pub(crate) async fn attempts_have_a_limited_number_of_answers(fixture: Fixture) {
    for n in 0..ATTEMPT_ANSWERS_MAX {
        count(&fixture, "s", 1, &[(&format!("a{n:02}"), 1)]).await;
    }
    let all = count(&fixture, "s", 1, &[("z", 1), ("a00", 2)]).await;
    assert_eq!((all.len(), &all[0]), (ATTEMPT_ANSWERS_MAX as usize, &("a00".to_owned(), 2)));
}

pub(crate) async fn counts_of_attempts_outside_the_limits_are_refused(fixture: Fixture) {
    let many: Vec<_> = (0..33).map(|n| (format!("a{n}"), 1)).collect();
    let one = |answer: &str, n| vec![(answer.to_owned(), n)];
    for wrong in [many, one("", 1), one("Sold out", 1), one(&"a".repeat(41), 1), one("a", 1 << 53)] {
        refused(fixture.store.count_attempts(&id(), ClientId::from_u64(1), wrong).await);
    }
}
