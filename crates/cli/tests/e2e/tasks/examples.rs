//! The examples of jobs, which are read by who will run them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vesica::Fingerprint;

use crate::support::{Place, Running};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scale-out")
}

/// A script of the examples, for which `vesica` is the binary.
fn script(name: &str, place: &Place) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_vesica"));
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut command = Command::new("bash");
    command
        .arg(examples().join(name))
        .env("PATH", std::env::join_paths(path).unwrap())
        .current_dir(place.path(""));
    command
}

fn piped(command: &mut Command) -> Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    std::mem::replace(command, Command::new("true"))
}

/// Their command lines are read by the binary, which finds no job.
#[test]
fn the_examples_are_commands_of_tasks() {
    let place = Place::new();
    let manifest = std::fs::read_to_string(examples().join("kubernetes.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"][0]["name"], "ATTEMPT");
    let attempt = container["env"][0]["value"].as_str().unwrap();
    let words = [&container["command"], &container["args"]].map(|words| words.as_array().unwrap());
    let words: Vec<String> = words
        .into_iter()
        .flatten()
        .map(|word| {
            word.as_str()
                .unwrap()
                .replace("$(JOB_COMPLETION_INDEX)", "5")
                .replace("$(ATTEMPT)", attempt)
        })
        .collect();
    assert_eq!(words[0], "vesica");
    let words = words[1..].join(" ");
    let job = place.path("job");
    std::fs::create_dir(&job).unwrap();
    let words = words.replace("/job", job.to_str().unwrap());
    place
        .run(&words)
        .expect_failure(3, "has no job of this version");

    let ran = script("slurm.sh", &place)
        .env("SLURM_ARRAY_TASK_ID", "5")
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("has no job of this version"), "{said}");
}

/// Both sides run the whole job, and a second time there is nothing left to do but to write the rows.
#[test]
fn the_script_of_a_whole_job_runs_it() {
    let place = Place::new();
    let table = |ids: std::ops::Range<u64>| {
        let rows: String = ids.map(|id| format!("{id}\n")).collect();
        format!("id\n{rows}")
    };
    place.write("ours.csv", table(0..3000));
    place.write("theirs.csv", table(2900..6000));
    // Free until a moment ago.
    let [meeting, gateway] = [0, 1].map(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    });
    let side = |role: &str, input: &str, peer: &Fingerprint, point: &str| {
        let mut side = script("driver.sh", &place);
        side.env("role", role)
            .env("table", format!("--input {input} --key id"))
            .env(
                "party",
                format!("--identity {role}.key --peer {peer} {point} {meeting}"),
            )
            .env(
                "split",
                "--task-memory 180K --protocol dh --security semi-honest",
            )
            .env("gateway", &gateway)
            .env("job", format!("{role}.job"))
            .env("output", "shared.csv");
        side
    };
    for _ in 0..2 {
        let mut sender = side("sender", "theirs.csv", &place.receiver, "--listen");
        let mut receiver = side("receiver", "ours.csv", &place.sender, "--connect");
        let sender = Running::start(piped(sender.env("serve", &gateway)));
        let receiver = Running::start(piped(&mut receiver));
        for ended in [receiver.wait(), sender.wait()] {
            assert_eq!(ended.code, Some(0), "{}", ended.err);
        }
        assert_eq!(place.read("shared.csv"), table(2900..3000));
        std::fs::remove_file(place.path("shared.csv")).unwrap();
    }
    assert!(place.path("receiver.job/bucket-1.keys").exists());
}
