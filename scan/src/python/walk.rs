//! The walk over a tree of Python: statements, and what expressions come to.

use std::collections::HashMap;

use ruff_python_ast::{self as ast, Expr, InterpolatedStringElement, Number, Stmt, UnaryOp};
use ruff_text_size::Ranged as _;

use super::scope::Scope;
use super::{Lines, fold};
use crate::judge::Judge;
use crate::rule;
use crate::value::{HOLE, Origins, Value};

/// A walk. What it knows of names outlives one pass over the tree.
pub struct Walk<'j, 's> {
    pub judge: &'j mut Judge,
    pub lines: &'s Lines<'s>,
    pub scope: Scope,
    /// The dotted name that a name of an import stands for.
    imports: HashMap<String, String>,
    /// Loops around that do not end by themselves.
    pub endless: usize,
}

/// Steps for each element that is made of another, which is copied a few times.
const ELEMENT: usize = 5;

/// A literal of this length without a blank is data and no text.
const BLOB: usize = 1000;

impl<'j, 's> Walk<'j, 's> {
    pub fn new(judge: &'j mut Judge, lines: &'s Lines<'s>) -> Self {
        Walk {
            judge,
            lines,
            scope: Scope::default(),
            imports: HashMap::new(),
            endless: 0,
        }
    }

    /// The walk over all of a script, once.
    pub fn script(&mut self, body: &[Stmt]) {
        for statement in body {
            if !self.judge.spend(1) {
                return;
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::FunctionDef(it) => self.function(it),
            Stmt::ClassDef(it) => {
                for base in it.arguments.iter().flat_map(|arguments| &arguments.args) {
                    self.expression(base);
                }
                self.script(&it.body);
            }
            Stmt::Return(it) => {
                self.give_back(it.value.as_deref());
            }
            Stmt::Assign(it) => {
                let value = self.expression(&it.value);
                for target in &it.targets {
                    self.assign(target, &value);
                }
            }
            Stmt::AugAssign(it) => {
                let (old, new) = (self.expression(&it.target), self.expression(&it.value));
                self.grows(&new, &it.target);
                self.assign(&it.target, &fold::binary(&old, it.op, &new));
            }
            Stmt::AnnAssign(it) => {
                if let Some(value) = it.value.as_deref() {
                    let value = self.expression(value);
                    self.assign(&it.target, &value);
                }
            }
            Stmt::Expr(it) => drop(self.expression(&it.value)),
            Stmt::Import(it) => self.import(it),
            Stmt::ImportFrom(it) => self.import_from(it),
            Stmt::Raise(it) => drop(it.exc.as_deref().map(|value| self.expression(value))),
            Stmt::Assert(it) => drop(self.expression(&it.test)),
            _ => self.block(statement),
        }
    }

    /// Statements with others in them.
    fn block(&mut self, statement: &Stmt) {
        match statement {
            Stmt::For(it) => {
                let value = self.expression(&it.iter).element();
                self.assign(&it.target, &value);
                self.looped(&it.body);
                self.script(&it.orelse);
            }
            Stmt::While(it) => {
                let value = self.expression(&it.test);
                let endless = usize::from(value.number.is_some_and(|number| number != 0));
                self.endless += endless;
                self.looped(&it.body);
                self.endless -= endless;
                self.script(&it.orelse);
            }
            Stmt::If(it) => {
                let dated = self.depends_on_date(&it.test);
                self.judge_dated(dated, |walk| {
                    walk.script(&it.body);
                    for clause in &it.elif_else_clauses {
                        clause
                            .test
                            .iter()
                            .for_each(|test| drop(walk.expression(test)));
                        walk.script(&clause.body);
                    }
                });
            }
            Stmt::With(it) => {
                for item in &it.items {
                    let value = self.expression(&item.context_expr);
                    if let Some(target) = item.optional_vars.as_deref() {
                        self.assign(target, &value);
                    }
                }
                self.script(&it.body);
            }
            Stmt::Match(it) => {
                self.expression(&it.subject);
                it.cases.iter().for_each(|case| self.script(&case.body));
            }
            Stmt::Try(it) => {
                self.script(&it.body);
                for ast::ExceptHandler::ExceptHandler(handler) in &it.handlers {
                    self.script(&handler.body);
                }
                self.script(&it.orelse);
                self.script(&it.finalbody);
            }
            _ => {}
        }
    }

    fn looped(&mut self, body: &[Stmt]) {
        self.judge.loops(true);
        self.script(body);
        self.judge.loops(false);
    }

    fn judge_dated(&mut self, dated: bool, inside: impl FnOnce(&mut Self)) {
        if dated {
            self.judge.dated(true);
        }
        inside(self);
        if dated {
            self.judge.dated(false);
        }
    }

    /// True for a comparison of the date with a constant.
    fn depends_on_date(&mut self, test: &Expr) -> bool {
        if let Expr::BoolOp(it) = test {
            return it
                .values
                .iter()
                .fold(false, |dated, value| self.depends_on_date(value) | dated);
        }
        let value = self.expression(test);
        matches!(test, Expr::Compare(_)) && value.origins.any(Origins::CLOCK)
    }

    fn function(&mut self, it: &ast::StmtFunctionDef) {
        for decorator in &it.decorator_list {
            self.expression(&decorator.expression);
        }
        let parameters = it.parameters.iter_non_variadic_params();
        let parameters: Vec<(String, Option<&Expr>)> = parameters
            .map(|one| (one.parameter.name.to_string(), one.default.as_deref()))
            .collect();
        let defaults: Vec<(String, Value)> = parameters
            .iter()
            .filter_map(|(name, default)| Some((name.clone(), self.expression((*default)?))))
            .collect();
        self.scope.enter(
            &it.name,
            parameters.into_iter().map(|(name, _)| name).collect(),
        );
        for (name, value) in defaults {
            if self.scope.get_own(&name).is_none() {
                self.scope.set(&name, value);
            }
        }
        let endless = std::mem::take(&mut self.endless);
        self.script(&it.body);
        self.endless = endless;
        self.scope.leave();
    }

    fn import(&mut self, it: &ast::StmtImport) {
        self.judge.at(self.lines.position_of(it));
        for alias in &it.names {
            let module = alias.name.as_str();
            self.judge.import(module);
            let first = module.split('.').next().unwrap_or(module);
            match &alias.asname {
                Some(name) => self.imports.insert(name.to_string(), module.to_owned()),
                None => self.imports.insert(first.to_owned(), first.to_owned()),
            };
        }
    }

    fn import_from(&mut self, it: &ast::StmtImportFrom) {
        self.judge.at(self.lines.position_of(it));
        let module = it.module.as_ref().map_or("", |module| module.as_str());
        // A relative one is of the same package.
        if it.level == 0 {
            self.judge.import(module);
        }
        for alias in &it.names {
            let name = alias.asname.as_ref().unwrap_or(&alias.name);
            self.imports
                .insert(name.to_string(), format!("{module}.{}", alias.name));
        }
    }

    /// Gives a value to a target.
    fn assign(&mut self, target: &Expr, value: &Value) {
        match target {
            Expr::Name(it) => self.scope.set(it.id.as_str(), value.clone()),
            Expr::Attribute(it) => {
                if let Expr::Name(of) = &*it.value {
                    self.scope
                        .set(&format!("{}.{}", of.id, it.attr), value.clone());
                }
            }
            Expr::Tuple(it) => self.assign_each(&it.elts, value),
            Expr::List(it) => self.assign_each(&it.elts, value),
            Expr::Starred(it) => self.assign(&it.value, &value.derived()),
            Expr::Subscript(it) => {
                let (of, key) = (self.expression(&it.value), self.expression(&it.slice));
                if of.name.as_deref() == Some("os.environ") && key.exact() == Some("LD_PRELOAD") {
                    self.judge.at(self.lines.position_of(target));
                    self.judge.find(
                        &rule::HIJACKS_LIBRARIES,
                        "sets LD_PRELOAD, by which a library is loaded into other programs",
                    );
                }
                self.grows(value, target);
            }
            _ => {}
        }
    }

    fn assign_each(&mut self, targets: &[Expr], value: &Value) {
        for (index, target) in targets.iter().enumerate() {
            let own = value
                .items
                .as_ref()
                .filter(|_| !value.one_of)
                .and_then(|items| items.get(index));
            let own = own.cloned().unwrap_or_else(|| value.derived());
            self.assign(target, &own);
        }
    }

    /// Something that is kept in a loop.
    pub fn grows(&mut self, value: &Value, at: &Expr) {
        if value.large && self.judge.is_in_loop() {
            self.judge.at(self.lines.position_of(at));
            self.judge
                .find(&rule::FILLS_MEMORY, "keeps large objects in a loop");
        }
    }

    /// Has the function around give back the value of this expression.
    fn give_back(&mut self, expression: Option<&Expr>) {
        let value = expression.map(|it| self.expression(it)).unwrap_or_default();
        self.scope.give_back(&value);
    }

    /// The value of an expression.
    pub fn expression(&mut self, expression: &Expr) -> Value {
        if !self.judge.spend(1) {
            return Value::default();
        }
        match expression {
            Expr::StringLiteral(it) => self.literal(it.value.to_str(), expression),
            Expr::BytesLiteral(it) => {
                let text: String = it.value.bytes().map(char::from).collect();
                self.literal(&text, expression)
            }
            Expr::NumberLiteral(it) => number(&it.value),
            Expr::BooleanLiteral(it) => Value::number(i64::from(it.value)),
            Expr::FString(it) => self.format_string(it),
            Expr::Name(it) => self.name(it.id.as_str()),
            Expr::Attribute(it) => self.attribute(it),
            Expr::Call(it) => self.call(it),
            Expr::BinOp(it) => {
                let (left, right) = (self.expression(&it.left), self.expression(&it.right));
                let value = fold::binary(&left, it.op, &right);
                self.judge.spend(value.known().map_or(0, str::len) / 16);
                value
            }
            Expr::UnaryOp(it) => {
                let value = self.expression(&it.operand);
                match (it.op, value.number) {
                    (UnaryOp::USub, Some(number)) => Value::number(number.saturating_neg()),
                    _ => value.derived(),
                }
            }
            Expr::Subscript(it) => self.subscript(it),
            Expr::Named(it) => {
                let value = self.expression(&it.value);
                self.assign(&it.target, &value);
                value
            }
            _ => self.compound(expression),
        }
    }

    /// Expressions of several others.
    fn compound(&mut self, expression: &Expr) -> Value {
        match expression {
            Expr::List(it) => self.list(&it.elts),
            Expr::Tuple(it) => self.list(&it.elts),
            Expr::Set(it) => self.list(&it.elts),
            Expr::Dict(it) => {
                let values: Vec<Value> = it
                    .items
                    .iter()
                    .map(|item| self.expression(&item.value))
                    .collect();
                Value {
                    items: None,
                    ..Value::list(values)
                }
            }
            Expr::BoolOp(it) => {
                let values: Vec<Value> = it
                    .values
                    .iter()
                    .map(|value| self.expression(value))
                    .collect();
                values.iter().fold(Value::default(), |all, one| all.or(one))
            }
            Expr::Compare(it) => {
                let first = self.expression(&it.left);
                it.comparators.iter().fold(first.derived(), |all, one| {
                    all.tainted(&self.expression(one))
                })
            }
            Expr::If(it) => {
                self.expression(&it.test);
                let value = self.expression(&it.body);
                value.or(&self.expression(&it.orelse))
            }
            Expr::Lambda(it) => self.expression(&it.body),
            Expr::Starred(it) => self.expression(&it.value),
            Expr::Await(it) => self.expression(&it.value),
            Expr::Yield(it) => {
                self.give_back(it.value.as_deref());
                Value::default()
            }
            Expr::YieldFrom(it) => self.expression(&it.value),
            Expr::ListComp(it) => self.comprehension(&it.elt, &it.generators),
            Expr::SetComp(it) => self.comprehension(&it.elt, &it.generators),
            Expr::Generator(it) => self.comprehension(&it.elt, &it.generators),
            Expr::DictComp(it) => self.comprehension(&it.value, &it.generators),
            _ => Value::default(),
        }
    }

    fn literal(&mut self, text: &str, at: &Expr) -> Value {
        let is_data = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte);
        if text.len() >= BLOB && text.bytes().all(is_data) {
            self.judge.at(self.lines.position_of(at));
            self.judge.find(
                &rule::HIDES_TEXT,
                format!("holds {} bytes of encoded data", text.len()),
            );
        }
        Value::text(text)
    }

    fn list(&mut self, elements: &[Expr]) -> Value {
        let values: Vec<Value> = elements
            .iter()
            .map(|element| self.expression(element))
            .collect();
        Value::list(values)
    }

    fn format_string(&mut self, it: &ast::ExprFString) -> Value {
        let (mut text, mut all) = (String::new(), Value::default());
        for part in &it.value {
            match part {
                ast::FStringPart::Literal(literal) => text.push_str(&literal.value),
                ast::FStringPart::FString(string) => {
                    for element in &string.elements {
                        match element {
                            InterpolatedStringElement::Literal(literal) => {
                                text.push_str(&literal.value)
                            }
                            InterpolatedStringElement::Interpolation(it) => {
                                let value = self.expression(&it.expression);
                                text.push_str(&value.shown());
                                all = all.tainted(&value);
                            }
                        }
                    }
                }
            }
        }
        Value::text(&text).tainted(&all)
    }

    fn name(&mut self, name: &str) -> Value {
        if let Some(value) = self.scope.get(name) {
            return value.clone();
        }
        match self.imports.get(name) {
            Some(dotted) => self.dotted(dotted),
            None => Value::named(name),
        }
    }

    fn attribute(&mut self, it: &ast::ExprAttribute) -> Value {
        let of = self.expression(&it.value);
        self.attribute_of(it, &of)
    }

    /// An attribute of what is known already: nothing is looked at twice, or a chain of calls would take twice the time
    /// with each of them.
    pub fn attribute_of(&mut self, it: &ast::ExprAttribute, of: &Value) -> Value {
        if let Expr::Name(name) = &*it.value
            && let Some(value) = self.scope.get(&format!("{}.{}", name.id, it.attr))
        {
            return value.clone();
        }
        let value = of.name.as_ref().map(|name| format!("{name}.{}", it.attr));
        value
            .map_or_else(Value::default, |name| self.dotted(&name))
            .tainted(of)
    }

    /// A thing by its dotted name.
    fn dotted(&self, name: &str) -> Value {
        let value = Value::named(name);
        match name {
            "os.environ" => value.also(Origins::ENVIRONMENT),
            _ => value,
        }
    }

    fn subscript(&mut self, it: &ast::ExprSubscript) -> Value {
        let of = self.expression(&it.value);
        if let Expr::Slice(slice) = &*it.slice {
            let mut part =
                |part: &Option<Box<Expr>>| part.as_deref().map(|part| self.expression(part).number);
            let parts = (part(&slice.lower), part(&slice.upper), part(&slice.step));
            return match parts {
                (Some(None), ..) | (_, Some(None), _) | (.., Some(None)) => of.derived(),
                (start, end, step) => {
                    fold::slice(&of, (start.flatten(), end.flatten(), step.flatten()))
                }
            };
        }
        let key = self.expression(&it.slice);
        self.item(&of, &key, matches!(&*it.slice, Expr::StringLiteral(_)))
    }

    /// An element by its key.
    pub fn item(&mut self, of: &Value, key: &Value, is_literal: bool) -> Value {
        let name = of.name.as_deref().unwrap_or_default();
        match (name, key.exact()) {
            ("os.environ", key) => {
                let is_secret = key.is_some_and(tells_a_secret);
                Value::from(if is_secret {
                    Origins::ENVIRONMENT
                } else {
                    Origins::default()
                })
            }
            (
                "sys.modules"
                | "globals()"
                | "locals()"
                | "vars()"
                | "__builtins__"
                | "__builtins__.__dict__"
                | "builtins.__dict__",
                Some(key),
            ) => {
                let value = Value::named(key);
                if is_literal {
                    value
                } else {
                    value.also(Origins::HIDDEN)
                }
            }
            _ => {
                let at = key.number.and_then(|at| usize::try_from(at).ok());
                let item = of
                    .items
                    .as_ref()
                    .filter(|_| !of.one_of)
                    .zip(at)
                    .and_then(|(items, at)| items.get(at));
                let char = || {
                    of.exact()
                        .zip(at)
                        .and_then(|(text, at)| text.chars().nth(at))
                };
                match item {
                    Some(item) => item.clone(),
                    None => char().map_or_else(
                        || of.element(),
                        |char| Value::text(&char.to_string()).tainted(of),
                    ),
                }
            }
        }
    }

    /// Of a list whose elements are known, each one.
    fn comprehension(&mut self, element: &Expr, generators: &[ast::Comprehension]) -> Value {
        let mut known = None;
        for generator in generators {
            let list = self.expression(&generator.iter);
            self.assign(&generator.target, &list.element());
            generator
                .ifs
                .iter()
                .for_each(|test| drop(self.expression(test)));
            known = list
                .items
                .filter(|_| !list.one_of && generators.len() == 1 && generator.ifs.is_empty());
        }
        let Some(items) = known else {
            self.judge.loops(true);
            let value = self.expression(element);
            self.judge.loops(false);
            return value.derived();
        };
        let mut values = Vec::new();
        for item in items.iter() {
            if !self.judge.spend(ELEMENT) {
                break;
            }
            self.assign(&generators[0].target, item);
            values.push(self.expression(element));
        }
        Value::list(values)
    }

    /// Moves on to an expression.
    pub fn stand_at(&mut self, expression: &ast::ExprCall) {
        self.judge
            .at(self.lines.at(expression.range().start().to_usize()));
    }
}

/// True for the name of a variable that holds a secret.
fn tells_a_secret(name: &str) -> bool {
    ["TOKEN", "SECRET", "PASSW", "_KEY", "CREDENTIAL"]
        .iter()
        .any(|word| name.to_ascii_uppercase().contains(word))
}

fn number(number: &Number) -> Value {
    match number {
        Number::Int(int) => int.as_i64().map_or_else(Value::default, Value::number),
        _ => Value::default(),
    }
}

/// True for a text of which nothing is known but holes.
pub fn is_open(text: &str) -> bool {
    text.chars().all(|char| char == HOLE)
}
