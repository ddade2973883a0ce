//! `Debug` of types that hold secrets.

/// Implements `Debug` for a type with secrets: its name, and of its fields those that are given. `make lint` asks for this, or
/// for an implementation by hand, where a field could hold a secret.
#[macro_export]
macro_rules! opaque {
    ($type:ty $(, $field:ident)*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_what_is_given_is_shown() {
        struct Key<'a> {
            bits: u32,
            secret: &'a [u8],
        }
        opaque!(Key<'_>, bits);
        let key = Key {
            bits: 8,
            secret: &[171],
        };
        assert_eq!(key.secret, [171]);
        assert_eq!(format!("{key:?}"), "Key<'_> { bits: 8, .. }");
    }
}
