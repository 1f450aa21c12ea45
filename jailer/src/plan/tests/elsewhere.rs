//! Plans that show a path of the host at another place.

use super::*;

fn at(path: &str, place: &str) -> HostPath {
    HostPath {
        at: Some(place.into()),
        ..readable(path)
    }
}

fn bound(source: &str, path: &str) -> impl Fn(&RootfsStep) -> bool {
    let (wanted, place) = (PathBuf::from(source), PathBuf::from(path));
    move |step| matches!(step, RootfsStep::Bind { source, path, .. } if *source == wanted && *path == place)
}

#[test]
fn a_path_of_the_host_is_at_the_place_that_was_asked_for() {
    let policy = policy(|policy| {
        let read = [at("/srv/a", "/data/b"), at("/link", "/tool")];
        policy.filesystem.read.extend(read);
    });
    let target = PathFact::Directory;
    let host = host(&[
        ("/srv/a", PathFact::File),
        ("/link", symlink("opt/real", "/opt/real")),
        ("/opt/real", target),
    ]);
    let plan = plan(&policy, &host).unwrap();
    assert!(plan.rootfs.iter().any(bound("/srv/a", "/data/b")));
    assert!(
        plan.rootfs.iter().any(bound("/opt/real", "/tool")),
        "links are followed"
    );
    let places: Vec<_> = plan.rootfs.iter().filter_map(RootfsStep::place).collect();
    for unseen in ["/srv", "/srv/a", "/opt", "/opt/real", "/link"] {
        assert!(!places.contains(&Path::new(unseen)), "{unseen}");
    }
    let mut grants = plan.grants.iter();
    assert!(grants.any(|grant| grant.path == Path::new("/data/b")));
}

#[test]
fn a_place_inside_a_directory_of_the_host_is_refused() {
    let refused = |entries: &[HostPath]| {
        let policy = policy(|policy| policy.filesystem.read.extend(entries.to_vec()));
        let facts = [
            ("/srv/a", PathFact::Directory),
            ("/data/x", PathFact::Directory),
        ];
        plan(&policy, &host(&facts)).unwrap_err()
    };
    let covered = |path: &str, above: &str| PlanError::Covered {
        path: path.into(),
        above: above.into(),
    };
    assert_eq!(
        refused(&[at("/srv/a", "/usr/new")]),
        covered("/usr/new", "/usr")
    );
    // By its own path it would be another directory's.
    let inside = [at("/srv/a", "/data"), readable("/data/x")];
    assert_eq!(refused(&inside), covered("/data/x", "/data"));
    let reserved = PlanError::Reserved("/proc/new".into());
    assert_eq!(refused(&[at("/srv/a", "/proc/new")]), reserved);
}
