//! The options that set terms, from the terms' declarations.

use std::marker::PhantomData;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use vesica::Terms;
use vesica_files::spelled;
use vesica_session::Setting;

use crate::failure::{Failure, InCommand};

/// Which terms a command sets; their names have `_` between words.
pub(crate) trait Selection: Clone + Send + Sync + 'static {
    fn takes(name: &str) -> bool;
}

macro_rules! selections {
    ($($(#[$doc:meta])* $selection:ident($name:ident) $takes:expr;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub(crate) struct $selection;

            impl Selection for $selection {
                fn takes($name: &str) -> bool {
                    $takes
                }
            }
        )+
    };
}

selections! {
    /// All of them.
    All(_name) true;
    /// Of a run whose messages go by files: they tell which rows match, whatever else there is to reveal, and no protocol of
    /// so few messages is post-quantum.
    OfMessages(name) !["reveal", "min_size", "optimize", "post_quantum"].contains(&name);
    /// Of an invitation: what both sides have to want alike.
    OfInvitation(name) name != "optimize";
    /// What two sides can differ on before they meet.
    OfCheck(name) name != "optimize";
}

/// What the options say.
#[derive(Clone, Debug)]
pub(crate) struct TermOptions<S = All> {
    pub(crate) terms: Terms,
    /// Those that were given, with their values.
    given: Vec<(&'static str, String)>,
    selection: PhantomData<S>,
}

impl<S: Selection> TermOptions<S> {
    fn declared() -> impl Iterator<Item = (&'static str, &'static Setting)> {
        Terms::options().filter(|(name, _)| S::takes(name))
    }

    /// The options that were given, as they are typed.
    pub(crate) fn typed(&self) -> impl Iterator<Item = String> + '_ {
        let option = |(name, value): &(&str, String)| typed(name, value);
        self.given.iter().flat_map(option)
    }

    /// Whether an option was given; its name has `_` between words.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// What was given for an option.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let mut all = self.given.iter();
        let found = all.find(|(given, _)| *given == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets what no option has.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        self.terms.set_option(name, value).map_err(Failure::usage)
    }
}

/// An option as it is typed; its name has `_` between words.
pub(crate) fn typed(name: &str, value: &str) -> Vec<String> {
    let mut options = Terms::options();
    let is_flag = options.any(|(option, setting)| option == name && setting.is_flag());
    let name = format!("--{}", name.replace('_', "-"));
    let value = (!is_flag).then(|| value.to_owned());
    std::iter::once(name).chain(value).collect()
}

fn argument((name, setting): (&'static str, &'static Setting)) -> Arg {
    let argument = Arg::new(name)
        .long(name.replace('_', "-"))
        .aliases(setting.former_names.iter().copied())
        .help_heading("Agreed with the peer")
        .help(spelled(setting.help, &InCommand));
    if setting.is_flag() {
        return argument.action(ArgAction::SetTrue);
    }
    let argument = argument.value_name(setting.value_name);
    let argument = match setting.values.is_empty() {
        false => argument.value_parser(PossibleValuesParser::new(setting.values)),
        true => argument.value_parser(move |text: &str| {
            let checked = Terms::default().set_option(name, text);
            checked.map(|()| text.to_owned())
        }),
    };
    match setting.default.is_empty() {
        true => argument,
        false => argument.default_value(setting.default),
    }
}

impl<S: Selection> Args for TermOptions<S> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::declared().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Selection> FromArgMatches for TermOptions<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = TermOptions::<S> {
            terms: Terms::default(),
            given: Vec::new(),
            selection: PhantomData,
        };
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (name, setting) in Self::declared() {
            let text = match setting.is_flag() {
                true => matches.get_flag(name).then(|| "yes".to_owned()),
                false => matches.get_one::<String>(name).cloned(),
            };
            if let Some(text) = text {
                let set = self.terms.set_option(name, &text);
                set.map_err(|problem| Error::raw(ErrorKind::ValueValidation, problem))?;
                if matches.value_source(name) != Some(ValueSource::DefaultValue) {
                    self.given.push((name, text));
                }
            }
        }
        Ok(())
    }
}
