//! Backups of what a party keeps, and its stored halves.

use super::*;

impl Life {
    /// The files of a side that are saved together.
    pub(super) fn files(side: usize, what: What) -> Vec<String> {
        let names: &[&str] = match what {
            What::Work => &["work"],
            What::Store => &["store"],
            What::Home => &["key", "csv", "work", "store", "out"],
        };
        names.iter().map(|name| Life::name(side, name)).collect()
    }

    pub(super) fn save(&mut self, side: usize, what: What) {
        let directory = self.saves.path().join(format!("{side}{what:?}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for name in Life::files(side, what) {
            copy(&self.place.path(&name), &directory.join(&name));
        }
        self.saved.insert((side, what), self.sides[side].clone());
    }

    /// Whether there was something to restore.
    pub(super) fn restore(&mut self, side: usize, what: What, beside: bool) -> bool {
        let Some(saved) = self.saved.get(&(side, what)).cloned() else {
            return false;
        };
        let directory = self.saves.path().join(format!("{side}{what:?}"));
        // Only of a store can the missing files be put back alone.
        let beside = beside && what == What::Store;
        for name in Life::files(side, what) {
            let path = self.place.path(&name);
            if !beside {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_dir_all(&path);
            }
            copy(&directory.join(&name), &path);
        }
        let now = &mut self.sides[side];
        if what != What::Work {
            let before = match beside {
                true => std::mem::take(&mut now.halves),
                false => BTreeMap::new(),
            };
            now.halves = saved.halves;
            for held in now.halves.values_mut() {
                held.file = held.file.map(|_| Kept::Copy);
                held.adopted = false;
            }
            for (name, held) in before {
                let restored = now.halves.remove(&name).unwrap_or(held);
                let held = Held {
                    file: held.file.or(restored.file),
                    marker: held.marker || restored.marker,
                    ..held
                };
                now.halves.insert(name, held);
            }
        }
        if what != What::Store {
            now.journal = saved.journal;
        }
        if what == What::Home {
            (now.who, now.rows, now.output) = (saved.who, saved.rows, saved.output);
        }
        true
    }

    /// Makes a pair, if both are who they were at first.
    pub(super) fn make(&mut self, dealt: bool) -> Result<bool, String> {
        let who = [0, 1].map(|side| self.sides[side].who);
        if [who, self.expects] != [[0; 2]; 2] {
            return Ok(false);
        }
        let protocol = match dealt {
            true => "ole-dealer",
            false => "ole-ot",
        };
        let sizes = format!("--receiver-size {HALF_ROWS} --sender-size {HALF_ROWS}");
        let ended = match is_dealt(protocol) {
            true => {
                let mut ended = dealt_by_commands(&self.place, protocol, &sizes);
                ended.truncate(2);
                ended
            }
            false => {
                let words = format!("--offline ot {sizes}");
                let mut receiver = self.place.make("receiver", &words, "--listen 127.0.0.1:0");
                let endpoint = receiver.endpoint();
                let sender = self.place.make("sender", &words, &endpoint);
                vec![receiver.wait(), sender.wait()]
            }
        };
        if ended.iter().any(|ended| ended.code != Some(0)) || ended[0].out != ended[1].out {
            return Err(format!("no pair was made: {ended:?}"));
        }
        let held = Held {
            protocol,
            file: Some(Kept::Original),
            marker: false,
            adopted: false,
        };
        let name = ended[0].text().trim().to_owned();
        for side in &mut self.sides {
            side.halves.insert(name.clone(), held);
        }
        let made = |variant: &Variant| variant.protocol == protocol;
        let number = VARIANTS.iter().position(made).expect("it is one of them");
        self.set(Whose::Both, Setting::Protocol(number));
        Ok(true)
    }

    /// Runs `vesica offline` with these words over a side's store, if it has one.
    pub(super) fn offline(&self, side: usize, words: &str) -> Result<Option<String>, String> {
        let [store, key] = ["store", "key"].map(|what| Life::name(side, what));
        if !self.place.path(&store).exists() {
            return Ok(None);
        }
        let words = format!("offline {words} --offline-store {store} --identity {key}");
        let ended = self.place.run(&words);
        match ended.code == Some(0) && !ended.err.contains("unfinished") {
            true => Ok(Some(ended.text().to_owned())),
            false => Err(format!("{words}: {ended:?}")),
        }
    }

    pub(super) fn list(&self, side: usize) -> Result<bool, String> {
        let Some(text) = self.offline(side, "ls --json")? else {
            return Ok(false);
        };
        let listed: Vec<serde_json::Value> =
            serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let field = |half: &serde_json::Value, name: &str| half[name].as_str().unwrap().to_owned();
        let listed: BTreeMap<String, String> = listed
            .iter()
            .map(|half| (field(half, "name"), field(half, "state")))
            .collect();
        let here = &self.sides[side];
        let expected = here.halves.iter().filter_map(|(name, held)| {
            let state = match held.file? {
                _ if here.who != 0 => "of another identity",
                _ if held.marker => "used",
                Kept::Copy => "copied",
                Kept::Original => "ready",
            };
            Some((name.clone(), state.to_owned()))
        });
        let expected: BTreeMap<String, String> = expected.collect();
        match listed == expected {
            true => Ok(true),
            false => Err(format!(
                "the {}'s store lists {listed:?}, not {expected:?}",
                SIDES[side]
            )),
        }
    }

    pub(super) fn adopt(&mut self, side: usize) -> Result<bool, String> {
        let Some(text) = self.offline(side, "adopt")? else {
            return Ok(false);
        };
        let here = &mut self.sides[side];
        let mut lines = String::new();
        for (name, held) in &mut here.halves {
            if here.who == 0 && held.file == Some(Kept::Copy) && !held.marker {
                held.file = Some(Kept::Original);
                held.adopted = true;
                lines.push_str(&format!("{name}  adopted\n"));
            }
        }
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        match sorted(&text) == sorted(&lines) {
            true => Ok(true),
            false => Err(format!(
                "the {} adopted {text:?}, not {lines:?}",
                SIDES[side]
            )),
        }
    }

    pub(super) fn replace(&mut self, side: usize, told: bool) {
        let here = &mut self.sides[side];
        here.who = 1 - here.who;
        if told {
            self.expects[1 - side] = here.who;
        }
        let key = &self.keys[side][here.who].0;
        self.place.write(&Life::name(side, "key"), key);
    }
}
