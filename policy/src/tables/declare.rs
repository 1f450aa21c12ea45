//! The macro by which a table of keys is declared once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::error::Located;
use crate::keys::ProfileKey;
use crate::read::SectionReader;
use crate::values::ValueError;

/// A table of keys as it was read: what it does not say is `None` or empty.
pub(crate) trait KeyTable: Default + 'static {
    /// The keys, with what they are.
    const KEYS: &'static [ProfileKey];
    /// The flags among them, with what reads each into the table: there is none that nobody reads.
    const FLAGS: &'static [(&'static str, ReadFlag<Self>)];
    /// The part of the policy that the table means. Of an entry of a list `None` when it lacks a key.
    type Policy;

    /// Reads the table.
    fn read(section: &mut SectionReader<'_, '_, '_>) -> Self;

    /// Lays another one over this, key by key: a single value takes the place of the one below, lists are joined.
    fn lay_over(&mut self, above: Self);

    /// Empties every list.
    fn start_over(&mut self);

    /// Fills in the defaults.
    fn resolve(self) -> Self::Policy;
}

/// Reads the text of a flag into a table.
pub(crate) type ReadFlag<T> = fn(&Located<String>, &mut T) -> Result<(), ValueError>;

/// A part of the policy that stands in a table within another one.
pub(crate) trait ReadAs: Sized {
    /// The table as it was read.
    type Keys: KeyTable<Policy = Self>;
}

/// Reads an entry of a list; `None` when something it needs is missing or wrong.
pub(crate) fn entry<K: KeyTable<Policy = Option<T>>, T>(
    section: &mut SectionReader<'_, '_, '_>,
) -> Option<T> {
    K::read(section).resolve()
}

/// The same keys in another table.
pub(crate) const fn same_keys<const COUNT: usize>(
    keys: &[ProfileKey],
    table: &'static str,
) -> [ProfileKey; COUNT] {
    let mut same = [keys[0]; COUNT];
    let mut index = 0;
    while index < COUNT {
        same[index] = ProfileKey {
            table,
            ..keys[index]
        };
        index += 1;
    }
    same
}

/// Appends what is new; what is there already is replaced in its place.
pub(crate) fn append<T, K: Clone + Hash + Eq>(
    below: &mut Vec<Located<T>>,
    above: Vec<Located<T>>,
    key: impl Fn(&T) -> &K,
) {
    // A caller of a service names thousands of paths: each is looked for once.
    let keys = below.iter().map(|entry| key(&entry.value).clone());
    let mut places: HashMap<K, usize> = keys.zip(0..).collect();
    for entry in above {
        match places.entry(key(&entry.value).clone()) {
            Entry::Occupied(place) => below[*place.get()] = entry,
            Entry::Vacant(place) => {
                place.insert(below.len());
                below.push(entry);
            }
        }
    }
}

/// The values without their places.
pub(crate) fn values<T, C: FromIterator<T>>(located: Vec<Located<T>>) -> C {
    located.into_iter().map(|located| located.value).collect()
}

/// Reads a flag into a single value.
pub(crate) fn put<T>(
    into: &mut Option<Located<T>>,
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(), ValueError> {
    *into = Some(parse(flag, read)?);
    Ok(())
}

/// Reads a flag into a list.
pub(crate) fn push<T>(
    onto: &mut Vec<Located<T>>,
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(), ValueError> {
    onto.push(parse(flag, read)?);
    Ok(())
}

/// Reads a flag, and keeps its place.
pub(crate) fn parse<T>(
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Located<T>, ValueError> {
    Ok(Located {
        value: read(&flag.value)?,
        at: flag.at.clone(),
    })
}

/// Declares a table of keys. From one row for each key follow the field of the policy, the field of the table as it was read,
/// reading, merging, the default, the entry in the table of keys with its documentation, and the flag.
///
/// A row is of a kind: `one` value, another `table`, a `list`, a list of `tables`, a set of `words`, a `union` of sets, a `map`, or whatever a
/// function reads by itself (`by`). An `entry` of a list can have keys that are `needed`. Fields `and` keys that stand on one side
/// alone are named in the head. The policy of a table that is `compared` tells the values of its keys, and each row which one is `wider`.
macro_rules! key_table {
    (
        [$table:literal];
        $(#[$meta:meta])*
        $flavour:ident $Policy:ident $(and { $($(#[$also_doc:meta])* $also:ident: $also_type:ty = $also_value:expr,)+ })?,
        read $Parsed:ident $(and {
            $($only:ident: $only_type:ty {
                form: $only_form:ident, read: $only_read:expr, shown: $only_shown:literal,
                about: $only_about:literal,
            })+
        })?;
        $($(#[$doc:meta])* $key:ident: $kind:ident $type:ty {
            form: $form:ident $(($($argument:expr),+))?, read: $read:expr,
            $(default: $default:expr,)? $(same: $same:expr,)? shown: $shown:literal,
            about: $about:literal, $(wider: $wider:ident $(($order:expr))?,)?
            $(flag: $flag:literal, value: $value:literal, under: $heading:literal, help: $help:literal,
            $(is_path: $is_path:literal,)? $(apply: $apply:expr,)?)?
        })+
    ) => {
        $(#[$meta])*
        pub struct $Policy {
            $(#[doc = $about] $(#[$doc])* pub $key: by_kind!(policy $kind $type),)+
            $($($(#[$also_doc])* pub $also: $also_type,)+)?
        }

        /// The table as it was read.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $Parsed {
            $(pub(crate) $key: by_kind!(parsed $kind $type),)+
            $($(pub(crate) $only: Option<$crate::error::Located<$only_type>>,)+)?
        }

        impl $crate::tables::declare::KeyTable for $Parsed {
            const KEYS: &'static [$crate::keys::ProfileKey] = &[
                $($crate::keys::ProfileKey {
                    $(wider: $crate::keys::WiderValue::$wider $(($order))?,)?
                    flag: by_kind!(flag $($crate::keys::KeyFlag {
                        name: $flag,
                        value: $value,
                        heading: $heading,
                        help: $help,
                        repeated: by_kind!(repeated $kind),
                        is_path: false $(|| $is_path)?,
                    })?),
                    ..$crate::keys::key(
                        $table,
                        stringify!($key),
                        $crate::keys::ValueForm::$form $(($($argument),+))?,
                        $shown,
                        $about,
                    )
                },)+
                $($($crate::keys::key(
                    $table,
                    stringify!($only),
                    $crate::keys::ValueForm::$only_form,
                    $only_shown,
                    $only_about,
                ),)+)?
            ];
            const FLAGS: &'static [(&'static str, $crate::tables::declare::ReadFlag<Self>)] = &[
                $($(($flag, by_kind!(apply $kind [$($apply)?] $key $read)),)?)+
            ];
            type Policy = by_kind!(answer $flavour $Policy);

            fn read(section: &mut $crate::read::SectionReader<'_, '_, '_>) -> Self {
                section.require_keys();
                Self {
                    $($key: by_kind!(read $kind section, stringify!($key), $read),)+
                    $($($only: section.value(stringify!($only), $only_read),)+)?
                }
            }

            fn lay_over(&mut self, above: Self) {
                $(by_kind!(lay_over $kind self.$key, above.$key $(, $same)?);)+
            }

            fn start_over(&mut self) {
                $(by_kind!(start_over $kind self.$key);)+
            }

            fn resolve(self) -> Self::Policy {
                by_kind!(complete $flavour $Policy {
                    $($key: by_kind!(resolve $kind self.$key $(, $default)?),)+
                    $($($also: $also_value,)+)?
                })
            }
        }

        by_kind!(default $flavour $Policy $Parsed);
        by_kind!(values $flavour $Policy $Parsed [$($kind $key)+]);
    };
}

/// The part of [`key_table`] that depends on the kind of a key, or on whether the table is an entry of a list.
macro_rules! by_kind {
    (policy list $type:ty) => { Vec<$type> };
    (policy tables $type:ty) => { Vec<$type> };
    (policy words $type:ty) => { std::collections::BTreeSet<$type> };
    (policy union $type:ty) => { std::collections::BTreeSet<$type> };
    (policy $kind:ident $type:ty) => { $type };

    (parsed list $type:ty) => { Vec<$crate::error::Located<$type>> };
    (parsed tables $type:ty) => { Vec<$crate::error::Located<$type>> };
    (parsed words $type:ty) => { Vec<$crate::error::Located<$type>> };
    (parsed union $type:ty) => { Vec<$crate::error::Located<Vec<$type>>> };
    (parsed map $type:ty) => { $type };
    (parsed table $type:ty) => { <$type as $crate::tables::declare::ReadAs>::Keys };
    (parsed $kind:ident $type:ty) => { Option<$crate::error::Located<$type>> };

    (read one $section:ident, $name:expr, $read:expr) => { $section.value($name, $read) };
    (read needed $section:ident, $name:expr, $read:expr) => { $section.value($name, $read) };
    (read tables $section:ident, $name:expr, $read:expr) => { $section.tables($name, $read) };
    (read by $section:ident, $name:expr, $read:expr) => { $read($section, $name) };
    (read map $section:ident, $name:expr, $read:expr) => { $read($section, $name) };
    (read table $section:ident, $name:expr, $read:expr) => { $read($section, $name) };
    (read $kind:ident $section:ident, $name:expr, $read:expr) => { $section.list($name, $read) };

    (lay_over one $below:expr, $above:expr) => { $below = $above.or($below.take()) };
    (lay_over by $below:expr, $above:expr) => { $below = $above.or($below.take()) };
    (lay_over table $below:expr, $above:expr) => {
        $crate::tables::declare::KeyTable::lay_over(&mut $below, $above)
    };
    (lay_over needed $below:expr, $above:expr) => { $below = $above.or($below.take()) };
    (lay_over $kind:ident $below:expr, $above:expr) => { $below.extend($above) };
    (lay_over $kind:ident $below:expr, $above:expr, $same:expr) => {
        $crate::tables::declare::append(&mut $below, $above, $same)
    };

    (start_over one $given:expr) => {};
    (start_over by $given:expr) => {};
    (start_over needed $given:expr) => {};
    (start_over table $given:expr) => {};
    (start_over $kind:ident $given:expr) => { $given.clear() };

    (resolve needed $given:expr) => { $given?.value };
    (resolve map $given:expr) => { $given };
    (resolve table $given:expr) => { $crate::tables::declare::KeyTable::resolve($given) };
    (resolve union $given:expr) => { $given.into_iter().flat_map(|given| given.value).collect() };
    (resolve $kind:ident $given:expr) => { $crate::tables::declare::values($given) };
    (resolve $kind:ident $given:expr, $default:expr) => {
        $given.map_or_else(|| $default, |given| given.value)
    };

    (flag) => { None };
    (flag $flag:expr) => { Some($flag) };
    (repeated one) => { false };
    (repeated by) => { false };
    (repeated $kind:ident) => { true };
    (apply $kind:ident [$apply:expr] $key:ident $read:expr) => { $apply };
    (apply one [] $key:ident $read:expr) => {
        |flag, table| $crate::tables::declare::put(&mut table.$key, flag, $read)
    };

    (values compared $Policy:ident $Parsed:ident [$($kind:ident $key:ident)+]) => {
        impl $Policy {
            /// Every key of one value with that, in the order of the table.
            pub fn values(&self) -> impl Iterator<Item = (&'static $crate::keys::ProfileKey, $crate::keys::KeyValue)> {
                let values = [$(by_kind!(value $kind self.$key)),+];
                let keys = <$Parsed as $crate::tables::declare::KeyTable>::KEYS.iter();
                keys.zip(values).filter_map(|(key, value)| Some((key, value?)))
            }
        }
    };
    (values $flavour:ident $Policy:ident $Parsed:ident [$($row:tt)+]) => {};
    (value one $value:expr) => { Some($crate::keys::KeyValue::from(&$value)) };
    (value $kind:ident $value:expr) => { None };

    (answer entry $Policy:ident) => { Option<$Policy> };
    (answer $flavour:ident $Policy:ident) => { $Policy };
    (complete entry $policy:expr) => { Some($policy) };
    (complete $flavour:ident $policy:expr) => { $policy };
    (default entry $Policy:ident $Parsed:ident) => {};
    (default $flavour:ident $Policy:ident $Parsed:ident) => {
        impl Default for $Policy {
            fn default() -> Self {
                $crate::tables::declare::KeyTable::resolve($Parsed::default())
            }
        }
    };
}

pub(crate) use {by_kind, key_table};
