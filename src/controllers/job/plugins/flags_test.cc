#include "controllers/job/plugins/flags.h"

#include <gtest/gtest.h>

namespace basalt::controllers::job {
namespace {

struct Parsed {
  std::string word = "default";
  bool on = false;
  std::int64_t port = 22;
  std::vector<std::string> warnings;
};

Parsed parse(const std::vector<std::string>& arguments) {
  Parsed parsed;
  Flags flags("demo");
  flags.text("word", parsed.word);
  flags.boolean("on", parsed.on);
  flags.port("port", parsed.port);
  flags.parse(arguments, parsed.warnings);
  return parsed;
}

struct FlagsCase {
  std::vector<std::string> arguments;
  std::string word;
  bool on;
  std::int64_t port;
  std::size_t warnings;
};

TEST(FlagsTest, reads_arguments_like_the_flag_package_of_go) {
  const std::vector<FlagsCase> cases = {
      {{}, "default", false, 22, 0},
      {{"--word=a", "-port=80", "--on"}, "a", true, 80, 0},
      {{"--word", "a", "-port", "80", "-on"}, "a", true, 80, 0},
      {{"--word=a=b"}, "a=b", false, 22, 0},
      {{"--word="}, "", false, 22, 0},
      {{"--word", "--on"}, "--on", false, 22, 0},
      {{"--word=a", "--word=b"}, "b", false, 22, 0},
      {{"--on=false"}, "default", false, 22, 0},
      {{"--on=T"}, "default", true, 22, 0},
      {{"--on=1", "--word=a"}, "a", true, 22, 0},
      // A boolean takes no second argument: "false" ends the flags.
      {{"--on", "false", "--word=a"}, "default", true, 22, 1},
      {{"--on=yes", "--word=a"}, "default", false, 22, 1},
      {{"--port=0x50"}, "default", false, 80, 0},
      {{"--port=0b101"}, "default", false, 5, 0},
      {{"--port=0o17"}, "default", false, 15, 0},
      {{"--port=017"}, "default", false, 15, 0},
      {{"--port=+80"}, "default", false, 80, 0},
      {{"--port=0"}, "default", false, 22, 1},
      {{"--port=70000", "--on"}, "default", true, 22, 1},
      {{"--port=-1"}, "default", false, 22, 1},
      {{"--port=--1"}, "default", false, 22, 1},
      {{"--port=12a", "--on"}, "default", false, 22, 1},
      {{"--port=99999999999999999999"}, "default", false, 22, 1},
      {{"--port="}, "default", false, 22, 1},
      {{"--port"}, "default", false, 22, 1},
      {{"--word=a", "--unknown=1", "--on"}, "a", false, 22, 1},
      {{"--word=a", "plain", "--on"}, "a", false, 22, 1},
      {{"--word=a", "-", "--on"}, "a", false, 22, 1},
      {{"--word=a", "", "--on"}, "a", false, 22, 1},
      {{"--word=a", "--"}, "a", false, 22, 0},
      {{"--word=a", "--", "--on"}, "a", false, 22, 1},
      {{"---word=a"}, "default", false, 22, 1},
      {{"--=a"}, "default", false, 22, 1},
      {{"-help"}, "default", false, 22, 1},
  };
  for (const FlagsCase& test : cases) {
    std::string shown;
    for (const std::string& argument : test.arguments) shown += "[" + argument + "]";
    SCOPED_TRACE(shown);
    const Parsed parsed = parse(test.arguments);
    EXPECT_EQ(parsed.word, test.word);
    EXPECT_EQ(parsed.on, test.on);
    EXPECT_EQ(parsed.port, test.port);
    EXPECT_EQ(parsed.warnings.size(), test.warnings);
  }
}

TEST(FlagsTest, warnings_name_plugin_argument_and_remedy) {
  EXPECT_EQ(parse({"--prot=1"}).warnings,
            std::vector<std::string>{"spec.plugins[demo]: argument \"--prot=1\" is not known to the plugin (it takes "
                                     "--word, --on, --port); it and what follows is ignored"});
  EXPECT_EQ(parse({"--port=70000"}).warnings,
            std::vector<std::string>{
                "spec.plugins[demo]: argument \"--port=70000\" is out of range (1 to 65535); the default is used"});
  EXPECT_EQ(parse({"--word"}).warnings,
            std::vector<std::string>{"spec.plugins[demo]: argument \"--word\" has no value; write it as --word=VALUE"});
}

TEST(FlagsTest, a_long_argument_does_not_make_a_long_warning) {
  const Parsed parsed = parse({std::string(100000, 'x')});
  ASSERT_EQ(parsed.warnings.size(), 1U);
  EXPECT_LT(parsed.warnings[0].size(), 400U);
}

}  // namespace
}  // namespace basalt::controllers::job
