//! OpenAPI 3.1 description, generated from the table of routes and the types that the verbs read and return.

use std::collections::{BTreeMap, BTreeSet};

use hyper::http::StatusCode;
use rushgate::TaskId;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::example::Examples;
use crate::problem::{Code, PROBLEM_JSON, ProblemView};
use crate::route::{COMMON, KeyUse, Route, SchemaOf};

/// Path of the schemas.
const SCHEMAS: &str = "/components/schemas";

/// Describes the routes.
pub(crate) fn describe(routes: &[Route]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = SCHEMAS.into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<ProblemView>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        let operation = operation(route, &mut generator, &problem);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), operation);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(demand_values);
    schemas.values_mut().for_each(without_links);
    schemas.values_mut().for_each(merge_only_variant);
    // The fields of a query type become parameters.
    let queries: BTreeSet<_> = routes.iter().filter_map(|route| route.query).map(name_of).collect();
    let bodies: BTreeSet<_> = routes.iter().filter_map(|route| route.body).map(name_of).collect();
    schemas.retain(|name, _| !queries.contains(name) || bodies.contains(name));
    let examples = Examples(&schemas);
    paths.values_mut().flat_map(Map::values_mut).for_each(|operation| add_examples(operation, &examples));
    let mut described = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rushgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Distributed locks, a durable task queue and oversell-proof inventory for flash sales. Times \
                that end in `_us` are microseconds since the Unix epoch on the store's clock; those that end in `_ms` \
                are milliseconds.",
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{ "url": "/", "description": "The server that this description comes from." }],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http", "scheme": "bearer",
                    "description": "API token from `rushgate token create`. A server on loopback may require none.",
                },
            },
        },
    });
    limit_integers(&mut described);
    described
}

/// The name of a type.
fn name_of(of: SchemaOf) -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = of(&mut generator).to_value();
    schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned()
}

/// Adds an example to each JSON body and to each JSON answer that is a success.
fn add_examples(operation: &mut Value, examples: &Examples<'_>) {
    let has_body = operation.get("requestBody").is_some();
    let body = has_body.then(|| &mut operation["requestBody"]["content"]["application/json"]);
    body.into_iter().for_each(|body| body["example"] = examples.of(&body["schema"]));
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        let content = response.pointer_mut("/content/application~1json").filter(|_| status.starts_with('2'));
        content.into_iter().for_each(|content| content["example"] = examples.of(&content["schema"]));
    }
}

/// Replaces a choice of one variant by this variant.
fn merge_only_variant(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some([Value::Object(only)]) = fields.get("oneOf").and_then(Value::as_array).map(Vec::as_slice) {
        let only = only.clone();
        fields.remove("oneOf");
        for (name, value) in only {
            fields.entry(name).or_insert(value);
        }
    }
}

/// States the largest value of each integer type, because validators and generators ignore `format`.
fn limit_integers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let max = match fields.get("format").and_then(Value::as_str) {
                Some("uint8") => Some(u8::MAX.into()),
                Some("uint16") => Some(u16::MAX.into()),
                Some("uint32") => Some(u32::MAX.into()),
                Some("uint64" | "uint") => Some(u64::MAX),
                _ => None,
            };
            if let Some(max) = max {
                fields.entry("maximum").or_insert_with(|| max.into());
            }
            fields.iter_mut().filter(|(name, _)| *name != "not").for_each(|(_, value)| limit_integers(value));
        }
        Value::Array(values) => values.iter_mut().for_each(limit_integers),
        _ => {}
    }
}

/// A required field also needs a value: the parser treats `null` like an absent field.
fn demand_values(schema: &mut Value) {
    let choice = if schema.get("oneOf").is_some() { "oneOf" } else { "anyOf" };
    for choice in schema.get_mut(choice).and_then(Value::as_array_mut).into_iter().flatten() {
        let fields: Vec<_> = choice["required"].as_array().into_iter().flatten().cloned().collect();
        for field in fields.iter().filter_map(Value::as_str) {
            let of = &mut choice["properties"][field];
            if of.is_null() {
                *of = json!({ "not": { "type": "null" } });
            }
        }
    }
}

/// Removes the links of rustdoc, which lead nowhere in a schema.
fn without_links(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = without_rustdoc(text);
            }
            fields.values_mut().for_each(without_links);
        }
        Value::Array(values) => values.iter_mut().for_each(without_links),
        _ => {}
    }
}

/// The text with the words of each link in place of the link, unless it leads to a URL.
fn without_rustdoc(text: &str) -> String {
    let Some((before, rest)) = text.split_once('[') else { return text.to_owned() };
    let Some((words, after)) = rest.split_once(']') else { return text.to_owned() };
    let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
    match target {
        Some((target, _)) if target.contains("://") => {
            format!("{before}[{words}]({target}){}", without_rustdoc(&after[target.len() + 2..]))
        }
        Some((_, after)) => format!("{before}{words}{}", without_rustdoc(after)),
        None => format!("{before}{words}{}", without_rustdoc(after)),
    }
}

fn tags() -> Value {
    json!([
        { "name": "locks", "description": "One holder at a time, with FIFO waiters and fencing tokens." },
        { "name": "queues", "description": "One live task per ID, claimed under leases, with dead letters and schedules." },
        { "name": "sales", "description": "Numbered units, reserved by buyers, each sold exactly once." },
        { "name": "server", "description": "Health, metrics and events of the server." },
    ])
}

fn tag(route: &Route) -> &'static str {
    let first = route.path.trim_start_matches("/v1/").split('/').next().unwrap_or_default();
    ["locks", "queues", "sales"].into_iter().find(|tag| *tag == first).unwrap_or("server")
}

fn operation(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut operation = json!({
        "operationId": route.verb,
        "summary": route.says,
        "description": access(route),
        "tags": [tag(route)],
        "parameters": parameters(route, generator),
        "responses": responses(route, generator, problem),
        "security": match route.needs {
            Some(role) => json!([{ "bearer": [role.word()] }]),
            None => json!([]),
        },
    });
    if let Some(body) = route.body {
        let schema = body(generator).to_value();
        // An empty body is an empty object.
        let required = !may_be_empty(&schema, generator);
        let content = json!({ "application/json": { "schema": schema } });
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    operation
}

fn may_be_empty(schema: &Value, generator: &SchemaGenerator) -> bool {
    let of = definition(schema, generator);
    ["required", "oneOf", "anyOf"].iter().all(|word| of.get(word).is_none())
}

/// The schema that a reference points to.
fn definition(schema: &Value, generator: &SchemaGenerator) -> Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    generator.definitions().get(name).cloned().unwrap_or_else(|| schema.clone())
}

fn access(route: &Route) -> String {
    let role = match route.needs {
        Some(role) => format!("Requires the role `{}` or a higher one.", role.word()),
        None => "Public.".to_owned(),
    };
    let key = match route.key {
        KeyUse::None => "",
        KeyUse::Answers | KeyUse::AnswersRequired => {
            " This process repeats the answer for the same Idempotency-Key for ten minutes."
        }
        KeyUse::Token | KeyUse::Buyer => {
            " The store records the Idempotency-Key, so it is valid across processes."
        }
    };
    format!("{role}{key}")
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let a_name = generator.subschema_for::<TaskId>().to_value();
    let places = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = |name| {
        json!({
            "name": name, "in": "path", "required": true,
            "schema": a_name,
        })
    };
    let mut parameters: Vec<_> = places.map(in_path).collect();
    if route.key != KeyUse::None {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": route.key.is_required(),
            "description": "Idempotency key of this attempt, chosen by the client: 1 to 128 visible ASCII characters.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$" },
        }));
    }
    if route.waits {
        parameters.push(json!({
            "name": "Prefer", "in": "header", "required": false,
            "description": "`wait=SECONDS`: maximum wait for the result. `Preference-Applied` contains the granted wait.",
            "schema": { "type": "string" }, "example": "wait=10",
        }));
    }
    if route.proves {
        parameters.push(json!({
            "name": "Rushgate-Proof", "in": "header", "required": false,
            "description": "Proof from the buyer's page, if the server has a bot check: 1 to 8,192 visible ASCII characters.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 8192, "pattern": "^[!-~]+$" },
        }));
    }
    if route.tagged.is_some() {
        parameters.push(json!({
            "name": "If-None-Match", "in": "header", "required": false,
            "description": "`ETag` of the answer that the client has. If it is unchanged, the answer is 304 without a body.",
            "schema": { "type": "string" },
        }));
    }
    parameters.extend(
        route.query.map(|query| query_parameters(query(generator).to_value(), generator)).unwrap_or_default(),
    );
    parameters
}

/// Fields of a query type, as parameters.
fn query_parameters(schema: Value, generator: &SchemaGenerator) -> Vec<Value> {
    let of = definition(&schema, generator);
    let Some(fields) = of["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| json!({ "name": name, "in": "query", "required": false, "schema": schema });
    fields.iter().map(parameter).collect()
}

fn responses(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let answer = (route.answer)(generator).to_value();
    let mut responses = Map::new();
    for status in route.succeeds {
        responses.insert(
            status.to_string(),
            json!({ "description": reason(*status), "content": { route.media: { "schema": answer } } }),
        );
    }
    if let Some(passing) = route.tagged {
        let description = match passing {
            [] => "Weak tag that changes with the answer.".to_owned(),
            _ => format!("Weak tag that changes with the answer, except for `{}`.", passing.join("`, `")),
        };
        let tag = json!({ "ETag": { "description": description, "schema": { "type": "string" } } });
        responses["200"]["headers"] = tag.clone();
        let says = "The answer is unchanged. There is no body.";
        responses.insert("304".to_owned(), json!({ "description": says, "headers": tag }));
    }
    let mut codes: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in Code::ALL.iter().filter(|code| route.may_refuse(**code)) {
        codes.entry(code.status()).or_default().push(*code);
    }
    for (status, codes) in codes {
        responses.insert(status.to_string(), refusal(route, &codes, problem));
    }
    Value::Object(responses)
}

fn refusal(route: &Route, codes: &[Code], problem: &Value) -> Value {
    let line = |code: &Code| format!("`{}`: {}", code.word(), code.title());
    // Codes that are specific to the route come first.
    let (common, own): (Vec<Code>, Vec<Code>) =
        codes.iter().partition(|code| COMMON.contains(code) && !route.refuses.contains(code));
    let lines: Vec<_> = own.iter().chain(&common).map(line).collect();
    let words: Vec<_> = codes.iter().map(|code| code.word()).collect();
    let schema = json!({ "allOf": [problem, { "properties": { "code": { "enum": words } } }] });
    json!({ "description": lines.join("\n"), "content": { PROBLEM_JSON: { "schema": schema } } })
}

fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// The OpenAPI description itself, without a schema of its own.
pub(crate) enum Description {}

impl JsonSchema for Description {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpenApi".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "required": ["openapi", "paths"],
            "properties": {
                "openapi": { "type": "string", "description": "Version of OpenAPI." },
                "paths": { "type": "object", "description": "The routes." },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::routes;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let (routes, described) = (routes(), describe(&routes()));
        let paths = described["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
        });
        let expected = routes.iter().map(|route| (route.method.to_string(), route.path.to_owned()));
        assert_eq!(operations.collect::<BTreeSet<_>>(), expected.collect());
    }

    /// Every `$ref` of a document.
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let described = describe(&routes());
        let mut found = BTreeSet::new();
        references(&described, &mut found);
        let schemas = described["components"]["schemas"].as_object().unwrap();
        let used: BTreeSet<_> =
            found.iter().map(|path| path.rsplit('/').next().unwrap_or_default()).collect();
        assert!(found.iter().all(|path| path.starts_with("#/components/schemas/")), "{found:?}");
        let unused: Vec<_> = schemas.keys().filter(|name| !used.contains(name.as_str())).collect();
        assert_eq!(unused, Vec::<&str>::new());
        for name in used {
            assert!(schemas.contains_key(name), "{name}");
        }
    }

    #[test]
    fn one_of_several_fields_must_have_a_value() {
        let described = describe(&routes());
        let choices = &described["components"]["schemas"]["StockBody"]["oneOf"];
        assert_eq!(choices[0]["properties"]["add"], json!({ "not": { "type": "null" } }), "{choices}");
        assert_eq!(choices[1]["properties"]["withdraw"], json!({ "not": { "type": "null" } }), "{choices}");
    }

    /// Integers without a largest value, by path.
    fn endless(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let integer = fields.get("type").is_some_and(|of| of.to_string().contains("integer"));
                if integer && !fields.contains_key("maximum") && !fields.contains_key("const") {
                    found.push(path.to_owned());
                }
                let of = fields.iter().filter(|(name, _)| *name != "not");
                of.for_each(|(name, value)| endless(value, &format!("{path}/{name}"), found));
            }
            Value::Array(values) => values.iter().for_each(|value| endless(value, path, found)),
            _ => {}
        }
    }

    #[test]
    fn every_integer_has_a_largest_value() {
        let mut found = Vec::new();
        endless(&describe(&routes()), "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn links_of_rustdoc_become_words() {
        assert_eq!(
            without_rustdoc("A [`Ticket`] of [one](crate::Task), see [W3C](https://www.w3.org/) and [x]."),
            "A `Ticket` of one, see [W3C](https://www.w3.org/) and x."
        );
        assert_eq!(without_rustdoc("`[7,9`"), "`[7,9`");
    }

    #[test]
    fn every_field_says_what_it_is() {
        let described = describe(&routes());
        for (name, schema) in described["components"]["schemas"].as_object().unwrap() {
            for (field, of) in schema["properties"].as_object().into_iter().flatten() {
                // A constant says what it is.
                let says = ["description", "$ref", "const"].iter().any(|word| of.get(word).is_some());
                assert!(says, "{name}.{field}: {of}");
            }
        }
    }

    #[test]
    fn a_body_is_required_unless_each_of_its_fields_can_be_absent() {
        let described = describe(&routes());
        let required = |path: &str| described["paths"][path]["post"]["requestBody"]["required"].clone();
        assert_eq!(required("/v1/queues/{queue}/dead/requeue"), true, "ids, or all");
        assert_eq!(required("/v1/queues/{queue}/tasks"), true, "the ID");
        assert_eq!(required("/v1/queues/{queue}/claim"), false);
    }

    #[test]
    fn bodies_refuse_unknown_fields_in_words_too() {
        let described = describe(&routes());
        for (path, method) in
            described["paths"].as_object().unwrap().values().flat_map(|of| of.as_object().unwrap())
        {
            let schema = &method["requestBody"]["content"]["application/json"]["schema"];
            let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) else {
                continue;
            };
            let body = &described["components"]["schemas"][name];
            assert_eq!(body["additionalProperties"], false, "{path} {name}");
        }
    }
}
