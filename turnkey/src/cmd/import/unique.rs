//! JSON in which no key is there twice: of two, readers take the first or the last, and nobody is told which.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value whose keys are there once.
pub struct UniqueKeys(pub Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeys(value)) = sequence.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let twice = format!("the key {key:?} is there twice; take one out, the second is");
                return Err(Error::custom(twice));
            }
            let UniqueKeys(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        let read = serde_json::from_str::<UniqueKeys>(text).map(|unique| unique.0);
        read.expect_err("a key is there twice").to_string()
    }

    #[test]
    fn a_key_that_is_there_twice_is_told_with_its_place() {
        let told = refused("{\"a\": 1,\n \"b\": [{\"c\": 1, \"c\": 1}]}");
        assert!(told.starts_with("the key \"c\" is there twice"), "{told}");
        assert!(told.contains("the second is at line 2 column"), "{told}");
        // The same key, written otherwise.
        assert!(refused(r#"{"a": 1, "\u0061": 2}"#).contains("twice"));
    }

    proptest! {
        #[test]
        fn without_one_a_value_is_read_as_ever(keys in prop::collection::btree_set(any::<String>(), 0..5), number in any::<i64>()) {
            let map: Map<String, Value> = keys.into_iter().map(|key| (key, number.into())).collect();
            let value = serde_json::json!([map, null, true, 0.5, "text", number]);
            let UniqueKeys(read) = serde_json::from_str(&value.to_string()).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
