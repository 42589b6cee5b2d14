"""Checks manifests against the schemas of Kubernetes, the chart with Helm's own library, and the
expressions of the dashboard with promtool, whose path is the argument."""

import json
import pathlib
import subprocess
import sys
import tempfile

import helm_python
import kubernetes_validate
import yaml

OPS = pathlib.Path("ops")
# The oldest release that the chart says it is for and that the package knows, and a recent one.
RELEASES = ["1.25", "1.34"]


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def check_schemas(place, found):
    for document in found:
        if document["kind"] == "Kustomization":
            continue
        for release in RELEASES:
            kubernetes_validate.validate(document, release, strict=True)
        print(f"{place}: {document['kind']} {document['metadata']['name']}")


def rendered(chart, values):
    files = chart.render(values=values, name="mooring")
    return [
        document
        for name, text in sorted(files.items())
        if name.endswith(".yaml")
        for document in documents(text)
    ]


def container(found):
    pod = next(it for it in found if it["kind"] == "Deployment")["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def check_chart(manifests):
    outcome = helm_python.lint(str(OPS / "helm/mooring"))
    # The lowest severity is an advice, as that to have an icon.
    faults = [it for it in outcome["messages"] if it["severity"] > 1] + outcome["errors"]
    assert not faults, faults
    with helm_python.Chart.load(str(OPS / "helm/mooring")) as chart:
        for protocol, name in [("native", "master.yaml"), ("mooncake", "mooncake.yaml")]:
            found = rendered(chart, {"protocol": protocol})
            check_schemas(f"chart, {protocol}", found)
            check_schemas(
                f"chart, {protocol}, little",
                rendered(
                    chart,
                    {
                        "protocol": protocol,
                        "handoff": {"enabled": False},
                        "networkPolicy": {"enabled": False},
                        "disruptionBudget": {"enabled": False},
                        "extraArgs": ["--shards=2"],
                        "podAnnotations": {"a": "b"},
                        "tolerations": [{"operator": "Exists"}],
                        "nodeSelector": {"a": "b"},
                        "priorityClassName": "high",
                    },
                ),
            )
            if protocol == "native":
                check_stores(chart, manifests["store.yaml"])
            # The chart and the manifests are two ways to the same master.
            (pod, ours), (other_pod, theirs) = container(found), container(manifests[name])
            assert set(theirs["args"]) <= set(ours["args"]), (theirs["args"], ours["args"])
            for field in ["ports", "readinessProbe", "livenessProbe", "resources", "securityContext"]:
                assert ours[field] == theirs[field], (name, field)
            for field in ["terminationGracePeriodSeconds", "securityContext", "enableServiceLinks"]:
                assert pod[field] == other_pod[field], (name, field)
        for wrong in [{"protocol": "tcp"}, {"handoff": {"failurePolicy": "x"}}, {"unknown": 1}]:
            try:
                chart.render(values=wrong, name="mooring")
            except helm_python.HelmError:
                continue
            raise AssertionError(f"the chart takes {wrong}")


def check_stores(chart, manifest):
    found = rendered(chart, {"store": {"enabled": True}})
    check_schemas("chart, with stores", found)
    ours, theirs = (
        next(it for it in documents if it["kind"] == "DaemonSet")["spec"]
        for documents in [found, manifest]
    )
    assert ours["updateStrategy"] == theirs["updateStrategy"]
    ours, theirs = ours["template"]["spec"], theirs["template"]["spec"]
    for field in ["terminationGracePeriodSeconds", "securityContext", "nodeSelector", "volumes"]:
        assert ours[field] == theirs[field], field
    for field in ["args", "env", "ports", "resources", "securityContext", "volumeMounts"]:
        assert ours["containers"][0][field] == theirs["containers"][0][field], field


def expressions(value):
    if isinstance(value, dict):
        if "expr" in value:
            yield value["expr"]
        for member in value.values():
            yield from expressions(member)
    elif isinstance(value, list):
        for item in value:
            yield from expressions(item)


def check_dashboard(promtool):
    if not pathlib.Path(promtool).exists():
        print("== operator files: SKIPPED the dashboard: promtool cannot be had")
        return
    found = list(expressions(json.loads((OPS / "grafana/mooring.json").read_text())))
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(found)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        subprocess.run([promtool, "check", "rules", file.name], check=True)


def main():
    manifests = {}
    for path in sorted((OPS / "kubernetes").glob("*.yaml")):
        manifests[path.name] = documents(path.read_text())
        check_schemas(path, manifests[path.name])
    check_chart(manifests)
    check_dashboard(sys.argv[1])


main()
