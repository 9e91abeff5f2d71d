#include "cli/go_flags.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/cli.h"

namespace basalt::cli {
namespace {

struct Values {
  bool elect = true;
  bool quiet = false;
  std::int32_t workers = 3;
  double rate = 50;
  std::string file;
  std::vector<std::string> names{"volcano"};
  std::vector<std::string> controllers{"*"};
  api::Duration period{std::chrono::seconds(15)};
  std::int64_t verbosity = 0;
};

GoFlags make(Values& values) {
  GoFlags flags("program", "Does something.");
  flags.truth("leader-elect", values.elect, "take part");
  flags.truth("quiet", values.quiet, "say less", 'q');
  flags.number("worker-threads", values.workers, "threads");
  flags.fraction("kube-api-qps", values.rate, "calls a second");
  flags.text("kubeconfig", values.file, "file", "FILE", 'f');
  flags.repeated("scheduler-name", values.names, "ours");
  flags.comma_list("controllers", values.controllers, "which");
  flags.duration("period", values.period, "how often");
  flags.number("v", values.verbosity, "log level", 'v');
  flags.ignored("logtostderr", false);
  return flags;
}

std::string error_of(std::vector<std::string> arguments) {
  Values values;
  GoFlags flags = make(values);
  auto parsed = flags.parse(arguments);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(GoFlags, TakesWhatManifestsGive) {
  Values values;
  GoFlags flags = make(values);
  const std::vector<std::string> arguments{"--logtostderr",
                                           "--leader-elect=false",
                                           "--worker_threads",
                                           "7",
                                           "--scheduler-name=a",
                                           "--scheduler-name=b,c",
                                           "-v=4",
                                           "2>&1",
                                           "--controllers=*, -x",
                                           "--kube-api-qps=0.5",
                                           "--period=1m30s",
                                           "-q",
                                           "-f",
                                           "/x"};
  auto parsed = flags.parse(arguments);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_FALSE(values.elect);
  EXPECT_TRUE(values.quiet);
  EXPECT_EQ(values.workers, 7);
  EXPECT_EQ(values.names, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_EQ(values.controllers, (std::vector<std::string>{"*", " -x"}));
  EXPECT_DOUBLE_EQ(values.rate, 0.5);
  EXPECT_EQ(values.period.value, std::chrono::seconds(90));
  EXPECT_EQ(values.verbosity, 4);
  EXPECT_EQ(values.file, "/x");
  EXPECT_EQ(flags.words(), std::vector<std::string>{"2>&1"});
  EXPECT_TRUE(flags.was_given("worker-threads"));
  EXPECT_FALSE(flags.was_given("kubernetes"));
}

TEST(GoFlags, LettersMayStandTogetherAndCarryTheirValue) {
  Values values;
  GoFlags flags = make(values);
  ASSERT_TRUE(flags.parse(std::vector<std::string>{"-qv3", "--", "-q", "--x"}).ok());
  EXPECT_TRUE(values.quiet);
  EXPECT_EQ(values.verbosity, 3);
  EXPECT_EQ(flags.words(), (std::vector<std::string>{"-q", "--x"}));
}

TEST(GoFlags, SaysWhatIsWrong) {
  EXPECT_EQ(error_of({"--leader-elct"}), "there is no flag --leader-elct. Did you mean --leader-elect?");
  EXPECT_EQ(error_of({"--worker-threads=many"}),
            "the value \"many\" of --worker-threads is wrong: it takes a whole number.");
  EXPECT_EQ(error_of({"--kubeconfig"}), "--kubeconfig needs a value: --kubeconfig FILE.");
  EXPECT_EQ(error_of({"--leader-elect=maybe"}),
            "the value \"maybe\" of --leader-elect is wrong: it takes true or false.");
  EXPECT_EQ(error_of({"-x"}), "there is no flag -x.");
}

TEST(GoFlags, HelpShowsDefaultsAndHidesWhatIsIgnored) {
  Values values;
  GoFlags flags = make(values);
  const std::string help = flags.help();
  EXPECT_NE(help.find("Usage: program [FLAGS]"), std::string::npos);
  EXPECT_NE(help.find("(default 15s)"), std::string::npos);
  EXPECT_NE(help.find("-f, --kubeconfig FILE"), std::string::npos);
  EXPECT_EQ(help.find("logtostderr"), std::string::npos);
  std::ostringstream out;
  std::ostringstream err;
  GoFlags again = make(values);
  EXPECT_EQ(again.parse_or_exit(std::vector<std::string>{"--help"}, out, err), std::optional<int>(kExitOk));
  EXPECT_EQ(again.parse_or_exit(std::vector<std::string>{"--nope"}, out, err), std::optional<int>(kExitUsage));
  EXPECT_NE(err.str().find("program --help"), std::string::npos);
}

}  // namespace
}  // namespace basalt::cli
