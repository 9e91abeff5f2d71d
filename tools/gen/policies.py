#!/usr/bin/env python3
"""Writes deploy/policies/admission-policies.yaml: the admission rules that CEL can say, as ValidatingAdmissionPolicies.
They are evaluated inside the API server, so a cluster that only wants these rules needs no admission server; --check
compares only.

What CEL cannot say stays with `basalt webhooks`: defaults, other objects (queues, hierarchies), cycles of dependencies,
pod templates, schedules. The words are those of the webhooks where they fit into one sentence.
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "deploy/policies/admission-policies.yaml"

EVENTS = "['*', 'PodFailed', 'PodEvicted', 'PodPending', 'Unknown', 'TaskCompleted', 'TaskFailed', 'JobUpdated']"
ACTIONS = ("['AbortJob', 'RestartJob', 'TerminateJob', 'CompleteJob', 'ResumeJob', 'RestartTask', 'RestartPod', "
           "'RestartPartition']")
PLUGINS = "['ssh', 'env', 'svc', 'tensorflow', 'mpi', 'pytorch', 'hcclrank', 'ray']"


def list_of(holder, name):
    return f"has({holder}.{name}) ? {holder}.{name} : []"


def both_tiers(topology):
    """No holder of a network topology names its tier in both ways."""
    return (f"!has({topology}) || !has({topology}.highestTierAllowed) || !has({topology}.highestTierName) || "
            f"{topology}.highestTierName == ''")


def unchanged(field):
    """On update: a field of spec that stays, absent or not."""
    return (f"request.operation != 'UPDATE' || has(object.spec.{field}) == has(oldObject.spec.{field}) && "
            f"(!has(object.spec.{field}) || object.spec.{field} == oldObject.spec.{field})")


def policy_rules(policies, where):
    """The rules of one list of life-cycle policies. `policies` is an expression that yields it."""
    events = "((has(p.event) && p.event != '' ? [p.event] : []) + (has(p.events) ? p.events : []))"
    return [
        (f"{policies}.all(p, {events}.size() == 0 || !has(p.exitCode))",
         f"{where}: must not specify event and exitCode simultaneously"),
        (f"{policies}.all(p, {events}.size() > 0 || has(p.exitCode))",
         f"{where}: either event and exitCode should be specified"),
        (f"{policies}.all(p, {events}.all(e, e in {EVENTS}))", f"{where}: invalid policy event; valid events are {EVENTS}"),
        (f"{policies}.all(p, has(p.action) && p.action in {ACTIONS})",
         f"{where}: invalid policy action; valid actions are {ACTIONS}"),
        (f"{policies}.all(p, !has(p.exitCode) || p.exitCode != 0)", f"{where}: 0 is not a valid error code"),
        (f"{policies}.all(p, !has(p.exitCode) || {policies}.filter(q, has(q.exitCode) && q.exitCode == p.exitCode).size() "
         f"== 1)", f"{where}: duplicate exitCode"),
        (f"{policies}.all(p, !has(p.event) || p.event == '' || {policies}.filter(q, has(q.event) && q.event == "
         f"p.event).size() == 1)", f"{where}: duplicate event across different policies"),
        (f"!{policies}.exists(p, has(p.event) && p.event == '*') || {policies}.all(p, has(p.exitCode) || has(p.event) && "
         f"p.event == '*' && !has(p.events))", f"{where}: if there's * here, no other policy should be here"),
    ]


JOB = {
    "variables": {"tasks": "has(object.spec) && has(object.spec.tasks) ? object.spec.tasks : []",
                  "policies": "has(object.spec) && has(object.spec.policies) ? object.spec.policies : []",
                  "volumes": "has(object.spec) && has(object.spec.volumes) ? object.spec.volumes : []",
                  "plugins": "has(object.spec) && has(object.spec.plugins) ? object.spec.plugins : {}",
                  "taskPolicies": "variables.tasks.filter(t, has(t.policies))"},
    "rules": [
        ("variables.tasks.size() > 0", "spec.tasks: No task specified in job spec"),
        ("variables.tasks.size() <= 1000", "spec.tasks: must have at most 1000 items"),
        ("!has(object.spec) || " + both_tiers("object.spec.networkTopology"),
         "spec.networkTopology: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"),
        ("variables.tasks.all(t, !has(t.minAvailable) || t.minAvailable <= (has(t.replicas) ? t.replicas : 0))",
         "spec.tasks: 'minAvailable' is greater than 'replicas' in a task"),
        ("variables.tasks.all(t, !has(t.name) || t.name == '' || variables.tasks.filter(u, has(u.name) && u.name == "
         "t.name).size() == 1)", "spec.tasks: duplicated task name; every task of a job needs its own name"),
        ("variables.tasks.all(t, !has(t.partitionPolicy) || has(t.partitionPolicy.totalPartitions) && "
         "t.partitionPolicy.totalPartitions > 0)", "spec.tasks: 'TotalPartitions' must be greater than 0"),
        ("variables.tasks.all(t, !has(t.partitionPolicy) || has(t.partitionPolicy.partitionSize) && "
         "t.partitionPolicy.partitionSize > 0)", "spec.tasks: 'PartitionSize' must be greater than 0"),
        ("variables.tasks.all(t, !has(t.partitionPolicy) || !has(t.partitionPolicy.totalPartitions) || "
         "!has(t.partitionPolicy.partitionSize) || has(t.replicas) && t.replicas == t.partitionPolicy.totalPartitions * "
         "t.partitionPolicy.partitionSize)", "spec.tasks: 'Replicas' are not equal to TotalPartitions*PartitionSize"),
        ("!has(object.spec) || !has(object.spec.minAvailable) || object.spec.minAvailable <= variables.tasks.map(t, "
         "has(t.replicas) ? t.replicas : 0).sum()",
         "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks"),
        ("object.metadata.name.size() <= 63", "metadata.name: create job with name: must be no more than 63 bytes"),
        ("variables.tasks.all(t, !has(t.name) || object.metadata.name.size() + t.name.size() + 3 <= 63)",
         "spec.tasks: create pod with name: the job's name and a task's are together longer than 60 bytes"),
        *policy_rules("variables.policies", "spec.policies"),
        *[(f"variables.taskPolicies.all(t, {expression})", message)
          for expression, message in policy_rules("t.policies", "spec.tasks[].policies")],
        (f"variables.plugins.all(name, name in {PLUGINS})", f"spec.plugins: unable to find job plugin; known plugins are {PLUGINS}"),
        ("!('mpi' in variables.plugins) || variables.plugins['mpi'].exists(a, a.contains('master')) || "
         "variables.tasks.exists(t, has(t.name) && t.name == 'master')",
         "spec.plugins[mpi]: The mpi master task was not found; name a task master, or give the argument --master=<task>"),
        ("variables.volumes.all(v, has(v.mountPath) && v.mountPath != '')", "spec.volumes: mountPath is required"),
        ("variables.volumes.all(v, !has(v.mountPath) || variables.volumes.filter(w, has(w.mountPath) && w.mountPath == "
         "v.mountPath).size() == 1)", "spec.volumes: duplicated mountPath"),
        ("request.operation != 'CREATE' || variables.volumes.all(v, has(v.volumeClaim) || has(v.volumeClaimName) && "
         "v.volumeClaimName != '')", "spec.volumes: either VolumeClaim or VolumeClaimName must be specified"),
        ("request.operation != 'CREATE' || variables.volumes.all(v, !has(v.volumeClaim) || !has(v.volumeClaimName) || "
         "v.volumeClaimName == '')", "spec.volumes: conflict: specify either VolumeClaim or VolumeClaimName"),
        ("!has(object.spec) || !has(object.spec.queue) || object.spec.queue != 'root'",
         "spec.queue: can not submit job to root queue"),
        ("variables.tasks.all(t, !has(t.dependsOn) || !has(t.dependsOn.name) || t.dependsOn.name.all(d, "
         "variables.tasks.exists(u, has(u.name) && u.name == d && (!has(t.name) || t.name != d))))",
         "spec.tasks: dependencies don't form a directed acyclic graph(DAG): a task waits for itself or for no task"),
        ("request.operation != 'UPDATE' || variables.tasks.size() == (has(oldObject.spec.tasks) ? oldObject.spec.tasks : "
         "[]).size()", "spec.tasks: job updates may not add or remove tasks"),
        *[(unchanged(field), f"spec.{field}: job updates may not change fields other than `minAvailable`, "
                             "`tasks[*].replicas`, `tasks[*].minAvailable` and `priorityClassName` under spec")
          for field in ("queue", "policies", "plugins", "schedulerName", "maxRetry", "ttlSecondsAfterFinished", "minSuccess",
                        "networkTopology")],
        ("request.operation != 'UPDATE' || variables.tasks.all(t, !has(t.name) || oldObject.spec.tasks.exists(o, has(o.name) "
         "&& o.name == t.name && has(o.template) == has(t.template) && (!has(t.template) || o.template == t.template)))",
         "spec.tasks: job updates may not change the name or the template of a task"),
    ],
}


def amounts(name, path):
    return f"has(object.spec) && has(object.spec.{path}) ? object.spec.{path} : {{}}"


def not_negative(name, path):
    return (f"variables.{name}.all(r, quantity(string(variables.{name}[r])).compareTo(quantity('0')) >= 0)",
            f"requestBody.spec.{path}: amounts must be greater than or equal to 0")


QUEUE = {
    "variables": {
        "capability": amounts("capability", "capability"),
        "deserved": amounts("deserved", "deserved"),
        "guarantee": "has(object.spec) && has(object.spec.guarantee) && has(object.spec.guarantee.resource) ? "
                     "object.spec.guarantee.resource : {}",
        "annotations": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
        "path": "'volcano.sh/hierarchy' in variables.annotations ? variables.annotations['volcano.sh/hierarchy'] : ''",
        "weights": "'volcano.sh/hierarchy-weights' in variables.annotations ? "
                   "variables.annotations['volcano.sh/hierarchy-weights'] : ''",
    },
    "rules": [
        not_negative("capability", "capability"),
        not_negative("deserved", "deserved"),
        not_negative("guarantee", "guarantee.resource"),
        ("variables.guarantee.all(r, r in variables.deserved && quantity(string(variables.deserved[r]))"
         ".compareTo(quantity(string(variables.guarantee[r]))) >= 0)",
         "requestBody.spec.deserved: deserved must be >= guarantee in every resource"),
        ("variables.deserved.all(r, !(r in variables.capability) || quantity(string(variables.deserved[r]))"
         ".compareTo(quantity(string(variables.capability[r]))) <= 0)",
         "requestBody.spec.deserved: deserved must be <= capability in every resource"),
        ("variables.path.split('/').size() == variables.weights.split('/').size()",
         "requestBody.metadata.annotations: volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"),
        ("variables.weights == '' || variables.weights.split('/').all(w, w.matches('^[0-9]+([.][0-9]+)?$') && double(w) > 0.0)",
         "requestBody.metadata.annotations: every weight must be larger than 0"),
        ("!has(object.spec) || !has(object.spec.parent) || object.spec.parent != object.metadata.name",
         "a queue cannot use itself as parent"),
        ("request.operation != 'UPDATE' || object.metadata.name != 'root' || " +
         " && ".join(f"has(object.spec.{f}) == has(oldObject.spec.{f}) && (!has(object.spec.{f}) || object.spec.{f} == "
                     f"oldObject.spec.{f})" for f in ("capability", "deserved", "guarantee")),
         "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"),
    ],
}

QUEUE_DELETE = {"variables": {}, "rules": [
    ("!(oldObject.metadata.name in ['default', 'root'])", "`default` and `root` queue can not be deleted")]}

POD_GROUP = {"variables": {"groups": "has(object.spec) && has(object.spec.subGroupPolicy) ? object.spec.subGroupPolicy : []"},
             "rules": [
    ("!has(object.spec) || " + both_tiers("object.spec.networkTopology"),
     "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."),
    ("variables.groups.all(g, " + both_tiers("g.networkTopology") + ")",
     "in subGroupPolicy: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously.")]}

BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
POD = {"variables": {"annotations": "has(object.metadata.annotations) ? object.metadata.annotations : {}"}, "rules": [
    *[(f"!('{key}' in variables.annotations) || variables.annotations['{key}'].matches('^([1-9][0-9]{{0,8}}|[1-9][0-9]?%)$')",
       f"invalid value for {key}, it must be a positive integer or a valid percentage which between 1% ~ 99%")
      for key in BUDGETS],
    (f"!('{BUDGETS[0]}' in variables.annotations && '{BUDGETS[1]}' in variables.annotations)",
     f"not allow configure multiple annotations <[{BUDGETS[0]} {BUDGETS[1]}]> at same time")]}

CRON_JOB = {"variables": {"schedule": "has(object.spec) && has(object.spec.schedule) ? object.spec.schedule : ''"}, "rules": [
    ("variables.schedule != ''", "spec.schedule: schedule is required, but got empty"),
    ("!variables.schedule.contains('TZ')",
     "spec.schedule: schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"),
    ("variables.schedule == '' || variables.schedule.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly|every .+)$')"
     " || variables.schedule.matches('^\\\\s*([-0-9A-Za-z*?,/]+\\\\s+){4}[-0-9A-Za-z*?,/]+\\\\s*$')",
     "spec.schedule: schedule is not a valid cron expression: 5 fields are needed"),
    ("!has(object.spec) || !has(object.spec.timeZone) || object.spec.timeZone != ''",
     "spec.timeZone: timeZone must be nil or non-empty string, got empty string"),
    ("!has(object.spec) || !has(object.spec.timeZone) || object.spec.timeZone.lowerAscii() != 'local'",
     "spec.timeZone: timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"),
    ("object.metadata.name.size() <= 52",
     "metadata.name: cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)")]}

JOB_FLOW = {"variables": {"flows": "has(object.spec) && has(object.spec.flows) ? object.spec.flows : []"}, "rules": [
    ("variables.flows.all(f, !has(f.dependsOn) || !has(f.dependsOn.targets) || f.dependsOn.targets.all(t, "
     "variables.flows.exists(g, g.name == t)))", "jobflow Flow is not DAG: vertex is not defined"),
    ("variables.flows.all(f, !has(f.dependsOn) || !has(f.dependsOn.targets) || !(f.name in f.dependsOn.targets))",
     "jobflow Flow is not DAG: a flow waits for itself"),
    ("variables.flows.all(f, variables.flows.filter(g, g.name == f.name).size() == 1)",
     "jobflow Flow has a duplicate name: every flow needs its own name")]}

HYPER_NODE = {"variables": {}, "rules": [
    ("has(object.spec) && has(object.spec.members) && object.spec.members.size() > 0",
     "spec.members: member must have at least one member")]}

HYPER_JOB = {"variables": {"entries": "has(object.spec) && has(object.spec.replicatedJobs) ? object.spec.replicatedJobs : []"},
             "rules": [
    ("variables.entries.all(e, has(e.name) && e.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && e.name.size() <= 63)",
     "spec.replicatedJobs: every name must be a lowercase RFC 1123 label"),
    ("variables.entries.all(e, !has(e.replicas) || e.replicas >= 0)",
     "spec.replicatedJobs: replicas must be greater than or equal to 0"),
    ("variables.entries.all(e, has(e.templateSpec) && has(e.templateSpec.tasks) && e.templateSpec.tasks.size() > 0)",
     "spec.replicatedJobs: No task specified in job spec"),
    ("variables.entries.all(e, !has(e.templateSpec) || !has(e.templateSpec.tasks) || e.templateSpec.tasks.size() == 0 || "
     "has(e.templateSpec.tasks[0].replicas) && e.templateSpec.tasks[0].replicas >= 1)",
     "spec.replicatedJobs: the first task needs at least one replica"),
    ("!has(object.spec) || !has(object.spec.minAvailable) || object.spec.minAvailable >= 0 && object.spec.minAvailable <= "
     "variables.entries.map(e, has(e.replicas) ? e.replicas : 1).sum()",
     "spec.minAvailable: must be between 0 and the number of jobs")]}


def texts(fields):
    return [(f"has(object.spec) && has(object.spec.{f}) && object.spec.{f}.trim() != ''",
             f"spec.{f}: Required value: must not be empty") for f in fields]


def amoro(field):
    return (f"!has(object.spec) || !has(object.spec.system) || object.spec.system != 'amoro' || !has(object.spec.{field}) || "
            f"object.spec.{field}.matches('^[^.]+[.][^.]+[.][^.]+$')",
            f"spec.{field}: a name of system amoro is catalog.database.table")


DATA_SOURCE = {"variables": {}, "rules": [*texts(("system", "type", "name")), amoro("name")]}
DATA_SOURCE_CLAIM = {"variables": {}, "rules": [
    *texts(("system", "dataSourceType", "dataSourceName")), amoro("dataSourceName"),
    *[(f"has(object.spec) && has(object.spec.workload) && has(object.spec.workload.{f}) && object.spec.workload.{f} != ''",
       f"spec.workload.{f}: Required value: must not be empty") for f in ("apiVersion", "kind", "name")],
    ("!has(object.spec) || !has(object.spec.workload) || !has(object.spec.workload.namespace) || "
     "object.spec.workload.namespace == '' || object.spec.workload.namespace == request.namespace",
     "spec.workload.namespace: a claim can only bind a workload of its own namespace")]}

WRITES = ("CREATE", "UPDATE")
POLICIES = [
    ("jobs", "batch.volcano.sh", "v1alpha1", "jobs", WRITES, JOB),
    ("queues", "scheduling.volcano.sh", "v1beta1", "queues", WRITES, QUEUE),
    ("queues-delete", "scheduling.volcano.sh", "v1beta1", "queues", ("DELETE",), QUEUE_DELETE),
    ("podgroups", "scheduling.volcano.sh", "v1beta1", "podgroups", ("CREATE",), POD_GROUP),
    ("pods", "", "v1", "pods", ("CREATE",), POD),
    ("cronjobs", "batch.volcano.sh", "v1alpha1", "cronjobs", WRITES, CRON_JOB),
    ("jobflows", "flow.volcano.sh", "v1alpha1", "jobflows", WRITES, JOB_FLOW),
    ("hypernodes", "topology.volcano.sh", "v1alpha1", "hypernodes", WRITES, HYPER_NODE),
    ("hyperjobs", "training.volcano.sh", "v1alpha1", "hyperjobs", WRITES, HYPER_JOB),
    ("datasources", "datadependency.volcano.sh", "v1alpha1", "datasources", WRITES, DATA_SOURCE),
    ("datasourceclaims", "datadependency.volcano.sh", "v1alpha1", "datasourceclaims", WRITES, DATA_SOURCE_CLAIM),
]
# What is stored already is not refused again, so that labels and finalizers stay writable.
SPEC_CHANGES = ("request.operation != 'UPDATE' || has(object.spec) != has(oldObject.spec) || has(object.spec) && object.spec != "
                "oldObject.spec")
HEADER = """\
# The admission rules that CEL can say, evaluated by the API server itself (Kubernetes 1.30). Made by
# tools/gen/policies.py; do not edit. An alternative to webhooks.yaml and webhook-configurations.yaml for clusters that
# want no server: no defaults are written, and rules about other objects, pod templates and cycles are not checked.
"""


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def folded(text, indent):
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(indent) + len(line) + 1 + len(word) > 118:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join(indent + one for one in [*lines, line])


def manifest(name, group, version, resource, operations, policy):
    full = f"volcano-{name}"
    conditions = []
    if "UPDATE" in operations:
        conditions.append(("specification-changes", SPEC_CHANGES))
    if resource == "pods":
        conditions.append(("is-ours", "has(object.spec.schedulerName) && object.spec.schedulerName == 'volcano'"))
    if resource == "queues" and "UPDATE" in operations:
        conditions[0] = ("something-changes", SPEC_CHANGES + " || (has(object.metadata.annotations) ? "
                         "object.metadata.annotations : {}) != (has(oldObject.metadata.annotations) ? "
                         "oldObject.metadata.annotations : {})")
    out = ["---", "apiVersion: admissionregistration.k8s.io/v1", "kind: ValidatingAdmissionPolicy", "metadata:",
           f"  name: {full}", "spec:", "  failurePolicy: Fail", "  matchConstraints:", "    resourceRules:",
           f"      - apiGroups: [{quoted(group)}]", f"        apiVersions: [{version}]",
           f"        operations: [{', '.join(operations)}]", f"        resources: [{resource}]"]
    if conditions:
        out.append("  matchConditions:")
        for condition, expression in conditions:
            out += [f"    - name: {condition}", "      expression: >-", folded(expression, " " * 8)]
    if policy["variables"]:
        out.append("  variables:")
        for variable, expression in policy["variables"].items():
            out += [f"    - name: {variable}", "      expression: >-", folded(expression, " " * 8)]
    out.append("  validations:")
    for expression, message in policy["rules"]:
        out += ["    - expression: >-", folded(expression, " " * 8), f"      message: {quoted(message)}"]
    out += ["---", "apiVersion: admissionregistration.k8s.io/v1", "kind: ValidatingAdmissionPolicyBinding", "metadata:",
            f"  name: {full}", "spec:", f"  policyName: {full}", "  validationActions: [Deny]"]
    if resource not in ("queues", "hypernodes", "datasources"):
        out += ["  matchResources:", "    namespaceSelector:", "      matchExpressions:",
                "        - key: kubernetes.io/metadata.name", "          operator: NotIn",
                "          values: [kube-system, volcano-system]"]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = HEADER + "".join(manifest(*policy) for policy in POLICIES)
    if not arguments.check:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text)
    elif not OUTPUT.exists() or OUTPUT.read_text() != text:
        sys.exit(f"policies: {OUTPUT.relative_to(ROOT)} is out of date: run make generate")


if __name__ == "__main__":
    main()
