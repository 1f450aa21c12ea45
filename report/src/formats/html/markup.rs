//! HTML that cannot be broken out of: names of elements and attributes are the program's own, and
//! every other text is escaped on its way in. There is no other way to make one.

use std::fmt::Write as _;

/// A piece of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

/// An attribute's name and value.
pub type Attribute<'a> = (&'static str, &'a str);

/// Elements without content.
const EMPTY: &[&str] = &["meta", "input"];

impl Markup {
    /// A text, which shows as it is.
    pub fn text(text: &str) -> Self {
        let mut markup = String::with_capacity(text.len());
        escape(text, &mut markup);
        Self(markup)
    }

    /// An element.
    pub fn element(
        name: &'static str,
        attributes: &[Attribute<'_>],
        content: impl IntoIterator<Item = Markup>,
    ) -> Self {
        let mut markup = format!("<{name}");
        for (name, value) in attributes {
            // Writing to a String cannot fail.
            let _ = write!(markup, " {name}=\"");
            escape(value, &mut markup);
            markup.push('"');
        }
        markup.push('>');
        if !EMPTY.contains(&name) {
            for Markup(piece) in content {
                markup.push_str(&piece);
            }
            let _ = write!(markup, "</{name}>");
        }
        Self(markup)
    }

    /// The program's own style or script, in which nothing is special.
    pub fn own(name: &'static str, content: &'static str) -> Self {
        Self(format!("<{name}>{content}</{name}>"))
    }

    /// Several pieces one behind the other.
    pub fn all(pieces: impl IntoIterator<Item = Markup>) -> Self {
        pieces.into_iter().fold(Self::default(), |mut all, piece| {
            all.0.push_str(&piece.0);
            all
        })
    }

    /// As a whole document.
    pub fn document(self) -> String {
        format!("<!doctype html>\n{}\n", self.0)
    }
}

/// An element of a class with pieces in it.
pub fn element_with<const N: usize>(
    name: &'static str,
    class: &str,
    content: [Markup; N],
) -> Markup {
    Markup::element(name, &[("class", class)], content)
}

/// An element of a class with a text in it.
pub fn say(name: &'static str, class: &str, text: &str) -> Markup {
    element_with(name, class, [Markup::text(text)])
}

fn escape(text: &str, markup: &mut String) {
    for c in text.chars() {
        match c {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            c => markup.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_is_markup(text in ".*") {
            let Markup(markup) = Markup::element("p", &[("title", text.as_str())], [Markup::text(&text)]);
            let inner = markup.strip_prefix("<p title=\"").unwrap().strip_suffix("</p>").unwrap();
            let (value, content) = inner.split_once("\">").unwrap();
            prop_assert!(!value.contains(['<', '>', '"', '\'']));
            prop_assert!(!content.contains(['<', '>', '"', '\'']));
        }
    }
}
