//! `[enforcement]`.

use std::collections::BTreeSet;

use super::declare::{by_kind, key_table};
use crate::error::Located;
use crate::keys::words;
use crate::model::{EnforcementMode, Layer, OnLoss};
use crate::read::SectionReader;
use crate::values;

key_table! {
    ["enforcement"];
    /// `[enforcement]`: the layers that a run needs, and what happens when rules or evidence are broken.
    #[derive(Clone, Debug, PartialEq, Eq)]
    compared EnforcementPolicy, read EnforcementKeys;
    required: by BTreeSet<Layer> {
        form: Words(layers_or_all), read: layers, default: Layer::ALL.iter().copied().collect(), shown: "`\"all\"`",
        about: "layers without which the run fails; the rest is reported when missing",
    }
    on_loss: one OnLoss {
        form: Word(words::<OnLoss>), read: values::word, default: OnLoss::Mark, shown: "`mark`",
        about: "when events are lost, `mark`: the verdict is inconclusive\n`fail`: so it is, and the exit code is 120\n`kill`: the jail is killed",
        wider: Later(&["kill", "fail", "mark"]),
        flag: "on-loss", value: "WHAT", under: "Policy", help: "On lost evidence: mark, fail or kill",
    }
    mode: one EnforcementMode {
        form: Word(words::<EnforcementMode>), read: values::word, default: EnforcementMode::Enforce, shown: "`enforce`",
        about: "`enforce`: rules act\n`observe`: a rule that would deny or kill logs instead",
        wider: Greater,
        flag: "mode", value: "MODE", under: "Policy", help: "enforce: rules act; observe: rules only log",
    }
}

/// `"all"`, or layers.
fn layers_or_all() -> Vec<&'static str> {
    let mut all = vec!["all"];
    all.extend(words::<Layer>());
    all
}

/// `"all"`, or the layers named.
fn layers(section: &mut SectionReader<'_, '_, '_>, name: &str) -> Option<Located<BTreeSet<Layer>>> {
    let at = section.place_of(name)?;
    let named = section.list(name, |text| match text {
        "all" => Ok(Layer::ALL.to_vec()),
        _ => values::word(text).map(|layer| vec![layer]),
    });
    Some(Located {
        value: named.into_iter().flat_map(|layers| layers.value).collect(),
        at,
    })
}
