//! Values that names hold: of the script as a whole, of each function, and of what functions give back.

use std::collections::HashMap;

use crate::value::Value;

/// Names that are kept.
const KEPT: usize = 20_000;

/// Values of names.
#[derive(Default)]
pub struct Scope {
    values: HashMap<(String, String), Value>,
    /// The functions around, the innermost last.
    functions: Vec<String>,
    /// The parameters of each function of the script, by its name alone.
    parameters: HashMap<String, Vec<String>>,
}

impl Scope {
    /// Enters a function.
    pub fn enter(&mut self, function: &str, parameters: Vec<String>) {
        self.parameters.insert(function.to_owned(), parameters);
        self.functions.push(function.to_owned());
    }

    /// Leaves it.
    pub fn leave(&mut self) {
        self.functions.pop();
    }

    /// The value of a name here.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let own = self
            .functions
            .iter()
            .rev()
            .find_map(|function| self.values.get(&(function.clone(), name.to_owned())));
        own.or_else(|| self.values.get(&(String::new(), name.to_owned())))
    }

    /// The value that the present function itself gives a name.
    pub fn get_own(&self, name: &str) -> Option<&Value> {
        let function = self.functions.last()?;
        self.values.get(&(function.clone(), name.to_owned()))
    }

    /// Sets a name here; one with a dot belongs to all functions.
    pub fn set(&mut self, name: &str, value: Value) {
        let function = self.functions.last().filter(|_| !name.contains('.'));
        self.put(function.cloned().unwrap_or_default(), name, value);
    }

    /// A value that a name is given in one of several places.
    fn join(&mut self, function: &str, name: &str, value: &Value) {
        let key = (function.to_owned(), name.to_owned());
        let joined = self
            .values
            .get(&key)
            .map_or_else(|| value.clone(), |old| old.or(value));
        self.put(key.0, name, joined);
    }

    fn put(&mut self, function: String, name: &str, value: Value) {
        let key = (function, name.to_owned());
        if self.values.len() < KEPT || self.values.contains_key(&key) {
            self.values.insert(key, value);
        }
    }

    /// Gives arguments to the parameters of a function of the script, and says what it gives back; `None` for others.
    pub fn call(
        &mut self,
        function: &str,
        arguments: &[(Option<String>, Value)],
        is_method: bool,
    ) -> Option<Value> {
        let parameters = self.parameters.get(function)?.clone();
        let skipped = usize::from(
            is_method
                && parameters
                    .first()
                    .is_some_and(|first| first == "self" || first == "cls"),
        );
        let mut by_place = parameters.iter().skip(skipped);
        for (name, value) in arguments {
            let parameter = match name {
                Some(name) => parameters.iter().find(|parameter| *parameter == name),
                None => by_place.next(),
            };
            if let Some(parameter) = parameter {
                self.join(function, parameter, value);
            }
        }
        let key = (function.to_owned(), GIVEN_BACK.to_owned());
        Some(self.values.get(&key).cloned().unwrap_or_default())
    }

    /// The present function gives this back.
    pub fn give_back(&mut self, value: &Value) {
        if let Some(function) = self.functions.last().cloned() {
            self.join(&function, GIVEN_BACK, value);
        }
    }
}

/// No name of a variable.
const GIVEN_BACK: &str = "return";
