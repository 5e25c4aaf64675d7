//! Examples for the OpenAPI description, made from its schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Depth below which an object stays empty.
const DEPTH_MAX: usize = 5;
/// A time in microseconds: 2026-11-22T12:00:00Z.
const MOMENT_US: u64 = 1_795_348_800_000_000;

/// Optional fields that an example has, because they show what a route is for.
const SHOWN: &[&str] = &[
    "add", "buyer", "cron", "delay_ms", "error", "ids", "kind", "label", "lease_ms", "n", "payload",
    "progress", "quantity", "rate", "result", "worker",
];

/// Makes examples of the schemas of a description.
pub(crate) struct Examples<'a>(pub &'a Map<String, Value>);

impl Examples<'_> {
    /// An example of a schema: its required fields and some optional ones, with the first variant of each choice.
    pub fn of(&self, schema: &Value) -> Value {
        self.make(schema, "", 0)
    }

    /// The schema that a reference names. A field's own description stays beside the reference.
    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.0.get(name)).unwrap_or(schema)
    }

    fn make(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let schema = self.resolved(schema);
        if let Some(fixed) = fixed(schema) {
            return fixed;
        }
        if schema.get("properties").is_some() {
            return self.object(schema, depth);
        }
        if let Some(choice) = first_choice(schema) {
            return self.make(choice, name, depth);
        }
        match kind(schema) {
            "object" => json!({}),
            "array" => {
                let one = name.strip_suffix('s').unwrap_or(name);
                schema.get("items").map_or(json!([]), |items| json!([self.make(items, one, depth + 1)]))
            }
            "integer" | "number" => number(schema, name),
            "boolean" => Value::Bool(false),
            "string" => text(schema, name),
            _ => json!({ "to": "ann@example.com" }),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            return json!({});
        }
        let names = |of: &Value| {
            let names = of["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let own = schema["properties"].as_object();
        let shown =
            own.into_iter().flat_map(Map::keys).filter(|name| SHOWN.contains(&name.as_str())).cloned();
        let mut fields = names(schema);
        fields.extend(shown);
        // Of two fields that exclude each other, the first.
        let second = names(&schema["else"]);
        fields.retain(|name| !second.contains(name));
        fields.extend(names(&schema["if"]));
        let field = |name: String| {
            let value = self.make(&schema["properties"][&name], &name, depth + 1);
            (name, value)
        };
        Value::Object(fields.into_iter().map(field).collect())
    }
}

/// The only value, or the default if it is not null.
fn fixed(schema: &Value) -> Option<Value> {
    let first = schema["enum"].as_array().and_then(|all| all.first());
    let default = schema.get("default").filter(|of| !of.is_null());
    schema.get("const").or(first).or(default).cloned()
}

fn first_choice(schema: &Value) -> Option<&Value> {
    let all = ["oneOf", "anyOf", "allOf"].iter().find_map(|word| schema[word].as_array())?;
    all.iter().find(|of| of["type"] != "null")
}

fn kind(schema: &Value) -> &str {
    let kinds = schema["type"].as_array();
    let first = kinds.and_then(|kinds| kinds.iter().find(|kind| *kind != "null")).unwrap_or(&schema["type"]);
    first.as_str().unwrap_or_default()
}

fn number(schema: &Value, name: &str) -> Value {
    let wanted = match name {
        _ if name.ends_with("_us") || schema["description"].as_str().is_some_and(is_time) => MOMENT_US,
        _ if name.ends_with("_ms") => 30_000,
        _ => 1,
    };
    let least = schema["minimum"].as_u64().unwrap_or_default();
    let most = schema["maximum"].as_u64().unwrap_or(u64::MAX);
    wanted.clamp(least, most).into()
}

fn is_time(description: &str) -> bool {
    description.contains("since the Unix epoch")
}

fn text(schema: &Value, name: &str) -> Value {
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let sample = match name {
        _ if pattern.contains("{32}-") => "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        _ if pattern.contains("{32}$") => "7f3c9a1e5b8d4260a7c1e4f29b06d835",
        _ if pattern.contains("{64}$") => "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "ticket" => "5.660dd1b2a4000.660dd1a30dc40.order-42",
        "sku" => "phone",
        "buyer" => "ann",
        "queue" => "mail",
        "lock" => "order:42",
        "sale" => "phones",
        "cron" => "0 3 * * *",
        "label" => "ship order 42",
        "worker" => "mailer-1",
        "kind" => "welcome",
        "error" => "connection refused",
        "content_type" | "result_type" => "application/json",
        "note" => "page 2 of 5",
        "host" => "web-1",
        "id" | "name" | "task" | "part_of" => "order-42",
        _ => "text",
    };
    sample.into()
}
