//! `vesica plan`: what a run would take with each protocol, and the calibration of this machine that it rests on.

mod calibrate;
mod show;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vesica_files::many;
use vesica_plan::{
    Calibration, Machines, Prices, Registry, Request, Unusable, calibration_path, yardstick,
};

use crate::args::Plan;
use crate::bench::machine;
use crate::failure::{DATA, Failure};
use crate::log::{self, Level};
use crate::stdout::print_line;

/// Age from which a calibration is called old.
const OLD: Duration = Duration::from_secs(90 * 86_400);

/// By how much the speed of AES may differ from that of the calibration without a warning.
const SAME_SPEED: f64 = 1.2;

pub(crate) fn run(options: &Plan) -> Result<(), Failure> {
    let path = match &options.calibration {
        Some(path) => Some(path.to_path_buf()),
        None => calibration_path(),
    };
    if options.calibrate {
        let path = path.ok_or_else(|| {
            Failure::usage("there is no directory for configuration: HOME is not set")
                .hint("name a file with --calibration")
        })?;
        return calibrate::run(&path);
    }
    let request = request(options)?;
    let prices = match &options.prices {
        Some(path) => Prices::load(path).map_err(|e| unusable(&e))?,
        None => Prices::built_in(),
    };
    let yardstick = yardstick();
    let local = match path {
        Some(path) if options.calibration.is_some() || path.exists() => {
            let local = Calibration::load(&path).map_err(|e| unusable(&e))?;
            warn(&path, &local, yardstick);
            Some(local)
        }
        _ => {
            let of = &Machines::reference().machine;
            log::say(
                Level::Warning,
                &format!(
                    "this machine is not calibrated, and seconds are guesses from those of another \
                     ({of}); `vesica plan --calibrate` takes a minute"
                ),
            );
            None
        }
    };
    let machines = Machines::new(local, Some(yardstick));
    let answer = machines.answer(Registry::standard(), &request, &prices);
    let answer = answer.ok_or_else(|| nothing(&request))?;
    print_line(&show::text(options, &answer)?)
}

fn unusable(file: &Unusable) -> Failure {
    Failure::new(DATA, file.to_string())
}

/// Now, in seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Warns of a calibration that may not be this machine's any more.
fn warn(path: &Path, local: &Calibration, yardstick: u64) {
    let again = "`vesica plan --calibrate` takes a minute";
    let say = |problem: String| {
        let path = path.display();
        log::say(
            Level::Warning,
            &format!("the calibration {path} {problem}; {again}"),
        );
    };
    let here = machine::describe();
    if local.machine != here {
        say(format!(
            "is of another machine ({}, and this is {here})",
            local.machine
        ));
        return;
    }
    let age = now().saturating_sub(local.taken);
    if age > OLD.as_secs() {
        say(format!("is {} old", many(age / 86_400, "day")));
    }
    let then = local.yardstick_aes_blocks_per_second as f64;
    let ratio = yardstick as f64 / then;
    if !(1.0 / SAME_SPEED..=SAME_SPEED).contains(&ratio) {
        say(format!(
            "was taken when AES ran at {:.2} times its speed now",
            1.0 / ratio
        ));
    }
}

fn request(options: &Plan) -> Result<Request, Failure> {
    let receiver_size = options
        .receiver_size
        .ok_or_else(|| Failure::usage("--receiver-size is missing"))?;
    let sizes = [receiver_size, options.sender_size.unwrap_or(receiver_size)];
    let agreed = &options.agreed;
    let (columns, link) = (options.value_columns, options.network.link());
    let request = agreed
        .terms
        .request(|name| agreed.is_given(name), sizes, columns, link);
    Ok(Request {
        exact: options.items,
        threads: u32::try_from(options.threads.get()).unwrap_or(u32::MAX),
        ..request.map_err(Failure::usage)?
    })
}

/// Why nothing serves.
fn nothing(request: &Request) -> Failure {
    let Request {
        sizes: [n, m],
        lambda,
        reveal,
        ..
    } = request;
    let of = format!("of {n} and {m} items at lambda {lambda}");
    match request.security {
        Some(security) => {
            let security = security.name();
            Failure::usage(format!("no {security} protocol reveals {reveal} {of}"))
                .hint("`vesica plan` without --security shows what others there are")
        }
        None => Failure::usage(format!("no protocol reveals {reveal} {of}"))
            .hint("docs/limits.md has the largest sets and lambda of each protocol"),
    }
}
