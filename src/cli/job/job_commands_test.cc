#include "cli/job/job_commands.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/client/host_test_support.h"
#include "cli/job/job_actions.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;

constexpr std::string_view kTrain = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, labels: {team: vision}}
spec:
  minAvailable: 2
  queue: default
  schedulerName: volcano
  plugins: {env: [], ssh: ["--a", "--b"]}
  tasks:
  - name: worker
    replicas: 3
    template:
      spec:
        restartPolicy: OnFailure
        containers:
        - name: main
          image: python
          command: [python3, train.py]
          ports: [{containerPort: 2222, name: tf}]
          resources: {requests: {cpu: 500m}, limits: {cpu: "1", memory: 1Gi}}
)";

Ran vcctl(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, job_group(), "vcctl job", std::move(arguments));
}
Ran basalt(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, job_group(), "basalt job", std::move(arguments));
}

const ClientCommand& alone(std::string_view name) {
  for (const ClientCommand& command : stand_alone_job_commands()) {
    if (command.name == name) return command;
  }
  ADD_FAILURE() << "no command " << name;
  return stand_alone_job_commands()[0];
}

TEST(JobCommands, ListWithoutJobs) {
  on_cluster([](sim::Cluster&, TestHost& host) {
    const Ran ran = vcctl(host, {"list"});
    EXPECT_EQ(ran.exit, 0);
    EXPECT_EQ(ran.out, "No resources found\n");
    EXPECT_EQ(ran.err, "");
  });
}

TEST(JobCommands, ListPrintsTheTableOfVcctl) {
  setenv("TZ", "UTC", 1);
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    cluster.patch(resources::kJobs, "default", "train",
                  R"({"status":{"state":{"phase":"Running"},"minAvailable":2,"running":2,"pending":1,"retryCount":4}})",
                  "status");
    const std::string date(
        cluster.get(resources::kJobs, "default", "train")->string_at({"metadata", "creationTimestamp"}).substr(0, 10));
    const Ran ran = vcctl(host, {"list"});
    EXPECT_EQ(ran.out,
              "Name    Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   "
              "Failed    Unknown     RetryCount\n"
              "train   " +
                  date +
                  "     Running     Batch       3           2     1         2         0           0         0        "
                  "   4         \n");
    EXPECT_EQ(ran.exit, 0);
  });
}

TEST(JobCommands, ListFilters) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: other}}");
    cluster.apply(base::replace_all(kTrain, "name: train", "name: evaluate, namespace: other"));
    const auto names = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), "list");
      arguments.insert(arguments.end(), {"-o", "name"});
      const Ran ran = basalt(host, arguments);
      EXPECT_EQ(ran.exit, 0) << ran.err;
      return ran.out;
    };
    const std::string train = "job.batch.volcano.sh/train\n";
    const std::string evaluate = "job.batch.volcano.sh/evaluate\n";
    EXPECT_EQ(names({}), train);
    EXPECT_EQ(names({"-n", "other"}), evaluate);
    EXPECT_EQ(names({"--all-namespaces", "-n", "other"}), train + evaluate);
    EXPECT_EQ(names({"--all_namespaces", "--selector", "val"}), evaluate);
    EXPECT_EQ(names({"-q", "nobody"}), "");
    EXPECT_EQ(names({"-q", "default", "-S", "volcano"}), train);
    EXPECT_EQ(names({"-S", "else"}), "");
    EXPECT_EQ(names({"-l", "team=vision"}), train);
    EXPECT_EQ(names({"-l", "team!=vision"}), "");
    EXPECT_EQ(names({"--phase", "running"}), "");
    const Ran all = vcctl(host, {"list", "--all-namespaces"});
    EXPECT_TRUE(all.out.starts_with("Namespace   Name       Creation       Phase")) << all.out;
    host.ns = "other";
    EXPECT_EQ(names({}), evaluate) << "the namespace of the context counts";
  });
}

TEST(JobCommands, OutputAsJsonAndYaml) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    const Ran list = basalt(host, {"list", "-o", "json"});
    const auto value = json::Value::parse(list.out);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->string_at({"kind"}), "List");
    EXPECT_EQ(value->find("items")->as_array().at(0).string_at({"kind"}), "Job");
    const Ran view = basalt(host, {"view", "train", "-o", "yaml"});
    EXPECT_TRUE(view.out.starts_with("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n")) << view.out;
    EXPECT_EQ(view.out.find("managedFields"), std::string::npos);
    const Ran wrong = basalt(host, {"view", "train", "-o", "xml"});
    EXPECT_EQ(wrong.exit, 2);
    EXPECT_NE(wrong.err.find("wide|json|yaml|name"), std::string::npos);
  });
}

TEST(JobCommands, FailuresOfVcctlAndOfBasalt) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    struct Case {
      std::vector<std::string> arguments;
      std::string vcctl_out;
      std::string vcctl_err;
      int vcctl_exit;
      std::string basalt_err;
      int basalt_exit;
    };
    const std::vector<Case> cases = {
        {{"view"},
         "Failed to view job: job name (specified by --name or -N) is mandatory to view a particular job\n",
         "",
         255,
         "basalt job view: job name (specified by --name or -N) is mandatory to view a particular job\n",
         1},
        {{"delete"},
         "Failed to delete job: job name is mandatory to delete a particular job\n",
         "",
         255,
         "basalt job delete: job name is mandatory to delete a particular job\n",
         1},
        {{"suspend"},
         "Failed to suspend job: job name is mandatory to suspend a particular job\n",
         "",
         255,
         "basalt job suspend: job name is mandatory to suspend a particular job\n",
         1},
        {{"delete", "-N", "trian"},
         "Failed to delete job: jobs.batch.volcano.sh \"trian\" not found\n",
         "",
         255,
         "basalt job delete: jobs.batch.volcano.sh \"trian\" not found; did you mean \"train\"?\n",
         1},
        {{"run"},
         "Failed to run job: job name cannot be left blank\n",
         "",
         255,
         "basalt job run: job name cannot be left blank\n",
         1},
        {{"run", "-N", "a", "-R", "cpu"},
         "Failed to run job: invalid argument syntax cpu, expected <resource>=<value>\n",
         "",
         255,
         "basalt job run: invalid argument syntax cpu, expected <resource>=<value>\n",
         1},
        {{"run", "-f", "job.txt"},
         "Failed to run job: only support yaml file\n",
         "",
         255,
         "basalt job run: only support yaml file\n",
         1},
        {{"list", "--bogus"},
         "",
         "Error: unknown flag: --bogus\n",
         1,
         "basalt job list: there is no flag --bogus.\nRun 'basalt job list --help' for its flags.\n",
         2},
        {{"list", "-z"},
         "",
         "Error: unknown shorthand flag: 'z' in -z\n",
         1,
         "basalt job list: there is no flag -z.\nRun 'basalt job list --help' for its flags.\n",
         2},
    };
    for (const Case& test : cases) {
      const Ran old = vcctl(host, test.arguments);
      EXPECT_EQ(old.out, test.vcctl_out);
      EXPECT_EQ(old.err, test.vcctl_err);
      EXPECT_EQ(old.exit, test.vcctl_exit);
      const Ran ours = basalt(host, test.arguments);
      EXPECT_EQ(ours.out, "");
      EXPECT_EQ(ours.err, test.basalt_err);
      EXPECT_EQ(ours.exit, test.basalt_exit);
    }
    EXPECT_EQ(vcctl(host, {"nosuch"}).exit, 0);
    EXPECT_NE(vcctl(host, {"nosuch"}).out.find("suspend"), std::string::npos);
    EXPECT_EQ(basalt(host, {"lst"}).exit, 2);
    EXPECT_NE(basalt(host, {"lst"}).err.find("Did you mean 'list'?"), std::string::npos);
  });
}

TEST(JobCommands, SuspendAndResumeSendOneCommand) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    const std::string uid(cluster.get(resources::kJobs, "default", "train")->string_at({"metadata", "uid"}));
    const Ran ran = vcctl(host, {"suspend", "-N", "train"});
    EXPECT_EQ(ran.exit, 0);
    EXPECT_EQ(ran.out, "");
    auto commands = cluster.list(resources::kCommands);
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].string_at({"metadata", "generateName"}), "train-abortjob-");
    EXPECT_EQ(commands[0].string_at({"action"}), "AbortJob");
    EXPECT_EQ(commands[0].string_at({"target", "uid"}), uid);
    EXPECT_EQ(*commands[0].find("target"), commands[0].find_path({"metadata", "ownerReferences"})->as_array().at(0));
    EXPECT_TRUE(commands[0].find_path({"target", "blockOwnerDeletion"})->as_bool());
    EXPECT_EQ(vcctl(host, {"resume", "-N", "train"}).exit, 0);
    commands = cluster.list(resources::kCommands);
    EXPECT_EQ(commands.size(), 2u);
  });
}

TEST(JobCommands, RunFromFlags) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    const Ran ran = vcctl(host, {"run", "-N", "j", "-r", "3", "-m", "2", "-R", "cpu=500m", "-L", "cpu=1"});
    EXPECT_EQ(ran.out, "run job j successfully\n");
    EXPECT_EQ(ran.exit, 0);
    const auto job = cluster.get(resources::kJobs, "default", "j");
    ASSERT_TRUE(job);
    EXPECT_EQ(job->find_path({"spec", "minAvailable"})->as_int(), 2);
    const json::Value& task = job->find_path({"spec", "tasks"})->as_array().at(0);
    EXPECT_EQ(task.find("replicas")->as_int(), 3);
    EXPECT_EQ(task.string_at({"template", "metadata", "labels", "job.volcano.sh"}), "j");
    const json::Value& container = task.find_path({"template", "spec", "containers"})->as_array().at(0);
    EXPECT_EQ(container.string_at({"resources", "requests", "cpu"}), "500m");
    EXPECT_EQ(container.string_at({"resources", "limits", "cpu"}), "1");
    EXPECT_EQ(container.string_at({"image"}), "busybox");
  });
}

TEST(JobCommands, RunFromAFile) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}");
    host.files["a.yaml"] = base::replace_all(kTrain, "name: train", "name: first, namespace: team-a");
    EXPECT_EQ(vcctl(host, {"run", "-f", "a.yaml", "-n", "team-a"}).out, "run job first successfully\n");
    EXPECT_TRUE(cluster.get(resources::kJobs, "team-a", "first"));
    host.files["b.yml"] = base::replace_all(kTrain, "name: train", "name: second, namespace: team-a");
    EXPECT_EQ(vcctl(host, {"run", "-f", "b.yml"}).exit, 0) << "the namespace of the file counts";
    EXPECT_TRUE(cluster.get(resources::kJobs, "team-a", "second"));
    EXPECT_EQ(vcctl(host, {"run", "-f", "c.yaml"}).out,
              "Failed to run job: failed to read file, err: c.yaml: no such file\n");
    host.files["d.yaml"] = "{a: [}";
    const Ran broken = vcctl(host, {"run", "-f", "d.yaml"});
    EXPECT_TRUE(broken.out.starts_with("Failed to run job: failed to unmarshal file, err:  line 1")) << broken.out;
    EXPECT_EQ(broken.exit, 255);
  });
}

TEST(JobCommands, View) {
  setenv("TZ", "UTC", 1);
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply(kTrain);
    cluster.patch(
        resources::kJobs, "default", "train",
        R"({"status":{"state":{"phase":"Running"},"minAvailable":2,"running":2,"controlledResources":{"plugin-env":"env"},
                      "conditions":[{"status":"Pending","lastTransitionTime":"2025-01-10T10:07:30Z"}]}})",
        "status");
    cluster.apply(R"(
apiVersion: v1
kind: Event
metadata: {name: train.1}
involvedObject: {kind: Job, name: train, namespace: default}
reason: SuccessfulCreate
message: "made a pod "
type: Normal
count: 3
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-02T00:00:00Z"
source: {component: vc-controller-manager}
)");
    const Ran ran = vcctl(host, {"view", "-N", "train"});
    EXPECT_EQ(ran.exit, 0);
    for (const char* text :
         {"Name:       \ttrain\nNamespace:  \tdefault\nLabels:     \t{\"team\":\"vision\"}\nAnnotations:\t<none>\n"
          "API Version:\tbatch.volcano.sh/v1alpha1\nKind:       \tJob\nMetadata:\n  Creation Timestamp:\t",
          "Spec:\n  Min Available:     \t2\n  Plugins:\n    Env:\t[]\n    Ssh:\t[--a --b]\n  Scheduler Name:    "
          "\tvolcano\n  Tasks:\n    Name:\tworker\n    Replicas:\t3\n    Template:\n      Metadata:\n        "
          "Annotations:\n          Cri . Cci . Io / Container - Type:          \t\n",
          "        Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC\n      Spec:\n        Containers:\n          "
          "Command:\n            python3\n            train.py\n          Image:\tpython\n          Name: \tmain\n",
          "          Ports:\n            Container Port:\t2222\n            Name:          \ttf\n          Resources:\n"
          "            Limits:\n              Cpu:   \t1\n              Memory:\t1Gi\n            Requests:\n"
          "              Cpu:   \t500m\n              Memory:\t0\n            Working Dir:\t\n        Image Pull "
          "Secrets:\n        Restart Policy:   \tOnFailure\n",
          "Status:\n  Running:      \t2\n  Min Available:\t2\n  State:\n    Phase:\tRunning\n  Controlled "
          "Resources:\n    plugin-env: \tenv\n  Conditions:\n    Status\tTransitionTime\n    Pending \t2025-01-10 "
          "10:07:30 +0000 UTC \n",
          "Events:\nType           \tReason                                  \tAge                           \tForm   ",
          "(x3 over ", "\tmade a pod\n"}) {
      EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n--- in ---\n" << ran.out;
    }
    const Ran short_view = run_line(host, alone("vjobs"), "vjobs", {"-n", "train"});
    EXPECT_EQ(short_view.out.find("Conditions:"), std::string::npos);
  });
}

TEST(JobCommands, StandAloneNames) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: ml}}");
    host.variables["VOLCANO_DEFAULT_JOB_NAMESPACE"] = "ml";
    Ran ran = run_line(host, alone("vsub"), "vsub", {"-n", "j", "-c", "sh -c 'sleep 5'"});
    EXPECT_EQ(ran.out, "run job j successfully\n");
    const auto job = cluster.get(resources::kJobs, "ml", "j");
    ASSERT_TRUE(job);
    const json::Value& container = job->find_path({"spec", "tasks"})
                                       ->as_array()
                                       .at(0)
                                       .find_path({"template", "spec", "containers"})
                                       ->as_array()
                                       .at(0);
    EXPECT_EQ(container.find("command")->to_text(), R"(["sh","-c","sleep 5"])");
    ran = run_line(host, alone("vsub"), "vsub", {});
    EXPECT_EQ(ran.out, "Failed to: job name cannot be left blank\n");
    EXPECT_EQ(ran.exit, 255);
    ran = run_line(host, alone("vjobs"), "vjobs", {"-N", "ml", "--selector", "zzz"});
    EXPECT_TRUE(ran.out.starts_with("Name   Creation")) << ran.out;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
    ran = run_line(host, alone("vcancel"), "vcancel", {"-n", "j", "-N", "ml"});
    EXPECT_EQ(ran.out, "cancel job j successfully\n");
    ran = run_line(host, alone("vcancel"), "vcancel", {});
    EXPECT_EQ(ran.out, "Failed to: job name is mandatory to cancel a particular job\n");
  });
}

TEST(JobCommands, SplitsCommandsAsAShell) {
  const auto words = [](std::string_view text) {
    auto split = split_command(text);
    return split.ok() ? base::join(*split, "|") : split.error().message;
  };
  EXPECT_EQ(words(""), "");
  EXPECT_EQ(words("  a  b "), "a|b");
  EXPECT_EQ(words(R"(a 'b c' "d \"e" f\ g)"), R"(a|b c|d "e|f g)");
  EXPECT_EQ(words("a'b'c # rest\nd"), "abc|d");
  EXPECT_EQ(words("a#b ''"), "a#b|");
  EXPECT_EQ(words("'a"), "EOF found when expecting closing quote");
}

TEST(JobCommands, ConnectionProblemsSayWhatToDo) {
  on_cluster([](sim::Cluster&, TestHost& host) {
    host.connect_error = Error::make(Reason::Unreachable, "cannot connect to https://127.0.0.1:1");
    const Ran ran = basalt(host, {"list", "-s", "https://127.0.0.1:1", "-k", "file"});
    EXPECT_EQ(ran.exit, 1);
    EXPECT_NE(ran.err.find("'basalt up' starts one here"), std::string::npos);
    EXPECT_EQ(host.connections.at(0).master, "https://127.0.0.1:1");
    EXPECT_EQ(host.connections.at(0).kubeconfig, "file");
  });
}

}  // namespace
}  // namespace basalt::cli
