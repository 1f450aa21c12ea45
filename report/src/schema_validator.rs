//! Holds JSON against a schema, for tests.

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// A schema, ready to be asked.
pub struct SchemaValidator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl SchemaValidator {
    /// The validator of reports.
    pub fn of_reports() -> Self {
        Self::new(serde_json::from_str(crate::SCHEMA).expect("the schema is JSON"))
    }

    /// Reads the schema; panics when it is none.
    pub fn new(schema: Value) -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let place = "turnkey:/schema.json";
        compiler.add_resource(place, schema).expect("it is JSON");
        let index = compiler.compile(place, &mut schemas).expect("a schema");
        Self { schemas, index }
    }

    /// The errors of a value, in words; empty when there are none.
    pub fn wrong(&self, value: &Value) -> String {
        let verdict = self.schemas.validate(value, self.index);
        verdict
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default()
    }
}
