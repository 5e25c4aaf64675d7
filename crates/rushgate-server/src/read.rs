//! Parses bodies and queries as their JSON schemas say.
//!
//! serde's own parsers differ from a schema in two ways. JSON has one kind of number, so `5.0` is valid for an integer;
//! they reject it. And they accept `[1, 2]` for a struct with two fields; a schema requires an object.
//!
//! A body is parsed level by level: the values of an object or list are raw JSON until their type is known. So an error
//! knows its code and the path of its field, such as `tasks[1].delay_ms`, and a payload stays as it was written.

use std::borrow::Cow;
use std::fmt;
use std::vec;

use hyper::http::Uri;
use serde::Deserialize;
use serde::de::value::{self, MapAccessDeserializer, MapDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::problem::{Code, Problem};

/// Maximum nesting depth of JSON.
const DEPTH_MAX: usize = 32;

/// Parses a body. An empty one counts as an empty object.
pub(crate) fn body<B: DeserializeOwned>(bytes: &[u8]) -> Result<B, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    if depth(bytes) > DEPTH_MAX {
        let detail = format_args!("the JSON is nested more than {DEPTH_MAX} levels deep");
        return Err(Problem::new(Code::MalformedJson, detail));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Problem::new(Code::MalformedJson, error))?;
    let whole = Json(text.trim_matches([' ', '\t', '\n', '\r']));
    if !whole.is(b'{') {
        // Whatever is valid JSON is refused as no object.
        whole.parse::<IgnoredAny>()?;
    }
    Ok(B::deserialize(whole)?)
}

/// Parses a query.
pub(crate) fn query<Q: DeserializeOwned>(uri: &Uri) -> Result<Q, Problem> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let parameters = Fields { rest: pairs.map(|(name, text)| (name, Text(text))), next: None };
    Q::deserialize(MapAccessDeserializer::new(parameters)).map_err(|refusal| {
        let problem = Problem::from(refusal);
        // A query is not JSON, so no error in it is malformed JSON.
        if problem.code() == Code::MalformedJson { problem.called(Code::Invalid) } else { problem }
    })
}

/// Nesting depth of brackets in a text, whether or not it is valid JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

// ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Why a text was refused.
#[derive(Debug)]
struct Refusal {
    code: Code,
    /// Path of the field; empty for the whole text.
    field: String,
    detail: String,
}

impl Refusal {
    fn new(code: Code, field: &str, detail: impl fmt::Display) -> Self {
        Self { code, field: field.to_owned(), detail: detail.to_string() }
    }

    fn malformed(error: serde_json::Error) -> Self {
        Self::new(Code::MalformedJson, "", error)
    }

    /// Puts the field into the object or list of this name.
    fn within(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Refusal {}

impl Error for Refusal {
    fn custom<T: fmt::Display>(detail: T) -> Self {
        Self::new(Code::Invalid, "", detail)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Code::UnknownField, field, value::Error::unknown_field(field, expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Code::Invalid, field, value::Error::missing_field(field))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(Code::MalformedJson, field, value::Error::duplicate_field(field))
    }
}

impl From<Refusal> for Problem {
    fn from(Refusal { code, field, detail }: Refusal) -> Self {
        let problem = Self::new(code, detail);
        if field.is_empty() { problem } else { problem.field(field) }
    }
}

// ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A value of a body. Its syntax was checked, except that of the whole body.
#[derive(Clone, Copy)]
struct Json<'de>(&'de str);

/// A JSON string, without a copy if it has no escapes.
#[derive(Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Json<'de> {
    fn is(self, first: u8) -> bool {
        self.0.as_bytes().first() == Some(&first)
    }

    fn parse<T: Deserialize<'de>>(self) -> Result<T, Refusal> {
        serde_json::from_str(self.0).map_err(Refusal::malformed)
    }

    fn text(self) -> Result<Cow<'de, str>, Refusal> {
        self.parse().map(|JsonText(text)| text)
    }

    /// Refuses everything but an object.
    fn fields(self) -> Result<Fields<vec::IntoIter<Pair<'de>>>, Refusal> {
        if !self.is(b'{') {
            self.deserialize_any(Object)?;
        }
        let Pairs(pairs) = self.parse()?;
        Ok(Fields { rest: pairs.into_iter(), next: None })
    }

    /// A number; if `is_whole`, a float without a fraction counts as an integer.
    fn number<V: Visitor<'de>>(self, visitor: V, is_whole: bool) -> Result<V::Value, Refusal> {
        // Above this, a float cannot represent every integer.
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        // The syntax was checked, so only the size can be wrong.
        let number: Number = serde_json::from_str(self.0).map_err(|_| out_of_range())?;
        if let Some(positive) = number.as_u64() {
            return visitor.visit_u64(positive);
        }
        if let Some(negative) = number.as_i64() {
            return visitor.visit_i64(negative);
        }
        match number.as_f64().ok_or_else(out_of_range)? {
            float if !is_whole || float.fract() != 0.0 || float.abs() > EXACT_MAX => visitor.visit_f64(float),
            float if float < 0.0 => visitor.visit_i64(float as i64),
            float => visitor.visit_u64(float as u64),
        }
    }
}

fn out_of_range() -> Refusal {
    Refusal::custom("the number is out of range")
}

macro_rules! whole {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
            match self.0.as_bytes() {
                [b'-' | b'0'..=b'9', ..] => self.number(visitor, true),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Json<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0.as_bytes().first() {
            Some(b'{') => visitor.visit_map(self.fields()?),
            Some(b'[') => visitor.visit_seq(Items(self.parse::<Vec<_>>()?.into_iter().enumerate())),
            Some(b'"') => match self.text()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Some(b't' | b'f') => visitor.visit_bool(self.is(b't')),
            Some(b'n') => visitor.visit_unit(),
            _ => self.number(visitor, false),
        }
    }

    whole! {
        deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64, deserialize_u8, deserialize_u16,
        deserialize_u32, deserialize_u64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if self.is(b'n') { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        // A raw value of serde_json is a map of this name to the text.
        if name.starts_with("$serde_json::") {
            return visitor.visit_map(MapDeserializer::new(std::iter::once((name, self.0))));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_map(self.fields()?)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        if self.is(b'"') {
            return visitor.visit_enum(self.text()?.into_deserializer());
        }
        let fields = self.fields()?;
        match fields.rest.len() {
            1 => visitor.visit_enum(MapAccessDeserializer::new(fields)),
            _ => Err(Refusal::invalid_value(Unexpected::Map, &"an object with one field")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct identifier
    }
}

/// The visitor of everything that is no object: it refuses each.
struct Object;

impl Visitor<'_> for Object {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}

/// Name and value of a field.
type Pair<'de> = (Cow<'de, str>, Json<'de>);

/// The fields of one object, duplicates too.
struct Pairs<'de>(Vec<Pair<'de>>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Object.expecting(f)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((JsonText(name), value)) = fields.next_entry()? {
                    pairs.push((name, Json(RawValue::get(value))));
                }
                Ok(Pairs(pairs))
            }
        }
        reader.deserialize_map(All)
    }
}

/// The items of a list.
struct Items<'de>(std::iter::Enumerate<vec::IntoIter<&'de RawValue>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Refusal;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Json(item.get())).map(Some).map_err(|refusal| refusal.within(&format!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

// ── fields of an object, parameters of a query ───────────────────────────────────────────────────────────────────────

struct Fields<I: Iterator> {
    rest: I,
    /// The field whose name was read.
    next: Option<I::Item>,
}

impl<'de, I, T> MapAccess<'de> for Fields<I>
where
    I: Iterator<Item = (Cow<'de, str>, T)>,
    T: Deserializer<'de, Error = Refusal>,
{
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        self.next = self.rest.next();
        let Some((name, _)) = &self.next else { return Ok(None) };
        seed.deserialize(name.clone().into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        let (name, value) = self.next.take().ok_or_else(|| Refusal::custom("no field was read"))?;
        seed.deserialize(value).map_err(|refusal| refusal.within(&name))
    }
}

/// The value of a query parameter.
struct Text<'de>(Cow<'de, str>);

macro_rules! parsed {
    ($($method:ident: $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(Refusal::invalid_value(Unexpected::Str(&self.0), &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Text<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    parsed! {
        deserialize_bool: visit_bool, deserialize_u8: visit_u8, deserialize_u16: visit_u16, deserialize_u32: visit_u32,
        deserialize_u64: visit_u64, deserialize_i8: visit_i8, deserialize_i16: visit_i16, deserialize_i32: visit_i32,
        deserialize_i64: visit_i64, deserialize_f32: visit_f32, deserialize_f64: visit_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        n: Option<u32>,
        #[serde(default)]
        lines: Vec<Inner>,
        raw: Option<Box<RawValue>>,
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        n: i64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Other { n: u8 },
    }

    fn read(text: &str) -> Result<Outer, Refusal> {
        Outer::deserialize(Json(text))
    }

    #[test]
    fn a_whole_number_may_be_written_as_a_float_at_every_depth() {
        assert_eq!(read("{\"n\": 5.0}").unwrap().n, Some(5));
        assert_eq!(read("{\"n\": 2e3}").unwrap().n, Some(2_000));
        assert_eq!(read("{\"lines\": [{\"n\": -7.0}]}").unwrap().lines[0].n, -7);
        assert_eq!(read("{\"kind\": {\"other\": {\"n\": 3.0}}}").unwrap().kind, Some(Kind::Other { n: 3 }));
        assert_eq!(read("{\"kind\": \"plain\"}").unwrap().kind, Some(Kind::Plain));
        for wrong in ["1.5", "-1.0", "5e9", "\"5\"", "true", "1e300", "1e999", "{}", "[5]"] {
            let refusal = read(&format!("{{\"n\": {wrong}}}")).unwrap_err();
            assert_eq!((refusal.code, &*refusal.field), (Code::Invalid, "n"), "{wrong}: {refusal}");
        }
    }

    #[test]
    fn an_object_is_no_list_at_every_depth() {
        for wrong in ["[5]", "{\"lines\": [[5]]}", "{\"kind\": {\"other\": [5]}}", "{\"kind\": [5]}", "5"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{wrong}: {error}");
        }
    }

    #[test]
    fn content_stays_as_it_was_written() {
        assert_eq!(read("{\"raw\": {\"a\":  [1.0, 2]}}").unwrap().raw.unwrap().get(), "{\"a\":  [1.0, 2]}");
        assert!(read("{\"raw\": null}").unwrap().raw.is_none());
    }

    #[test]
    fn an_error_has_the_code_and_the_path_of_its_field() {
        for (wrong, code, field) in [
            ("{\"m\": 1}", Code::UnknownField, "m"),
            ("{\"\\u006d\": 1}", Code::UnknownField, "m"),
            ("{\"n\": 1, \"n\": 2}", Code::MalformedJson, "n"),
            ("{\"lines\": [{\"n\": 1}, {}]}", Code::Invalid, "lines[1].n"),
            ("{\"lines\": [{\"n\": 1}, {\"n\": \"2\"}]}", Code::Invalid, "lines[1].n"),
            ("{\"lines\": [5]}", Code::Invalid, "lines[0]"),
            ("{\"kind\": \"other than that\"}", Code::Invalid, "kind"),
            ("{\"kind\": {\"other\": {\"n\": 256}}}", Code::Invalid, "kind.other.n"),
            ("{\"kind\": {\"other\": {\"n\": 3}, \"plain\": null}}", Code::Invalid, "kind"),
            ("{\"kind\": \"\\ud800\"}", Code::MalformedJson, "kind"),
        ] {
            let refusal = read(wrong).unwrap_err();
            assert_eq!((refusal.code, &*refusal.field), (code, field), "{wrong}: {refusal}");
        }
    }

    #[test]
    fn an_error_of_a_query_names_the_parameter_and_what_was_expected() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Asked {
            limit: Option<u32>,
            of: Option<Kind>,
        }
        let read = |text: &'static str| query::<Asked>(&Uri::from_static(text));
        let asked = read("/?limit=5&of=plain").unwrap();
        assert_eq!((asked.limit, asked.of), (Some(5), Some(Kind::Plain)));
        for (wrong, code, detail) in [
            ("/?limit=5.0", Code::Invalid, "invalid value: string \"5.0\", expected u32"),
            ("/?limit=", Code::Invalid, "invalid value: string \"\", expected u32"),
            ("/?of=any", Code::Invalid, "unknown variant `any`, expected `plain` or `other`"),
            ("/?limit=1&limit=2", Code::Invalid, "duplicate field `limit`"),
            ("/?many=1", Code::UnknownField, "unknown field `many`, expected `limit` or `of`"),
        ] {
            let problem = read(wrong).unwrap_err();
            assert_eq!((problem.code(), problem.detail()), (code, detail), "{wrong}");
        }
    }

    #[test]
    fn brackets_in_strings_are_not_deep() {
        assert_eq!(depth(br#"{"a":[1,"[[[\"[",{}]}"#), 3);
        assert_eq!(depth(b"\"[\\"), 0);
    }
}
