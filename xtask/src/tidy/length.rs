//! One file, one purpose: a file that grows past this length has more than one.

use super::Problem;
use super::tree::File;

const MOST_LINES: usize = 600;

/// The endings of what people write and read; lock files, snapshots and licences are neither.
const CODE: [&str; 6] = ["c", "h", "py", "rs", "sh", "toml"];

/// Finds code that is too long.
pub fn check(file: &File) -> Vec<Problem> {
    let lines = file.text.lines().count();
    if !file.has_extension(&CODE) || lines <= MOST_LINES {
        return Vec::new();
    }
    let message = format!("{lines} lines: split it by purpose, {MOST_LINES} are the most");
    vec![Problem::new(&file.path, 0, message)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_over_the_limit_is_found_and_a_lock_file_is_not() {
        let long = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(check(&File::new("a.rs", &long)).len(), 1);
        assert_eq!(check(&File::new("a.rs", &long[2..])), []);
        assert_eq!(check(&File::new("Cargo.lock", &long)), []);
    }
}
