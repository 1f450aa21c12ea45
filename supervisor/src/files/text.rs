//! Texts that turnkey is given in files: profiles, and what `import` reads.

use std::path::Path;

use turnkey_policy::LARGEST_PROFILE;

use super::input;

/// The text of a file, or of what of it is more than any profile may hold: nothing larger is kept in memory,
/// whatever the file is.
///
/// # Errors
/// When it cannot be read, or is no UTF-8, and where.
pub fn read(path: &str) -> Result<String, String> {
    let bytes = input::read(Path::new(path), LARGEST_PROFILE).map_err(|error| error.to_string())?;
    text(bytes)
}

/// The bytes of a file as its text.
pub fn text(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() > LARGEST_PROFILE {
        // Too large whatever it holds, which is for others to say.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = valid
            .rsplit(|byte| *byte == b'\n')
            .next()
            .map_or(0, <[u8]>::len)
            + 1;
        format!("line {line} holds no UTF-8 at its byte {column}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> Result<String, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, content).expect("a file");
        read(path.to_str().expect("UTF-8"))
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let told = file(b"one\ntwo \xff").expect_err("no UTF-8");
        assert_eq!(told, "line 2 holds no UTF-8 at its byte 5");
        assert_eq!(file("é\n".as_bytes()), Ok("é\n".to_owned()));
    }

    #[test]
    fn of_a_long_file_no_more_is_read_than_shows_that_it_is_too_large() {
        let long = vec![b'x'; LARGEST_PROFILE + 100];
        let read = file(&long).expect("it is text");
        assert_eq!(read.len(), LARGEST_PROFILE + 1);
    }
}
