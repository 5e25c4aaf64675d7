//! Contract of waiting rooms.

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    AdmissionSchedule, Beacon, BuyerId, ClosedEntry, Draw, DrawSecret, Enter, Entered, Joined, Rate,
    RoomOrder, RoomRules, RoomState, Timestamp, Verbs,
};

use crate::fixture::*;

const SECRET: DrawSecret = DrawSecret::from_bytes([5; 32]);

fn buyer(name: &str) -> BuyerId {
    BuyerId::new(name).expect("a test's name is valid")
}

fn beacon(text: &str) -> Beacon {
    Beacon::new(text).expect("a test's beacon is short")
}

/// One buyer per 100 s, so that a real clock running during the test makes no difference.
fn slow() -> RoomRules {
    RoomRules::new(one_in(s(100)))
}

fn one_in(per: Duration) -> Rate {
    Rate::new(1, per)
}

fn drawn() -> RoomRules {
    RoomRules { order: RoomOrder::Draw, ..slow() }
}

/// The sale `s` with a room.
async fn with_room(fixture: &Fixture, rules: RoomRules) -> RoomState {
    fixture.sell(&[("a", 10, 5)]).await;
    set(fixture, rules).await
}

async fn set(fixture: &Fixture, rules: RoomRules) -> RoomState {
    fixture.store.set_room(&sale_id("s"), rules, SECRET).await.unwrap()
}

async fn room(fixture: &Fixture) -> RoomState {
    fixture.store.room(&sale_id("s")).await.unwrap().expect("the sale has a room")
}

async fn join(fixture: &Fixture, name: &str) -> Joined {
    fixture.store.join(&sale_id("s"), &buyer(name)).await.unwrap().expect("the sale has a room")
}

async fn join_all(fixture: &Fixture, names: &[&str]) {
    for name in names {
        join(fixture, name).await;
    }
}

async fn enter_as(fixture: &Fixture, name: &str, place: Option<(u64, u64)>) -> Entered {
    let enter = Enter { sale: sale_id("s"), buyer: buyer(name), place };
    fixture.store.enter(enter).await.unwrap().expect("the sale has a room")
}

/// When the buyer's admission token expires, if admitted.
async fn enter(fixture: &Fixture, name: &str) -> Option<Timestamp> {
    let (_, until) = enter_as(fixture, name, None).await.ticket.expect("the buyer is in");
    until
}

async fn close_entry(fixture: &Fixture) -> RoomState {
    fixture.store.close_entry(&sale_id("s")).await.unwrap().expect("the sale has a room")
}

async fn try_draw(fixture: &Fixture, text: &str) -> Draw {
    fixture.store.draw(&sale_id("s"), beacon(text)).await.unwrap().expect("the sale has a room")
}

/// Draws a room whose entry is closed.
async fn draw(fixture: &Fixture, text: &str) -> RoomState {
    match try_draw(fixture, text).await {
        Draw::Drawn(room) => room,
        Draw::EntryOpen(room) => panic!("the entry is open: {room:?}"),
    }
}

pub(super) async fn a_sale_has_no_room_unless_one_is_opened(fixture: Fixture) {
    fixture.sell(&[("a", 10, 5)]).await;
    let (sale, store) = (sale_id("s"), &fixture.store);
    let enter = Enter { sale: sale.clone(), buyer: buyer("ann"), place: None };
    assert_eq!(store.room(&sale).await.unwrap(), None);
    assert_eq!(store.join(&sale, &buyer("ann")).await.unwrap(), None);
    assert_eq!(store.enter(enter.clone()).await.unwrap(), None);
    assert_eq!(store.close_entry(&sale).await.unwrap(), None);
    assert_eq!(store.draw(&sale, beacon("b")).await.unwrap(), None);
    assert!(!store.close_room(&sale).await.unwrap());
    let stranger = sale_id("stranger");
    unknown(store.set_room(&stranger, slow(), SECRET).await);
    unknown(store.room(&stranger).await);
    unknown(store.join(&stranger, &buyer("ann")).await);
    unknown(store.enter(Enter { sale: stranger.clone(), ..enter }).await);
    unknown(store.close_entry(&stranger).await);
    unknown(store.draw(&stranger, beacon("b")).await);
    unknown(store.close_room(&stranger).await);
}

pub(super) async fn a_room_is_opened_as_it_was_said(fixture: Fixture) {
    let rules = RoomRules { pass: s(90), ..RoomRules::new(Rate::new(7, s(13))) };
    let opened = with_room(&fixture, rules).await;
    let expected = RoomState {
        rules,
        opened: opened.now,
        joined: 0,
        served: 0,
        admitted: 0,
        pace: Some(AdmissionSchedule::from(rules.rate, opened.now)),
        commitment: None,
        closed_entry: None,
        drawn: None,
        now: opened.now,
    };
    assert_eq!(opened, expected);
    let found = room(&fixture).await;
    assert_eq!(RoomState { now: opened.now, ..found }, opened);
}

pub(super) async fn buyers_have_serials_by_arrival_and_keep_them(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    for (serial, name) in ["ann", "bob", "cid"].into_iter().enumerate() {
        let joined = join(&fixture, name).await;
        assert_eq!((joined.serial, joined.again, joined.until), (serial as u64, false, None));
        assert_eq!(joined.room.joined, serial as u64 + 1);
    }
    let again = join(&fixture, "bob").await;
    assert_eq!((again.serial, again.again, again.room.joined), (1, true, 3));
    assert_eq!(fixture.peer().join(&sale_id("s"), &buyer("ann")).await.unwrap().unwrap().serial, 0);
}

pub(super) async fn places_are_served_evenly(fixture: Fixture) {
    with_room(&fixture, RoomRules::new(Rate::new(2, s(200)))).await;
    join_all(&fixture, &["ann", "bob", "cid", "dan"]).await;
    let first = room(&fixture).await;
    assert_eq!((first.served, first.place(3)), (1, Some(3)));
    near(first.at(2).unwrap().since(first.now), s(200));
    fixture.advance(s(100)).await;
    assert_eq!(room(&fixture).await.served, 2);
    fixture.advance(s(100)).await;
    assert_eq!(room(&fixture).await.served, 3);
    fixture.advance(s(10_000)).await;
    assert_eq!(room(&fixture).await.served, 4, "no more than there are");
}

pub(super) async fn a_served_buyer_is_admitted_until_the_same_time(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let entered = enter_as(&fixture, "ann", None).await;
    let until = entered.room.now + s(60);
    assert_eq!((entered.ticket, entered.room.admitted), (Some((0, Some(until))), 1));
    fixture.advance(s(30)).await;
    let again = enter_as(&fixture, "ann", None).await;
    assert_eq!((again.ticket, again.room.admitted), (Some((0, Some(until))), 1), "asked again");
    let joined = join(&fixture, "ann").await;
    assert_eq!((joined.serial, joined.again, joined.until), (0, true, Some(until)));
}

pub(super) async fn a_buyer_who_is_not_served_is_not_admitted(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let entered = enter_as(&fixture, "bob", Some((1, 0))).await;
    assert_eq!((entered.ticket, entered.room.admitted), (Some((1, None)), 0));
    assert_eq!(enter_as(&fixture, "eve", Some((0, 0))).await.ticket, None, "she has not joined");
    fixture.advance(s(100)).await;
    assert!(enter(&fixture, "bob").await.is_some());
}

pub(super) async fn a_buyer_whose_token_expired_joins_again_at_the_end(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let until = enter(&fixture, "ann").await;
    fixture.advance(s(61)).await;
    let missed = enter_as(&fixture, "ann", None).await;
    assert_eq!(missed.ticket, Some((0, until)), "the admission token is not renewed");
    assert!(until.unwrap() <= missed.room.now);
    let rejoined = join(&fixture, "ann").await;
    assert_eq!((rejoined.serial, rejoined.again, rejoined.until), (2, false, None));
    assert!(join(&fixture, "ann").await.again);
    assert_eq!(enter(&fixture, "ann").await, None);
    fixture.advance(s(200)).await;
    assert!(enter(&fixture, "ann").await > until);
}

pub(super) async fn places_of_those_who_never_come_are_passed_over(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob", "cid"]).await;
    fixture.advance(s(201)).await;
    assert!(enter(&fixture, "cid").await.is_some());
    let late = enter_as(&fixture, "ann", None).await;
    assert_eq!(late.ticket, Some((0, Some(late.room.now + s(60)))), "a late buyer is admitted");
    assert_eq!(late.room.admitted, 2);
}

pub(super) async fn places_that_nobody_stood_at_are_not_saved_up(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    fixture.advance(s(10_000)).await;
    join_all(&fixture, &["ann", "bob", "cid"]).await;
    assert_eq!(room(&fixture).await.served, 1, "the first is admitted at once, the others wait");
    fixture.advance(s(100)).await;
    assert_eq!(room(&fixture).await.served, 2);
    fixture.advance(s(150)).await;
    assert_eq!(room(&fixture).await.served, 3);
    join(&fixture, "dan").await;
    assert_eq!(room(&fixture).await.served, 3, "the place before his was served less than a turn ago");
    fixture.advance(s(60)).await;
    assert_eq!(room(&fixture).await.served, 4);
}

pub(super) async fn another_rate_keeps_what_is_served(fixture: Fixture) {
    with_room(&fixture, RoomRules::new(one_in(s(10_000)))).await;
    join_all(&fixture, &["ann", "bob", "cid", "dan", "eve"]).await;
    fixture.advance(s(5_000)).await;
    let faster = set(&fixture, slow()).await;
    assert_eq!((faster.served, faster.rules), (1, slow()));
    near(faster.at(1).unwrap().since(faster.now), s(100));
    fixture.advance(s(101)).await;
    assert_eq!(room(&fixture).await.served, 2);
    let slower = set(&fixture, RoomRules::new(one_in(s(10_000)))).await;
    assert_eq!(slower.served, 2);
    fixture.advance(s(110)).await;
    assert_eq!(room(&fixture).await.served, 3, "whose turn was near is not put off");
    fixture.advance(s(5_000)).await;
    assert_eq!(room(&fixture).await.served, 3);
}

pub(super) async fn the_same_rules_change_nothing(fixture: Fixture) {
    let opened = with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let before = room(&fixture).await;
    fixture.advance(s(50)).await;
    let other = DrawSecret::from_bytes([9; 32]);
    let again = fixture.store.set_room(&sale_id("s"), slow(), other).await.unwrap();
    assert_eq!((again.pace, again.opened, again.joined), (before.pace, opened.opened, 2));
}

pub(super) async fn nobody_is_let_in_before_the_moment_that_was_said(fixture: Fixture) {
    fixture.sell(&[("a", 10, 5)]).await;
    let from = Some(fixture.now().await + s(500));
    set(&fixture, RoomRules { from, ..slow() }).await;
    join_all(&fixture, &["ann", "bob"]).await;
    fixture.advance(s(400)).await;
    assert_eq!((room(&fixture).await.served, enter(&fixture, "ann").await), (0, None));
    fixture.advance(s(101)).await;
    assert_eq!(room(&fixture).await.served, 1);
    assert!(enter(&fixture, "ann").await.is_some());
    let stop = Some(room(&fixture).await.now + s(5_000));
    set(&fixture, RoomRules { from: stop, ..slow() }).await;
    fixture.advance(s(4_900)).await;
    assert_eq!(room(&fixture).await.served, 1, "no position is served");
    set(&fixture, slow()).await;
    fixture.advance(s(101)).await;
    assert_eq!(room(&fixture).await.served, 2);
}

pub(super) async fn before_a_draw_nobody_is_let_in(fixture: Fixture) {
    let opened = with_room(&fixture, drawn()).await;
    assert_eq!((opened.pace, opened.drawn, opened.commitment), (None, None, Some(SECRET.commitment())));
    join_all(&fixture, &["ann", "bob"]).await;
    fixture.advance(s(1_000)).await;
    let entered = enter_as(&fixture, "ann", Some((0, 0))).await;
    assert_eq!(entered.ticket, Some((0, None)));
    assert_eq!((entered.room.served, entered.room.place(0), entered.room.at(0)), (0, None, None));
    let closed = close_entry(&fixture).await;
    assert_eq!((closed.place(0), closed.served, closed.pace, closed.drawn), (None, 0, None, None));
    assert_eq!(enter_as(&fixture, "ann", Some((0, 0))).await.ticket, Some((0, None)));
}

pub(super) async fn nothing_is_drawn_before_its_entry_is_closed(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let Draw::EntryOpen(open) = try_draw(&fixture, "one").await else { panic!("it was drawn") };
    assert_eq!((open.joined, open.closed_entry, open.drawn, open.pace), (2, None, None, None));
    join(&fixture, "cid").await;
    close_entry(&fixture).await;
    let after = draw(&fixture, "two").await.drawn.unwrap();
    assert_eq!((after.entrants, after.beacon), (3, beacon("two")), "the refused beacon was not stored");
}

pub(super) async fn an_entry_is_closed_once_and_who_joins_later_stands_behind(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    let closed = close_entry(&fixture).await;
    let entry = Some(ClosedEntry { entrants: 2, at: closed.now });
    assert_eq!((closed.closed_entry, closed.joined), (entry, 2));
    fixture.advance(s(5)).await;
    let late = join(&fixture, "cid").await;
    assert_eq!((late.serial, late.again, late.room.closed_entry), (2, false, entry));
    assert_eq!((late.room.place(1), late.room.place(2)), (None, Some(2)));
    assert_eq!(join(&fixture, "ann").await.serial, 0, "who is in stays where he is");
    let again = close_entry(&fixture).await;
    assert_eq!((again.closed_entry, again.joined), (entry, 3));
    assert_eq!(set(&fixture, RoomRules { rate: one_in(s(50)), ..drawn() }).await.closed_entry, entry);
    let after = draw(&fixture, "b").await;
    assert_eq!((after.closed_entry, after.drawn.as_ref().unwrap().entrants), (entry, 2));
    let places: BTreeSet<_> = (0..3).map(|serial| after.place(serial).unwrap()).collect();
    assert_eq!((after.place(2), places.len()), (Some(2), 3));
    assert_eq!(close_entry(&fixture).await.closed_entry, entry, "after the draw, too");
}

pub(super) async fn a_draw_shows_the_secret_and_gives_those_of_its_entry_other_places(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    let names = ["ann", "bob", "cid", "dan"];
    join_all(&fixture, &names).await;
    close_entry(&fixture).await;
    let after = draw(&fixture, "the lottery's numbers").await;
    let found = after.drawn.clone().expect("it is drawn");
    assert_eq!((found.entrants, found.secret), (4, SECRET));
    assert_eq!(found.beacon, beacon("the lottery's numbers"));
    assert_eq!(after.served, 1, "the first is admitted at once");
    assert_eq!(after.commitment, Some(SECRET.commitment()));
    let late = join(&fixture, "eve").await;
    assert_eq!((late.serial, late.room.place(4)), (4, Some(4)), "she is behind them");
    for (serial, name) in (0..).zip(names) {
        let place = after.place(serial).unwrap();
        let (_, until) = enter_as(&fixture, name, Some((serial, place))).await.ticket.unwrap();
        assert_eq!(until.is_some(), place == 0, "{name} has the place {place}");
    }
    let again = room(&fixture).await;
    assert_eq!((again.drawn, again.admitted), (Some(found), 1));
}

pub(super) async fn a_room_is_drawn_once(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    close_entry(&fixture).await;
    let first = draw(&fixture, "one").await;
    join(&fixture, "cid").await;
    let second = draw(&fixture, "two").await;
    assert_eq!((second.drawn, second.pace), (first.drawn, first.pace));
}

pub(super) async fn after_a_draw_only_the_place_of_ones_own_serial_counts(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    close_entry(&fixture).await;
    draw(&fixture, "b").await;
    for place in [None, Some((1, 0)), Some((0, 1))] {
        let entered = enter_as(&fixture, "ann", place).await;
        assert_eq!(entered.ticket, Some((0, None)), "with {place:?}");
    }
    assert!(enter_as(&fixture, "ann", Some((0, 0))).await.ticket.unwrap().1.is_some());
}

pub(super) async fn a_rate_can_change_before_a_draw(fixture: Fixture) {
    with_room(&fixture, drawn()).await;
    join_all(&fixture, &["ann", "bob", "cid"]).await;
    let rules = RoomRules { rate: one_in(s(1_000)), ..drawn() };
    assert_eq!(set(&fixture, rules).await.pace, None);
    close_entry(&fixture).await;
    let after = draw(&fixture, "b").await;
    assert_eq!(after.pace, Some(AdmissionSchedule::from(rules.rate, after.now)));
}

pub(super) async fn the_order_of_a_room_stays_and_only_a_draw_is_drawn(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    refused(fixture.store.draw(&sale_id("s"), beacon("b")).await);
    refused(fixture.store.close_entry(&sale_id("s")).await);
    refused(fixture.store.set_room(&sale_id("s"), drawn(), SECRET).await);
    assert_eq!(room(&fixture).await.rules, slow());
}

pub(super) async fn a_closed_room_leaves_nothing(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    join_all(&fixture, &["ann", "bob"]).await;
    enter(&fixture, "ann").await;
    assert!(fixture.store.close_room(&sale_id("s")).await.unwrap());
    assert!(!fixture.store.close_room(&sale_id("s")).await.unwrap());
    assert_eq!(fixture.store.join(&sale_id("s"), &buyer("ann")).await.unwrap(), None);
    let reopened = set(&fixture, drawn()).await;
    assert_eq!((reopened.joined, reopened.admitted, reopened.rules), (0, 0, drawn()));
    let joined = join(&fixture, "bob").await;
    assert_eq!((joined.serial, joined.again), (0, false));
}

pub(super) async fn sales_have_rooms_of_their_own(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    let mut other = fixture.spec(&[("a", 1, 1)], true);
    other.id = sale_id("other");
    fixture.start(other).await;
    assert_eq!(fixture.store.room(&sale_id("other")).await.unwrap(), None);
    fixture.store.set_room(&sale_id("other"), slow(), SECRET).await.unwrap();
    join_all(&fixture, &["ann", "bob"]).await;
    let joined = fixture.store.join(&sale_id("other"), &buyer("bob")).await.unwrap().unwrap();
    assert_eq!((joined.serial, joined.room.joined), (0, 1));
    assert!(fixture.store.close_room(&sale_id("other")).await.unwrap());
    assert_eq!(room(&fixture).await.joined, 2);
}

pub(super) async fn rooms_outside_the_limits_are_refused(fixture: Fixture) {
    fixture.sell(&[("a", 10, 5)]).await;
    let bad: [fn(&mut RoomRules); 8] = [
        |rules| rules.rate.n = 0,
        |rules| rules.rate.n = 10_001,
        |rules| rules.rate.per = Duration::from_micros(999),
        |rules| rules.rate.per = RoomRules::PER_MAX + ms(1),
        |rules| rules.pass = ms(999),
        |rules| rules.pass = RoomRules::PASS_MAX + ms(1),
        |rules| rules.pass = Duration::ZERO,
        |rules| rules.from = Some(Timestamp::from_micros(1 << 53)),
    ];
    for change in bad {
        let mut rules = slow();
        change(&mut rules);
        refused(fixture.store.set_room(&sale_id("s"), rules, SECRET).await);
    }
    assert_eq!(fixture.store.room(&sale_id("s")).await.unwrap(), None);
    let widest = RoomRules {
        rate: Rate::new(Rate::MAX, RoomRules::PER_MAX),
        pass: RoomRules::PASS_MAX,
        order: RoomOrder::Draw,
        from: Some(Timestamp::from_micros(9_007_199_254_740_991)),
    };
    assert_eq!(set(&fixture, widest).await.rules, widest);
    let longest = beacon(&"é".repeat(128));
    close_entry(&fixture).await;
    assert_eq!(draw(&fixture, longest.as_str()).await.drawn.unwrap().beacon, longest);
}

pub(super) async fn a_fast_rate_is_exact(fixture: Fixture) {
    with_room(&fixture, RoomRules::new(Rate::new(9_973, s(3_607)))).await;
    for n in 0..40 {
        join(&fixture, &format!("b{n}")).await;
    }
    fixture.advance(s(7)).await;
    let seen = room(&fixture).await;
    assert_eq!(seen.served, seen.pace.unwrap().served(seen.now, 40), "by the core's arithmetic");
    assert!((19..40).contains(&seen.served), "{seen:?}");
}

pub(super) async fn sixteen_who_join_at_once_have_sixteen_serials(fixture: Fixture) {
    with_room(&fixture, slow()).await;
    let stores = [fixture.store.clone(), fixture.peer()];
    let tries: Vec<_> = (0..32)
        .map(|n| {
            let (store, name) = (stores[n % 2].clone(), format!("buyer-{}", n / 2));
            tokio::spawn(async move { store.join(&sale_id("s"), &buyer(&name)).await.unwrap().unwrap() })
        })
        .collect();
    let (mut serials, mut news) = (BTreeSet::new(), 0);
    for one in tries {
        let joined = one.await.expect("nobody panics");
        serials.insert(joined.serial);
        news += usize::from(!joined.again);
    }
    assert_eq!((serials.into_iter().collect::<Vec<_>>(), news), ((0..16).collect(), 16));
}
