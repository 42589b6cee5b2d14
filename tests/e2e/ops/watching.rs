//! Dashboard and alerts: what they ask for is there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::expression::{Selector, selectors};
use super::{metrics, text, yaml};
use crate::exposition::Family;

const DASHBOARD: &str = "grafana/mooring.json";
const ALERTS: &str = "alerts/mooring.rules.yml";

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() {
    let families = metrics::all();
    let mut asked = BTreeSet::new();
    for (place, expression) in expressions() {
        let selectors = selectors(&expression);
        assert!(!selectors.is_empty(), "{place} asks for nothing: {expression}");
        for selector in selectors {
            if let Err(error) = is_there(&selector, &families) {
                panic!("{place}: {error}, in {expression}");
            }
            asked.insert(selector.metric);
        }
    }
    assert!(asked.len() > 40, "too few expressions were found: {asked:?}");
}

/// Every expression, and where it stands.
fn expressions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    collect(&dashboard, &mut found);
    for rule in rules() {
        let place = format!("{ALERTS}, {}", rule["alert"]);
        found.push((place, rule["expr"].as_str().unwrap().to_owned()));
    }
    found
}

/// The expressions of panels, annotations and variables, wherever they stand.
fn collect(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            let title = members.get("title").or(members.get("name")).unwrap_or(&Value::Null);
            let place = format!("{DASHBOARD}, {title}");
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "expr" => {
                        found.push((place.clone(), text.clone()));
                    }
                    Value::String(text) if name == "query" && text.contains('(') => {
                        // `label_values(metric, label)`
                        let metric = text.rsplit_once(',').map_or("", |(metric, _)| metric);
                        found.push((place.clone(), metric.replacen("label_values(", "", 1)));
                    }
                    _ => collect(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Whether the page has the metric, with these labels, and with these values where one is named.
fn is_there(selector: &Selector, families: &[Family]) -> Result<(), String> {
    let named = |family: &&Family| {
        let part = selector.metric.strip_prefix(family.name.as_str());
        match family.kind.as_str() {
            "histogram" => matches!(part, Some("_bucket" | "_sum" | "_count")),
            _ => part == Some(""),
        }
    };
    let Some(family) = families.iter().find(named) else {
        return Err(format!("there is no metric {}", selector.metric));
    };
    for (label, operator, value) in &selector.matchers {
        // Prometheus adds these.
        if ["job", "instance"].contains(&label.as_str()) {
            continue;
        }
        let mut values = family.samples.iter().filter_map(|sample| sample.labels.get(label));
        let is_known = match operator.as_str() {
            "=" => values.any(|known| known == value),
            _ => values.next().is_some(),
        };
        if !is_known {
            return Err(format!("{} has no {label}{operator}{value:?}", selector.metric));
        }
    }
    Ok(())
}

fn rules() -> Vec<Value> {
    let file = yaml(ALERTS).remove(0);
    let groups = file["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_alert_tells_people_what_to_do() {
    let runbook = text("runbook.md");
    let headings: Vec<&str> = runbook.lines().filter_map(|it| it.strip_prefix("## ")).collect();
    let mut names = Vec::new();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap().to_owned();
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        for field in ["summary", "description"] {
            let text = rule["annotations"][field].as_str().unwrap();
            assert!(text.ends_with('.'), "{name}: {text}");
        }
        let place = format!("ops/runbook.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook"], place, "{name}");
        names.push(name);
    }
    let described: Vec<&str> =
        headings.into_iter().filter(|it| it.starts_with("Mooring")).collect();
    assert_eq!(described, names, "the runbook has a part for each alert, in their order");
}

#[test]
fn every_panel_has_a_place_and_a_description() {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: the id is there twice");
        let place = &panel["gridPos"];
        let end = place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap();
        assert!(end <= 24, "{title} is too wide");
        if panel["type"] != "row" {
            assert!(panel["description"].as_str().unwrap().ends_with('.'), "{title}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}");
        }
    }
}
