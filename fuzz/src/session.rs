//! What a peer says before the protocol, and what a person or a file says about identities.

use vesica_session::{Fingerprint, Hello, Identity, Job, Role, agree as agree_on, confirm_done};

use crate::script::Script;

/// A peer's first message. What is read writes the same bytes again.
pub fn hello(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes);
    }
}

/// The whole handshake. The first byte chooses our role, the rest is the peer's script.
pub fn agree(bytes: &[u8]) {
    let Some((role, script)) = bytes.split_first() else {
        return;
    };
    let role = if role & 1 == 0 {
        Role::Receiver
    } else {
        Role::Sender
    };
    let mut job = Job::new(role, vec!["email/1".into()]);
    job.max_peer_items = 1000;
    let mut channel = Script::new(script);
    if let Ok(agreement) = agree_on(&mut channel, &job, 3, None, None) {
        assert!(agreement.peer_items <= 1000);
        // Either is fine; it must come to an end.
        let _ = confirm_done(&mut channel, role);
    }
}

/// A fingerprint as a person types it. What is read is written in its canonical form.
pub fn fingerprint(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(fingerprint) = text.parse::<Fingerprint>() {
        let canonical = fingerprint.to_string();
        assert_eq!(canonical, text.trim().to_ascii_lowercase());
        assert_eq!(canonical.parse(), Ok(fingerprint));
    }
}

/// An identity file.
pub fn identity(bytes: &[u8]) {
    if let Ok(identity) = Identity::from_pem(bytes) {
        let again = Identity::from_pem(identity.to_pem().as_bytes());
        assert!(again.is_ok_and(|again| again.fingerprint() == identity.fingerprint()));
    }
}
