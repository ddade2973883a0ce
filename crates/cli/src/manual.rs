//! `vesica completions` and `vesica man`

use std::io::Write;

use clap_mangen::Man as Page;

use crate::args::{self, Completions, Man};
use crate::failure::{Failure, RESOURCE};
use crate::stdout::{print, show_with};

pub(crate) fn completions(options: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut args::definition(&[]),
        "vesica",
        &mut script,
    );
    print(&script)
}

pub(crate) fn man(options: &Man) -> Result<(), Failure> {
    let mut vesica = args::definition(&[]);
    vesica.build();
    let mut names = options.command.iter();
    let command = names.try_fold(&vesica, |of, name| {
        of.find_subcommand(name)
            .filter(|below| !below.is_hide_set())
    });
    let Some(command) = command else {
        let name = options.command.join(" ");
        return Err(Failure::usage(format!("there is no command {name:?}")));
    };
    let mut page = Vec::new();
    Page::new(command.clone())
        .render(&mut page)
        .map_err(|e| Failure::new(RESOURCE, format!("the page cannot be made: {e}")))?;
    show_with(|out| out.write_all(&page).and_then(|()| out.flush()))
}
