//! Texts as profiles hold them.

use std::fmt::Write as _;

use crate::visible::is_printable;

/// A text as a basic string of TOML, in which what is not printable is spelled as its number: whoever looks at
/// the profile sees what it says.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_printable(c) => quoted.push(c),
            c => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_same_text_is_read_again_and_nothing_of_it_is_raw(text in any::<String>()) {
            let written = quoted(&text);
            prop_assert!(written.chars().all(is_printable));
            let read: toml::Table = toml::from_str(&format!("key = {written}")).unwrap();
            prop_assert_eq!(read["key"].as_str(), Some(text.as_str()));
        }
    }
}
