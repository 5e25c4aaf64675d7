//! OpenAPI 3.1 description, generated from the table of routes and the types that the verbs read and return.

use std::collections::{BTreeMap, BTreeSet};

use hyper::http::StatusCode;
use rushgate::TaskId;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::curl;
use crate::events::EVENT_STREAM;
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
    schemas.values_mut().for_each(without_links);
    schemas.values_mut().for_each(merge_only_variant);
    schemas.values_mut().for_each(spread_common_fields);
    schemas.values_mut().for_each(list_constants);
    schemas.iter_mut().for_each(|(name, schema)| name_variants(name, schema));
    // The fields of a query type become parameters.
    let queries: BTreeSet<_> = routes.iter().filter_map(|route| route.query).map(name_of).collect();
    let bodies: BTreeSet<_> = routes.iter().filter_map(|route| route.body).map(name_of).collect();
    schemas.retain(|name, _| !queries.contains(name) || bodies.contains(name));
    let examples = Examples(&schemas);
    for (path, operations) in &mut paths {
        for (method, operation) in operations {
            add_examples(operation, &examples);
            curl::add(path, method, operation);
        }
    }
    let shared = share_refusals(&mut paths);
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
            "responses": shared,
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
    let add = |content: &mut Value| {
        content["examples"] = json!({ "typical": { "value": examples.of(&content["schema"]) } })
    };
    body.into_iter().for_each(add);
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        let content = response.pointer_mut("/content/application~1json").filter(|_| status.starts_with('2'));
        content.into_iter().for_each(add);
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

/// Replaces a choice between constants by an enumeration, which generators know. The description says what each means.
fn list_constants(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(list_constants);
            let Some((words, meanings)) = fields.get("oneOf").and_then(constants) else { return };
            fields.remove("oneOf");
            fields.insert("type".to_owned(), "string".into());
            fields.insert("enum".to_owned(), words.into());
            let own = fields.get("description").and_then(Value::as_str).map(str::to_owned);
            let lines: Vec<_> = own.into_iter().chain(meanings).collect();
            if !lines.is_empty() {
                fields.insert("description".to_owned(), lines.join("\n\n").into());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(list_constants),
        _ => {}
    }
}

/// The strings that a choice consists of, and a sentence about each that has one.
fn constants(choice: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for variant in choice.as_array()? {
        match (&variant["const"], variant["enum"].as_array()) {
            (Value::String(word), _) => {
                words.push(word.as_str().into());
                let says = variant["description"].as_str();
                meanings.extend(says.map(|says| format!("`{word}`: {says}")));
            }
            (_, Some(several)) => words.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    Some((words, meanings))
}

/// Moves fields beside a choice into each of its variants: generators ignore one or the other.
fn spread_common_fields(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut().filter(|fields| fields.contains_key("oneOf")) else { return };
    let Some(Value::Object(common)) = fields.remove("properties") else { return };
    let required = fields.remove("required");
    fields.remove("type");
    for variant in fields.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        for (name, of) in &common {
            variant["properties"][name] = of.clone();
        }
        let own = variant["required"].as_array().cloned();
        let all = required.as_ref().and_then(Value::as_array).into_iter().flatten().cloned();
        variant["required"] = all.chain(own.into_iter().flatten()).collect();
    }
}

/// Names each variant of a choice by its constant, such as `EnqueuedAdded`. Generators number variants without a title.
fn name_variants(name: &str, schema: &mut Value) {
    for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        let fields = variant["properties"].as_object().into_iter().flat_map(Map::values);
        let Some(word) = fields.filter_map(|of| of["const"].as_str()).next() else { continue };
        let parts = word.split('_').filter(|part| !part.is_empty());
        let word: String = parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect();
        variant["title"] = format!("{name}{word}").into();
    }
}

/// Demands exactly one of two optional fields. Generators ignore `if` and see two optional fields, while they lose the
/// types of fields beside a `oneOf`.
pub(crate) fn exactly_one(
    first: &'static str,
    second: &'static str,
) -> impl FnMut(&mut Schema) + Send + Sync + Clone {
    let given = json!({ "not": { "type": "null" } });
    move |schema| either(schema, [(first, &given), (second, &given)], &json!({ "type": "null" }))
}

/// Demands that the first field or the second one is given. Beside the first, the second must be absent. Takes the schema
/// of each field when it is given, and that of the second when it is absent.
pub(crate) fn either(
    schema: &mut Schema,
    [(first, first_given), (second, second_given)]: [(&str, &Value); 2],
    absent: &Value,
) {
    // Redocly takes fields that a part does not name for unknown ones.
    let with = |name: &str, of: &Value| json!({ "properties": { name: of }, "additionalProperties": true });
    let has = |name: &str, given: &Value| {
        let mut part = with(name, given);
        part["required"] = json!([name]);
        part
    };
    let says = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let says = format!("{says} Requires exactly one of `{first}` and `{second}`.");
    schema.insert("description".to_owned(), says.trim().into());
    schema.insert("if".to_owned(), has(first, first_given));
    schema.insert("then".to_owned(), with(second, absent));
    schema.insert("else".to_owned(), has(second, second_given));
}

/// Moves the most frequent refusal of each status to the components, and returns these.
fn share_refusals(paths: &mut BTreeMap<&str, Map<String, Value>>) -> Map<String, Value> {
    let of_all = |paths: &BTreeMap<&str, Map<String, Value>>| -> Vec<(String, Value)> {
        let operations = paths.values().flat_map(Map::values);
        let all = operations.flat_map(|operation| operation["responses"].as_object().into_iter().flatten());
        all.filter(|(status, _)| is_refusal(status))
            .map(|(status, of)| (status.clone(), of.clone()))
            .collect()
    };
    let mut counts: BTreeMap<String, BTreeMap<String, (usize, Value)>> = BTreeMap::new();
    for (status, of) in of_all(paths) {
        counts.entry(status).or_default().entry(of.to_string()).or_insert((0, of)).0 += 1;
    }
    let most = counts.into_iter().filter_map(|(status, of)| {
        let (count, refusal) = of.into_values().max_by_key(|(count, _)| *count)?;
        (count > 1).then_some((status, refusal))
    });
    let most: BTreeMap<String, Value> = most.collect();
    for operation in paths.values_mut().flat_map(Map::values_mut) {
        for (status, of) in operation["responses"].as_object_mut().into_iter().flatten() {
            if most.get(status) == Some(of) {
                *of = json!({ "$ref": format!("#/components/responses/{}", response_name(status)) });
            }
        }
    }
    most.into_iter().map(|(status, refusal)| (response_name(&status), refusal)).collect()
}

fn is_refusal(status: &str) -> bool {
    status.starts_with(['4', '5'])
}

/// The reason phrase as a name: `TooManyRequests`.
fn response_name(status: &str) -> String {
    let words = status.parse().map(reason).unwrap_or_default();
    words.split(|letter: char| !letter.is_alphanumeric()).collect()
}

/// The paragraphs of a text in one line each, except for lists. Pages would show the line breaks of the source.
fn unwrapped(text: &str) -> String {
    let is_list = |part: &str| part.starts_with("- ") || part.contains("\n- ");
    let parts = text.split("\n\n");
    let parts = parts.map(|part| if is_list(part) { part.to_owned() } else { part.replace('\n', " ") });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Removes the links of rustdoc, which lead nowhere in a schema, and its line breaks.
fn without_links(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = unwrapped(&without_rustdoc(text));
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
    ["required", "oneOf", "anyOf", "else"].iter().all(|word| of.get(word).is_none())
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
    let mut of = definition(&schema, generator);
    without_links(&mut of);
    let Some(fields) = of["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| json!({ "name": name, "in": "query", "required": false, "schema": schema });
    fields.iter().map(parameter).collect()
}

fn responses(route: &Route, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let answer = (route.answer)(generator).to_value();
    let mut responses = Map::new();
    let content = if route.media == EVENT_STREAM { stream_of(&answer) } else { json!({ "schema": answer }) };
    for status in route.succeeds {
        let says = reason(*status);
        responses
            .insert(status.to_string(), json!({ "description": says, "content": { route.media: content } }));
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
    json!({
        "description": lines.join("\n"),
        "content": { PROBLEM_JSON: { "schema": problem } },
        "x-codes": words,
    })
}

/// A stream as a text, which is what generated clients get of it. The schema of its events is that of its content.
fn stream_of(data: &Value) -> Value {
    let name = data["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let says = format!("Server-sent events. The `data` of each event is the JSON of `{name}`.");
    let text = json!({ "type": "string" });
    let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": data });
    let event = json!({
        "type": "object",
        "properties": { "id": text, "event": text, "data": data },
        "required": ["data"],
    });
    json!({
        "schema": {
            "type": "string",
            "description": says,
            "contentMediaType": EVENT_STREAM,
            "contentSchema": { "type": "array", "items": event },
        },
    })
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

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
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
        let names = |kind: &str| {
            let all = described["components"][kind].as_object().unwrap().keys();
            all.map(|name| format!("#/components/{kind}/{name}")).collect::<Vec<_>>()
        };
        let named: BTreeSet<_> = [names("schemas"), names("responses")].concat().into_iter().collect();
        let found: BTreeSet<_> = found.into_iter().map(str::to_owned).collect();
        assert_eq!(found, named);
    }

    /// Every schema and other object of a document, with its path.
    fn objects(value: &Value, path: &str, see: &mut impl FnMut(&str, &Map<String, Value>)) {
        match value {
            Value::Object(fields) => {
                see(path, fields);
                fields.iter().for_each(|(name, of)| objects(of, &format!("{path}/{name}"), see));
            }
            Value::Array(values) => values.iter().for_each(|of| objects(of, path, see)),
            _ => {}
        }
    }

    #[test]
    fn generators_find_the_fields_of_each_type_and_the_words_of_each_enumeration() {
        objects(&describe(&routes()), "", &mut |path, of| {
            let has = |word: &str| of.contains_key(word);
            let choices = ["oneOf", "anyOf", "allOf"].into_iter().filter(|word| has(word));
            for word in choices {
                assert!(!has("properties"), "{path}: fields beside {word}");
                let is_constant = |of: &Value| of.get("const").is_some() || of.get("enum").is_some();
                assert!(!of[word].as_array().unwrap().iter().all(is_constant), "{path}: {word} of constants");
            }
        });
    }

    #[test]
    fn schemas_have_names_of_their_own() {
        let described = describe(&routes());
        for name in described["components"]["schemas"].as_object().unwrap().keys() {
            assert!(
                !name.ends_with(|letter: char| letter.is_ascii_digit()),
                "{name}: two types have this name"
            );
        }
    }

    #[test]
    fn each_variant_has_a_name_of_its_own() {
        let described = describe(&routes());
        let schemas = described["components"]["schemas"].as_object().unwrap();
        let mut names: BTreeSet<_> = schemas.keys().cloned().collect();
        for (name, schema) in schemas {
            for variant in schema["oneOf"].as_array().into_iter().flatten() {
                let title = variant["title"].as_str().unwrap_or_else(|| panic!("{name}: {variant}"));
                assert!(names.insert(title.to_owned()), "{title}");
            }
        }
        assert!(names.contains("EnqueuedAdded"), "{names:?}");
    }

    #[test]
    fn refusals_are_problems_and_name_their_codes() {
        let described = describe(&routes());
        let operations =
            described["paths"].as_object().unwrap().values().flat_map(|of| of.as_object().unwrap());
        for (_, operation) in operations {
            for (status, of) in operation["responses"].as_object().unwrap() {
                if !is_refusal(status) {
                    continue;
                }
                let of = match of["$ref"].as_str() {
                    Some(path) => described.pointer(path.trim_start_matches('#')).unwrap(),
                    None => of,
                };
                let schema = &of["content"][PROBLEM_JSON]["schema"];
                assert_eq!(*schema, json!({ "$ref": "#/components/schemas/Problem" }), "{operation}");
                assert!(!of["x-codes"].as_array().unwrap().is_empty(), "{operation}");
            }
        }
        let shared = described["components"]["responses"].as_object().unwrap();
        assert_eq!(shared["Unauthorized"]["x-codes"], json!(["unauthorized"]));
    }

    #[test]
    fn a_stream_is_a_text_whose_events_have_a_schema() {
        let described = describe(&routes());
        let stream = &described["paths"]["/v1/sales/{sale}/events"]["get"]["responses"]["200"]["content"];
        let schema = &stream[EVENT_STREAM]["schema"];
        assert_eq!(schema["type"], "string");
        let data = &schema["contentSchema"]["items"]["properties"]["data"];
        assert_eq!(data["contentSchema"], json!({ "$ref": "#/components/schemas/Event" }));
    }

    #[test]
    fn one_of_several_fields_must_have_a_value() {
        let described = describe(&routes());
        let stock = &described["components"]["schemas"]["StockBody"];
        let given = json!({ "not": { "type": "null" } });
        for (word, name) in [("if", "add"), ("else", "withdraw")] {
            assert_eq!(stock[word]["required"], json!([name]), "{stock}");
            assert_eq!(stock[word]["properties"][name], given, "{stock}");
        }
        assert_eq!(stock["then"]["properties"], json!({ "withdraw": { "type": "null" } }), "{stock}");
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
    fn descriptions_have_no_line_breaks_within_a_paragraph() {
        objects(&describe(&routes())["components"]["schemas"], "", &mut |path, of| {
            let says = of.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!(says.contains("- ") || !says.replace("\n\n", "").contains('\n'), "{path}: {says}");
        });
        assert_eq!(unwrapped("One\nline.\n\n- a\n- b"), "One line.\n\n- a\n- b");
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
