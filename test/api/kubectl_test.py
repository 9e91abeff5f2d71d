#!/usr/bin/env python3
"""Real kubectl against Basalt's server: each command is run, its exit code and what it prints are checked."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clusters

CRDS = str(clusters.ROOT / "deploy" / "crds")
JOB = str(clusters.ROOT / "examples" / "hello-gang.yaml")
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
"""
OWNED = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: hello-gang, uid: %s, blockOwnerDeletion: true}]
"""


class Kubectl:
    def __init__(self, kubeconfig):
        self.environment = dict(os.environ, KUBECONFIG=kubeconfig, HOME=os.path.dirname(kubeconfig))
        self.count = 0

    def run(self, *arguments, input=None, expect=0):
        self.count += 1
        done = subprocess.run([clusters.kubectl(), *arguments], env=self.environment, input=input, text=True,
                              capture_output=True, timeout=60)
        if done.returncode != expect:
            raise AssertionError(f"kubectl {' '.join(arguments)}: exit {done.returncode}, not {expect}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def says(self, pattern, *arguments, **options):
        text = self.run(*arguments, **options)
        assert re.search(pattern, text), f"kubectl {' '.join(arguments)}: no /{pattern}/ in\n{text}"
        return text


def check_cascade(kubectl, cascade, survives):
    kubectl.says("created", "apply", "-f", JOB)
    uid = kubectl.run("get", "vcjob", "hello-gang", "-o", "jsonpath={.metadata.uid}")
    kubectl.says("created", "create", "-f", "-", input=OWNED % ("owned-" + cascade, uid))
    kubectl.says("deleted", "delete", "vcjob", "hello-gang", "--cascade=" + cascade, "--timeout=20s")
    if survives:
        text = kubectl.run("get", "cm", "owned-" + cascade, "-o", "yaml")
        assert "ownerReferences" not in text, text
    else:
        kubectl.run("wait", "--for=delete", "cm/owned-" + cascade, "--timeout=20s")


def check_all(kubectl):
    kubectl.says(r"jobs.batch.volcano.sh created", "apply", "-f", CRDS)
    kubectl.says(r"jobs.batch.volcano.sh unchanged", "apply", "-f", CRDS)
    kubectl.says("No resources found", "get", "vcjob,q,pg,nsh", "-A")
    kubectl.says("condition met", "wait", "--for=condition=Established", "crd/jobs.batch.volcano.sh", "--timeout=20s")
    kubectl.says(r"vcjob,vj +batch.volcano.sh/v1alpha1 +true +Job", "api-resources")
    kubectl.says("batch.volcano.sh/v1alpha1", "api-versions")
    kubectl.says("Server Version: v1.36", "version")
    kubectl.says(r'"major": *"1"', "get", "--raw", "/version")
    kubectl.says(r'"minor": *"36"', "get", "--raw", "/version")

    kubectl.says("created", "apply", "-f", JOB)
    kubectl.says("unchanged", "apply", "-f", JOB)
    kubectl.says(r"NAME +STATUS +MINAVAILABLE +RUNNINGS +AGE\nhello-gang", "get", "vcjob")
    kubectl.says(r"QUEUE\nhello-gang .*default", "get", "vcjob", "-o", "wide")
    kubectl.says(r"^3$", "get", "vcjob", "hello-gang", "-o", "jsonpath={.spec.maxRetry}")
    kubectl.says(r"name: hello-gang", "get", "vcjob", "hello-gang", "-o", "yaml")
    kubectl.says(r"Min Available: +3", "describe", "vcjob", "hello-gang")
    kubectl.says("labeled", "label", "vcjob", "hello-gang", "team=a")
    kubectl.says("hello-gang", "get", "vcjob", "-l", "team=a")
    kubectl.says("No resources found", "get", "vcjob", "-l", "team=b")
    kubectl.says("annotated", "annotate", "vcjob", "hello-gang", "note=x")
    kubectl.says("patched", "patch", "vcjob", "hello-gang", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
    kubectl.says("patched", "patch", "vcjob", "hello-gang", "--type=json", "-p",
                 '[{"op":"replace","path":"/spec/minAvailable","value":1}]')
    kubectl.says(r"^1$", "get", "vcjob", "hello-gang", "-o", "jsonpath={.spec.minAvailable}")
    kubectl.says("unknown field \"spec.bogus\"", "patch", "vcjob", "hello-gang", "--type=merge", "-p",
                 '{"spec":{"bogus":1}}')
    kubectl.says("hello-gang", "get", "vcjob", "--field-selector=metadata.name=hello-gang")
    kubectl.says("deleted", "delete", "vcjob", "hello-gang")
    kubectl.says("NotFound", "get", "vcjob", "hello-gang", expect=1)
    for cascade, survives in (("background", False), ("foreground", False), ("orphan", True)):
        check_cascade(kubectl, cascade, survives)

    kubectl.says("created", "create", "configmap", "settings", "--from-literal=a=b")
    kubectl.says("created", "create", "namespace", "team")
    kubectl.says("created", "create", "secret", "generic", "s", "-n", "team", "--from-literal=k=v")
    kubectl.says("replaced", "replace", "-f", "-", input="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, "
                 "namespace: default}\ndata: {a: c}\n")
    kubectl.says(r"^c$", "get", "cm", "settings", "-o", "jsonpath={.data.a}")
    kubectl.says("created", "apply", "-f", "-", input=DEPLOYMENT)
    kubectl.says("scaled", "scale", "deployment", "web", "--replicas=5")
    kubectl.says(r"^5$", "get", "deploy", "web", "-o", "jsonpath={.spec.replicas}")
    kubectl.says("patched", "patch", "deployment", "web", "-p",
                 '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}}}')
    kubectl.says(r"^nginx:2$", "get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    kubectl.says("created", "run", "p", "--image=nginx", "--labels=app=p")
    kubectl.says(r"p +0/1 +Pending", "get", "pods")
    kubectl.says("Image: +nginx", "describe", "pod", "p")
    kubectl.says("deleted", "delete", "pod", "p", "--grace-period=0", "--force")
    kubectl.says("deleted", "delete", "namespace", "team", "--timeout=20s")
    kubectl.says("NotFound", "get", "secret", "s", "-n", "team", expect=1)
    kubectl.says("is invalid", "apply", "-f", "-", expect=1, input="apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
                 "metadata: {name: bad}\nspec: {minAvailable: -1, tasks: [{name: a, replicas: 1, template: {spec: "
                 "{containers: []}}}]}\n")


APPLIED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, labels: {app: web}}\ndata: {k: %s}\n"


def check_server_side_apply(kubectl):
    def apply(value, *flags, **options):
        return kubectl.run("apply", "--server-side", *flags, "-f", "-", input=APPLIED % value, **options)
    assert "serverside-applied" in apply("v1")
    kubectl.says(r"-  k: v1\n\+  k: v2", "diff", "--server-side", "-f", "-", input=APPLIED % "v2", expect=1)
    assert "serverside-applied" in apply("v2")
    assert "Apply failed with 1 conflict" in apply("v3", "--field-manager=other", expect=1)
    assert "serverside-applied" in apply("v3", "--field-manager=other", "--force-conflicts")
    kubectl.says("manager: other", "get", "cm", "applied", "-o", "yaml", "--show-managed-fields")
    kubectl.says("conflict", "apply", "--server-side", "-f", "-", input=APPLIED % "v4", expect=1)


def check_access(kubectl):
    kubectl.says("^yes", "auth", "can-i", "delete", "nodes")
    kubectl.says("created", "create", "serviceaccount", "robot")
    robot = "--as=system:serviceaccount:default:robot"
    kubectl.says("^no", "auth", "can-i", "list", "pods", robot, expect=1)
    kubectl.says("forbidden: User .system:serviceaccount:default:robot. cannot list resource .pods.", "get", "pods", robot, expect=1)
    kubectl.says("created", "create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    kubectl.says("No resources found", "get", "pods", robot)
    token = kubectl.run("create", "token", "robot").strip()
    kubectl.says("system:serviceaccount:default:robot", "auth", "whoami", "--token=" + token, "--client-certificate=", "--client-key=",
                 "--kubeconfig=" + without_certificate(kubectl))


def without_certificate(kubectl):
    """The kubeconfig without its user: a client certificate would count before the token."""
    path = kubectl.environment["KUBECONFIG"]
    text = pathlib.Path(path).read_text()
    plain = re.sub(r"(?m)^ *client-(certificate|key)-data: .*\n", "", text).replace("user:\n", "user: {}\n") \
        if "client-certificate-data" in text else text
    target = path + ".plain"
    pathlib.Path(target).write_text(plain)
    return target


def check_explain(kubectl):
    kubectl.says(r"minAvailable\s+<integer>", "explain", "vcjob.spec")
    kubectl.says(r"image\s+<string>", "explain", "pod.spec.containers")
    kubectl.says(r"default\s+<JSON>", "explain", "crd.spec.versions.schema.openAPIV3Schema")
    kubectl.says(r"FIELD: default <JSON>", "explain", "crd.spec.versions.schema.openAPIV3Schema.default")


# What `kubectl get -o yaml` prints of several objects. kubectl cannot leave their check to the server, and makes it by itself.
LIST = """
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: in-list}
  %s: {a: b}
- apiVersion: batch.volcano.sh/v1alpha1
  kind: Job
  metadata: {name: in-list}
  spec:
    minAvailable: %s
    tasks:
    - {name: a, replicas: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx, resources: {limits: {cpu: 1}}}]}}}
"""
LISTED_MAPS = "apiVersion: v1\nkind: ConfigMapList\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: of-a-kind}}]\n"


def check_lists(kubectl):
    made = kubectl.run("apply", "-f", "-", input=LIST % ("data", "1"))
    assert "configmap/in-list created" in made and "job.batch.volcano.sh/in-list created" in made, made
    refused = kubectl.run("apply", "-f", "-", input=LIST % ("dat", '"1"'), expect=1)
    for text in ('ValidationError(ConfigMap): unknown field "dat" in io.k8s.api.core.v1.ConfigMap',
                 'ValidationError(Job.spec.minAvailable): invalid type for sh.volcano.batch.v1alpha1.Job.spec.minAvailable: '
                 'got "string", expected "integer"'):
        assert text in refused, refused
    kubectl.says("configmap/of-a-kind created", "apply", "-f", "-", input=LISTED_MAPS)
    # Everything that there is fits the definitions that the server publishes.
    everything = kubectl.run("get", "crd,clusterrole,namespace,service,serviceaccount,vcjob,cm,deployment,secret", "-A", "-o", "yaml")
    again = kubectl.run("apply", "--dry-run=server", "-f", "-", input=everything)
    for name in ("customresourcedefinition.apiextensions.k8s.io/jobs.batch.volcano.sh", "clusterrole.rbac.authorization.k8s.io/view",
                 "job.batch.volcano.sh/in-list", "configmap/in-list", "deployment.apps/web", "service/kubernetes"):
        assert re.search(rf"(?m)^{re.escape(name)} (configured|unchanged) \(server dry run\)$", again), f"{name}:\n{again}"
    two = kubectl.run("get", "cm/in-list", "vcjob/in-list", "-o", "yaml")
    kubectl.says(r"configmap/in-list (unchanged|configured)\njob.batch.volcano.sh/in-list (unchanged|configured)", "apply", "-f", "-", input=two)
    kubectl.says(r"containers\t<\[\]Object>", "explain", "--output=plaintext-openapiv2", "pod.spec")
    kubectl.says(r"minAvailable\t<integer>", "explain", "--output=plaintext-openapiv2", "vcjob.spec")


def check_edit(kubectl):
    kubectl.says("created", "create", "configmap", "edited", "--from-literal=k=before")
    kubectl.environment["KUBE_EDITOR"] = "sed -i s/before/after/"
    kubectl.says("configmap/edited edited", "edit", "configmap", "edited")
    kubectl.says("^after$", "get", "configmap", "edited", "-o", "jsonpath={.data.k}")
    kubectl.environment["KUBE_EDITOR"] = "true"
    kubectl.says("Edit cancelled", "edit", "configmap", "edited")


def check_metrics(kubectl):
    lines = kubectl.run("get", "--raw", "/metrics").splitlines()
    for name, *labels in (("apiserver_request_total", 'code="201"', 'resource="configmaps"', 'verb="POST"'),
                          ("apiserver_request_total", 'code="409"', 'resource="configmaps"', 'verb="APPLY"'),
                          ("apiserver_request_duration_seconds_bucket", 'resource="configmaps"', 'verb="GET"'),
                          ("apiserver_storage_objects", 'resource="configmaps"'),
                          ("apiserver_current_inflight_requests", 'request_kind="readOnly"')):
        found = [line for line in lines if line.startswith(name + "{") and all(label in line for label in labels)]
        assert found and float(found[-1].split()[-1]) > 0, f"{name} {labels}: {found}"


def check_watch(kubectl):
    watch = subprocess.Popen([clusters.kubectl(), "get", "cm", "-w", "-o", "name"], env=kubectl.environment, text=True,
                             stdout=subprocess.PIPE)
    try:
        seen = {watch.stdout.readline().strip()}
        kubectl.run("create", "-f", "-", input="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: watched}\n")
        for _ in range(20):
            if "configmap/watched" in seen:
                return
            seen.add(watch.stdout.readline().strip())
        raise AssertionError(f"the watch did not show the new object: {seen}")
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()


def main():
    with clusters.basalt() as server, tempfile.TemporaryDirectory():
        kubectl = Kubectl(server.kubeconfig)
        check_all(kubectl)
        check_server_side_apply(kubectl)
        check_access(kubectl)
        check_explain(kubectl)
        check_lists(kubectl)
        check_edit(kubectl)
        check_metrics(kubectl)
        check_watch(kubectl)
        print(f"kubectl: {kubectl.count} commands")
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
