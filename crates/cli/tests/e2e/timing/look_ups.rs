//! How long a client of a published set stays connected after it has last heard something.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vesica::{
    ConnectOptions, Destination, Event, Fingerprint, Identity, KeySpec, LookUp, LookedUp,
    NoProgress, Observer, Publication, Rows, Source,
};
use vesica_lookup::{Database, Service};
use vesica_session::Listener;

use super::runs::{OUTPUT, tables};
use crate::tap::{Side, Tap};
use crate::trial::Dice;

/// How many keys are looked up, and published.
pub(super) const LOOKED_UP: u64 = 1 << 10;

/// Rows of each key that is looked up: to write them takes longer than to look a key up.
const ROWS: usize = 64;

/// How a client looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With a state that has nothing yet.
    Asking,
    /// After it has looked for files to fetch.
    Fetching,
    /// Only for these: its state has all values.
    OnlyFetching,
    /// It goes once it has its rows. That tells how many there are.
    Staying,
}

/// A published set that is served, and a client of it.
pub(super) struct LookUps {
    directory: TempDir,
    client: Identity,
    publisher: Fingerprint,
    server: String,
}

fn key() -> KeySpec {
    KeySpec::parse("key", &[] as &[&str]).expect("a column")
}

impl LookUps {
    /// Does `work` while the set is served.
    pub(super) fn served<T>(work: impl FnOnce(&LookUps) -> T) -> T {
        let directory = tempfile::tempdir().expect("a directory");
        let [client, publisher] =
            [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
        let publication = Publication {
            queries: Some(1 << 24),
            ..Publication::new(publisher.clone(), directory.path().join("database"))
        };
        let [published, _] = tables([LOOKED_UP; 2], 0, 1, Rows::Matching, &mut Dice::new(0));
        let set = directory.path().join("all.vset");
        let made = publication.run(&published, &key(), &set, &mut NoProgress);
        made.expect("a published set");
        let database = Database::open(&publication.database, &publisher).expect("its database");
        let listener = Listener::bind("127.0.0.1:0").expect("a port");
        let service = Service {
            set: Some(set),
            threads: NonZeroUsize::new(1),
            ..Service::new(vec![client.fingerprint()], 1 << 24)
        };
        let options = ConnectOptions {
            wait: Duration::MAX,
            ..ConnectOptions::default()
        };
        let look_ups = LookUps {
            directory,
            client,
            publisher: publisher.fingerprint(),
            server: listener.local_addr().to_string(),
        };
        thread::scope(|scope| {
            let serving =
                scope.spawn(|| database.serve(&publisher, &listener, &service, &options, &|_| {}));
            let done = work(&look_ups);
            options.interrupt.raise();
            serving.join().expect("no panic").expect("it was stopped");
            done
        })
    }

    fn set(&self) -> PathBuf {
        self.directory.path().join("all.vset")
    }

    /// Looks a table up behind a tap.
    fn look_up(
        &self,
        (way, tap): (Way, &Tap),
        asked: &Source,
        place: &Path,
        observer: &mut dyn Observer,
    ) -> LookedUp {
        let client = self.client.clone();
        let look_up = LookUp {
            fetch: matches!(way, Way::Fetching | Way::OnlyFetching),
            state: Some(place.join("state")),
            threads: NonZeroUsize::new(1),
            ..LookUp::new(client, self.publisher, tap.address(), self.set())
        };
        let output = place.join(OUTPUT);
        let output = Some(Destination::File(&output));
        let found = match way {
            Way::Staying => {
                let mut open = look_up.open(&key(), observer).expect("an open set");
                open.find(asked, output, observer)
            }
            _ => look_up.run(asked, &key(), output, observer),
        };
        found.expect("a look-up")
    }

    /// One look-up, of a client that takes so much longer for each match before it goes; how long it stayed after it had last
    /// heard something.
    pub(super) fn run(
        &self,
        way: Way,
        planted: Duration,
        common: u64,
        dice: &mut Dice,
    ) -> Duration {
        let [_, asked] = tables([LOOKED_UP; 2], common, ROWS, Rows::Matching, dice);
        let place = tempfile::tempdir().expect("a directory");
        if way == Way::OnlyFetching {
            let tap = Tap::before(&self.server);
            self.look_up((way, &tap), &asked, place.path(), &mut NoProgress);
        }
        let tap = Tap::before(&self.server);
        let slow = &mut Slow(planted * common as u32);
        let found = self.look_up((way, &tap), &asked, place.path(), slow);
        let report = found.report();
        assert_eq!(report.matches, common);
        assert_eq!(report.asked == 0, way == Way::OnlyFetching);
        assert!(tap.await_end(Side::Client, Duration::from_secs(10)));
        tap.kept(Side::Client)
    }
}

/// A client that takes so much longer once it has its last answer, or has read its table if it asks nothing.
struct Slow(Duration);

impl Observer for Slow {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step { done, total } = event
            && done == total
        {
            spin(self.0);
        }
    }
}

/// A sleep would be rounded up by more than what is planted.
pub(super) fn spin(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}
