//! Manifests and units: their flags are flags, their ports are those that the master opens, their probes
//! are answered, and a master may leave in the time that it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

use super::{text, yaml};
use crate::harness::{Master, Process, run};

const MANIFESTS: [&str; 4] = ["master.yaml", "mooncake.yaml", "volume.yaml", "policy.yaml"];

/// For the snapshot to be deleted, the last frames to leave and the system to take the memory back.
const SPARE: Duration = Duration::from_secs(10);

fn documents() -> Vec<Value> {
    MANIFESTS.iter().flat_map(|name| yaml(&format!("kubernetes/{name}"))).collect()
}

fn of_kind(kind: &str) -> Vec<Value> {
    let found: Vec<Value> = documents().into_iter().filter(|it| it["kind"] == kind).collect();
    assert!(!found.is_empty(), "there is no {kind}");
    found
}

fn pods() -> Vec<Value> {
    of_kind("Deployment").into_iter().map(|it| it["spec"]["template"]["spec"].clone()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Port by name, as `50051/UDP`.
fn ports(value: &Value, field: &str) -> BTreeMap<String, String> {
    let port = |it: &Value| format!("{}/{}", it[field], it["protocol"].as_str().unwrap());
    list(value).iter().map(|it| (it["name"].as_str().unwrap_or("").to_owned(), port(it))).collect()
}

/// What the master takes these arguments for.
fn effective(arguments: &[&str]) -> String {
    let output = run(&[&["config", "master"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The value of a setting in what `config` prints.
fn setting(effective: &str, flag: &str) -> String {
    let start = format!("{flag} = ");
    let line = effective.lines().find_map(|line| line.strip_prefix(start.as_str()));
    let value = line.unwrap_or_else(|| panic!("no {flag} in\n{effective}"));
    value.split(" #").next().unwrap().trim_matches('"').to_owned()
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.trim_end_matches('s').parse().unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn each_manifest_starts_a_master_with_flags_that_it_knows() {
    for pod in pods() {
        let container = &pod["containers"][0];
        let arguments = strings(&container["args"]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (deadline, metrics_port) = if container["command"].is_null() {
            assert_eq!(arguments[0], "master");
            let effective = effective(&arguments[1..]);
            assert_ne!(setting(&effective, "metrics-address"), "127.0.0.1", "probes reach it");
            (setting(&effective, "shutdown-deadline-sec"), setting(&effective, "metrics-port"))
        } else {
            let program = strings(&container["command"]).remove(0);
            assert!(program.ends_with("/mooncake_master"), "{program}");
            serves_as_mooncake(&arguments);
            let value = |name: &str| {
                let start = format!("--{name}=");
                arguments.iter().find_map(|it| it.strip_prefix(start.as_str())).unwrap().to_owned()
            };
            (value("shutdown_deadline_sec"), value("metrics_port"))
        };
        assert_eq!(metrics_port, "9003");
        let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(Duration::from_secs(grace) >= seconds(&deadline) + SPARE, "{grace} s is too short");
        let mounted: BTreeSet<_> = list(&container["volumeMounts"])
            .iter()
            .map(|it| it["name"].clone().to_string())
            .collect();
        let volumes: BTreeSet<_> =
            list(&pod["volumes"]).iter().map(|it| it["name"].clone().to_string()).collect();
        assert_eq!(mounted, volumes);
    }
}

/// Starts it with ports and a directory of its own.
fn serves_as_mooncake(arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let other = format!("--handoff_dir={}", directory.path().display());
    let replaced = |argument: &&str| match argument.split('=').next().unwrap() {
        "--rpc_port" => "--rpc_port=0".to_owned(),
        "--metrics_port" => "--metrics_port=0".to_owned(),
        "--http_metadata_server_port" => "--http_metadata_server_port=0".to_owned(),
        "--handoff_dir" => other.clone(),
        _ => (*argument).to_owned(),
    };
    let start = ["mooncake-master", "--port=0", "--metrics_host=127.0.0.1"].map(str::to_owned);
    let arguments: Vec<String> = start.into_iter().chain(arguments.iter().map(replaced)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let process = Process::serving(&arguments);
    assert!(!process.log().contains("no effect here"), "{}", process.log());
}

#[test]
fn the_ports_of_pods_services_and_policies_are_those_that_the_master_opens() {
    let defaults = effective(&["--dev"]);
    let default = |flag: &str| setting(&defaults, flag);
    let rpc = default("rpc-port");
    let known = [
        ("http", default("metrics-port") + "/TCP"),
        ("metadata", default("http-metadata-server-port") + "/TCP"),
        ("rpc", rpc.clone() + "/UDP"),
        ("rpc", rpc + "/TCP"),
    ];
    let is_known = |name: &str, port: &str| known.iter().any(|it| it.0 == name && it.1 == port);
    let mut opened = BTreeSet::new();
    for (pod, service) in pods().iter().zip(of_kind("Service")) {
        let ports_of_pod = ports(&pod["containers"][0]["ports"], "containerPort");
        assert!(ports_of_pod.iter().all(|(name, port)| is_known(name, port)), "{ports_of_pod:?}");
        assert_eq!(ports(&service["spec"]["ports"], "port"), ports_of_pod);
        assert_eq!(service["spec"]["clusterIP"], "None", "UDP needs a headless Service");
        opened.extend(ports_of_pod.into_values());
    }
    let policy = of_kind("NetworkPolicy").remove(0);
    let allowed = list(&policy["spec"]["ingress"]).iter().flat_map(|rule| list(&rule["ports"]));
    let allowed: BTreeSet<String> =
        allowed.map(|it| format!("{}/{}", it["port"], it["protocol"].as_str().unwrap())).collect();
    assert_eq!(allowed, opened);
    let collector = text("otel/collector.yaml");
    assert!(collector.contains(&format!(":{}", default("metrics-port"))), "{collector}");
    let image = text("container/Containerfile");
    for port in opened {
        assert!(image.contains(&port.to_lowercase()), "the image does not expose {port}");
    }
}

#[test]
fn the_collector_defines_what_its_pipelines_use() {
    let collector = yaml("otel/collector.yaml").remove(0);
    let pipelines = collector["service"]["pipelines"].as_object().unwrap();
    assert!(!pipelines.is_empty());
    for (name, pipeline) in pipelines {
        for part in ["receivers", "processors", "exporters"] {
            let used = strings(&pipeline[part]);
            assert!(!used.is_empty(), "{name} has no {part}");
            for used in used {
                assert!(collector[part][&used].is_object(), "{name}: there is no {used}");
            }
        }
    }
}

#[test]
fn probes_ask_for_pages_that_there_are() {
    let master = Master::start(&[]);
    for pod in pods() {
        let container = &pod["containers"][0];
        let ports = ports(&container["ports"], "containerPort");
        for probe in ["readinessProbe", "livenessProbe"] {
            let get = &container[probe]["httpGet"];
            assert_eq!(ports[get["port"].as_str().unwrap()], "9003/TCP");
            assert_eq!(master.page(get["path"].as_str().unwrap()).0, 200, "{probe}");
        }
        assert_ne!(container["livenessProbe"]["httpGet"]["path"], "/ready", "a start takes time");
    }
}

#[test]
fn there_is_one_master_and_it_comes_back_to_its_volume() {
    let claim = of_kind("PersistentVolumeClaim").remove(0);
    let volume = of_kind("PersistentVolume").remove(0);
    assert_eq!(claim["spec"]["storageClassName"], volume["spec"]["storageClassName"]);
    assert!(volume["spec"]["nodeAffinity"]["required"].is_object());
    for deployment in of_kind("Deployment") {
        assert_eq!(deployment["spec"]["replicas"], 1);
        assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
        let pod = &deployment["spec"]["template"]["spec"];
        let named = |it: &&Value| it["name"] == "handoff";
        let handoff = list(&pod["volumes"]).iter().find(named).unwrap();
        let named = &handoff["persistentVolumeClaim"]["claimName"];
        assert_eq!(*named, claim["metadata"]["name"]);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["enableServiceLinks"], false);
    }
    let kustomization = yaml("kubernetes/kustomization.yaml").remove(0);
    for name in strings(&kustomization["resources"]) {
        assert!(MANIFESTS.contains(&name.as_str()), "{name} is not checked");
    }
}

/// What `config store` says of the flags that follow.
fn effective_store(arguments: &[String]) -> String {
    // The cluster puts the name of the node there.
    let arguments: Vec<String> = arguments.iter().map(|it| it.replace("$(NODE)", "node")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run(&[&["config"], &arguments[..]].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn stores_call_the_master_by_its_service_and_fit_their_limits() {
    let found = yaml("kubernetes/store.yaml");
    let of_kind = |kind: &str| found.iter().find(|it| it["kind"] == kind).unwrap();
    let template = &of_kind("DaemonSet")["spec"]["template"];
    let (pod, labels) = (&template["spec"], &template["metadata"]["labels"]);
    let container = &pod["containers"][0];
    let effective = effective_store(&strings(&container["args"]));
    let master = yaml("kubernetes/master.yaml");
    let service = master.iter().find(|it| it["kind"] == "Service").unwrap();
    let port = &service["spec"]["ports"][0]["port"];
    let name = service["metadata"]["name"].as_str().unwrap();
    assert_eq!(setting(&effective, "master"), format!("{name}:{port}"));
    // The policy of the master lets in whoever has this label, and that of the store lets engines in.
    for policy in [yaml("kubernetes/policy.yaml").remove(1), of_kind("NetworkPolicy").clone()] {
        assert_eq!(policy["kind"], "NetworkPolicy");
        let from = &policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
        assert_eq!(from["mooring.io/client"], labels["mooring.io/client"]);
    }
    let data = setting(&effective, "data-port") + "/UDP";
    let rule = &of_kind("NetworkPolicy")["spec"]["ingress"][0];
    for (ports_of, field) in [(container, "containerPort"), (rule, "port")] {
        let opened: Vec<String> = ports(&ports_of["ports"], field).into_values().collect();
        assert_eq!(opened, std::slice::from_ref(&data), "{field}");
    }
    let gib = |text: &str| {
        text.trim_end_matches("iB")
            .trim_end_matches("Gi")
            .trim_end_matches('G')
            .parse::<u64>()
            .unwrap()
    };
    let (memory, limit) =
        (setting(&effective, "memory"), &container["resources"]["limits"]["memory"]);
    // The buffers are half a gibibyte.
    assert!(gib(limit.as_str().unwrap()) > gib(&memory), "{memory} does not fit {limit}");
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) >= seconds(&setting(&effective, "grace")) + SPARE);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["enableServiceLinks"], false);
    let image = |of: &Value| of["image"].clone();
    let deployment = master.iter().find(|it| it["kind"] == "Deployment").unwrap();
    assert_eq!(image(container), image(&deployment["spec"]["template"]["spec"]["containers"][0]));
}

#[test]
fn the_unit_waits_for_what_the_master_says_and_gives_it_time_to_leave() {
    let unit = text("systemd/mooring.service");
    let value = |key: &str| {
        let start = format!("{key}=");
        let found = unit.lines().find_map(|line| line.strip_prefix(start.as_str()));
        found.unwrap_or_else(|| panic!("no {key}"))
    };
    assert_eq!((value("Type"), value("NotifyAccess")), ("notify", "main"));
    let command: Vec<&str> = value("ExecStart").split(' ').collect();
    let config = command.iter().position(|it| *it == "--config").unwrap();
    // The file is of the place. What is left are the flags.
    let flags = [&command[2..config], &command[config + 2..]].concat();
    let effective = effective(&[&["--dev"], &flags[..]].concat());
    let deadline = seconds(&setting(&effective, "shutdown-deadline-sec"));
    assert!(seconds(value("TimeoutStopSec")) >= deadline + SPARE);
    assert!(seconds(value("WatchdogSec")) > 2 * deadline, "a master that leaves is not hung");
    assert!(setting(&effective, "handoff-dir").starts_with("/var/lib/mooring/"));
    assert_eq!(value("StateDirectory"), "mooring");
}

#[test]
fn the_chart_is_of_this_release_and_its_flags_are_flags() {
    let chart = yaml("helm/mooring/Chart.yaml").remove(0);
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let template =
        text("helm/mooring/templates/deployment.yaml") + &text("helm/mooring/templates/store.yaml");
    let known = run(&["reference", "flags"]).stdout;
    let known = String::from_utf8(known).unwrap() + &text("migrating.md");
    let flags = Regex::new(r"--[a-z][a-z0-9_-]+[a-z0-9]").unwrap();
    let mut count = 0;
    for flag in flags.find_iter(&template) {
        // That program takes the flags of this one with underscores.
        let (own, other) = (flag.as_str().replace('_', "-"), flag.as_str());
        let is_known = |name: &str| {
            known.contains(&format!("`{name}`")) || known.contains(&format!("`{name} "))
        };
        assert!(is_known(&own) || is_known(other), "{other}");
        count += 1;
    }
    assert!(count > 10);
    // Every value that a template asks for is there, and described by the schema.
    let values = yaml("helm/mooring/values.yaml").remove(0);
    let schema: Value = serde_json::from_str(&text("helm/mooring/values.schema.json")).unwrap();
    let asked = Regex::new(r"\.Values\.([a-zA-Z.]+)").unwrap();
    let templates = [
        "deployment.yaml",
        "service.yaml",
        "store.yaml",
        "policy.yaml",
        "volume.yaml",
        "monitor.yaml",
    ];
    for name in ["_helpers.tpl"].into_iter().chain(templates) {
        let template = text(&format!("helm/mooring/templates/{name}"));
        for found in asked.captures_iter(&template) {
            let (mut value, mut described) = (&values, &schema);
            for part in found[1].split('.') {
                value = value.get(part).unwrap_or_else(|| panic!("{name}: no value {}", &found[1]));
                described = &described["properties"][part];
                assert!(described.is_object(), "{name}: {} is not in the schema", &found[1]);
            }
        }
    }
}
