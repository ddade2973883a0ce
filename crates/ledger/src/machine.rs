//! Who runs this, and where.

/// The user of this process: a name, or its number where it has none.
pub fn user() -> String {
    #[cfg(unix)]
    {
        let id = nix::unistd::geteuid();
        let known = nix::unistd::User::from_uid(id).ok().flatten();
        known.map_or_else(|| format!("uid {id}"), |user| user.name)
    }
    #[cfg(not(unix))]
    {
        std::env::var("USERNAME").unwrap_or_default()
    }
}

/// The name of this machine; nothing if it has none.
pub fn host() -> String {
    #[cfg(unix)]
    {
        let name = nix::unistd::gethostname().ok();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
    #[cfg(not(unix))]
    {
        std::env::var("COMPUTERNAME").unwrap_or_default()
    }
}
