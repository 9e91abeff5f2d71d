#include "cli/client/vcctl_help.h"

#include <gtest/gtest.h>

namespace basalt::cli {
namespace {

// The layout that scripts compare; the words of the three flags about logs are our own.
TEST(VcctlHelp, RootListsItsCommands) {
  EXPECT_EQ(*vcctl_help("vcctl"),
            "Usage:\n"
            "  vcctl [command]\n"
            "\n"
            "Available Commands:\n"
            "  help        Help about any command\n"
            "  job         vcctl command line operation job\n"
            "  jobflow     vcctl command line operation jobflow\n"
            "  jobtemplate vcctl command line operation jobtemplate\n"
            "  pod         vcctl command line operation pod\n"
            "  queue       Queue Operations\n"
            "  version     Print the version information\n"
            "\n"
            "Flags:\n"
            "  -h, --help                           help for vcctl\n"
            "      --log-flush-frequency duration   longest time between two flushes of the log (default 5s)\n"
            "  -v, --v Level                        how much is logged\n"
            "      --vmodule moduleSpec             how much is logged by files whose names match: pattern=N,...\n"
            "\n"
            "Use \"vcctl [command] --help\" for more information about a command.\n");
}

TEST(VcctlHelp, GroupsAndLeaves) {
  const std::string global =
      "\nGlobal Flags:\n"
      "      --log-flush-frequency duration   longest time between two flushes of the log (default 5s)\n"
      "  -v, --v Level                        how much is logged\n"
      "      --vmodule moduleSpec             how much is logged by files whose names match: pattern=N,...\n";
  EXPECT_EQ(*vcctl_help("vcctl job"),
            "vcctl command line operation job\n\nUsage:\n  vcctl job [command]\n\nAvailable Commands:\n"
            "  delete      delete a job\n"
            "  list        list job information\n"
            "  resume      resume a job\n"
            "  run         run job by parameters from the command line\n"
            "  suspend     abort a job\n"
            "  view        show job information\n"
            "\nFlags:\n  -h, --help   help for job\n" +
                global + "\nUse \"vcctl job [command] --help\" for more information about a command.\n");
  EXPECT_EQ(*vcctl_help("vcctl job run"),
            "run job by parameters from the command line\n\nUsage:\n  vcctl job run [flags]\n\nFlags:\n"
            "  -f, --filename string     the yaml file of job\n"
            "  -h, --help                help for run\n"
            "  -i, --image string        the container image of job (default \"busybox\")\n"
            "  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file\n"
            "  -L, --limits string       the resource limit of the task (default \"cpu=1000m,memory=100Mi\")\n"
            "  -s, --master string       the address of apiserver\n"
            "  -m, --min int             the minimal available tasks of job (default 1)\n"
            "  -N, --name string         the name of job\n"
            "  -n, --namespace string    the namespace of job (default \"default\")\n"
            "  -r, --replicas int        the total tasks of job (default 1)\n"
            "  -R, --requests string     the resource request of the task (default \"cpu=1000m,memory=100Mi\")\n"
            "  -S, --scheduler string    the scheduler for this job (default \"volcano\")\n" +
                global);
  EXPECT_EQ(*vcctl_help("vcctl job list"),
            "list job information\n\nUsage:\n  vcctl job list [flags]\n\nFlags:\n"
            "      --all-namespaces      list jobs in all namespaces\n"
            "  -h, --help                help for list\n"
            "  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file\n"
            "  -s, --master string       the address of apiserver\n"
            "  -n, --namespace string    the namespace of job (default \"default\")\n"
            "  -q, --queue string        list job with specified queue name\n"
            "  -S, --scheduler string    list job with specified scheduler name\n"
            "      --selector string     fuzzy matching jobName\n" +
                global);
}

TEST(VcctlHelp, EveryCommandOfTheTreeAndNoOther) {
  for (const char* command : {"job view",
                              "job suspend",
                              "job resume",
                              "job delete",
                              "queue",
                              "queue create",
                              "queue delete",
                              "queue operate",
                              "queue list",
                              "queue get",
                              "jobflow",
                              "jobflow create",
                              "jobflow list",
                              "jobflow get",
                              "jobflow delete",
                              "jobflow describe",
                              "jobtemplate",
                              "jobtemplate create",
                              "jobtemplate list",
                              "jobtemplate get",
                              "jobtemplate delete",
                              "jobtemplate describe",
                              "pod",
                              "pod list",
                              "version"})
    EXPECT_TRUE(vcctl_help("vcctl " + std::string(command))) << command;
  for (const char* other : {"basalt", "basalt job", "vsub", "vcctl explain", "vcctlx", ""})
    EXPECT_FALSE(vcctl_help(other)) << other;
}

}  // namespace
}  // namespace basalt::cli
