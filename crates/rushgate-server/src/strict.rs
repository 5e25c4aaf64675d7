//! Parses bodies as their JSON schema says, where serde differs.
//!
//! There are two differences. JSON has one kind of number, so `5.0` is valid for an integer schema; serde
//! rejects it. And serde accepts `[1, 2]` for a struct with two fields; a schema requires an object.
//! [`Strict`] wraps any deserializer, and applies the schema's rules at every depth.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// A deserializer, visitor or seed that applies these rules.
pub(crate) struct Strict<T>(pub T);

/// A visitor for integers.
struct Whole<V>(V);

/// A visitor for the fields of an object.
struct Object<V>(V);

/// True for serde_json's raw values, which must pass through unchanged.
fn is_raw(name: &str) -> bool {
    name.starts_with("$serde_json::")
}

macro_rules! strictly {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Strict(visitor))
        }
    )*};
}

macro_rules! whole {
    ($($method:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Whole(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    strictly! {
        deserialize_any, deserialize_bool, deserialize_f32, deserialize_f64, deserialize_char, deserialize_str,
        deserialize_string, deserialize_bytes, deserialize_byte_buf, deserialize_option, deserialize_unit,
        deserialize_seq, deserialize_map, deserialize_identifier, deserialize_ignored_any
    }

    whole! {
        deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64, deserialize_u8, deserialize_u16,
        deserialize_u32, deserialize_u64
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Strict(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        match is_raw(name) {
            true => self.0.deserialize_newtype_struct(name, visitor),
            false => self.0.deserialize_newtype_struct(name, Strict(visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, Strict(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, Strict(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Object(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Strict(visitor))
    }
}

macro_rules! as_they_are {
    ($($method:ident: $kind:ty),*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    as_they_are! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str,
        visit_borrowed_str: &'de str, visit_string: String, visit_bytes: &[u8]
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(fields))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Strict(variant))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Whole<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    as_they_are! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_str: &str }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        // Above this, a float cannot represent every integer.
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        match value.fract() == 0.0 && value.abs() <= EXACT_MAX {
            true if value < 0.0 => self.0.visit_i64(value as i64),
            true => self.0.visit_u64(value as u64),
            false => self.0.visit_f64(value),
        }
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(fields))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, content) = self.0.variant_seed(seed)?;
        Ok((name, Strict(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Strict(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Object(visitor))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(inner))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

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

    fn read(text: &str) -> Result<Outer, serde_json::Error> {
        Outer::deserialize(Strict(&mut serde_json::Deserializer::from_str(text)))
    }

    #[test]
    fn a_whole_number_may_be_written_as_a_float_at_every_depth() {
        assert_eq!(read("{\"n\": 5.0}").unwrap().n, Some(5));
        assert_eq!(read("{\"n\": 2e3}").unwrap().n, Some(2_000));
        assert_eq!(read("{\"lines\": [{\"n\": -7.0}]}").unwrap().lines[0].n, -7);
        assert_eq!(read("{\"kind\": {\"other\": {\"n\": 3.0}}}").unwrap().kind, Some(Kind::Other { n: 3 }));
        assert_eq!(read("{\"kind\": \"plain\"}").unwrap().kind, Some(Kind::Plain));
        for wrong in ["1.5", "-1.0", "5e9", "\"5\"", "true", "1e300"] {
            assert!(read(&format!("{{\"n\": {wrong}}}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_object_is_no_list_at_every_depth() {
        for wrong in ["[5]", "{\"lines\": [[5]]}", "{\"kind\": {\"other\": [5]}}"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{wrong}: {error}");
        }
    }

    #[test]
    fn content_stays_as_it_was_written() {
        assert_eq!(read("{\"raw\": {\"a\":  [1.0, 2]}}").unwrap().raw.unwrap().get(), "{\"a\":  [1.0, 2]}");
        assert!(read("{\"raw\": null}").unwrap().raw.is_none());
    }
}
