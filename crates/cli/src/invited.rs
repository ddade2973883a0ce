//! Runs by an invitation: what it stands for, what it may decide for the side that it is handed to, who confirms it, and that
//! it is used once.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use serde_json::json;
use vesica::options::parse_peer_address;
use vesica::tables::{PathKind, Paths};
use vesica::{Event, Fingerprint, Identity, Observer, Role, Terms};
use vesica_files::{NoState, PrivateFile, is_exhausted, keep_name, read_regular, state_directory};
use vesica_session::terms::LAMBDA;
use vesica_session::{Error as SessionError, InvitableTerm, Invitation, MAX_INVITATION, rfc3339};
use vesica_wire::{Error as WireError, Limit};

use crate::config;
use crate::failure::{Failure, RESOURCE};
use crate::log;
use crate::paths::InputPath;

/// The longest answer to a question.
const MAX_ANSWER: u64 = 64;

/// Who uses an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Whoever has made it, once its identity has been compared.
    Own,
    /// Whoever was handed it.
    Invited,
}

/// An invitation in place of an address, a peer and terms.
#[derive(Debug, Args)]
pub(crate) struct ByInvitation {
    /// Invitation that `vesica invite` has printed: its text, or a file with it. For whoever is invited it takes the place of
    /// --connect and --peer; a term that would reveal more or be weaker than without it has to be given here too. Whoever
    /// invites gives --peer, and it takes the place of --listen and of the terms. It is confirmed on the terminal, and used
    /// once
    #[arg(help_heading = "Peer", long, value_name = "FILE|TEXT")]
    invite: Option<InputPath>,
    /// Accept the invitation with this hash, without a question on the terminal
    #[arg(help_heading = "Peer", long, value_name = "HASH", requires = "invite")]
    accept: Option<String>,
    #[arg(skip)]
    taken: Option<(Invitation, Whose, Role)>,
}

impl ByInvitation {
    /// Gives a side the invitation, which is for its role. Address and peer are among the options by now.
    pub(crate) fn set(&mut self, role: Role, invitation: Invitation, whose: Whose) {
        self.taken = Some((invitation, whose, role));
    }

    pub(crate) fn is_given(&self) -> bool {
        self.taken.is_some()
    }

    /// Checks the invitation, if there is one, for this side and that peer, and has it confirmed.
    pub(crate) fn admit(
        &self,
        identity: &Identity,
        peer: Fingerprint,
        stdin_is_table: bool,
    ) -> Result<Option<UseOnce>, Failure> {
        let Some((invitation, whose, role)) = &self.taken else {
            return Ok(None);
        };
        let own = identity.fingerprint();
        let accepted = self.accept.as_deref();
        match whose {
            Whose::Own => admit_own(invitation, own, peer, accepted),
            Whose::Invited => admit(invitation, *role, own, accepted, stdin_is_table),
        }
        .map(Some)
    }
}

/// An invitation among arguments, if there is one, and who uses it.
pub(crate) type Handed = Option<(Invitation, Whose)>;

/// The arguments with what an invitation among them stands for, and that invitation or why there is none.
pub(crate) fn with_invitation(
    mut args: Vec<OsString>,
    commands: &clap::Command,
) -> (Vec<OsString>, Result<Handed, Failure>) {
    let (command, begin) = config::command(&args, commands);
    let mut options = command.get_arguments().filter_map(clap::Arg::get_long);
    let value = config::given(&args, "invite").filter(|_| options.any(|long| long == "invite"));
    let Some(value) = value else {
        return (args, Ok(None));
    };
    match meant(&args, &value) {
        Ok((words, invitation, whose)) => {
            args.splice(begin..begin, words.into_iter().map(OsString::from));
            (args, Ok(Some((invitation, whose))))
        }
        Err(failure) => (args, Err(failure)),
    }
}

/// What an invitation stands for beside these arguments. With a peer it is this side's own.
fn meant(args: &[OsString], value: &OsStr) -> Result<(Vec<String>, Invitation, Whose), Failure> {
    let given = |option| config::given(args, option).is_some();
    let invitation = read(value)?;
    check_time(&invitation)?;
    let address = parse_peer_address(invitation.address())
        .map_err(|error| Failure::usage(format!("the invitation's address: {error}")))?;
    let (words, whose) = if given("peer") {
        if given("connect") {
            return Err(Failure::usage("--connect and --peer take the place of --invite")
                .hint("leave both away if you are invited; whoever has invited listens, and gives --peer"));
        }
        let listen = (!given("listen"))
            .then(|| listening(&address))
            .transpose()?;
        let words = listen.map(|address| format!("--listen={address}"));
        (words.into_iter().collect(), Whose::Own)
    } else {
        if let Some(option) = ["listen", "connect"]
            .into_iter()
            .find(|option| given(option))
        {
            return Err(
                Failure::usage(format!("--invite takes the place of --{option}"))
                    .hint("leave one of both away; whoever has invited gives --peer, too"),
            );
        }
        let peer = invitation.inviter();
        let words = vec![format!("--connect={address}"), format!("--peer={peer}")];
        (words, Whose::Invited)
    };
    Ok((words, invitation, whose))
}

/// The invitation that is given: its text, or a file with it.
fn read(value: &OsStr) -> Result<Invitation, Failure> {
    let hint = "have the whole line sent once more";
    let form =
        "an invitation is one line that begins with vesica-invite:, or a file with that line alone";
    if let Some(text) = value.to_str().filter(|text| Invitation::is_one(text)) {
        let read = text.parse();
        return read.map_err(|error| Failure::usage(format!("--invite: {error}")).hint(hint));
    }
    let path = Path::new(value);
    let mut paths = Paths::default();
    paths.reads("--invite", PathKind::File, path);
    paths.check()?;
    let wrong = |problem: String| Failure::usage(format!("--invite {}: {problem}", path.display()));
    let bytes = read_regular(path, MAX_INVITATION as u64)
        .map_err(|e| wrong(format!("cannot be read: {e}")).hint(form))?;
    let text = str::from_utf8(&bytes).map_err(|_| wrong("is no text".into()).hint(form))?;
    let hint = if Invitation::is_one(text.trim_start()) {
        hint
    } else {
        form
    };
    text.parse()
        .map_err(|error| wrong(format!("{error}")).hint(hint))
}

fn check_time(invitation: &Invitation) -> Result<(), Failure> {
    let now = SystemTime::now();
    if now < invitation.expires() {
        return Ok(());
    }
    let [until, now] = [invitation.expires(), now].map(rfc3339);
    let line = format!("the invitation expired at {until}, and it is {now}");
    Err(Failure::usage(line).hint("have another one made, or set this machine's clock"))
}

/// Where whoever has invited listens: everywhere, or on this machine alone if nobody else was invited.
fn listening(address: &str) -> Result<String, Failure> {
    let unknown = || {
        let line = format!("where to listen for {address} is not known");
        Failure::usage(line).hint("give --listen")
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(unknown)?;
    port.parse::<u16>().map_err(|_| unknown())?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Ok(match bare.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() => address.to_owned(),
        Ok(IpAddr::V6(_)) => format!("[::]:{port}"),
        Err(_) if host == "localhost" => address.to_owned(),
        _ if host.contains('/') => return Err(unknown()),
        _ => format!("0.0.0.0:{port}"),
    })
}

/// Checks this side's own invitation.
fn admit_own(
    invitation: &Invitation,
    own: Fingerprint,
    peer: Fingerprint,
    accepted: Option<&str>,
) -> Result<UseOnce, Failure> {
    let inviter = invitation.inviter();
    if inviter != own {
        let line = format!("the invitation is from {inviter}, and this identity is {own}");
        return Err(Failure::usage(line)
            .hint("whoever is invited leaves --peer away; whoever has invited gives the identity that the invitation is from"));
    }
    check_accepted(invitation, accepted)?;
    let use_once = UseOnce::of(invitation, Whose::Own)?;
    let said = format!(
        "by this side's own invitation: this side is {own}, and the peer {peer}; have both read aloud"
    );
    log::event("invitation", &said, &json!({"hash": invitation.hash()}));
    Ok(use_once)
}

/// Shows an invitation, and has it confirmed.
fn admit(
    invitation: &Invitation,
    role: Role,
    own: Fingerprint,
    accepted: Option<&str>,
    stdin_is_table: bool,
) -> Result<UseOnce, Failure> {
    if invitation.inviter() == own {
        let line = "the invitation is this side's own";
        return Err(Failure::usage(line)
            .hint("give the fingerprint that whoever is invited has sent back as --peer"));
    }
    let use_once = UseOnce::of(invitation, Whose::Invited)?;
    tell(invitation, role, own);
    if accepted.is_some() {
        check_accepted(invitation, accepted)?;
        return Ok(use_once);
    }
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_terminal || stdin_is_table || log::is_json() {
        let line = "the invitation is not confirmed, and there is no terminal to ask on";
        let hint = format!(
            "if it is what you expect, add --accept {}",
            invitation.hash()
        );
        return Err(Failure::usage(line).hint(hint));
    }
    match asked()? {
        true => Ok(use_once),
        false => Err(Failure::usage("the invitation was not accepted")),
    }
}

/// Shows all that an invitation stands for, and what to send back.
fn tell(invitation: &Invitation, role: Role, own: Fingerprint) {
    let inviter = invitation.inviter();
    let (address, until) = (invitation.address(), rfc3339(invitation.expires()));
    let (terms, hash) = (shown_terms(invitation), invitation.hash());
    let said = format!(
        "this is an invitation, as authentic as the way that it came by\n  \
         from        {inviter}\n  \
         this side   {own}\n  \
         role        {role}\n  \
         connect to  {address}\n  \
         terms       {terms}\n  \
         expires     {until}\n  \
         hash        {hash}\n\
         have both fingerprints read aloud, and send this line back:\n\
         {own}"
    );
    let fields = json!({
        "inviter": inviter,
        "fingerprint": own,
        "role": role,
        "address": address,
        "terms": terms,
        "expires": until,
        "hash": hash,
    });
    log::event_as_it_is("invitation", &said, &fields);
}

/// Fails if it is another invitation that is accepted.
fn check_accepted(invitation: &Invitation, accepted: Option<&str>) -> Result<(), Failure> {
    let hash = invitation.hash();
    match accepted.map(|given| given.trim().to_ascii_lowercase()) {
        Some(given) if given != hash => {
            let line = "--accept has the hash of another invitation";
            Err(Failure::usage(line).hint(format!("that of this one is {hash}")))
        }
        _ => Ok(()),
    }
}

/// Asks on the terminal.
fn asked() -> Result<bool, Failure> {
    let failed = |e: io::Error| Failure::new(RESOURCE, format!("the terminal: {e}"));
    let mut terminal = io::stderr();
    let ask = write!(terminal, "run with this peer? yes or no: ").and_then(|()| terminal.flush());
    ask.map_err(failed)?;
    let mut answer = Vec::new();
    let mut input = io::stdin().lock().take(MAX_ANSWER);
    input.read_until(b'\n', &mut answer).map_err(failed)?;
    Ok(answer.trim_ascii().eq_ignore_ascii_case(b"yes"))
}

/// An invitation that this user has not used.
#[derive(Debug)]
pub(crate) struct UseOnce {
    /// Is there once it has been used.
    mark: PathBuf,
    expires: SystemTime,
}

impl UseOnce {
    /// Fails if this user has used it on this side of a run; both sides may be the same user's.
    fn of(invitation: &Invitation, whose: Whose) -> Result<UseOnce, Failure> {
        let side = match whose {
            Whose::Own => "own",
            Whose::Invited => "invited",
        };
        let mark = directory()?.join(format!("{}-{side}", invitation.hash()));
        match mark.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(UseOnce {
                mark,
                expires: invitation.expires(),
            }),
            Err(e) => Err(Failure::usage(format!("{}: {e}", mark.display()))),
            Ok(_) => Err(Failure::usage(USED).hint(ANOTHER)),
        }
    }

    /// Uses it.
    fn mark(&self) -> Result<(), vesica::Error> {
        let usage = |line: String| vesica::Error::from(SessionError::Usage(line));
        if SystemTime::now() >= self.expires {
            let until = rfc3339(self.expires);
            return Err(usage(format!("the invitation expired at {until}")));
        }
        let mark = || -> io::Result<()> {
            let mut file = PrivateFile::create(&self.mark)?;
            writeln!(file, "used {}", rfc3339(SystemTime::now()))?;
            writeln!(file, "expires {}", rfc3339(self.expires))?;
            file.place_new()?;
            keep_name(&self.mark)
        };
        mark().map_err(|e| {
            let line = format!("{}: cannot be written: {e}", self.mark.display());
            match e.kind() {
                io::ErrorKind::AlreadyExists => usage(format!("{USED}; {ANOTHER}")),
                _ if is_exhausted(&e) => {
                    SessionError::from(WireError::limit(Limit::System, line)).into()
                }
                _ => usage(line),
            }
        })
    }
}

const USED: &str = "the invitation has been used";
const ANOTHER: &str = "have another one made";

/// Where marks of used invitations are, of this user alone.
fn directory() -> Result<PathBuf, Failure> {
    state_directory("invitations").map_err(|none| match none {
        NoState::Nowhere => Failure::usage(format!(
            "an invitation is used once, and there is no directory that could tell: {none}"
        ))
        .hint(
            "set XDG_STATE_HOME to a directory that stays, or give --listen or --connect, and --peer, in place of --invite",
        ),
        NoState::Unusable { .. } => Failure::usage(none.to_string())
            .hint("XDG_STATE_HOME names another place for what is kept of invitations"),
    })
}

/// What hears of a run, and uses an invitation once the run is agreed.
pub(crate) struct WithInvitation<'a> {
    observer: &'a mut dyn Observer,
    use_once: Option<&'a UseOnce>,
}

impl<'a> WithInvitation<'a> {
    pub(crate) fn new(
        observer: &'a mut dyn Observer,
        use_once: Option<&'a UseOnce>,
    ) -> WithInvitation<'a> {
        WithInvitation { observer, use_once }
    }
}

impl Observer for WithInvitation<'_> {
    fn event(&mut self, event: Event<'_>) {
        self.observer.event(event);
    }

    fn consent(&mut self) -> Result<(), vesica::Error> {
        self.use_once.map_or(Ok(()), UseOnce::mark)
    }
}

/// Fails for a command that is not the one that an invitation is for.
pub(crate) fn check_role(role: Role, invited: Role, whose: Whose) -> Result<(), Failure> {
    let command = |role| match role {
        Role::Receiver => "receive",
        Role::Sender => "send",
    };
    let (wanted, line) = match whose {
        Whose::Invited => (
            invited,
            format!("the invitation is for a {invited}, and not for a {role}"),
        ),
        Whose::Own => (
            invited.other(),
            format!("a {invited} was invited, and there is one {role} in a run"),
        ),
    };
    if wanted == role {
        return Ok(());
    }
    let call = command(wanted);
    Err(Failure::usage(line).hint(match whose {
        Whose::Invited => format!(
            "call `vesica {call}`; if the invitation is this side's own, give --peer, the fingerprint that was sent back"
        ),
        Whose::Own => format!(
            "call `vesica {call}`; whoever is invited leaves --peer away, which the invitation names"
        ),
    }))
}

/// What becomes of a term that an invitation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The options say the same.
    Nothing,
    /// The invitation decides.
    Take,
    /// The person has to give it, or not to take part.
    Ask,
    /// The options say something else.
    Refuse,
}

/// What becomes of a term, with what the options say of it. An invitation decides nothing that lets the peer learn more, or
/// learn it more easily, than it could if the term were left to the command: with `auto` the peer may name the protocol in any
/// case, a size is less than the matches, and a larger λ is stronger.
pub(crate) fn ruling(
    term: InvitableTerm,
    invited: &str,
    given: Option<&str>,
    whose: Whose,
) -> Ruling {
    let with = |value: &str| {
        let mut terms = Terms::default();
        terms.set_option(term.name(), value).map(|()| terms)
    };
    let is_same = |own: &str| {
        own == invited || with(own).is_ok_and(|own| with(invited).is_ok_and(|other| own == other))
    };
    if let Some(own) = given {
        return match is_same(own) {
            true => Ruling::Nothing,
            false => Ruling::Refuse,
        };
    }
    let is_harmless = match term {
        InvitableTerm::Protocol => true,
        InvitableTerm::Reveal => invited == "size",
        InvitableTerm::Lambda => with(invited).is_ok_and(|terms| {
            let lambda = |terms: &Terms| terms.get(&LAMBDA);
            lambda(&terms) > lambda(&Terms::default())
        }),
        _ => false,
    };
    match whose {
        _ if with(invited).is_ok_and(|terms| terms == Terms::default()) => Ruling::Nothing,
        Whose::Own => Ruling::Take,
        Whose::Invited if is_harmless => Ruling::Take,
        Whose::Invited => Ruling::Ask,
    }
}

/// A term as a person types it.
pub(crate) fn option_of(term: InvitableTerm, value: &str) -> String {
    let name = term.name().replace('_', "-");
    match term {
        InvitableTerm::Both | InvitableTerm::PostQuantum => format!("--{name}"),
        _ => format!("--{name} {value}"),
    }
}

/// The terms of an invitation as a person types them.
fn shown_terms(invitation: &Invitation) -> String {
    let terms = invitation.terms();
    let terms: Vec<String> = terms.map(|(term, value)| option_of(term, value)).collect();
    match terms.is_empty() {
        true => "none: those of this side's options".to_owned(),
        false => terms.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vesica_session::terms::{LEARNS, MIN_SIZE, REVEAL, SECURITY};

    use super::*;

    #[test]
    fn whoever_invites_listens_where_it_can_be_reached() {
        for (address, expected) in [
            ("shop.example:7340", "0.0.0.0:7340"),
            ("192.0.2.1:443", "0.0.0.0:443"),
            ("[2001:db8::1]:7340", "[::]:7340"),
            ("127.0.0.1:7340", "127.0.0.1:7340"),
            ("[::1]:7340", "[::1]:7340"),
            ("localhost:7340", "localhost:7340"),
        ] {
            assert_eq!(listening(address).unwrap(), expected);
        }
        for address in ["wss://shop.example/psi", "wss://shop.example:443", "shop"] {
            let failure = listening(address).unwrap_err();
            assert_eq!(failure.hint.as_deref(), Some("give --listen"), "{address}");
        }
    }

    #[test]
    fn an_invitation_decides_nothing_that_reveals_more() {
        use InvitableTerm::{Both, Lambda, MinSize, PostQuantum, Protocol, Reveal, Security};
        for (term, invited, given, expected) in [
            (Reveal, "matches", None, Ruling::Nothing),
            (Reveal, "size", None, Ruling::Take),
            (Reveal, "sum", None, Ruling::Ask),
            (Reveal, "size,sum", None, Ruling::Ask),
            (Reveal, "inner-product", None, Ruling::Ask),
            (Reveal, "threshold:5", None, Ruling::Ask),
            (Reveal, "threshold-matches:5", None, Ruling::Ask),
            (Reveal, "shares", None, Ruling::Ask),
            (Reveal, "size", Some("size"), Ruling::Nothing),
            (Reveal, "sum", Some("sum"), Ruling::Nothing),
            (
                Reveal,
                "threshold:1024",
                Some("threshold:2^10"),
                Ruling::Nothing,
            ),
            (Reveal, "matches", Some("size"), Ruling::Refuse),
            (Reveal, "size", Some("matches"), Ruling::Refuse),
            (Reveal, "threshold:5", Some("threshold:6"), Ruling::Refuse),
            (Security, "malicious", None, Ruling::Nothing),
            (Security, "semi-honest", None, Ruling::Ask),
            (Security, "malicious-sender", None, Ruling::Ask),
            (
                Security,
                "semi-honest",
                Some("semi-honest"),
                Ruling::Nothing,
            ),
            (Security, "semi-honest", Some("malicious"), Ruling::Refuse),
            (Security, "malicious", Some("semi-honest"), Ruling::Refuse),
            (Lambda, "40", None, Ruling::Nothing),
            (Lambda, "64", None, Ruling::Take),
            (Lambda, "39", None, Ruling::Ask),
            (Lambda, "64", Some("40"), Ruling::Refuse),
            (MinSize, "10", None, Ruling::Ask),
            (MinSize, "0", None, Ruling::Nothing),
            (MinSize, "1024", Some("2^10"), Ruling::Nothing),
            (MinSize, "5", Some("10"), Ruling::Refuse),
            (Both, "yes", None, Ruling::Ask),
            (Both, "yes", Some("yes"), Ruling::Nothing),
            (PostQuantum, "yes", None, Ruling::Ask),
            (PostQuantum, "yes", Some("yes"), Ruling::Nothing),
            (Protocol, "vole", None, Ruling::Take),
            (Protocol, "vole", Some("vole"), Ruling::Nothing),
            (Protocol, "vole", Some("compact-dh"), Ruling::Refuse),
        ] {
            let of = |whose| ruling(term, invited, given, whose);
            assert_eq!(of(Whose::Invited), expected, "{term:?} {invited} {given:?}");
            let own = match expected {
                Ruling::Ask => Ruling::Take,
                other => other,
            };
            assert_eq!(of(Whose::Own), own, "{term:?} {invited} {given:?}");
        }
    }

    #[test]
    fn an_invitation_is_for_one_role() {
        use Role::{Receiver, Sender};
        for role in [Receiver, Sender] {
            assert!(check_role(role, role, Whose::Invited).is_ok());
            assert!(check_role(role, role.other(), Whose::Own).is_ok());
            for (invited, whose) in [(role.other(), Whose::Invited), (role, Whose::Own)] {
                let failure = check_role(role, invited, whose).unwrap_err();
                let hint = failure.hint.unwrap();
                let other = if role == Receiver { "send" } else { "receive" };
                assert!(
                    hint.starts_with(&format!("call `vesica {other}`; ")),
                    "{hint}"
                );
                assert!(hint.contains("--peer"));
            }
        }
    }

    proptest! {
        /// Whatever its terms are, what was typed stays, and nothing else becomes weaker or tells more.
        #[test]
        fn no_invitation_weakens_what_it_is_given(
            security in prop::sample::select(&["", "malicious", "semi-honest", "malicious-sender"][..]),
            reveal in prop::sample::select(&["", "matches", "size", "sum", "shares", "threshold:3", "threshold-matches:3"][..]),
            lambda in 0_u32..200,
            least in 0_u64..5,
        ) {
            let (lambda, least) = (lambda.to_string(), least.to_string());
            let mut taken = Terms::default();
            for (term, value) in [
                (InvitableTerm::Security, security),
                (InvitableTerm::Reveal, reveal),
                (InvitableTerm::Lambda, &*lambda),
                (InvitableTerm::MinSize, &*least),
            ] {
                if !value.is_empty() && ruling(term, value, None, Whose::Invited) == Ruling::Take {
                    taken.set_option(term.name(), value).unwrap();
                }
            }
            let usual = Terms::default();
            prop_assert_eq!(taken.get(&SECURITY), usual.get(&SECURITY));
            prop_assert_eq!(taken.get(&LEARNS), usual.get(&LEARNS));
            prop_assert_eq!(taken.get(&MIN_SIZE), usual.get(&MIN_SIZE));
            prop_assert!(taken.get(&LAMBDA) >= usual.get(&LAMBDA));
            let reveals = taken.get(&REVEAL);
            prop_assert!(reveals == vesica::Reveal::Matches || reveals == vesica::Reveal::Size);
        }
    }
}
