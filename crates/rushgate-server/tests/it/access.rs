//! Roles and scopes, tested on every route that the server describes.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Ask, Stand, eventually, new_token};
use rushgate_server::{NewToken, Role, Server, TokenFile};
use serde_json::{Value, json};

/// Every route: method, path template and minimum role; `None` if public.
async fn routes(stand: &Stand) -> Vec<(String, String, Option<Role>)> {
    let described = stand.get("/openapi.json").await.ok(200);
    let mut found = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, of) in methods.as_object().unwrap() {
            let needs = of["security"].as_array().unwrap().first().map(|needs| role(&needs["bearer"][0]));
            found.push((method.to_uppercase(), path.clone(), needs));
        }
    }
    found
}

fn role(word: &Value) -> Role {
    Role::ALL.into_iter().find(|role| *word == role.word()).unwrap()
}

/// The path with `name` for each parameter.
fn named(path: &str, name: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { name.to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn kind(path: &str) -> Option<&str> {
    ["lock", "queue", "sale"].into_iter().find(|kind| path.contains(&format!("{{{kind}}}")))
}

async fn code(stand: &Stand, method: &str, path: &str, token: Option<&str>) -> u16 {
    let ask = Ask::new(method, path).key("k");
    let ask = match token {
        Some(token) => ask.bearer(token),
        None => ask,
    };
    // The answer may be an endless stream, so only its status is read.
    stand.send(ask).await.status().as_u16()
}

#[tokio::test]
async fn every_route_lets_in_its_role_and_those_above_and_nobody_else() {
    let (stand, file) = Stand::with_tokens().await;
    let routes = routes(&stand).await;
    assert!(routes.len() > 50, "{}", routes.len());
    let mut tokens = Vec::new();
    for role in Role::ALL {
        tokens.push((role, file.create(new_token(role, &[])).unwrap().1));
    }
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&tokens[2].1)).await == 200).await;
    for (method, path, needs) in &routes {
        let path = named(path, "thing");
        let Some(least) = needs else {
            assert!(code(&stand, method, &path, None).await < 400, "{method} {path}");
            continue;
        };
        for wrong in [None, Some("rg_00000000_00"), Some("nonsense")] {
            assert_eq!(code(&stand, method, &path, wrong).await, 401, "{method} {path} {wrong:?}");
        }
        for (role, token) in &tokens {
            let status = code(&stand, method, &path, Some(token)).await;
            assert_ne!(status, 401, "{method} {path} {role:?}");
            assert_eq!(status == 403, role < least, "{method} {path} {role:?}: {status}");
        }
    }
    stand.end().await;
}

#[tokio::test]
async fn every_route_with_a_name_keeps_to_the_scopes_of_the_token() {
    let (stand, file) = Stand::with_tokens().await;
    let scoped = new_token(Role::Operator, &["lock:mine*", "queue:mine", "sale:mine*"]);
    let (_, token) = file.create(scoped).unwrap();
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&token)).await == 200).await;
    for (method, path, _) in routes(&stand).await {
        if kind(&path).is_none() {
            continue;
        }
        let status = code(&stand, &method, &named(&path, "mine"), Some(&token)).await;
        assert_ne!(status, 403, "{method} {path}");
        let status = code(&stand, &method, &named(&path, "theirs"), Some(&token)).await;
        assert_eq!(status, 403, "{method} {path}");
    }
    stand.end().await;
}

#[tokio::test]
async fn lists_show_what_the_scopes_cover_and_nothing_else_can_be_made() {
    let (stand, file) = Stand::with_tokens().await;
    let (_, token) = file.create(new_token(Role::Operator, &["queue:mine", "sale:mine"])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&token)).await == 200).await;
    for name in ["mine", "theirs"] {
        stand.client.queue_of::<u32>(name).unwrap().enqueue("a", 1).send().await.unwrap();
        stand.client.create_sale(rushgate::SaleBuilder::new(name).sku("x", 1, 1)).await.unwrap();
    }
    stand.client.lock("theirs").unwrap().acquire().await.unwrap().held().unwrap().into_token();
    let list =
        async |path: &str| stand.ask(Ask::new("GET", path).bearer(&token)).await.ok(200)["items"].clone();
    assert_eq!(list("/v1/queues").await, json!([{ "name": "mine" }]));
    assert_eq!(list("/v1/sales").await.as_array().unwrap().len(), 1);
    assert_eq!(list("/v1/locks").await, json!([]));
    let sale = |id: &str| json!({ "id": id, "skus": [{ "sku": "x", "units": 1 }] });
    let create = |id: &str| stand.ask(Ask::new("POST", "/v1/sales").bearer(&token).json(&sale(id)));
    assert_eq!(create("yours").await.code(), "forbidden");
    assert_eq!(create("mine").await.code(), "exists");
    stand.end().await;
}

#[tokio::test]
async fn metrics_have_a_queue_of_the_scope_behind_a_thousand_others() {
    let (stand, file) = Stand::with_tokens().await;
    let (_, token) = file.create(new_token(Role::Operator, &["queue:mine"])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&token)).await == 200).await;
    for n in 0..1_000 {
        stand.client.queue(format!("a{n}")).unwrap().pause().await.unwrap();
    }
    stand.client.queue_of::<u32>("mine").unwrap().enqueue("a", 1).send().await.unwrap();
    let said = stand.ask(Ask::new("GET", "/metrics").bearer(&token)).await;
    let text = String::from_utf8(said.body.to_vec()).unwrap();
    assert!(text.contains("rushgate_queue_tasks{queue=\"mine\",state=\"ready\"} 1"), "{text}");
    stand.end().await;
}

/// Scopes apply to the normalized name, however the path spells it.
#[tokio::test]
async fn another_spelling_of_a_name_leads_past_no_scope() {
    let (stand, file) = Stand::with_tokens().await;
    let (_, token) = file.create(new_token(Role::Worker, &["queue:Zoe*"])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/queues", Some(&token)).await == 200).await;
    let enqueue = |queue: &str| {
        let path = format!("/v1/queues/{queue}/tasks");
        stand.ask(Ask::new("POST", &path).bearer(&token).json(&json!({ "id": "a" })))
    };
    enqueue("Zoe-1").await.ok(201);
    for spelling in ["Zo%C3%AB", "Zoe%CC%88"] {
        assert_eq!(enqueue(spelling).await.code(), "forbidden", "{spelling}");
    }
    let (_, token) = file.create(new_token(Role::Worker, &["queue:Zoe\u{308}"])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/queues/Zo%C3%AB", Some(&token)).await == 200).await;
    stand.end().await;
}

#[tokio::test]
async fn a_buyers_own_token_buys_for_nobody_else() {
    let (stand, file) = Stand::with_tokens().await;
    let ann = NewToken { buyer: "ann".parse().ok(), ..new_token(Role::Buyer, &["sale:s"]) };
    let bob = NewToken { buyer: "bob".parse().ok(), ..new_token(Role::Buyer, &["sale:s"]) };
    let (ann, bob) = (file.create(ann).unwrap().1, file.create(bob).unwrap().1);
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&bob)).await == 200).await;
    stand.client.create_sale(rushgate::SaleBuilder::new("s").sku("x", 5, 2)).await.unwrap();
    stand.client.sale("s").unwrap().open().await.unwrap();
    let reserve = |body: Value| {
        stand.ask(Ask::new("POST", "/v1/sales/s/reservations").bearer(&ann).key("k").json(&body))
    };
    assert_eq!(reserve(json!({ "buyer": "bob", "lines": [{ "sku": "x" }] })).await.code(), "forbidden");
    let hold = reserve(json!({ "lines": [{ "sku": "x" }] })).await.ok(202);
    assert_eq!(hold["buyer"], "ann");
    let path = format!("/v1/sales/s/reservations/{}", hold["id"].as_str().unwrap());
    let look = |token: &str| Ask::new("GET", &path).bearer(token);
    stand.ask(look(&ann)).await.ok(200);
    assert_eq!(stand.ask(look(&bob)).await.code(), "not_found");
    // A wait would reveal that the reservation exists.
    let waiting = stand.ask(look(&bob).wait(60));
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
    assert_eq!(waited.expect("it is answered at once").code(), "not_found");
    let restore = |token: &str| {
        let body = json!({ "receipt": hold["receipt"] });
        Ask::new("POST", "/v1/sales/s/restore").bearer(token).json(&body)
    };
    assert_eq!(stand.ask(restore(&bob)).await.code(), "not_found");
    stand.ask(restore(&ann)).await.ok(200);
    // The role allows to confirm, but the token is for one buyer.
    let [bobs, anns] = ["bob", "ann"].map(|buyer| {
        let worker = NewToken { buyer: buyer.parse().ok(), ..new_token(Role::Worker, &["sale:s"]) };
        file.create(worker).unwrap().1
    });
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&anns)).await == 200).await;
    let confirm = |token: &str| Ask::new("POST", &format!("{path}/confirm")).bearer(token);
    assert_eq!(stand.ask(confirm(&bobs)).await.code(), "not_found");
    let look_again = stand.ask(look(&ann)).await.ok(200);
    assert_eq!(look_again["state"], "held", "{look_again}");
    let cancel = |token: &str| Ask::new("POST", &format!("{path}/cancel")).bearer(token);
    assert_eq!(stand.ask(cancel(&bob)).await.code(), "not_found");
    assert_eq!(stand.ask(cancel(&ann)).await.ok(200)["state"], "cancelled");
    stand.end().await;
}

#[tokio::test]
async fn a_shop_signs_a_token_for_each_of_its_buyers() {
    let (stand, file) = Stand::with_tokens().await;
    let key = file.create_key("shop", vec!["sale:s*".parse().unwrap()]).unwrap();
    let sign = |buyer: &str, scopes: &[&str]| {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        key.sign(&rushgate::BuyerId::new(buyer).unwrap(), std::time::Duration::from_secs(600), &scopes)
            .unwrap()
    };
    let (ann, bob) = (sign("ann", &[]), sign("bob", &["sale:s2"]));
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&ann)).await == 200).await;
    for sale in ["s1", "s2", "other"] {
        stand.client.create_sale(rushgate::SaleBuilder::new(sale).sku("x", 5, 1)).await.unwrap();
        stand.client.sale(sale).unwrap().open().await.unwrap();
    }
    let reserve = |sale: &str, token: &str| {
        let path = format!("/v1/sales/{sale}/reservations");
        stand.ask(Ask::new("POST", &path).bearer(token).key("k").json(&json!({ "lines": [{ "sku": "x" }] })))
    };
    let hold = reserve("s1", &ann).await.ok(202);
    assert_eq!(hold["buyer"], "ann");
    // The same key with two tokens of one buyer is the same request. Another buyer's is a different one.
    assert_eq!(reserve("s1", &sign("ann", &["sale:s1"])).await.ok(200)["id"], hold["id"]);
    assert_eq!(reserve("s2", &bob).await.ok(202)["buyer"], "bob");
    assert_eq!(reserve("s1", &bob).await.code(), "forbidden", "not in the token's scope");
    assert_eq!(reserve("other", &ann).await.code(), "forbidden", "not in the key's scope");
    let path = format!("/v1/sales/s1/reservations/{}", hold["id"].as_str().unwrap());
    let ours = sign("bob", &["sale:s1"]);
    assert_eq!(stand.ask(Ask::new("GET", &path).bearer(&ours)).await.code(), "not_found");
    let confirm = Ask::new("POST", &format!("{path}/confirm")).bearer(&ann);
    assert_eq!(stand.ask(confirm).await.code(), "forbidden", "a buyer may not confirm");
    assert!(file.create_key("x", vec!["queue:mail".parse().unwrap()]).unwrap_err().is_invalid());

    assert!(file.revoke(&key.id).unwrap());
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&ann)).await == 401).await;
    stand.end().await;
}

#[tokio::test]
async fn a_buyer_and_an_address_ask_as_often_as_they_may() {
    let mut keys = None;
    let stand = Stand::with(|server, dir| {
        let file = TokenFile::at(dir.path().join("tokens.json"));
        let key = file.create_key("shop", Vec::new()).unwrap();
        keys = Some((key, file.create(new_token(Role::Worker, &[])).unwrap().1));
        let hour = std::time::Duration::from_secs(3_600);
        Server {
            limit_buyer: Some(rushgate::queue::Rate::new(3, hour)),
            limit_address: Some(rushgate::queue::Rate::new(5, hour)),
            tokens: Some(file),
            proxies: vec!["127.0.0.1".parse().unwrap()],
            ..server
        }
    })
    .await;
    let (key, worker) = keys.unwrap();
    let sign = |buyer: &str| {
        key.sign(&rushgate::BuyerId::new(buyer).unwrap(), std::time::Duration::from_secs(600), &[]).unwrap()
    };
    let (ann, bob, cid) = (sign("ann"), sign("bob"), sign("cid"));
    let look = |token: &str, from: &str| {
        stand.ask(Ask::new("GET", "/v1/sales").bearer(token).header("x-forwarded-for", from))
    };
    for _ in 0..3 {
        look(&ann, "192.0.2.1").await.ok(200);
    }
    let refused = look(&ann, "192.0.2.2").await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many"), "from any address");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1_190..1_500).contains(&wait), "a third of an hour: {wait}");
    look(&bob, "192.0.2.1").await.ok(200);
    look(&cid, "192.0.2.1").await.ok(200);
    assert_eq!(look(&cid, "192.0.2.1").await.code(), "too_many", "the address has used its limit");
    look(&cid, "198.51.100.7, 192.0.2.3").await.ok(200);
    for _ in 0..10 {
        look(&worker, "192.0.2.1").await.ok(200);
    }
    stand.end().await;
}

#[tokio::test]
async fn a_revoked_token_is_let_in_no_more() {
    let (stand, file) = Stand::with_tokens().await;
    let (entry, token) = file.create(new_token(Role::Worker, &[])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/queues", Some(&token)).await == 200).await;
    assert!(file.revoke(&entry.id).unwrap());
    eventually(async || code(&stand, "GET", "/v1/queues", Some(&token)).await == 401).await;
    stand.end().await;
}

#[tokio::test]
async fn beyond_loopback_a_server_wants_tokens() {
    let client = rushgate::Rushgate::connect("sqlite::memory:").await.unwrap();
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let refused = Server::new(client.clone()).bind(everywhere).await.unwrap_err();
    assert!(refused.is_misconfigured() && refused.to_string().contains("other machines"), "{refused}");
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::at(dir.path().join("tokens.json"));
    let with_tokens = Server { tokens: Some(file), ..Server::new(client.clone()) };
    let insecure = Server { insecure: true, ..Server::new(client.clone()) };
    for server in [with_tokens, insecure] {
        drop(server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap());
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_operators_do_is_written_down_and_what_others_do_is_not() {
    let mut file = None;
    let stand = Stand::with(|server, dir| {
        let tokens = TokenFile::at(dir.path().join("tokens.json"));
        file = Some(tokens.clone());
        Server { tokens: Some(tokens), audit_log: Some(dir.path().join("audit.jsonl")), ..server }
    })
    .await;
    let file = file.unwrap();
    let (operator, token) = file.create(new_token(Role::Operator, &[])).unwrap();
    let (_, worker) = file.create(new_token(Role::Worker, &[])).unwrap();
    eventually(async || code(&stand, "GET", "/v1/sales", Some(&worker)).await == 200).await;
    let ask = |method: &str, path: &str, token: &str| Ask::new(method, path).bearer(token);
    let sale = json!({ "id": "phones", "skus": [{ "sku": "x", "units": 2 }] });
    // Whatever its white space, the body is logged on one line.
    let text = serde_json::to_string_pretty(&sale).unwrap();
    stand.ask(ask("POST", "/v1/sales", &token).raw("application/json", text.as_bytes())).await.ok(201);
    stand.ask(ask("GET", "/v1/sales/phones", &token)).await.ok(200);
    assert_eq!(stand.ask(ask("POST", "/v1/sales/phones/open", &worker)).await.status, 403);
    stand.ask(ask("POST", "/v1/queues/mail/tasks", &worker).json(&json!({ "id": "a" }))).await.ok(201);
    assert_eq!(stand.ask(ask("POST", "/v1/sales/none/open", &token)).await.code(), "not_found");
    let log = stand.dir.path().join("audit.jsonl");
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (line["verb"].as_str(), line["status"].as_u64())).collect();
    assert_eq!(seen, [(Some("create"), Some(201)), (Some("open"), Some(404))], "{text}");
    assert_eq!((&lines[0]["who"], &lines[0]["from"]), (&json!(operator.id), &json!("127.0.0.1")));
    assert_eq!((&lines[0]["body"], &lines[1]["code"]), (&sale, &json!("not_found")));
    assert!(!text.contains(&token), "no secret");
    assert!(stand.end().await.is_orderly);
}
