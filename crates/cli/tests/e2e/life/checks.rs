//! What must hold after a step.

use super::*;

impl Life {
    pub(super) fn check_codes(&self, came: &Came) -> Result<(), String> {
        let expected = self.codes();
        for side in 0..2 {
            let Some(ended) = &came.ended[side] else {
                continue;
            };
            check_lines(ended)?;
            let journal = self.journal(side);
            if came.wrote_alone(side) && journal.is_none() {
                return Err(format!(
                    "the {} wrote an answer that was not of its table: {ended:?}",
                    SIDES[side]
                ));
            }
            let is_answer = journal.is_some_and(|journal| journal.is_answer);
            if is_answer && !came.was_stopped(side) && !came.wrote_alone(side) {
                return Err(format!("the {} has lost an answer: {ended:?}", SIDES[side]));
            }
            let mut codes: Vec<Option<i32>> = match came.wrote_alone(side) {
                true => vec![Some(self.end(side))],
                false => expected[side].iter().map(|code| Some(*code)).collect(),
            };
            if came.was_stopped(side) {
                // By the signal itself, also if it comes before the program is ready for it.
                codes.push(None);
            }
            if came.interrupted[side] {
                codes.push(Some(130));
            }
            if came.was_stopped(1 - side) {
                codes.push(Some(4));
            }
            if !codes.contains(&ended.code) {
                let other = &came.ended[1 - side];
                return Err(format!(
                    "the {} ended with {:?} instead of {codes:?}: {ended:?}\nother: {other:?}",
                    SIDES[side], ended.code
                ));
            }
        }
        let alone = came.was_stopped(0) || came.wrote_alone(0) || came.wrote_alone(1);
        match [came.code(0), came.code(1)] {
            [receiver, Some(0)] if receiver != Some(self.end(0)) && !alone => Err(format!(
                "the sender thinks that all went well: {:?}",
                came.ended
            )),
            _ => Ok(()),
        }
    }

    /// Whether the run went on from an earlier one.
    pub(super) fn check_resumption(&self, came: &Came) -> Result<bool, String> {
        let resumed = [0, 1].map(|side| came.said(side, "going on after bucket"));
        let any = resumed.contains(&true);
        if any && !self.can_resume() {
            return Err(format!("went on from another run: {:?}", came.ended));
        }
        let whole = [0, 1].map(|side| came.code(side) == Some(0) && !came.wrote_alone(side));
        if whole == [true; 2] && (resumed[0] != resumed[1] || self.must_resume() && !any) {
            return Err(format!("did not go on from the same run: {:?}", came.ended));
        }
        Ok(any)
    }

    pub(super) fn check_output(&mut self, side: usize, came: &Came) -> Result<(), String> {
        let output = fs::read_to_string(self.place.path(&Life::name(side, "out"))).ok();
        let before = &self.sides[side].output;
        let tables = match came.wrote_alone(side) {
            true => self.journal(side).map(|journal| journal.tables.clone()),
            false => None,
        };
        let tables = tables.unwrap_or_else(|| self.tables());
        let right = Some(Life::right(side, &tables));
        let is_right = match (self.writes(side), came.code(side)) {
            (true, Some(0)) => output == right,
            (true, _) if came.was_stopped(side) => output == *before || output == right,
            _ => output == *before,
        };
        if !is_right {
            let lines = output.map(|output| output.lines().count());
            return Err(format!(
                "the {} has a wrong output of {lines:?} lines: {:?}",
                SIDES[side], came.ended
            ));
        }
        if let Some(ended) = &came.ended[side] {
            let question = self.options[side].variant.question;
            let tables = tables.each_ref().map(|rows| Life::table(rows));
            let printed = match side == 0 && question.reveal().is_value() {
                true => {
                    let minimum = self.terms(side).minimum;
                    Answer::of(question, tables.each_ref(), minimum).printed(tables.each_ref())
                }
                false => String::new(),
            };
            let is_right = match ended.code {
                Some(0) => ended.text() == printed,
                _ if came.was_stopped(side) => printed.starts_with(ended.text()),
                _ => ended.out.is_empty(),
            };
            if !is_right {
                return Err(format!("printed instead of {printed:?}: {ended:?}"));
            }
        }
        self.sides[side].output = output;
        Ok(())
    }

    pub(super) fn check_journal(
        &mut self,
        side: usize,
        came: &Came,
        resumed: bool,
    ) -> Result<(), String> {
        let work = self.place.path(&Life::name(side, "work"));
        let names = names_in(&work);
        let is_known = |name: &String| {
            let part = name.starts_with(".vesica-") && name.ends_with(".part");
            // What a killed process leaves is there until the next one.
            let may_be_left = came.killed[side] || came.ended[side].is_none();
            ["journal", "lock"].contains(&&**name) || part && may_be_left
        };
        let done = came.code(side) == Some(0);
        if !names.iter().all(is_known) || done && work.exists() {
            return Err(format!(
                "left in {}: {names:?}: {:?}",
                work.display(),
                came.ended
            ));
        }
        let bytes = fs::read(work.join("journal")).ok();
        let is_full = came.code(side) == Some(7) && self.end(side) == 7;
        let peer_is_done = side == 0 && came.code(1) == Some(0) && !came.wrote_alone(1);
        let is_answer = is_full || peer_is_done;
        let now = &mut self.sides[side];
        match (bytes, now.journal.take()) {
            (None, None) => {}
            (None, Some(_)) if done || came.was_stopped(side) => {}
            (None, Some(_)) => {
                return Err(format!(
                    "the {}'s journal is gone: {:?}",
                    SIDES[side], came.ended
                ));
            }
            (Some(bytes), Some(before)) if bytes == before.bytes => now.journal = Some(before),
            (Some(bytes), before) => {
                let earlier = before.filter(|_| resumed).map(|journal| journal.run);
                let journal = Journal {
                    bytes,
                    owner: self.owner(side),
                    options: self.options,
                    tables: self.tables(),
                    run: earlier.unwrap_or(self.runs),
                    is_answer,
                };
                self.sides[side].journal = Some(journal);
            }
        }
        Ok(())
    }

    /// The halves that a run may take.
    pub(super) fn offered(&self) -> BTreeSet<String> {
        let [receiver, sender] = [self.offers(0), self.offers(1)];
        match self.meet() {
            true => receiver
                .intersection(&sender)
                .map(|name| (*name).clone())
                .collect(),
            false => BTreeSet::new(),
        }
    }

    /// What the run has done to a store: the half that it took, of those offered.
    pub(super) fn check_store(
        &mut self,
        side: usize,
        came: &Came,
        offered: &BTreeSet<String>,
    ) -> Result<Option<String>, String> {
        let store = self.place.path(&Life::name(side, "store"));
        let names = names_in(&store);
        let mut taken = None;
        let mut known = 0;
        for (name, held) in &mut self.sides[side].halves {
            let has = |suffix: &str| names.contains(&format!("{name}{suffix}"));
            let (file, marker) = (has(".half"), has(".used"));
            known += usize::from(file) + usize::from(marker);
            if (file, marker) == (held.file.is_some(), held.marker) {
                continue;
            }
            let may = offered.contains(name) && taken.is_none() && held.is_ready();
            let gone = marker && (!file || came.killed[side]);
            if !(may && gone) {
                return Err(format!(
                    "half {name} of the {} was {held:?}, now file: {file}, marker: {marker}: {:?}",
                    SIDES[side], came.ended
                ));
            }
            if !self.spent.insert((side, name.clone())) && !held.adopted {
                return Err(format!(
                    "half {name} of the {} served two runs",
                    SIDES[side]
                ));
            }
            held.file = held.file.filter(|_| file);
            held.marker = true;
            held.adopted = false;
            taken = Some(name.clone());
        }
        match known == names.len() {
            true => Ok(taken),
            false => Err(format!("in the {}'s store: {names:?}", SIDES[side])),
        }
    }

    /// A run that was completed has used what both stores lack now, and says so.
    pub(super) fn check_taken(
        &self,
        came: &Came,
        taken: [Option<String>; 2],
    ) -> Result<(), String> {
        let alone = came.wrote_alone(0) || came.wrote_alone(1);
        if alone || [came.code(0), came.code(1)] != [Some(0); 2] {
            return Ok(());
        }
        for side in 0..2 {
            let report: serde_json::Value =
                serde_json::from_str(&self.place.read(&Life::name(side, "json")))
                    .map_err(|e| e.to_string())?;
            let named = report["contract"]["offline"].as_str();
            if named != taken[side].as_deref() || taken[0] != taken[1] {
                return Err(format!("a run with {named:?} took {taken:?}"));
            }
        }
        match taken[0].is_some() == self.is_stored(0) {
            true => Ok(()),
            false => Err(format!("a run took {taken:?}")),
        }
    }

    /// Nothing but what the model knows is in the directory of both.
    pub(super) fn check_names(&self) -> Result<(), String> {
        let mut names = self.place.names();
        for side in 0..2 {
            for what in ["key", "csv", "work", "store", "out", "json"] {
                names.retain(|name| *name != Life::name(side, what));
            }
        }
        names.retain(|name| name != "dealer.key");
        match names.is_empty() {
            true => Ok(()),
            false => Err(format!("left behind: {names:?}")),
        }
    }

    /// A step without a run has changed nothing but what the model says.
    pub(super) fn check_unchanged(&mut self) -> Result<(), String> {
        let nothing = Came::default();
        for (side, role) in SIDES.into_iter().enumerate() {
            self.check_output(side, &nothing)?;
            let journal = self.sides[side].journal.clone();
            self.check_journal(side, &nothing, false)?;
            if self.sides[side].journal != journal {
                return Err(format!("the {role}'s journal has changed"));
            }
            self.check_store(side, &nothing, &BTreeSet::new())?;
        }
        self.check_names()
    }
}
