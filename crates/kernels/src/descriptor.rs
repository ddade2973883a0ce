//! Security descriptors of Windows: who owns a file, and who may do what with it.
//!
//! The bytes are those of MS-DTYP 2.4: integers little endian, identifiers (SIDs) of users and groups, and lists (ACLs) of
//! entries (ACEs) that allow or deny.

/// Bytes of the part of a descriptor that says where the others are.
const HEADER: usize = 20;
const HAS_LIST: u16 = 0x0004;
const ASKS_FOR_INHERITANCE: u16 = 0x0100;
const INHERITED: u16 = 0x0400;
const PROTECTED: u16 = 0x1000;
const SELF_RELATIVE: u16 = 0x8000;

/// Kinds of entries.
const ALLOWS: u8 = 0;
const ALLOWS_IF: u8 = 9;
/// Denials, whatever they depend on.
const DENIES: [u8; 4] = [1, 6, 10, 12];
/// Flags of entries: files and directories of a directory get it, and the directory itself does not have it.
const FOR_CONTENT: u8 = 0x03;
const FOR_CONTENT_ALONE: u8 = 0x08;

/// All that can be done with a file or a directory.
const EVERYTHING: u32 = 0x001f_01ff;

/// Owner and list of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    owner: Option<Vec<u8>>,
    /// Without a list everybody may do anything.
    list: Option<Vec<u8>>,
    /// Whether the directory's entries are handed down, and whether that is refused.
    flags: u16,
}

impl Descriptor {
    /// What is in a self-relative descriptor, however many bytes follow it; `None` if that is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Descriptor> {
        let flags = u16_at(bytes, 2)?;
        if bytes.len() < HEADER || bytes[0] != 1 || flags & SELF_RELATIVE == 0 {
            return None;
        }
        let part = |at: usize| Some(u32_at(bytes, at)? as usize).filter(|&start| start != 0);
        let owner = match part(4) {
            Some(start) => Some(sid_at(bytes, start)?.to_vec()),
            None => None,
        };
        let list = match part(16).filter(|_| flags & HAS_LIST != 0) {
            Some(start) => Some(list_at(bytes, start)?.to_vec()),
            None => None,
        };
        Some(Descriptor {
            owner,
            list,
            flags: flags & (PROTECTED | INHERITED),
        })
    }

    /// One by which this user, the system and administrators may do anything, and nobody else anything; what is made in a
    /// directory is theirs too. Nothing is handed down from above.
    pub fn private(user: &[u8], is_directory: bool) -> Descriptor {
        let flags = if is_directory { FOR_CONTENT } else { 0 };
        let entries: Vec<u8> = [user.to_vec(), system(), administrators()]
            .iter()
            .flat_map(|sid| {
                let length = (8 + sid.len()) as u16;
                let mut entry = vec![ALLOWS, flags];
                entry.extend_from_slice(&length.to_le_bytes());
                entry.extend_from_slice(&EVERYTHING.to_le_bytes());
                entry.extend_from_slice(sid);
                entry
            })
            .collect();
        let mut list = vec![2, 0];
        list.extend_from_slice(&((8 + entries.len()) as u16).to_le_bytes());
        list.extend_from_slice(&[3, 0, 0, 0]);
        list.extend(entries);
        Descriptor {
            owner: None,
            list: Some(list),
            flags: PROTECTED,
        }
    }

    /// A self-relative descriptor.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut flags = SELF_RELATIVE | HAS_LIST | self.flags;
        if flags & INHERITED != 0 {
            flags |= ASKS_FOR_INHERITANCE;
        }
        let mut bytes = vec![1, 0];
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.resize(HEADER, 0);
        for (at, part) in [(4, &self.owner), (16, &self.list)] {
            if let Some(part) = part {
                let start = bytes.len() as u32;
                bytes[at..at + 4].copy_from_slice(&start.to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// Whether it belongs to this user, to the system or to administrators.
    pub fn has_safe_owner(&self, user: &[u8]) -> bool {
        (self.owner.as_ref()).is_some_and(|owner| *owner != owners_rights() && is_safe(owner, user))
    }

    /// Whether anybody but this user, the system, administrators and the owner may do more than these rights.
    pub fn lets_others(&self, user: &[u8], harmless: u32) -> bool {
        let Some(entries) = self.list.as_deref().and_then(entries) else {
            return true;
        };
        entries.into_iter().any(|entry| {
            let [kind, flags] = [entry[0], entry[1]];
            if flags & FOR_CONTENT_ALONE != 0 || DENIES.contains(&kind) {
                return false;
            }
            let (mask, sid) = (u32_at(entry, 4), sid_at(entry, 8));
            match (kind, mask, sid) {
                (ALLOWS | ALLOWS_IF, Some(mask), Some(sid)) => {
                    mask & !harmless != 0 && !is_safe(sid, user)
                }
                // Of files there are no others.
                _ => true,
            }
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn sid_at(bytes: &[u8], start: usize) -> Option<&[u8]> {
    let bytes = bytes.get(start..)?;
    let [version, parts] = *bytes.first_chunk()?;
    match version == 1 && parts <= 15 {
        true => bytes.get(..8 + 4 * usize::from(parts)),
        false => None,
    }
}

/// A list all of whose entries are in it.
fn list_at(bytes: &[u8], start: usize) -> Option<&[u8]> {
    let bytes = bytes.get(start..)?;
    let list = bytes.get(..u16_at(bytes, 2)?.into())?;
    entries(list).map(|_| list)
}

fn entries(list: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = (u16_at(list, 4)?, list.get(8..)?);
    let entries = (0..count).map(|_| {
        let length = usize::from(u16_at(rest, 2)?);
        let (entry, after) = rest.split_at_checked(length)?;
        rest = after;
        (length >= 4).then_some(entry)
    });
    entries.collect()
}

fn sid(authority: u8, parts: &[u32]) -> Vec<u8> {
    let parts_of_it = parts.len() as u8;
    let head = [1, parts_of_it, 0, 0, 0, 0, 0, authority];
    let parts = parts.iter().flat_map(|part| part.to_le_bytes());
    head.into_iter().chain(parts).collect()
}

fn system() -> Vec<u8> {
    sid(5, &[18])
}

fn administrators() -> Vec<u8> {
    sid(5, &[32, 544])
}

/// What owns the system's own directories: TrustedInstaller.
fn installer() -> Vec<u8> {
    const PARTS: [u32; 6] = [
        80,
        956_008_885,
        3_418_522_649,
        1_831_038_044,
        1_853_292_631,
        2_271_478_464,
    ];
    sid(5, &PARTS)
}

/// Whoever the owner is.
fn owners_rights() -> Vec<u8> {
    sid(3, &[4])
}

fn is_safe(sid: &[u8], user: &[u8]) -> bool {
    sid == user
        || [system(), administrators(), installer(), owners_rights()].contains(&sid.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 0x0012_0089;
    const WRITE: u32 = 0x0012_0116;
    const ATTRIBUTES: u32 = 0x0012_0080;

    fn user() -> Vec<u8> {
        sid(5, &[21, 1, 2, 3, 1001])
    }

    fn everybody() -> Vec<u8> {
        sid(1, &[0])
    }

    fn entry(kind: u8, flags: u8, mask: u32, sid: &[u8]) -> Vec<u8> {
        let length = (8 + sid.len()) as u16;
        [
            &[kind, flags][..],
            &length.to_le_bytes(),
            &mask.to_le_bytes(),
            sid,
        ]
        .concat()
    }

    fn with(entries: &[Vec<u8>]) -> Descriptor {
        let bytes = entries.concat();
        let length = (8 + bytes.len()) as u16;
        let count = entries.len() as u16;
        let head = [
            &[2, 0][..],
            &length.to_le_bytes(),
            &count.to_le_bytes(),
            &[0, 0],
        ];
        Descriptor {
            owner: Some(user()),
            list: Some([head.concat(), bytes].concat()),
            flags: 0,
        }
    }

    #[test]
    fn private_descriptors_let_nobody_else() {
        for is_directory in [false, true] {
            let private = Descriptor::private(&user(), is_directory);
            assert!(!private.lets_others(&user(), 0));
            assert!(private.lets_others(&everybody(), ATTRIBUTES));
            assert_eq!(Descriptor::from_bytes(&private.to_bytes()), Some(private));
        }
    }

    #[test]
    fn whoever_else_may_do_more_is_noticed() {
        let (user, other) = (user(), sid(5, &[21, 1, 2, 3, 1002]));
        for (entries, lets) in [
            (vec![], false),
            (vec![entry(0, 0, EVERYTHING, &user)], false),
            (vec![entry(0, 0, EVERYTHING, &system())], false),
            (vec![entry(0, 0, EVERYTHING, &administrators())], false),
            (vec![entry(0, 0, EVERYTHING, &owners_rights())], false),
            (vec![entry(0, 0, ATTRIBUTES, &everybody())], false),
            (vec![entry(0, 0, READ, &everybody())], true),
            (vec![entry(0, 0x10, WRITE, &other)], true),
            (vec![entry(9, 0, READ, &other)], true),
            // For what is in a directory, and not for the directory.
            (vec![entry(0, 0x0b, READ, &other)], false),
            // A denial takes nothing back: an entry before it may have allowed it.
            (vec![entry(1, 0, READ, &other)], false),
            (
                vec![entry(1, 0, READ, &other), entry(0, 0, READ, &other)],
                true,
            ),
            // An entry of another kind, whose rights are elsewhere.
            (vec![entry(5, 0, 0, &other)], true),
        ] {
            let descriptor = with(&entries);
            assert_eq!(
                descriptor.lets_others(&user, ATTRIBUTES),
                lets,
                "{entries:?}"
            );
            let read = Descriptor::from_bytes(&descriptor.to_bytes()).unwrap();
            assert_eq!(read, descriptor);
        }
        let without = Descriptor {
            list: None,
            ..with(&[])
        };
        assert!(without.lets_others(&user, ATTRIBUTES));
    }

    #[test]
    fn others_are_no_safe_owners() {
        let owned = |owner: Option<Vec<u8>>| Descriptor { owner, ..with(&[]) };
        for safe in [user(), system(), administrators(), installer()] {
            assert!(owned(Some(safe)).has_safe_owner(&user()));
        }
        for unsafe_owner in [None, Some(everybody()), Some(owners_rights())] {
            assert!(!owned(unsafe_owner).has_safe_owner(&user()));
        }
    }

    /// What Windows writes for `O:BAD:PAI(A;;FA;;;SY)(A;;0x1200a9;;;WD)`.
    #[test]
    fn a_descriptor_of_the_system_is_read() {
        let bytes = [
            1, 0, 4, 0x94, 68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, // header
            2, 0, 48, 0, 2, 0, 0, 0, // list
            0, 0, 20, 0, 0xff, 1, 0x1f, 0, 1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0, // the system
            0, 0, 20, 0, 0xa9, 0, 0x12, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, // everybody
        ];
        let owner = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
        let bytes = [&bytes[..], &owner].concat();
        let read = Descriptor::from_bytes(&bytes).unwrap();
        assert!(read.has_safe_owner(&user()));
        assert!(read.lets_others(&user(), ATTRIBUTES));
    }

    #[test]
    fn damaged_descriptors_are_none() {
        let whole = with(&[entry(0, 0, READ, &user()), entry(0, 0, READ, &system())]).to_bytes();
        assert!(Descriptor::from_bytes(&[&whole[..], &[0; 7]].concat()).is_some());
        for length in 0..whole.len() {
            assert_eq!(Descriptor::from_bytes(&whole[..length]), None, "{length}");
        }
        // No change makes it panic.
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                if let Some(read) = Descriptor::from_bytes(&changed) {
                    read.lets_others(&user(), 0);
                    read.to_bytes();
                }
            }
        }
    }
}
