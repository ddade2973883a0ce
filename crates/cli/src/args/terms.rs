//! The options that set terms, from the terms' declarations.

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use vesica::{Setting, Terms, spelled};

use crate::failure::InCommand;

/// What the options say.
#[derive(Clone, Debug)]
pub(crate) struct TermOptions {
    pub(crate) terms: Terms,
    /// Those that were given, with their values.
    given: Vec<(&'static str, String)>,
}

impl TermOptions {
    /// The options that were given, as they are typed.
    pub(crate) fn typed(&self) -> impl Iterator<Item = String> + '_ {
        let option = |(name, value): &(&str, String)| typed(name, value);
        self.given.iter().flat_map(option)
    }

    /// Whether an option was given; its name has `_` between words.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }
}

/// An option as it is typed; its name has `_` between words.
pub(crate) fn typed(name: &str, value: &str) -> [String; 2] {
    [format!("--{}", name.replace('_', "-")), value.to_owned()]
}

fn argument((name, setting): (&'static str, &'static Setting)) -> Arg {
    let argument = Arg::new(name)
        .long(name.replace('_', "-"))
        .aliases(setting.former_names.iter().copied())
        .value_name(setting.value_name)
        .help_heading("Agreed with the peer")
        .help(spelled(setting.help, &InCommand));
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

impl Args for TermOptions {
    fn augment_args(command: Command) -> Command {
        command.args(Terms::options().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TermOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = TermOptions {
            terms: Terms::default(),
            given: Vec::new(),
        };
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (name, _) in Terms::options() {
            if let Some(text) = matches.get_one::<String>(name) {
                let set = self.terms.set_option(name, text);
                set.map_err(|problem| Error::raw(ErrorKind::ValueValidation, problem))?;
                if matches.value_source(name) != Some(ValueSource::DefaultValue) {
                    self.given.push((name, text.clone()));
                }
            }
        }
        Ok(())
    }
}
