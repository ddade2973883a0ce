//! `vesica invite`

use std::io::{self, Write};
use std::net::IpAddr;
use std::time::SystemTime;

use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::json;
use vesica::options::{LabelRoom, payload_exchange};
use vesica::{Endpoint, KeySpec, Party, Role};
use vesica_files::holds_key;
use vesica_session::terms::REVEAL;
use vesica_session::{Invitation, rfc3339};

use crate::args::Invite;
use crate::failure::{Failure, RESOURCE};
use crate::log;
use crate::stdout::print_line;

/// Light modules around a QR code, as its standard asks for.
const QUIET: i32 = 4;

pub(crate) fn run(options: &Invite) -> Result<(), Failure> {
    let identity = options.own.load()?;
    let bare = options
        .address
        .rsplit_once(':')
        .map_or("", |(host, _)| host);
    let bare = bare.trim_matches(['[', ']']);
    if bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        let line = format!(
            "--address {} stands for this machine everywhere",
            options.address
        );
        return Err(Failure::usage(line).hint("give the name or address at which others reach it"));
    }
    let terms = options.agreed.terms();
    let reveal = terms.get(&REVEAL);
    // The columns of a union are named by the sender's own options.
    let columns = match options.invited {
        Role::Sender if reveal.is_rows() => vec!["column".to_owned()],
        _ => Vec::new(),
    };
    let (labels, _) = payload_exchange(
        options.invited,
        reveal,
        columns,
        false,
        LabelRoom::default(),
    )?;
    let party = Party {
        protocol: options.agreed.protocol()?,
        terms,
        labels,
        ..Party::new(&identity, identity.fingerprint(), Endpoint::Courier)
    };
    // What a run would refuse whatever the tables are.
    let key = KeySpec::parse("key", &[] as &[&str])?;
    party.check(options.invited, &key)?;
    if port_of(&options.address) == Some(0) {
        let line = "--address has port 0, to which nobody can connect";
        return Err(Failure::usage(line).hint("name the port that --listen is to have"));
    }
    let expires = SystemTime::now() + options.expires;
    let terms = options.agreed.invitable();
    let make = || {
        let (invited, address) = (options.invited, &options.address);
        Invitation::new(&identity, invited, address, &terms, expires)
    };
    let mut invitation = make()?;
    // One in a million looks like a private key, which no command takes as an argument.
    if holds_key(invitation.to_string().as_bytes()) {
        invitation = make()?;
    }
    let text = invitation.to_string();
    print_line(&text)?;
    if options.qr {
        // Capitals take less room in it.
        let code = QrCode::encode_text(&text.to_uppercase(), QrCodeEcc::Low)
            .map_err(|_| Failure::usage("the invitation is too long for a QR code"))?;
        // Beside the line, which alone goes into a file.
        let lines: Vec<String> = drawn(&code).collect();
        let drawing = format!("{}\n", lines.join("\n"));
        let written = io::stderr().write_all(drawing.as_bytes());
        written.map_err(|e| Failure::new(RESOURCE, format!("standard error: {e}")))?;
    }
    let (own, until) = (invitation.inviter(), rfc3339(invitation.expires()));
    let said = format!(
        "this invites a {} until {until}; this side is {own}, which is to be read aloud to whoever is invited, as is the \
         fingerprint that comes back",
        options.invited
    );
    let fields = json!({"inviter": own, "expires": until, "hash": invitation.hash()});
    log::event("invitation", &said, &fields);
    Ok(())
}

/// Two rows of modules in a line. Light ones are drawn, as on a dark terminal.
fn drawn(code: &QrCode) -> impl Iterator<Item = String> {
    let end = code.size() + QUIET;
    let is_light = move |x, y| y < end && !code.get_module(x, y);
    (-QUIET..end).step_by(2).map(move |y| {
        let module = |x| match (is_light(x, y), is_light(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        (-QUIET..end).map(module).collect()
    })
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_light_around_it() {
        let code = QrCode::encode_text("VESICA-INVITE:ABC", QrCodeEcc::Low).unwrap();
        let lines: Vec<String> = drawn(&code).collect();
        let width = (code.size() + 2 * QUIET) as usize;
        assert!(lines.iter().all(|line| line.chars().count() == width));
        assert_eq!(lines.len(), width.div_ceil(2));
        for line in &lines[..2] {
            assert_eq!(*line, "█".repeat(width));
        }
        // The corner of the first finder pattern: seven dark modules, then a light one.
        assert!(lines[2].starts_with("████ ▄▄▄▄▄ █"), "{}", lines[2]);
    }
}
