//! Plans of trees that can be written.

use turnkey_policy::RootMode;

use super::*;

#[test]
fn a_writable_tree_is_made_of_names_before_it_lies_over_them() {
    let policy = policy(|policy| {
        policy.filesystem.root_mode = RootMode::Overlay;
        policy.filesystem.read.push(readable("/tmp/data"));
    });
    let plan = plan(&policy, &host(&[("/tmp/data", PathFact::Directory)])).unwrap();
    let at = |wanted: RootfsStep| plan.rootfs.iter().position(|step| *step == wanted).unwrap();
    let (size, path) = (policy.limits.disk, PathBuf::from("/usr"));
    let root = at(RootfsStep::WritableRoot { size });
    assert!(at(RootfsStep::Directory("/usr".into())) < root);
    let usr = at(RootfsStep::WritableDirectory {
        source: path.clone(),
        path,
    });
    assert!(root < usr);
    // What lies on a mount cannot be there before it.
    let scratch = plan.rootfs.iter().position(
        |step| matches!(step, RootfsStep::Tmpfs { path, .. } if path == Path::new("/tmp")),
    );
    assert!(scratch.unwrap() < at(RootfsStep::Directory("/tmp/data".into())));
}

#[test]
fn a_writable_tree_that_cannot_be_is_refused() {
    let overlay = |change: &dyn Fn(&mut Policy)| {
        policy(|policy| {
            policy.filesystem.root_mode = RootMode::Overlay;
            change(policy);
        })
    };
    let names: Vec<String> = (0..16).map(|number| format!("/srv/{number}")).collect();
    let many: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), PathFact::Directory))
        .collect();
    let all = overlay(&|policy| {
        let places = names.iter().map(|name| readable(name));
        policy.filesystem.read.extend(places);
    });
    assert_eq!(
        plan(&all, &host(&many)).unwrap_err(),
        PlanError::TooManyWritable
    );
    let by_name = overlay(&|policy| policy.filesystem.read[0].list = false);
    let (path, above) = ("/usr".into(), "/".into());
    assert_eq!(
        plan(&by_name, &host(&[])).unwrap_err(),
        PlanError::Listed { path, above }
    );
    let mut unprivileged = host(&[]);
    unprivileged.ids = crate::ids::NamespaceIds::Own(crate::ids::CallerIds {
        user: 0,
        group: 0,
        root_outside: false,
        spare: None,
        drops_supplementary_gids: false,
        kept_supplementary_gids: Vec::new(),
    });
    assert_eq!(
        plan(&overlay(&|_| ()), &unprivileged).unwrap_err(),
        PlanError::WritableNeedsRoot
    );
}
