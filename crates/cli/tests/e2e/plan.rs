//! `vesica plan`: what it prints, what it warns of, and what it refuses.

use serde_json::Value;

use crate::support::Place;

const SIZES: &str = "plan --receiver-size 2^12 --sender-size 2^14";

/// Somewhere without the calibration of whoever runs the tests.
fn plan(place: &Place, words: &str) -> crate::support::Ended {
    place.run_after("export XDG_CONFIG_HOME=.", words)
}

fn json(place: &Place, words: &str) -> Value {
    let ended = plan(place, &format!("{SIZES} --json {words}"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    serde_json::from_str(ended.text()).unwrap()
}

#[test]
fn three_formats_say_the_same() {
    let place = Place::new();
    let table = plan(&place, SIZES);
    assert_eq!(table.code, Some(0), "{}", table.err);
    assert!(table.err.contains("not calibrated"), "{}", table.err);
    let answer = json(&place, "");
    let forecasts = answer["forecasts"].as_array().unwrap();
    let csv = plan(&place, &format!("{SIZES} --csv"));
    let csv = csv.text();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), forecasts.len());
    for (row, forecast) in rows.iter().zip(forecasts) {
        let name = forecast["protocol"].as_str().unwrap();
        assert_eq!(&row[0], name);
        let sent = &forecast["bytes"]["sender_to_receiver"];
        assert_eq!(row[10].parse::<u64>().ok(), sent.as_u64());
        assert!(table.text().lines().any(|line| line.starts_with(name)));
    }
    // How fast this machine is at the moment differs from one command to the next; how much is sent does not.
    let smallest = answer["smallest"].as_str().unwrap();
    assert!(table.text().contains(&format!("smallest {smallest}")));
    for least in ["fastest", "cheapest"] {
        let mut names = forecasts
            .iter()
            .map(|forecast| forecast["protocol"].as_str().unwrap());
        assert!(names.any(|name| table.text().contains(&format!("{least} {name}"))));
        assert!(answer[least].is_string());
    }
    let header = table
        .text()
        .lines()
        .find(|line| line.starts_with("protocol"));
    for column in [
        "time (s)",
        "traffic (MB)",
        "memory (MiB)",
        "cost (USD/1k)",
        "auto",
    ] {
        assert!(header.unwrap().contains(column), "{header:?}");
    }
    let marked = table.text().lines().find(|line| line.ends_with('*'));
    assert!(marked.unwrap().starts_with("vole"), "{marked:?}");
    let large = plan(&place, "plan --receiver-size 1G --sender-size 1M --json");
    let large: Value = serde_json::from_str(large.text()).unwrap();
    assert_eq!(large["receiver_size"], 1_000_000_000);
    assert!(large["forecasts"][0]["buckets"].as_u64() > Some(1));
    assert_eq!(answer["auto"], "vole");
    assert!(table.text().contains("auto takes vole"));
}

#[test]
fn links_results_and_security_count() {
    let place = Place::new();
    let seconds = |answer: &Value, name: &str| {
        let all = answer["forecasts"].as_array().unwrap().iter();
        let mut named = all.filter(|forecast| forecast["protocol"] == name);
        named.next().unwrap()["seconds"]["likely"].as_f64().unwrap()
    };
    let near = seconds(&json(&place, ""), "vole");
    // Slow enough that what else this machine does at the moment, by which the forecast goes too, matters less.
    let far = seconds(&json(&place, "--network 1mbps-80ms"), "vole");
    let slow = seconds(&json(&place, "--bandwidth 1mbps --rtt 80ms"), "vole");
    assert!(near < far && near < slow, "{near} {far} {slow}");
    let malicious = json(&place, "--security malicious");
    let malicious = malicious["forecasts"].as_array().unwrap();
    assert!(
        malicious
            .iter()
            .all(|forecast| forecast["security"] == "malicious")
    );
    let sum = json(&place, "--reveal sum --value-columns 2");
    assert_eq!(sum["auto"], "circuit-okvs");
}

#[test]
fn prices_can_be_replaced() {
    let place = Place::new();
    let rates =
        |hour: f64, gb: f64| format!("{{\"usd_per_hour\": {hour}, \"usd_per_gb_sent\": {gb}}}");
    let setting = |name: &str, gb: f64| {
        let (one, two) = (rates(0.0, gb), rates(0.0, gb));
        format!(
            "{{\"name\": \"{name}\", \"source\": \"a test\", \"date\": \"today\", \
             \"receiver\": {one}, \"sender\": {two}, \"usd_per_gb_of_both\": 0}}"
        )
    };
    let file = |settings: &str| format!("{{\"version\": 1, \"settings\": [{settings}]}}");
    place.write("mine.json", file(&setting("here", 1000.0)));
    let answer = json(&place, "--prices mine.json");
    assert_eq!(answer["price_settings"], serde_json::json!(["here"]));
    // Only traffic costs.
    assert_eq!(answer["cheapest"], answer["smallest"]);
    for (wrong, problem) in [
        (file(""), "no settings"),
        (file(&setting("dear", -1.0)), "dear"),
        (
            file(&[setting("here", 1.0), setting("here", 2.0)].join(", ")),
            "two settings are called here",
        ),
        (file("{\"name\": \"here\"}"), "missing field"),
        ("{\"version\": 2, \"settings\": []}".to_owned(), "version 2"),
        ("prices".to_owned(), "expected"),
    ] {
        place.write("wrong.json", wrong);
        plan(&place, &format!("{SIZES} --prices wrong.json")).expect_failure(3, problem);
    }
    refuse_what_is_no_file(&place, "--prices");
}

/// Nothing, a directory and a device in the place of an option's file.
fn refuse_what_is_no_file(place: &Place, option: &str) {
    for (path, code, problem) in [
        ("none.json", 3, "none.json".to_owned()),
        (".", 2, format!("{option} . is a directory")),
        ("/dev/zero", 3, "/dev/zero".to_owned()),
    ] {
        plan(place, &format!("{SIZES} {option} {path}")).expect_failure(code, &problem);
    }
}

#[test]
fn calibrations_are_judged() {
    let place = Place::new();
    let calibration = |machine: &str, taken: u64| {
        format!(
            "{{\"version\": 2, \"machine\": \"{machine}\", \
             \"yardstick_aes_blocks_per_second\": 1000, \"taken\": {taken}, \"samples\": []}}"
        )
    };
    place.write("other.json", calibration("an abacus", 0));
    let other = plan(&place, &format!("{SIZES} --calibration other.json"));
    assert_eq!(other.code, Some(0));
    assert!(
        other.err.contains("another machine (an abacus"),
        "{}",
        other.err
    );
    assert!(other.err.contains("vesica plan --calibrate"));
    let good = calibration("an abacus", 0);
    for (wrong, problem) in [
        ("{}".to_owned(), "broken.json"),
        (good[..good.len() / 2].to_owned(), "EOF"),
        (
            good.replace("\"version\": 2", "\"version\": 3"),
            "version 3",
        ),
        (good.replace("1000", "0"), "yardstick out of range"),
    ] {
        place.write("broken.json", wrong);
        plan(&place, &format!("{SIZES} --calibration broken.json")).expect_failure(3, problem);
    }
    refuse_what_is_no_file(&place, "--calibration");
}

/// Every protocol runs, and is then known by its own runs.
#[test]
#[ignore = "a minute where it is optimised"]
fn a_calibration_is_taken_and_used() {
    let place = Place::new();
    let taken = plan(&place, "plan --calibrate --calibration mine.json");
    assert_eq!(taken.code, Some(0), "{}", taken.err);
    assert_eq!(taken.text(), "mine.json\n");
    let answer = json(&place, "--calibration mine.json");
    let forecasts = answer["forecasts"].as_array().unwrap();
    assert!(
        forecasts.iter().all(|f| f["basis"] != "reference"),
        "{answer}"
    );
    let vole = forecasts.iter().find(|f| f["protocol"] == "vole");
    assert_eq!(vole.unwrap()["basis"], "this-run");
}

/// Both ways of a circuit, and only the one that is asked about.
#[test]
fn circuits_save_time_or_traffic() {
    let place = Place::new();
    let ways = |words: &str| {
        // Small sets have one way.
        let words = format!("plan --json --receiver-size 2^18 --reveal size {words}");
        let answer: Value = serde_json::from_str(plan(&place, &words).text()).unwrap();
        let ways = answer["forecasts"].as_array().unwrap().iter();
        let ways = ways.map(|f| f["optimize"].as_str().unwrap().to_owned());
        ways.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ways("").len(), 2);
    let one = |way: &str| [way.to_owned()].into();
    assert_eq!(ways("--optimize traffic"), one("traffic"));
    assert_eq!(ways("--optimize time"), one("time"));
    // By the bandwidth, as in a run.
    assert_eq!(ways("--optimize auto --bandwidth 10mbps"), one("traffic"));
    assert_eq!(ways("--optimize auto --bandwidth 1gbps"), one("time"));
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    for (words, problem) in [
        ("plan", "--receiver-size"),
        ("plan --receiver-size 2^50", "2^31"),
        ("plan --receiver-size many", "many"),
        ("plan --receiver-size 2^64", "2^31"),
        (
            "plan --receiver-size 10 --network 10mbps-90ms",
            "10mbps-90ms",
        ),
        ("plan --receiver-size 10 --bandwidth nanmbps", "1kbps"),
        ("plan --receiver-size 10 --bandwidth 1e400gbps", "1kbps"),
        ("plan --receiver-size 10 --rtt 61s", "60s"),
        ("plan --receiver-size 10 --network dialup", "dialup"),
        ("plan --receiver-size 10 --bandwidth 0mbps", "1kbps"),
        ("plan --receiver-size 10 --reveal sizes", "sizes"),
        ("plan --receiver-size 10 --threads 0", "threads"),
        ("plan --receiver-size 10 --json --csv", "--csv"),
        (
            "plan --receiver-size 10 --reveal size --security malicious",
            "no malicious protocol reveals size",
        ),
        ("plan --receiver-size 10 --calibrate", "--calibrate"),
        ("plan --receiver-size 10 --lambda 39", "40 to 128"),
        ("plan --receiver-size 10 --lambda 129", "40 to 128"),
        ("plan --receiver-size -1", "-1"),
        ("plan --receiver-size 10 --sender-size 2^36", "2^31"),
        ("plan --receiver-size 10 --rtt 80", "80"),
        ("plan --receiver-size 10 --optimize all", "all"),
        ("plan --receiver-size 10 --items 65", "65"),
        ("plan --receiver-size 10 --value-columns 9", "9"),
    ] {
        plan(&place, words).expect_failure(2, problem);
    }
}
