//! The workspace under several names: what a rule says of a file in it holds under each.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::WORKSPACE;
use crate::glob::Glob;
use crate::policy::Policy;

impl Policy {
    /// Settles that the workspace has its [names](crate::FilesystemPolicy::names) in the jail: every pattern that speaks of a
    /// file by one of them speaks of it by all, and rules on hidden paths are silent there. To be called last.
    pub fn settle_workspace(&mut self) {
        let own = PathBuf::from(WORKSPACE);
        let names: Vec<Vec<u8>> = [&own]
            .into_iter()
            .chain(&self.filesystem.names)
            .map(|name| name.as_os_str().as_bytes().to_vec())
            .collect();
        if names.len() == 1 {
            return;
        }
        self.settle_shown();
        for rule in &mut self.rules {
            let actors = rule.exe.iter_mut().chain(&mut rule.script);
            let patterns = rule.path.iter_mut().chain(actors);
            patterns
                .chain(&mut rule.silent)
                .chain(&mut rule.at_home)
                .for_each(|glob: &mut Glob| glob.name(&names));
        }
    }
}
