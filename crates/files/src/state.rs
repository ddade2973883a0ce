//! Where a user's programs keep what outlives them and is neither configuration nor data.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::private_directory;

/// Why there is no directory for state.
#[derive(Debug)]
pub enum NoState {
    /// The environment names none.
    Nowhere,
    /// It cannot be made, or may be changed by other users.
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl fmt::Display for NoState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoState::Nowhere => f.write_str("HOME is not set, nor is XDG_STATE_HOME"),
            NoState::Unusable { path, problem } => write!(f, "{}: {problem}", path.display()),
        }
    }
}

/// A directory of this user alone for state of this kind, which is made if it is missing: `vesica/KIND` below
/// `XDG_STATE_HOME`, on Windows below `LOCALAPPDATA`, or else below `.local/state` at home.
///
/// # Errors
/// Any [`NoState`].
pub fn state_directory(kind: &str) -> Result<PathBuf, NoState> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || Some(PathBuf::from(set("HOME")?).join(".local").join("state"));
    let state = set("XDG_STATE_HOME").or_else(|| set("LOCALAPPDATA").filter(|_| cfg!(windows)));
    let state = state.map(PathBuf::from).or_else(home);
    let mut path = state
        .filter(|path| path.is_absolute())
        .ok_or(NoState::Nowhere)?;
    let unusable = |path: &Path, problem: String| NoState::Unusable {
        path: path.to_owned(),
        problem,
    };
    std::fs::create_dir_all(&path).map_err(|e| unusable(&path, e.to_string()))?;
    for name in ["vesica", kind] {
        path.push(name);
        match private_directory(&path) {
            Ok(None) => {}
            Ok(Some(problem)) => return Err(unusable(&path, problem.to_string())),
            Err(e) => return Err(unusable(&path, e.to_string())),
        }
    }
    Ok(path)
}
