//! Contract of waiting rooms.

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    Beacon, BuyerId, ClosedEntry, Draw, DrawSecret, Enter, Entered, Joined, Pace, Rate, RoomOrder, RoomRules,
    RoomState, Timestamp, Verbs,
};

use crate::desk::*;

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
async fn with_room(desk: &Desk, rules: RoomRules) -> RoomState {
    desk.sell(&[("a", 10, 5)]).await;
    set(desk, rules).await
}

async fn set(desk: &Desk, rules: RoomRules) -> RoomState {
    desk.store.set_room(&sale_id("s"), rules, SECRET).await.unwrap()
}

async fn room(desk: &Desk) -> RoomState {
    desk.store.room(&sale_id("s")).await.unwrap().expect("the sale has a room")
}

async fn join(desk: &Desk, name: &str) -> Joined {
    desk.store.join(&sale_id("s"), &buyer(name)).await.unwrap().expect("the sale has a room")
}

async fn join_all(desk: &Desk, names: &[&str]) {
    for name in names {
        join(desk, name).await;
    }
}

async fn enter_as(desk: &Desk, name: &str, place: Option<(u64, u64)>) -> Entered {
    let enter = Enter { sale: sale_id("s"), buyer: buyer(name), place };
    desk.store.enter(enter).await.unwrap().expect("the sale has a room")
}

/// When the buyer's admission token expires, if admitted.
async fn enter(desk: &Desk, name: &str) -> Option<Timestamp> {
    let (_, until) = enter_as(desk, name, None).await.ticket.expect("the buyer is in");
    until
}

async fn close_entry(desk: &Desk) -> RoomState {
    desk.store.close_entry(&sale_id("s")).await.unwrap().expect("the sale has a room")
}

async fn try_draw(desk: &Desk, text: &str) -> Draw {
    desk.store.draw(&sale_id("s"), beacon(text)).await.unwrap().expect("the sale has a room")
}

/// Draws a room whose entry is closed.
async fn draw(desk: &Desk, text: &str) -> RoomState {
    match try_draw(desk, text).await {
        Draw::Drawn(room) => room,
        Draw::EntryOpen(room) => panic!("the entry is open: {room:?}"),
    }
}

pub(super) async fn a_sale_has_no_room_unless_one_is_opened(desk: Desk) {
    desk.sell(&[("a", 10, 5)]).await;
    let (sale, store) = (sale_id("s"), &desk.store);
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

pub(super) async fn a_room_is_opened_as_it_was_said(desk: Desk) {
    let rules = RoomRules { pass: s(90), ..RoomRules::new(Rate::new(7, s(13))) };
    let opened = with_room(&desk, rules).await;
    let expected = RoomState {
        rules,
        opened: opened.now,
        joined: 0,
        served: 0,
        admitted: 0,
        pace: Some(Pace::from(rules.rate, opened.now)),
        commitment: None,
        closed_entry: None,
        drawn: None,
        now: opened.now,
    };
    assert_eq!(opened, expected);
    let found = room(&desk).await;
    assert_eq!(RoomState { now: opened.now, ..found }, opened);
}

pub(super) async fn buyers_have_serials_by_arrival_and_keep_them(desk: Desk) {
    with_room(&desk, slow()).await;
    for (serial, name) in ["ann", "bob", "cid"].into_iter().enumerate() {
        let joined = join(&desk, name).await;
        assert_eq!((joined.serial, joined.again, joined.until), (serial as u64, false, None));
        assert_eq!(joined.room.joined, serial as u64 + 1);
    }
    let again = join(&desk, "bob").await;
    assert_eq!((again.serial, again.again, again.room.joined), (1, true, 3));
    assert_eq!(desk.peer().join(&sale_id("s"), &buyer("ann")).await.unwrap().unwrap().serial, 0);
}

pub(super) async fn places_are_served_evenly(desk: Desk) {
    with_room(&desk, RoomRules::new(Rate::new(2, s(200)))).await;
    join_all(&desk, &["ann", "bob", "cid", "dan"]).await;
    let first = room(&desk).await;
    assert_eq!((first.served, first.place(3)), (1, Some(3)));
    near(first.at(2).unwrap().since(first.now), s(200));
    desk.advance(s(100)).await;
    assert_eq!(room(&desk).await.served, 2);
    desk.advance(s(100)).await;
    assert_eq!(room(&desk).await.served, 3);
    desk.advance(s(10_000)).await;
    assert_eq!(room(&desk).await.served, 4, "no more than there are");
}

pub(super) async fn whoever_is_served_is_let_in_until_the_same_moment(desk: Desk) {
    with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let entered = enter_as(&desk, "ann", None).await;
    let until = entered.room.now + s(60);
    assert_eq!((entered.ticket, entered.room.admitted), (Some((0, Some(until))), 1));
    desk.advance(s(30)).await;
    let again = enter_as(&desk, "ann", None).await;
    assert_eq!((again.ticket, again.room.admitted), (Some((0, Some(until))), 1), "asked again");
    let joined = join(&desk, "ann").await;
    assert_eq!((joined.serial, joined.again, joined.until), (0, true, Some(until)));
}

pub(super) async fn whoever_is_not_served_is_not_let_in(desk: Desk) {
    with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let entered = enter_as(&desk, "bob", Some((1, 0))).await;
    assert_eq!((entered.ticket, entered.room.admitted), (Some((1, None)), 0));
    assert_eq!(enter_as(&desk, "eve", Some((0, 0))).await.ticket, None, "she has not joined");
    desk.advance(s(100)).await;
    assert!(enter(&desk, "bob").await.is_some());
}

pub(super) async fn whoever_missed_his_turn_joins_anew_at_the_end(desk: Desk) {
    with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let until = enter(&desk, "ann").await;
    desk.advance(s(61)).await;
    let missed = enter_as(&desk, "ann", None).await;
    assert_eq!(missed.ticket, Some((0, until)), "the admission token is not renewed");
    assert!(until.unwrap() <= missed.room.now);
    let rejoined = join(&desk, "ann").await;
    assert_eq!((rejoined.serial, rejoined.again, rejoined.until), (2, false, None));
    assert!(join(&desk, "ann").await.again);
    assert_eq!(enter(&desk, "ann").await, None);
    desk.advance(s(200)).await;
    assert!(enter(&desk, "ann").await > until);
}

pub(super) async fn places_of_those_who_never_come_are_passed_over(desk: Desk) {
    with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob", "cid"]).await;
    desk.advance(s(201)).await;
    assert!(enter(&desk, "cid").await.is_some());
    let late = enter_as(&desk, "ann", None).await;
    assert_eq!(late.ticket, Some((0, Some(late.room.now + s(60)))), "a late buyer is admitted");
    assert_eq!(late.room.admitted, 2);
}

pub(super) async fn places_that_nobody_stood_at_are_not_saved_up(desk: Desk) {
    with_room(&desk, slow()).await;
    desk.advance(s(10_000)).await;
    join_all(&desk, &["ann", "bob", "cid"]).await;
    assert_eq!(room(&desk).await.served, 1, "the first is admitted at once, the others wait");
    desk.advance(s(100)).await;
    assert_eq!(room(&desk).await.served, 2);
    desk.advance(s(150)).await;
    assert_eq!(room(&desk).await.served, 3);
    join(&desk, "dan").await;
    assert_eq!(room(&desk).await.served, 3, "the place before his was served less than a turn ago");
    desk.advance(s(60)).await;
    assert_eq!(room(&desk).await.served, 4);
}

pub(super) async fn another_rate_keeps_what_is_served(desk: Desk) {
    with_room(&desk, RoomRules::new(one_in(s(10_000)))).await;
    join_all(&desk, &["ann", "bob", "cid", "dan", "eve"]).await;
    desk.advance(s(5_000)).await;
    let faster = set(&desk, slow()).await;
    assert_eq!((faster.served, faster.rules), (1, slow()));
    near(faster.at(1).unwrap().since(faster.now), s(100));
    desk.advance(s(101)).await;
    assert_eq!(room(&desk).await.served, 2);
    let slower = set(&desk, RoomRules::new(one_in(s(10_000)))).await;
    assert_eq!(slower.served, 2);
    desk.advance(s(110)).await;
    assert_eq!(room(&desk).await.served, 3, "whose turn was near is not put off");
    desk.advance(s(5_000)).await;
    assert_eq!(room(&desk).await.served, 3);
}

pub(super) async fn the_same_rules_change_nothing(desk: Desk) {
    let opened = with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let before = room(&desk).await;
    desk.advance(s(50)).await;
    let other = DrawSecret::from_bytes([9; 32]);
    let again = desk.store.set_room(&sale_id("s"), slow(), other).await.unwrap();
    assert_eq!((again.pace, again.opened, again.joined), (before.pace, opened.opened, 2));
}

pub(super) async fn nobody_is_let_in_before_the_moment_that_was_said(desk: Desk) {
    desk.sell(&[("a", 10, 5)]).await;
    let from = Some(desk.now().await + s(500));
    set(&desk, RoomRules { from, ..slow() }).await;
    join_all(&desk, &["ann", "bob"]).await;
    desk.advance(s(400)).await;
    assert_eq!((room(&desk).await.served, enter(&desk, "ann").await), (0, None));
    desk.advance(s(101)).await;
    assert_eq!(room(&desk).await.served, 1);
    assert!(enter(&desk, "ann").await.is_some());
    let stop = Some(room(&desk).await.now + s(5_000));
    set(&desk, RoomRules { from: stop, ..slow() }).await;
    desk.advance(s(4_900)).await;
    assert_eq!(room(&desk).await.served, 1, "no position is served");
    set(&desk, slow()).await;
    desk.advance(s(101)).await;
    assert_eq!(room(&desk).await.served, 2);
}

pub(super) async fn before_a_draw_nobody_is_let_in(desk: Desk) {
    let opened = with_room(&desk, drawn()).await;
    assert_eq!((opened.pace, opened.drawn, opened.commitment), (None, None, Some(SECRET.commitment())));
    join_all(&desk, &["ann", "bob"]).await;
    desk.advance(s(1_000)).await;
    let entered = enter_as(&desk, "ann", Some((0, 0))).await;
    assert_eq!(entered.ticket, Some((0, None)));
    assert_eq!((entered.room.served, entered.room.place(0), entered.room.at(0)), (0, None, None));
    let closed = close_entry(&desk).await;
    assert_eq!((closed.place(0), closed.served, closed.pace, closed.drawn), (None, 0, None, None));
    assert_eq!(enter_as(&desk, "ann", Some((0, 0))).await.ticket, Some((0, None)));
}

pub(super) async fn nothing_is_drawn_before_its_entry_is_closed(desk: Desk) {
    with_room(&desk, drawn()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let Draw::EntryOpen(open) = try_draw(&desk, "one").await else { panic!("it was drawn") };
    assert_eq!((open.joined, open.closed_entry, open.drawn, open.pace), (2, None, None, None));
    join(&desk, "cid").await;
    close_entry(&desk).await;
    let after = draw(&desk, "two").await.drawn.unwrap();
    assert_eq!((after.entrants, after.beacon), (3, beacon("two")), "the refused beacon was not stored");
}

pub(super) async fn an_entry_is_closed_once_and_who_joins_later_stands_behind(desk: Desk) {
    with_room(&desk, drawn()).await;
    join_all(&desk, &["ann", "bob"]).await;
    let closed = close_entry(&desk).await;
    let entry = Some(ClosedEntry { entrants: 2, at: closed.now });
    assert_eq!((closed.closed_entry, closed.joined), (entry, 2));
    desk.advance(s(5)).await;
    let late = join(&desk, "cid").await;
    assert_eq!((late.serial, late.again, late.room.closed_entry), (2, false, entry));
    assert_eq!((late.room.place(1), late.room.place(2)), (None, Some(2)));
    assert_eq!(join(&desk, "ann").await.serial, 0, "who is in stays where he is");
    let again = close_entry(&desk).await;
    assert_eq!((again.closed_entry, again.joined), (entry, 3));
    assert_eq!(set(&desk, RoomRules { rate: one_in(s(50)), ..drawn() }).await.closed_entry, entry);
    let after = draw(&desk, "b").await;
    assert_eq!((after.closed_entry, after.drawn.as_ref().unwrap().entrants), (entry, 2));
    let places: BTreeSet<_> = (0..3).map(|serial| after.place(serial).unwrap()).collect();
    assert_eq!((after.place(2), places.len()), (Some(2), 3));
    assert_eq!(close_entry(&desk).await.closed_entry, entry, "after the draw, too");
}

pub(super) async fn a_draw_shows_the_secret_and_gives_those_of_its_entry_other_places(desk: Desk) {
    with_room(&desk, drawn()).await;
    let names = ["ann", "bob", "cid", "dan"];
    join_all(&desk, &names).await;
    close_entry(&desk).await;
    let after = draw(&desk, "the lottery's numbers").await;
    let found = after.drawn.clone().expect("it is drawn");
    assert_eq!((found.entrants, found.secret), (4, SECRET));
    assert_eq!(found.beacon, beacon("the lottery's numbers"));
    assert_eq!(after.served, 1, "the first is admitted at once");
    assert_eq!(after.commitment, Some(SECRET.commitment()));
    let late = join(&desk, "eve").await;
    assert_eq!((late.serial, late.room.place(4)), (4, Some(4)), "she is behind them");
    for (serial, name) in (0..).zip(names) {
        let place = after.place(serial).unwrap();
        let (_, until) = enter_as(&desk, name, Some((serial, place))).await.ticket.unwrap();
        assert_eq!(until.is_some(), place == 0, "{name} has the place {place}");
    }
    let again = room(&desk).await;
    assert_eq!((again.drawn, again.admitted), (Some(found), 1));
}

pub(super) async fn a_room_is_drawn_once(desk: Desk) {
    with_room(&desk, drawn()).await;
    join_all(&desk, &["ann", "bob"]).await;
    close_entry(&desk).await;
    let first = draw(&desk, "one").await;
    join(&desk, "cid").await;
    let second = draw(&desk, "two").await;
    assert_eq!((second.drawn, second.pace), (first.drawn, first.pace));
}

pub(super) async fn after_a_draw_only_the_place_of_ones_own_serial_counts(desk: Desk) {
    with_room(&desk, drawn()).await;
    join_all(&desk, &["ann", "bob"]).await;
    close_entry(&desk).await;
    draw(&desk, "b").await;
    for place in [None, Some((1, 0)), Some((0, 1))] {
        let entered = enter_as(&desk, "ann", place).await;
        assert_eq!(entered.ticket, Some((0, None)), "with {place:?}");
    }
    assert!(enter_as(&desk, "ann", Some((0, 0))).await.ticket.unwrap().1.is_some());
}

pub(super) async fn a_rate_can_change_before_a_draw(desk: Desk) {
    with_room(&desk, drawn()).await;
    join_all(&desk, &["ann", "bob", "cid"]).await;
    let rules = RoomRules { rate: one_in(s(1_000)), ..drawn() };
    assert_eq!(set(&desk, rules).await.pace, None);
    close_entry(&desk).await;
    let after = draw(&desk, "b").await;
    assert_eq!(after.pace, Some(Pace::from(rules.rate, after.now)));
}

pub(super) async fn the_order_of_a_room_stays_and_only_a_draw_is_drawn(desk: Desk) {
    with_room(&desk, slow()).await;
    refused(desk.store.draw(&sale_id("s"), beacon("b")).await);
    refused(desk.store.close_entry(&sale_id("s")).await);
    refused(desk.store.set_room(&sale_id("s"), drawn(), SECRET).await);
    assert_eq!(room(&desk).await.rules, slow());
}

pub(super) async fn a_closed_room_leaves_nothing(desk: Desk) {
    with_room(&desk, slow()).await;
    join_all(&desk, &["ann", "bob"]).await;
    enter(&desk, "ann").await;
    assert!(desk.store.close_room(&sale_id("s")).await.unwrap());
    assert!(!desk.store.close_room(&sale_id("s")).await.unwrap());
    assert_eq!(desk.store.join(&sale_id("s"), &buyer("ann")).await.unwrap(), None);
    let reopened = set(&desk, drawn()).await;
    assert_eq!((reopened.joined, reopened.admitted, reopened.rules), (0, 0, drawn()));
    let joined = join(&desk, "bob").await;
    assert_eq!((joined.serial, joined.again), (0, false));
}

pub(super) async fn sales_have_rooms_of_their_own(desk: Desk) {
    with_room(&desk, slow()).await;
    let mut other = desk.spec(&[("a", 1, 1)], true);
    other.id = sale_id("other");
    desk.start(other).await;
    assert_eq!(desk.store.room(&sale_id("other")).await.unwrap(), None);
    desk.store.set_room(&sale_id("other"), slow(), SECRET).await.unwrap();
    join_all(&desk, &["ann", "bob"]).await;
    let joined = desk.store.join(&sale_id("other"), &buyer("bob")).await.unwrap().unwrap();
    assert_eq!((joined.serial, joined.room.joined), (0, 1));
    assert!(desk.store.close_room(&sale_id("other")).await.unwrap());
    assert_eq!(room(&desk).await.joined, 2);
}

pub(super) async fn rooms_outside_the_limits_are_refused(desk: Desk) {
    desk.sell(&[("a", 10, 5)]).await;
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
        refused(desk.store.set_room(&sale_id("s"), rules, SECRET).await);
    }
    assert_eq!(desk.store.room(&sale_id("s")).await.unwrap(), None);
    let widest = RoomRules {
        rate: Rate::new(Rate::MAX, RoomRules::PER_MAX),
        pass: RoomRules::PASS_MAX,
        order: RoomOrder::Draw,
        from: Some(Timestamp::from_micros(9_007_199_254_740_991)),
    };
    assert_eq!(set(&desk, widest).await.rules, widest);
    let longest = beacon(&"é".repeat(128));
    close_entry(&desk).await;
    assert_eq!(draw(&desk, longest.as_str()).await.drawn.unwrap().beacon, longest);
}

pub(super) async fn a_fast_rate_is_exact(desk: Desk) {
    with_room(&desk, RoomRules::new(Rate::new(9_973, s(3_607)))).await;
    for n in 0..40 {
        join(&desk, &format!("b{n}")).await;
    }
    desk.advance(s(7)).await;
    let seen = room(&desk).await;
    assert_eq!(seen.served, seen.pace.unwrap().served(seen.now, 40), "by the core's arithmetic");
    assert!((19..40).contains(&seen.served), "{seen:?}");
}

pub(super) async fn sixteen_who_join_at_once_have_sixteen_serials(desk: Desk) {
    with_room(&desk, slow()).await;
    let stores = [desk.store.clone(), desk.peer()];
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
