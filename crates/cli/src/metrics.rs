//! Figures of services for Prometheus, in a file that its node exporter collects (`--collector.textfile.directory`).

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use vesica_files::{Readers, WholeFile};

use crate::log::{self, Level};
use crate::paths::OutputFile;

#[derive(Debug, Args)]
pub(crate) struct MetricsOption {
    /// File for figures in the format of Prometheus, for the textfile collector of its node exporter; replaced whenever
    /// figures change, each minute at most
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<OutputFile>,
}

/// A figure: its name, what it says, and whether it only grows.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) is_total: bool,
    pub(crate) value: u64,
}

impl Figure {
    pub(crate) fn total(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            name,
            help,
            is_total: true,
            value,
        }
    }

    pub(crate) fn now(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            is_total: false,
            ..Figure::total(name, help, value)
        }
    }
}

impl MetricsOption {
    /// Writes the figures of a service, if that is asked for. A failure is a warning, once: the service goes on.
    pub(crate) fn write(&self, service: &str, figures: &[Figure]) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let Some(path) = &self.metrics else {
            return;
        };
        if let Err(e) = replace(path, &text(service, figures))
            && !WARNED.swap(true, Ordering::Relaxed)
        {
            let line = format!("{}: figures cannot be written: {e}", path.display());
            log::say(Level::Warning, &line);
        }
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = WholeFile::create(path)?;
    // The exporter is another user. There is nothing in it that this one hides.
    file.readable_by(Readers::ANYBODY);
    file.write_all(text.as_bytes())?;
    file.commit()
}

fn text(service: &str, figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let (kind, end) = match figure.is_total {
            true => ("counter", "_total"),
            false => ("gauge", ""),
        };
        let name = format!("vesica_{service}_{}{end}", figure.name);
        let (help, value) = (figure.help, figure.value);
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_form_that_prometheus_reads() {
        let figures = [
            Figure::now("connected", "Clients that are connected.", 3),
            Figure::total("questions", "Questions that were answered.", 17),
        ];
        let expected = "# HELP vesica_serve_connected Clients that are connected.\n\
                        # TYPE vesica_serve_connected gauge\nvesica_serve_connected 3\n\
                        # HELP vesica_serve_questions_total Questions that were answered.\n\
                        # TYPE vesica_serve_questions_total counter\nvesica_serve_questions_total 17\n";
        assert_eq!(text("serve", &figures), expected);
    }
}
