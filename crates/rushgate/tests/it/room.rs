//! The waiting room API: position, turn, admission token, and a verifiable draw.

use std::collections::BTreeSet;

use crate::common::{Bench, ms, secs};
use rushgate::queue::Rate;
use rushgate::sale::{Admission, BadPass, Beacon, Draw, NoPass, Room, RoomOrder, RoomRules};
use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Rushgate, Sale, SaleBuilder, Sku};
use tokio::time::Instant;

on_each_store! {
    the_first_buyer_is_admitted_and_the_next_one_waits
    a_sale_without_a_room_lets_everybody_in
    a_waiting_buyer_is_admitted_in_turn
    a_pass_that_ran_out_is_missed
    a_pass_of_a_room_that_was_closed_lets_nobody_into_the_next
    a_waiting_buyer_asks_no_more_than_necessary
    a_draw_lets_everybody_in_once_and_anybody_can_check_it
    a_waiter_for_a_draw_is_let_in_after_it
    a_room_of_a_sale_that_is_sold_out_is_closed_at_once
    a_waiter_is_notified_when_the_sale_ends
    nobody_is_let_in_before_the_sale_opens
    a_room_that_is_closed_lets_everybody_in
    a_crowd_is_let_in_no_faster_than_the_rate
}

on_a_cluster! {
    the_first_buyer_is_admitted_and_the_next_one_waits
    a_draw_lets_everybody_in_once_and_anybody_can_check_it
}

fn buyer(name: impl std::fmt::Display) -> BuyerId {
    BuyerId::new(name.to_string()).unwrap()
}

fn phones() -> SaleBuilder {
    SaleBuilder::new("phones").sku("phone", 2, 1)
}

async fn open(client: &Rushgate, sale: SaleBuilder) -> Sale {
    client.create_sale(sale).await.unwrap();
    let sale = client.sale("phones").unwrap();
    sale.open().await.unwrap();
    sale
}

/// A room that admits one buyer per `per`.
async fn with_room(client: &Rushgate, per: std::time::Duration) -> (Sale, Room) {
    let sale = open(client, phones()).await;
    let room = sale.room();
    room.set(RoomRules::new(Rate::new(1, per))).await.unwrap();
    (sale, room)
}

async fn join(room: &Room, who: &str) -> Admission {
    room.join(&buyer(who)).await.unwrap().admission
}

fn pass_of(admission: Admission) -> String {
    match admission {
        Admission::Admitted { pass, .. } => pass,
        other => panic!("{other:?}"),
    }
}

async fn the_first_buyer_is_admitted_and_the_next_one_waits(bench: Bench) {
    let (_, room) = with_room(&bench.client(), secs(600)).await;
    assert_eq!(room.enter(&buyer("ann")).await.unwrap(), Admission::NotIn);
    for who in ["ann", "bob", "cid"] {
        assert!(matches!(join(&room, who).await, Admission::Waiting { .. }));
    }
    assert!(room.join(&buyer("ann")).await.unwrap().again);
    let admission = room.enter(&buyer("ann")).await.unwrap();
    assert_eq!(room.enter(&buyer("ann")).await.map(pass_of).unwrap(), pass_of(admission.clone()));
    let Admission::Admitted { serial: 0, place: Some(0), pass, until, now } = admission else {
        panic!("{admission:?}")
    };
    assert!(until > now && until.since(now) <= secs(60));
    let Admission::Waiting { serial, place, ahead, wait, .. } = room.enter(&buyer("cid")).await.unwrap()
    else {
        panic!("he waits");
    };
    assert_eq!((serial, place, ahead), (2, Some(2), Some(1)));
    let wait = wait.unwrap();
    assert!(wait > secs(1_150) && wait <= secs(1_200), "{wait:?}");
    // Another process accepts the token too.
    let shop = bench.client().sale("phones").unwrap().room();
    assert_eq!(shop.check(Some(&pass), &buyer("ann")).await.unwrap(), Ok(true));
    let bad = shop.check(Some(&pass), &buyer("bob")).await.unwrap();
    assert_eq!(bad, Err(NoPass::Bad(BadPass::OtherBuyer)));
    assert_eq!(shop.check(None, &buyer("bob")).await.unwrap(), Err(NoPass::Needed));
    assert_eq!(shop.check(Some("x"), &buyer("bob")).await.unwrap(), Err(NoPass::Bad(BadPass::Unreadable)));
}

async fn a_sale_without_a_room_lets_everybody_in(bench: Bench) {
    let room = open(&bench.client(), phones()).await.room();
    assert_eq!(join(&room, "ann").await, Admission::NoRoom);
    assert_eq!(room.enter(&buyer("ann")).await.unwrap(), Admission::NoRoom);
    assert_eq!(room.check(None, &buyer("ann")).await.unwrap(), Ok(false));
    assert_eq!((room.state().await.unwrap(), room.draw_record().await.unwrap()), (None, None));
    let stranger = bench.client().sale("stranger").unwrap().room();
    assert!(stranger.enter(&buyer("ann")).await.unwrap_err().is_not_found());
}

async fn a_waiting_buyer_is_admitted_in_turn(bench: Bench) {
    let (_, room) = with_room(&bench.client(), ms(300)).await;
    join(&room, "ann").await;
    join(&room, "bob").await;
    let began = Instant::now();
    let admission = room.enter_within(&buyer("bob"), secs(20)).await.unwrap();
    pass_of(admission);
    assert!(began.elapsed() < secs(10), "the turn comes in time");
    join(&room, "cid").await;
    room.set(RoomRules::new(Rate::new(1, secs(3_600)))).await.unwrap();
    join(&room, "dan").await;
    assert!(matches!(room.enter_within(&buyer("dan"), ms(50)).await.unwrap(), Admission::Waiting { .. }));
}

async fn a_pass_that_ran_out_is_missed(bench: Bench) {
    let sale = open(&bench.client(), phones()).await;
    let room = sale.room();
    let rules = RoomRules { pass: secs(1), ..RoomRules::new(Rate::new(1, secs(3_600))) };
    room.set(rules).await.unwrap();
    join(&room, "ann").await;
    let pass = pass_of(room.enter(&buyer("ann")).await.unwrap());
    tokio::time::sleep(ms(1_100)).await;
    assert!(matches!(room.enter(&buyer("ann")).await.unwrap(), Admission::Missed { .. }));
    let bad = room.check(Some(&pass), &buyer("ann")).await.unwrap();
    assert_eq!(bad, Err(NoPass::Bad(BadPass::Expired)));
    let again = room.join(&buyer("ann")).await.unwrap();
    assert!(!again.again && matches!(again.admission, Admission::Waiting { serial: 1, .. }), "{again:?}");
}

async fn a_pass_of_a_room_that_was_closed_lets_nobody_into_the_next(bench: Bench) {
    let (_, room) = with_room(&bench.client(), secs(3_600)).await;
    join(&room, "ann").await;
    let pass = pass_of(room.enter(&buyer("ann")).await.unwrap());
    assert_eq!(room.check(Some(&pass), &buyer("ann")).await.unwrap(), Ok(true));
    room.close().await.unwrap();
    room.set(RoomRules::new(Rate::new(1, secs(3_600)))).await.unwrap();
    let bad = room.check(Some(&pass), &buyer("ann")).await.unwrap();
    assert_eq!(bad, Err(NoPass::Bad(BadPass::OtherRoom)));
    join(&room, "ann").await;
    let pass = pass_of(room.enter(&buyer("ann")).await.unwrap());
    assert_eq!(room.check(Some(&pass), &buyer("ann")).await.unwrap(), Ok(true));
}

/// Another process has opened the room or lowered its rate, and this process does not know yet.
async fn a_waiting_buyer_asks_no_more_than_necessary(bench: Bench) {
    let here = open(&bench.client(), phones()).await.room();
    let there = bench.client().sale("phones").unwrap().room();
    assert_eq!(here.check(None, &buyer("ann")).await.unwrap(), Ok(false), "there is none");
    there.set(RoomRules::new(Rate::new(1, secs(3_600)))).await.unwrap();
    join(&there, "ann").await;
    join(&there, "bob").await;
    let before = bench.store().calls().calls;
    assert!(matches!(here.enter_within(&buyer("bob"), ms(400)).await.unwrap(), Admission::Waiting { .. }));
    let asked = bench.store().calls().calls - before;
    assert!(asked <= 20, "{asked} calls in less than half a second");
    assert!(matches!(here.enter_within(&buyer("bob"), ms(0)).await.unwrap(), Admission::Waiting { .. }));
}

async fn a_draw_lets_everybody_in_once_and_anybody_can_check_it(bench: Bench) {
    let room = open(&bench.client(), phones()).await.room();
    let rules = RoomRules { order: RoomOrder::Draw, ..RoomRules::new(Rate::new(1_000, secs(1))) };
    let commitment = room.set(rules).await.unwrap().commitment.unwrap();
    for n in 0..20 {
        assert!(matches!(
            join(&room, &format!("b{n}")).await,
            Admission::Waiting { place: None, wait: None, .. }
        ));
    }
    let beacon = Beacon::new("07 12 19 23 38 41").unwrap();
    let early = room.draw(beacon.clone()).await.unwrap();
    assert!(matches!(early, Some(Draw::EntryOpen(open)) if open.joined == 20 && open.drawn.is_none()));
    let entry = room.close_entry().await.unwrap().unwrap().closed_entry.unwrap();
    let Admission::Waiting { place: Some(20), ahead: Some(20), wait: None, .. } = join(&room, "late").await
    else {
        panic!("a late buyer is behind the participants");
    };
    assert_eq!(room.draw_record().await.unwrap(), None);
    assert!(matches!(room.draw(beacon.clone()).await.unwrap(), Some(Draw::Drawn(_))));
    let Some(Draw::Drawn(again)) = room.draw(Beacon::new("other").unwrap()).await.unwrap() else {
        panic!("the draw has taken place");
    };
    assert_eq!(again.drawn.unwrap().beacon, beacon, "only the first draw counts");
    let record = room.draw_record().await.unwrap().unwrap();
    assert_eq!((record.drawn.entrants, record.entry_closed), (20, Some(entry.at)));
    assert!(record.keeps_its_word() && record.commitment == commitment);
    let mut passes = BTreeSet::new();
    for n in 0..20 {
        passes.insert(pass_of(room.enter_within(&buyer(format!("b{n}")), secs(20)).await.unwrap()));
    }
    assert_eq!(passes.len(), 20);
    let places: BTreeSet<_> = (0..20).map(|serial| record.drawn.place(serial)).collect();
    assert_eq!(places, (0..20).collect());
    assert_eq!(room.state().await.unwrap().unwrap().admitted, 20);
}

async fn a_waiter_for_a_draw_is_let_in_after_it(bench: Bench) {
    let room = open(&bench.client(), phones()).await.room();
    let rules = RoomRules { order: RoomOrder::Draw, ..RoomRules::new(Rate::new(1_000, secs(1))) };
    room.set(rules).await.unwrap();
    join(&room, "ann").await;
    let other = room.clone();
    let waits = tokio::spawn(async move { other.enter_within(&buyer("ann"), secs(20)).await.unwrap() });
    tokio::time::sleep(ms(50)).await;
    room.close_entry().await.unwrap();
    room.draw(Beacon::new("b").unwrap()).await.unwrap();
    pass_of(waits.await.unwrap());
}

async fn sell_out(sale: &Sale) {
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    for who in ["x", "y"] {
        let key = IdempotencyKey::new("k").unwrap();
        let Reserved::Reserved(hold) = sale.reserve(&buyer(who), &cart, &key).await.unwrap() else {
            panic!("two buyers take part");
        };
        sale.confirm(hold.id).await.unwrap();
    }
}

async fn a_room_of_a_sale_that_is_sold_out_is_closed_at_once(bench: Bench) {
    let (sale, room) = with_room(&bench.client(), secs(3_600)).await;
    join(&room, "ann").await;
    join(&room, "bob").await;
    let other = room.clone();
    let waits = tokio::spawn(async move { other.enter_within(&buyer("bob"), secs(25)).await.unwrap() });
    sell_out(&sale).await;
    assert_eq!(waits.await.unwrap(), Admission::Closed);
    assert_eq!(room.enter(&buyer("ann")).await.unwrap(), Admission::Closed);
    assert_eq!(join(&room, "cid").await, Admission::Closed);
}

async fn a_waiter_is_notified_when_the_sale_ends(bench: Bench) {
    let (sale, room) = with_room(&bench.client(), secs(3_600)).await;
    join(&room, "ann").await;
    join(&room, "bob").await;
    let other = bench.client().sale("phones").unwrap().room();
    let waits = tokio::spawn(async move { other.enter_within(&buyer("bob"), secs(25)).await.unwrap() });
    sale.end().await.unwrap();
    assert_eq!(waits.await.unwrap(), Admission::Closed);
}

async fn nobody_is_let_in_before_the_sale_opens(bench: Bench) {
    let client = bench.client();
    client.create_sale(phones()).await.unwrap();
    let now = client.sale("phones").unwrap().state().await.unwrap().now;
    let later = SaleBuilder::new("later").sku("phone", 1, 1).opens_at(now + secs(600));
    client.create_sale(later).await.unwrap();
    let room = client.sale("later").unwrap().room();
    let rules = RoomRules::new(Rate::new(10, secs(1)));
    let state = room.set(rules).await.unwrap();
    assert_eq!(state.rules.from, Some(now + secs(600)));
    join(&room, "ann").await;
    let Admission::Waiting { ahead, wait, now: asked, .. } = room.enter(&buyer("ann")).await.unwrap() else {
        panic!("she waits")
    };
    assert_eq!((ahead, wait), (Some(0), Some((now + secs(600)).since(asked))));
    let from = Some(now + secs(60));
    assert_eq!(
        room.set(RoomRules { from, ..rules }).await.unwrap().rules.from,
        from,
        "the rules can override it"
    );
}

async fn a_room_that_is_closed_lets_everybody_in(bench: Bench) {
    let (_, room) = with_room(&bench.client(), secs(3_600)).await;
    join(&room, "ann").await;
    assert_eq!(room.check(None, &buyer("bob")).await.unwrap(), Err(NoPass::Needed));
    assert!(room.close().await.unwrap());
    assert!(!room.close().await.unwrap());
    assert_eq!(room.check(None, &buyer("bob")).await.unwrap(), Ok(false));
    assert_eq!(room.enter(&buyer("bob")).await.unwrap(), Admission::NoRoom);
}

async fn a_crowd_is_let_in_no_faster_than_the_rate(bench: Bench) {
    let clients = [bench.client(), bench.client()];
    let (_, room) = with_room(&clients[0], ms(50)).await;
    let rooms = [room.clone(), clients[1].sale("phones").unwrap().room()];
    let began = room.state().await.unwrap().unwrap().now;
    let crowd: Vec<_> = (0..12)
        .map(|n| {
            let room = rooms[n % 2].clone();
            tokio::spawn(async move {
                let who = buyer(format!("b{n}"));
                room.join(&who).await.unwrap();
                match room.enter_within(&who, secs(25)).await.unwrap() {
                    Admission::Admitted { until, .. } => until,
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let mut passes = Vec::new();
    for one in crowd {
        passes.push(one.await.unwrap());
    }
    passes.sort_unstable();
    for (nth, until) in (0..).zip(passes) {
        // A token is valid for one minute from the buyer's turn, or slightly longer.
        assert!(until >= began + secs(60) + nth * ms(50), "the {nth}th came too early");
    }
}
