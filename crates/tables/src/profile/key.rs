//! Which columns make a key, and how.

use std::collections::{HashMap, HashSet};
use std::fmt;

use vesica_files::{Argument, advice};

use crate::error::{Error, Result};
use crate::profile::{Normalized, Profile};

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's name, exactly as in the table.
    pub name: String,
    /// How its values are normalised.
    pub profile: Profile,
}

/// One of several identifiers of a row, any of which suffices for a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier {
    name: String,
    /// Its columns, by their place among those of the key.
    columns: Vec<usize>,
    /// What stands between the values of its only column, if that holds lists.
    separator: Option<char>,
}

impl Identifier {
    /// The name, which both parties give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns, by their place among [those of the key](KeySpec::columns).
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// What stands between the values of its only column, if that holds lists. Values are trimmed, and blank ones dropped.
    pub fn separator(&self) -> Option<char> {
        self.separator
    }

    /// Whether a name can stand in a contract and in front of an equals sign.
    fn is_name(name: &str) -> bool {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        (1..=MAX_IDENTIFIER_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
    }
}

/// Most identifiers of a row.
pub const MAX_IDENTIFIERS: usize = 16;

/// Most bytes of an identifier's name.
const MAX_IDENTIFIER_NAME: usize = 32;

/// What identifies a row: columns whose values together are its key, or several identifiers, any of which suffices. The
/// order matters: both parties must name corresponding columns, or the same identifiers, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    columns: Vec<KeyColumn>,
    /// None if the columns together are the key.
    identifiers: Vec<Identifier>,
    nulls: Vec<String>,
    denied: Denied,
}

/// Values that never match.
#[derive(Clone, Default, PartialEq, Eq)]
struct Denied {
    texts: Vec<String>,
    /// The same, canonical, of each column that is a key or an identifier by itself.
    of_columns: HashMap<usize, HashSet<Vec<u8>>>,
}

/// Without the values.
impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denied({})", self.texts.len())
    }
}

impl KeyColumn {
    /// A column whose values are compared as they are.
    fn exact(name: String) -> KeyColumn {
        KeyColumn {
            name,
            profile: Profile::EXACT,
        }
    }
}

/// The names in `COL[,COL…]`. A comma after a backslash is part of a name; that backslash is not.
fn split_names(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut rest = key;
    while let Some(at) = rest.find(',') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let name = names.last_mut().expect("there is a name");
        match before.strip_suffix('\\') {
            Some(before) => name.extend([before, ","]),
            None => {
                name.push_str(before);
                names.push(String::new());
            }
        }
        rest = after;
    }
    names.last_mut().expect("there is a name").push_str(rest);
    names
}

impl KeySpec {
    /// A key of the given columns.
    ///
    /// # Errors
    /// Usage: no column, an empty name, or a name given twice.
    pub fn new(columns: Vec<KeyColumn>) -> Result<Self> {
        if columns.is_empty() || columns.iter().any(|c| c.name.is_empty()) {
            return Err(Error::usage_with(
                "a key column has no name",
                "give column names, separated by commas",
            ));
        }
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|c| c.name == column.name) {
                return Err(Error::usage(format!(
                    "column {:?} is named twice",
                    column.name
                )));
            }
        }
        Ok(KeySpec {
            columns,
            identifiers: Vec::new(),
            nulls: Vec::new(),
            denied: Denied::default(),
        })
    }

    /// Several identifiers, each with its name and its columns. A column may be part of several.
    ///
    /// # Errors
    /// Usage: none or more than [`MAX_IDENTIFIERS`]; a name that is not made of ASCII letters, digits, `_`, `-` and `.`, or
    /// longer than 32 bytes; a name twice; as [`KeySpec::new`] of the columns of each; a column with two profiles.
    pub fn any_of(identifiers: Vec<(String, Vec<KeyColumn>)>) -> Result<Self> {
        if identifiers.is_empty() || identifiers.len() > MAX_IDENTIFIERS {
            return Err(Error::usage(format!(
                "a row has 1 to {MAX_IDENTIFIERS} identifiers"
            )));
        }
        let mut spec = KeySpec {
            columns: Vec::new(),
            identifiers: Vec::new(),
            nulls: Vec::new(),
            denied: Denied::default(),
        };
        for (name, columns) in identifiers {
            if !Identifier::is_name(&name) {
                return Err(Error::usage_with(
                    format!("{name:?} is no name for an identifier"),
                    "names are ASCII letters, digits, _, - and ., at most 32 of them",
                ));
            }
            if spec.identifiers.iter().any(|other| other.name == name) {
                let problem = format!("identifier {name:?} is given twice");
                return Err(Error::usage(problem));
            }
            let columns = KeySpec::new(columns)?.columns;
            let places = columns.into_iter().map(|column| spec.place_of(column));
            let columns = places.collect::<Result<_>>()?;
            spec.identifiers.push(Identifier {
                name,
                columns,
                separator: None,
            });
        }
        Ok(spec)
    }

    /// Where a column is among those of the key, to which it is added if it is not there yet.
    fn place_of(&mut self, column: KeyColumn) -> Result<usize> {
        let same = |other: &KeyColumn| other.name == column.name;
        match self.columns.iter().position(same) {
            Some(place) if self.columns[place].profile != column.profile => Err(Error::usage(
                format!("column {:?} has two profiles", column.name),
            )),
            Some(place) => Ok(place),
            None => {
                self.columns.push(column);
                Ok(self.columns.len() - 1)
            }
        }
    }

    /// Several identifiers, each as `NAME=COL[,COL…]`, with columns as in [`KeySpec::parse`].
    ///
    /// # Errors
    /// Usage: as [`KeySpec::any_of`] and [`KeySpec::parse`].
    pub fn parse_any_of<M: AsRef<str>, S: AsRef<str>>(
        identifiers: &[M],
        normalize: &[S],
    ) -> Result<Self> {
        let mut parsed = Vec::new();
        for text in identifiers {
            let Some((name, columns)) = text.as_ref().split_once('=') else {
                return Err(Error::usage_with(
                    format!("{:?} is not NAME=COLUMN", text.as_ref()),
                    "for example email=mail or person=family,born",
                ));
            };
            let columns = split_names(columns).into_iter().map(KeyColumn::exact);
            parsed.push((name.to_owned(), columns.collect()));
        }
        KeySpec::any_of(parsed)?.normalized(normalize)
    }

    /// The same with columns whose texts are lists, each as `COL=SEPARATOR`, the separator one character. Each is the only
    /// column of an identifier, which has a value for each element.
    ///
    /// # Errors
    /// Usage: another form; a column that is not the only one of an identifier, or that is given twice.
    pub fn with_lists<S: AsRef<str>>(mut self, lists: &[S]) -> Result<Self> {
        for list in lists {
            let list = list.as_ref();
            let mut characters = list.chars();
            let (separator, equals) = (characters.next_back(), characters.next_back());
            let (Some(separator), Some('=')) = (separator, equals) else {
                return Err(Error::usage_with(
                    format!("{list:?} is not COLUMN=CHARACTER"),
                    "for example addresses=;",
                ));
            };
            let name = characters.as_str();
            let columns = &self.columns;
            let holds = |identifier: &&mut Identifier| {
                let mut places = identifier.columns.iter();
                places.any(|place| columns[*place].name == name)
            };
            let mut of_column = self.identifiers.iter_mut().filter(holds).peekable();
            if of_column.peek().is_none() {
                return Err(Error::usage(format!(
                    "column {name:?} is split but is not a column of an identifier"
                )));
            }
            for identifier in of_column {
                if identifier.columns.len() > 1 {
                    return Err(Error::usage(format!(
                        "column {name:?} is split but is not the only column of identifier {:?}",
                        identifier.name
                    )));
                }
                if identifier.separator.replace(separator).is_some() {
                    return Err(Error::usage(format!("column {name:?} is split twice")));
                }
            }
        }
        Ok(self)
    }

    /// A key as the command line gives it: `key` is `COL[,COL…]`, where `\,` is a comma in a name, and each of
    /// `normalize` is `COL=PROFILE`. Columns that `normalize` does not name are `exact`.
    ///
    /// # Errors
    /// Usage: as [`KeySpec::new`]; a profile that does not exist; a normalised column that is
    /// not part of the key or is named twice.
    pub fn parse<S: AsRef<str>>(key: &str, normalize: &[S]) -> Result<Self> {
        KeySpec::parse_all(&[key], normalize)
    }

    /// A key whose columns are in several texts, each as [`KeySpec::parse`] takes it.
    ///
    /// # Errors
    /// As there.
    pub fn parse_all<K: AsRef<str>, S: AsRef<str>>(keys: &[K], normalize: &[S]) -> Result<Self> {
        let names = keys.iter().flat_map(|key| split_names(key.as_ref()));
        KeySpec::new(names.map(KeyColumn::exact).collect())?.normalized(normalize)
    }

    /// The same with profiles, each as `COL=PROFILE`.
    fn normalized<S: AsRef<str>>(mut self, normalize: &[S]) -> Result<Self> {
        let spec = &mut self;
        let mut seen: Vec<&str> = Vec::new();
        for option in normalize {
            let Some((name, profile)) = option.as_ref().rsplit_once('=') else {
                return Err(Error::usage_with(
                    format!("{:?} is not COLUMN=PROFILE", option.as_ref()),
                    "for example email=email or phone=phone:GB",
                ));
            };
            // Spaces around a name matter only where they tell columns apart.
            let place = |is_of: fn(&str, &str) -> bool| {
                let mut columns = spec.columns.iter();
                columns.position(|c| is_of(&c.name, name))
            };
            let found = place(|own, name| own == name)
                .or_else(|| place(|own, name| own.trim() == name.trim()));
            let Some(column) = found.map(|place| &mut spec.columns[place]) else {
                let names: Vec<_> = spec.columns.iter().map(|c| &*c.name).collect();
                return Err(Error::usage_with(
                    format!("column {name:?} is normalised but is not part of the key"),
                    format!("the key is: {}", names.join(", ")),
                ));
            };
            if seen.contains(&name) {
                return Err(Error::usage(format!("column {name:?} is normalised twice")));
            }
            seen.push(name);
            column.profile = profile.parse()?;
        }
        Ok(self)
    }

    /// The same key, where a value whose text is one of `nulls` is null, in whatever format. It is compared as it
    /// is, before it is normalised.
    pub fn with_nulls(mut self, nulls: Vec<String>) -> Self {
        self.nulls = nulls;
        self
    }

    /// The texts of [`KeySpec::with_nulls`].
    pub(crate) fn nulls(&self) -> &[String] {
        &self.nulls
    }

    /// Whether a value of this text is null.
    pub(crate) fn is_null(&self, text: &[u8]) -> bool {
        self.nulls.iter().any(|null| null.as_bytes() == text)
    }

    /// The same key, where a row never matches whose value is one of `denied` once both are normalised. Those that are blank or
    /// invalid under the key's profile deny nothing: no key is equal to them. Of several identifiers, this is so for each
    /// that has one column.
    ///
    /// # Errors
    /// Usage: the key, or each identifier, has several columns.
    pub fn with_denied<S: AsRef<str>>(mut self, denied: &[S]) -> Result<Self> {
        let denied = denied.iter().map(|text| text.as_ref().to_owned());
        self.denied.texts = denied.collect();
        self.derive_denied();
        if self.denied.of_columns.is_empty() && !self.denied.texts.is_empty() {
            return Err(Error::usage_with(
                "values to deny are for a key of one column",
                advice![
                    "leave ",
                    Argument::Deny,
                    " out, or remove the rows beforehand"
                ],
            ));
        }
        Ok(self)
    }

    /// The columns that are the key or an identifier by themselves.
    fn columns_alone(&self) -> Vec<usize> {
        match (&self.identifiers[..], self.columns.len()) {
            ([], 1) => vec![0],
            (identifiers, _) => {
                let alone = identifiers.iter().filter(|one| one.columns.len() == 1);
                alone.map(|one| one.columns[0]).collect()
            }
        }
    }

    /// Normalises what is denied as its columns are.
    fn derive_denied(&mut self) {
        let texts = &self.denied.texts;
        let canonical = |column: usize| {
            let profile = &self.columns[column].profile;
            let canonical = texts
                .iter()
                .filter_map(|text| match profile.normalize(text) {
                    Normalized::Valid(canonical) => Some(canonical.into_owned().into_bytes()),
                    Normalized::Blank | Normalized::Invalid => None,
                });
            (column, canonical.collect())
        };
        let alone = self.columns_alone().into_iter();
        self.denied.of_columns = alone.filter(|_| !texts.is_empty()).map(canonical).collect();
    }

    /// Whether an item of this column alone, whose canonical value it is, never matches.
    #[inline]
    pub(crate) fn is_denied(&self, identifier: u8, column: usize, canonical: &[u8]) -> bool {
        if self.denied.of_columns.is_empty() {
            return false;
        }
        let identifier = self.identifiers.get(usize::from(identifier));
        let of_column = self.denied.of_columns.get(&column);
        identifier.is_none_or(|identifier| identifier.columns.len() == 1)
            && of_column.is_some_and(|denied| denied.contains(canonical))
    }

    /// The same key, each column normalised in the version that `ids`, which are as [`KeySpec::normalization`] gives them, have
    /// of its profile, where that is here.
    pub fn in_versions_of(mut self, ids: &[String]) -> Self {
        let in_turn: Vec<usize> = self.columns_in_turn().collect();
        for (column, id) in in_turn.into_iter().zip(ids) {
            let id = id.split_once('=').map_or(&**id, |(_, id)| id);
            let column = &mut self.columns[column];
            if let Some(profile) = column.profile.in_version_of(id) {
                column.profile = profile;
            }
        }
        self.derive_denied();
        self
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        let names = self.columns.iter().map(|column| column.name.clone());
        names.collect()
    }

    /// The columns, in the key's order; those of several identifiers as they first come.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// The name of the column of each [normalization](KeySpec::normalization).
    pub fn names_in_turn(&self) -> impl Iterator<Item = &str> {
        self.columns_in_turn()
            .map(|place| &*self.columns[place].name)
    }

    /// The identifiers any of which suffices for a match; none if the columns together are the key.
    pub fn identifiers(&self) -> &[Identifier] {
        &self.identifiers
    }

    /// The columns in the order of [`KeySpec::normalization`]: those of one identifier after the other.
    pub(crate) fn columns_in_turn(&self) -> impl Iterator<Item = usize> {
        let of_key = match self.identifiers.is_empty() {
            true => 0..self.columns.len(),
            false => 0..0,
        };
        let identifiers = self.identifiers.iter();
        of_key.chain(identifiers.flat_map(|identifier| identifier.columns.iter().copied()))
    }

    /// The bits of the keys, if they are numbers of a declared width: those of one column with such a profile.
    pub fn bits(&self) -> Option<u32> {
        match &self.columns[..] {
            [column] if self.identifiers.is_empty() => column.profile.bits(),
            _ => None,
        }
    }

    /// What the contract says about the key: one profile id per column, in order, and before it the name of the identifier
    /// if there are several, as in `phone=phone/3`. Column names are not part of it; they stay private and may differ, as may
    /// what separates lists.
    pub fn normalization(&self) -> Vec<String> {
        let id = |place: usize| self.columns[place].profile.id();
        if self.identifiers.is_empty() {
            return self.columns_in_turn().map(id).collect();
        }
        let of = |identifier: &Identifier| {
            let columns = identifier.columns.iter();
            let of_each = columns.map(|place| format!("{}={}", identifier.name, id(*place)));
            of_each.collect::<Vec<_>>()
        };
        self.identifiers.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn the_command_line_form() {
        let spec = KeySpec::parse("email,tel", &["tel=phone:gb", "email=email"]).unwrap();
        assert_eq!(spec.normalization(), ["email/2", "phone/4"]);
        assert_eq!(spec.columns()[1].profile.to_string(), "phone:GB");
        assert_eq!(
            KeySpec::parse("id", &[] as &[&str])
                .unwrap()
                .normalization(),
            ["exact/2"]
        );
    }

    #[test]
    fn names_with_commas() {
        for (keys, names) in [
            (&["a,b"][..], &["a", "b"][..]),
            (&["a", "b,c"], &["a", "b", "c"]),
            (&[r"last\, first,x"], &["last, first", "x"]),
            (&[r"\,,x\,"], &[",", "x,"]),
            (&[r"a\b,c\"], &[r"a\b", r"c\"]),
        ] {
            let spec = KeySpec::parse_all(keys, &[] as &[&str]).unwrap();
            let found: Vec<&str> = spec.columns().iter().map(|c| &*c.name).collect();
            assert_eq!(found, names, "{keys:?}");
        }
        let spec = KeySpec::parse(r"a\,b", &["a,b=text"]);
        assert_eq!(spec.unwrap().normalization(), ["text/2"]);
    }

    #[test]
    fn only_a_single_number_has_bits() {
        let bits = |key, normalize: &[&str]| KeySpec::parse(key, normalize).unwrap().bits();
        assert_eq!(bits("ip", &["ip=ipv4"]), Some(32));
        assert_eq!(bits("n", &["n=integer:7"]), Some(7));
        assert_eq!(bits("n", &[]), None);
        assert_eq!(bits("n,m", &["n=integer:7"]), None);
    }

    #[test]
    fn several_identifiers() {
        let spec = KeySpec::parse_any_of(
            &["email=mail", "person=family,born", "tel=tel"],
            &["mail=email", "tel=phone:GB"],
        );
        let spec = spec.unwrap().with_lists(&["mail=;"]).unwrap();
        let [email, exact, phone] =
            ["email", "exact", "phone:GB"].map(|name| name.parse::<Profile>().unwrap().id());
        assert_eq!(
            spec.normalization(),
            [
                format!("email={email}"),
                format!("person={exact}"),
                format!("person={exact}"),
                format!("tel={phone}")
            ]
        );
        assert_eq!(spec.names(), ["mail", "family", "born", "tel"]);
        assert_eq!(spec.identifiers()[0].separator(), Some(';'));
        assert_eq!(spec.identifiers()[1].columns(), [1, 2]);
        // A column may be part of several, and is read once.
        let shared = KeySpec::parse_any_of::<_, &str>(&["a=x,y", "b=y,z"], &[]).unwrap();
        assert_eq!(shared.names(), ["x", "y", "z"]);
        assert_eq!(shared.columns_in_turn().collect::<Vec<_>>(), [0, 1, 1, 2]);
        let single = KeySpec::parse_any_of(&["n=n"], &["n=integer:7"]).unwrap();
        assert_eq!(single.bits(), None);
    }

    #[test]
    fn wrong_identifiers_are_usage_errors() {
        let many: Vec<String> = (0..=MAX_IDENTIFIERS)
            .map(|i| format!("i{i}=c{i}"))
            .collect();
        let many: Vec<&str> = many.iter().map(|text| &**text).collect();
        let long = format!("{}=a", "x".repeat(33));
        for identifiers in [
            &[][..],
            &["a"],
            &["=a"],
            &["a="],
            &["a b=a"],
            &["ä=a"],
            &["a=b", "a=c"],
            &["a=b,b"],
            &[&*long],
            &many,
        ] {
            let error = KeySpec::parse_any_of::<_, &str>(identifiers, &[]).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Usage, "{identifiers:?}");
        }
        for lists in [&["a"][..], &["a="], &["c=;"], &["a=;", "a=,"], &["b=;"]] {
            let spec = KeySpec::parse_any_of::<_, &str>(&["x=a", "y=a2,b"], &[]).unwrap();
            let error = spec.with_lists(lists).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Usage, "{lists:?}");
        }
        let plain = KeySpec::parse::<&str>("a", &[]).unwrap();
        assert!(plain.with_lists(&["a=;"]).is_err());
    }

    #[test]
    fn wrong_requests_are_usage_errors() {
        let none: &[&str] = &[];
        for (key, normalize) in [
            ("", none),
            ("a,", none),
            ("a,a", none),
            ("a", &["a"]),
            ("a", &["b=text"]),
            ("a", &["a=text", "a=text"]),
            ("a", &["a=nonsense"]),
            ("a", &["a=phone"]),
            ("a", &["a=phone:XX"]),
        ] {
            let error = KeySpec::parse(key, normalize).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Usage, "{key} {normalize:?}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn denied_values_are_compared_as_keys_are() {
        let key = KeySpec::parse("m", &["m=email"]).unwrap();
        let key = key.with_denied(&["  Test@TEST.com", "mailto:no-reply@x.org", "N/A", ""]);
        let key = key.unwrap();
        for (canonical, denied) in [
            ("test@test.com", true),
            ("no-reply@x.org", true),
            ("Test@TEST.com", false),
            ("n/a", false),
            ("", false),
        ] {
            assert_eq!(
                key.is_denied(0, 0, canonical.as_bytes()),
                denied,
                "{canonical}"
            );
        }
        assert!(!format!("{key:?}").contains("test.com"));
        let none: &[&str] = &[];
        let two = KeySpec::parse("a,b", none).unwrap();
        assert!(two.clone().with_denied(none).is_ok());
        let error = two.with_denied(&["x"]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
        // In the version of a set, and by itself only.
        let spec = KeySpec::parse_any_of(&["t=a", "both=a,b"], &["a=text"]).unwrap();
        let spec = spec.with_denied(&["O\u{2019}Neil"]).unwrap();
        let older = ["t=text/1", "both=text/1", "both=exact/2"].map(str::to_owned);
        let older_spec = spec.clone().in_versions_of(&older);
        for (spec, canonical) in [(spec, "o'neil"), (older_spec, "o\u{2019}neil")] {
            for (identifier, denied) in [(0, true), (1, false)] {
                let found = spec.is_denied(identifier, 0, canonical.as_bytes());
                assert_eq!(found, denied, "{canonical} {identifier}");
            }
        }
    }

    #[test]
    fn spaces_around_a_name_matter_where_they_tell_columns_apart() {
        let profiles = |key: &str, normalize: &str| {
            let key = KeySpec::parse(key, &[normalize]).unwrap();
            key.normalization()
        };
        assert_eq!(profiles("mail, tel", "tel=text"), ["exact/2", "text/2"]);
        assert_eq!(profiles(" tel,tel", "tel=text"), ["exact/2", "text/2"]);
        assert_eq!(profiles("tel, tel", " tel=text"), ["exact/2", "text/2"]);
    }

    #[test]
    fn versions_follow_those_of_a_set() {
        let key = KeySpec::parse("a,b,c", &["a=text", "b=phone:DE", "c=email/1"]).unwrap();
        let ids = |ids: [&str; 3]| ids.map(str::to_owned);
        for (set, found) in [
            (
                ["text/1", "phone/3", "email/2"],
                ["text/1", "phone/3", "email/2"],
            ),
            (
                ["text/2", "phone/4", "email/1"],
                ["text/2", "phone/4", "email/1"],
            ),
            (
                ["text/9", "email/2", "email/1@2"],
                ["text/2", "phone/4", "email/1"],
            ),
        ] {
            let key = key.clone().in_versions_of(&ids(set));
            assert_eq!(key.normalization(), found, "{set:?}");
        }
    }
}
