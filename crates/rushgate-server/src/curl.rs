//! A `curl` command for each route, which API references show beside it (`x-codeSamples`).

use serde_json::{Value, json};

/// Adds the command. The operation already has its examples.
pub(crate) fn add(path: &str, method: &str, operation: &mut Value) {
    let source = command(path, method, operation);
    operation["x-codeSamples"] = json!([{ "lang": "shell", "label": "curl", "source": source }]);
}

fn command(path: &str, method: &str, operation: &Value) -> String {
    let verb = if method == "get" { String::new() } else { format!(" -X {}", method.to_uppercase()) };
    let mut parts = vec![format!("curl{verb} \"$RUSHGATE_URL{}\"", with_names(path))];
    if operation["security"].as_array().is_some_and(|security| !security.is_empty()) {
        parts.push("-H \"Authorization: Bearer $RUSHGATE_TOKEN\"".to_owned());
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let headers = parameters.filter(|one| one["in"] == "header" && one["required"] == true);
    parts.extend(headers.filter_map(|one| Some(format!("-H '{}: attempt-1'", one["name"].as_str()?))));
    if let Some(body) = operation.pointer("/requestBody/content/application~1json/examples/typical/value") {
        parts.push("-H 'Content-Type: application/json'".to_owned());
        parts.push(format!("-d '{}'", body.to_string().replace('\'', r"'\''")));
    }
    parts.join(" \\\n  ")
}

/// The path with a name in place of each parameter, such as `my-queue` for `{queue}`.
fn with_names(path: &str) -> String {
    path.replace("{task}", "order-42")
        .replace("{reservation}", "RESERVATION")
        .replace('{', "my-")
        .replace('}', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_all_that_the_route_requires() {
        let key = json!({ "name": "Idempotency-Key", "in": "header", "required": true });
        let prefer = json!({ "name": "Prefer", "in": "header", "required": false });
        let examples = json!({ "typical": { "value": { "text": "it's" } } });
        let mut operation = json!({
            "security": [{ "bearer": ["worker"] }],
            "parameters": [key, prefer],
            "requestBody": { "content": { "application/json": { "examples": examples } } },
        });
        add("/v1/queues/{queue}/tasks/{task}", "post", &mut operation);
        let expected = [
            r#"curl -X POST "$RUSHGATE_URL/v1/queues/my-queue/tasks/order-42""#,
            r#"-H "Authorization: Bearer $RUSHGATE_TOKEN""#,
            "-H 'Idempotency-Key: attempt-1'",
            "-H 'Content-Type: application/json'",
            r#"-d '{"text":"it'\''s"}'"#,
        ];
        assert_eq!(operation["x-codeSamples"][0]["source"], expected.join(" \\\n  "));
    }

    #[test]
    fn reading_without_a_token_is_short() {
        let operation = json!({ "security": [], "parameters": [] });
        assert_eq!(command("/healthz", "get", &operation), r#"curl "$RUSHGATE_URL/healthz""#);
    }
}
