//! A copy of the sources laid out so that the bytes do not depend on where the checkout lies.
//!
//! cargo mixes the place of a package into the names of its symbols: relative to the workspace
//! for a package inside it, absolute for one outside. `abi` lies outside the workspace of
//! `monitor-ebpf`, so in the copy it moves inside.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fs_err as fs;
use toml::{Table, Value};

use super::sources;

/// Fills `folder`, which is emptied first, with the sources in their other layout.
pub fn fill(root: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for file in sources::list(root)? {
        let target = folder.join(place(&file));
        fs::create_dir_all(target.parent().context("a source file is in a folder")?)?;
        fs::copy(root.join(&file), target)?;
    }
    let of_root = read(&root.join("Cargo.toml"))?;
    edit(&folder.join("Cargo.toml"), |manifest| {
        move_abi_inside(manifest, &of_root)
    })?;
    edit(&folder.join("abi/Cargo.toml"), |manifest| {
        // Inside the workspace its tests would have to be in the lock file.
        manifest.remove("dev-dependencies");
        Ok(())
    })
}

/// The place of a source file: `monitor-ebpf` becomes the root, `abi` stays beside its `src`.
fn place(file: &Path) -> PathBuf {
    file.strip_prefix("monitor-ebpf").unwrap_or(file).to_owned()
}

fn edit(path: &Path, change: impl FnOnce(&mut Table) -> Result<()>) -> Result<()> {
    let mut manifest = read(path)?;
    change(&mut manifest)?;
    let text = toml::to_string(&manifest).context("cannot render a manifest")?;
    Ok(fs::write(path, text)?)
}

fn read(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path)?;
    text.parse()
        .with_context(|| format!("{} is no manifest", path.display()))
}

/// Points the dependency at its new place, and brings what `abi` inherits from its own workspace.
fn move_abi_inside(manifest: &mut Table, of_root: &Table) -> Result<()> {
    let abi = manifest
        .get_mut("dependencies")
        .and_then(|all| all.get_mut("turnkey-abi"));
    let abi = abi
        .and_then(Value::as_table_mut)
        .context("no dependency on turnkey-abi")?;
    abi.insert("path".to_owned(), Value::from("abi"));
    let workspace = manifest.get_mut("workspace").and_then(Value::as_table_mut);
    let workspace = workspace.context("no workspace")?;
    for key in ["package", "lints"] {
        if let Some(inherited) = of_root.get("workspace").and_then(|it| it.get(key)) {
            workspace.entry(key).or_insert_with(|| inherited.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abi_moves_inside_with_what_it_inherits() {
        let mut manifest: Table =
            "[dependencies]\nturnkey-abi = { path = '../abi' }\n[workspace]\n"
                .parse()
                .expect("a manifest");
        let of_root: Table =
            "[workspace.package]\nedition = '2024'\n[workspace.dependencies]\nx = '1'\n"
                .parse()
                .expect("a manifest");
        move_abi_inside(&mut manifest, &of_root).expect("it moves");
        assert_eq!(
            manifest["dependencies"]["turnkey-abi"]["path"],
            Value::from("abi")
        );
        assert_eq!(
            manifest["workspace"]["package"]["edition"],
            Value::from("2024")
        );
        assert!(manifest["workspace"].get("dependencies").is_none());
    }

    #[test]
    fn what_was_left_by_an_earlier_copy_is_gone() {
        let root = sources::tests::fixture();
        let least = "[workspace]\n[dependencies]\nturnkey-abi = { path = '../abi' }\n";
        for manifest in ["Cargo.toml", "abi/Cargo.toml", "monitor-ebpf/Cargo.toml"] {
            fs::write(root.path().join(manifest), least).expect("a manifest");
        }
        let folder = root.path().join("copy");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("stale.rs"), "").expect("a file");
        fill(root.path(), &folder).expect("filled");
        assert!(!folder.join("stale.rs").exists());
        assert!(folder.join("src/deep/main.rs").exists());
        assert!(folder.join("abi/src/lib.rs").exists());
        assert!(folder.join(".cargo/config.toml").exists());
    }
}
