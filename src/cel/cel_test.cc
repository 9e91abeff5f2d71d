#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "cel/expression.h"

namespace basalt::cel {
namespace {

constexpr std::string_view kSelf = R"({
  "name": "a-b", "n": 3, "d": 2.5, "whole": 2, "flag": true, "none": null, "list": [3, 1, 2], "words": ["b", "a"],
  "map": {"x": 1, "y-z": 2}, "nested": {"namespace": "ns", "items": [{"k": "a", "v": 1}, {"k": "b"}]},
  "time": "2026-02-03T04:05:06.5Z", "text": "żółw"})";

// A result as text: JSON, or "error: ..." for what fails when evaluated, "compile: ..." for what is refused before.
std::string outcome_of(std::string_view text, std::uint64_t cost_max = Cost::kExpressionMax) {
  static const json::Value kObject = json::Value::parse(kSelf).value();
  const Variable variables[] = {{"self", nullptr}};
  const auto expression = Expression::compile(text, variables);
  if (!expression.ok()) {
    const std::string& message = expression.error().message;
    return "compile: " + message.substr(0, message.find('\n'));
  }
  const Value values[] = {Value::of(kObject)};
  Cost cost(cost_max);
  const auto result = expression->evaluate(values, cost);
  if (!result.ok()) return "error: " + result.error().message;
  const auto json = result->to_json();
  return json ? json->to_text() : std::string(result->type_name());
}

struct Case {
  std::string_view expression;
  std::string_view outcome;
};

void expect_all(std::initializer_list<Case> cases) {
  for (const Case& one : cases) EXPECT_EQ(outcome_of(one.expression), one.outcome) << one.expression;
}

TEST(Cel, LiteralsAndTheirEscapes) {
  expect_all({{"1", "1"},
              {"-9223372036854775808", "-9223372036854775808"},
              {"9223372036854775808", "compile: ERROR: <input>:1:1: invalid int literal"},
              {"0x1F", "31"},
              {"18446744073709551615u == 0xFFFFFFFFFFFFFFFFu", "true"},
              {"1.5e3", "1500"},
              {".5", "0.5"},
              {"'a\\n\\x41\\u017c\\101'", "\"a\\nAżA\""},
              {"r'a\\n'", R"("a\\n")"},
              {"\"\"\"a\n\"b\"\"\"\"", "compile: ERROR: <input>:2:7: Syntax error: a string is not closed"},
              {"'''it's'''", R"("it's")"},
              {"b'abc' + b'\\xff' == b'abc\\377'", "true"},
              {"[1, 'a', null, true] // a comment", R"([1,"a",null,true])"},
              {"{'b': 1, 'a': [2]}", R"({"a":[2],"b":1})"},
              {"{1: 'a', 1u: 'b'}", "error: Failed with repeated key: 1"},
              {"'\\q'", "compile: ERROR: <input>:1:4: Syntax error: a backslash in a string starts no escape"}});
}

TEST(Cel, ArithmeticChecksForOverflow) {
  expect_all(
      {{"1 + 2 * 3 - 4 / 2 % 5", "5"},
       {"-7 / 2", "-3"},
       {"-7 % 2", "-1"},
       {"9223372036854775807 + 1", "error: integer overflow"},
       {"-9223372036854775808 / -1", "error: integer overflow"},
       {"-(-9223372036854775807 - 1)", "error: integer overflow"},
       {"0u - 1u", "error: unsigned integer overflow"},
       {"1 / 0", "error: division by zero"},
       {"1 % 0", "error: modulus by zero"},
       {"string(1.0 / 0.0)", "\"+Inf\""},
       {"self.n + 1.5", "error: no such overload"},
       {"1 + 1.5", "compile: ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, double)'"},
       {"'a' + 'b'", "\"ab\""},
       {"[1] + [2]", "[1,2]"}});
}

TEST(Cel, NumbersCompareByValue) {
  expect_all({{"1 == 1.0 && 1 == 1u && 1u == 1.0", "true"},
              {"9007199254740993 == 9007199254740992.0", "false"},
              {"9223372036854775807 < 9223372036854775808.0", "true"},
              {"-1 < 0u && 1u > -1.5", "true"},
              {"self.n == '3'", "false"},
              {"self.n < 'a'", "error: no such overload"},
              {"self.d > self.n", "false"},
              {"'a' < 'b' && false < true", "true"},
              {"double('NaN') == double('NaN')", "false"},
              {"[1, 2.0] == [1.0, 2]", "true"},
              {"self.map == {'y-z': 2.0, 'x': 1}", "true"},
              {"null == self.none", "true"}});
}

TEST(Cel, LogicAbsorbsErrors) {
  expect_all({{"true || 1 / 0 == 1", "true"},
              {"1 / 0 == 1 || true", "true"},
              {"1 / 0 == 1 && false", "false"},
              {"1 / 0 == 1 && true", "error: division by zero"},
              {"1 / 0 == 1 || false", "error: division by zero"},
              {"!self.flag", "false"},
              {"!!true", "true"},
              {"self.n || true", "true"},
              {"self.n && true", "error: no such overload"},
              {"1 && true", "compile: ERROR: <input>:1:3: found no matching overload for '_&&_' applied to '(int)'"},
              {"self.flag ? 1 : 1 / 0", "1"},
              {"false ? 'a' : true ? 'b' : 'c'", "\"b\""},
              {"self.n ? 1 : 2", "error: no such overload"}});
}

TEST(Cel, FieldsKeysAndPlaces) {
  expect_all(
      {{"self.nested.items[0].k", "\"a\""},
       {"self.missing", "error: no such key: missing"},
       {"self['map']['x']", "1"},
       {"self.map['q']", "error: no such key: q"},
       {"self.map.y__dash__z", "2"},
       {"self.nested.__namespace__ + self.nested.namespace", "\"nsns\""},
       {"has(self.none) && !has(self.missing)", "true"},
       {"has(self.nested.items[1].v)", "false"},
       {"has(self.n.x)", "error: no such overload"},
       {"has(self)", "compile: ERROR: <input>:1:1: invalid argument to has() macro"},
       {"self.list[3]", "error: index out of bounds: 3"},
       {"self.list[-1]", "error: index out of bounds: -1"},
       {"self.list[1.0]", "1"},
       {"2 in self.list && !(9 in self.list) && 2.0 in self.list", "true"},
       {"'x' in self.map && !('q' in self.map)", "true"},
       {"1 in 'abc'", "compile: ERROR: <input>:1:3: found no matching overload for '@in' applied to '(int, string)'"}});
}

TEST(Cel, Macros) {
  expect_all(
      {{"self.list.all(x, x > 0)", "true"},
       {"self.list.exists(x, x == 2)", "true"},
       {"self.list.exists_one(x, x > 1)", "false"},
       {"self.list.map(x, x * 2)", "[6,2,4]"},
       {"self.list.map(x, x > 1, x * 2)", "[6,4]"},
       {"self.list.filter(x, x > 1)", "[3,2]"},
       {"self.map.all(k, self.map[k] > 0)", "true"},
       {"self.map.map(k, k)", R"(["x","y-z"])"},
       {"self.map.all(k, v, v > 0 && k != '')", "true"},
       {"self.list.transformList(i, v, i + v)", "[3,2,4]"},
       {"self.map.transformMap(k, v, v > 1, v * 10)", R"({"y-z":20})"},
       {"[1, 0].exists(x, 4 / x == 4)", "true"},
       {"[0, 1].exists(x, 4 / x == 4)", "true"},
       {"[0, 1].all(x, 4 / x == 4)", "error: division by zero"},
       {"[0, 1].map(x, 4 / x)", "error: division by zero"},
       {"[[1, 2], [3]].all(x, x.all(y, y > 0 && size(x) > 0))", "true"},
       {"self.list.all(self, self > 0)", "true"},
       {"self.n.all(x, true)", "error: no such overload"},
       {"'abc'.all(x, true)",
        "compile: ERROR: <input>:1:7: expression of type 'string' cannot be range of a comprehension (must be list, "
        "map, or dynamic)"}});
}

TEST(Cel, TextFunctions) {
  expect_all({{"size(self.text) + self.text.size()", "8"},
              {"size(b'\\xff\\x00')", "2"},
              {"'tacocat'.contains('oca') && 'ab'.startsWith('a') && 'ab'.endsWith('b')", "true"},
              {"'abc'.matches('^a.c$') && !matches('xabc', '^a')", "true"},
              {"'a'.matches('(')",
               "compile: ERROR: <input>:1:13: invalid matches argument: error parsing regexp: missing ): ("},
              {"self.name.matches(self.name + '(')", "error: error parsing regexp: missing ): a-b("},
              {"'abc 123 45'.find('[0-9]+')", "\"123\""},
              {"'abc 123 45'.findAll('[0-9]+')", R"(["123","45"])"},
              {"'abc 123 45'.findAll('[0-9]+', 1)", R"(["123"])"},
              {"'TacoCat'.lowerAscii() + 'a'.upperAscii() + ' x\\t'.trim()", "\"tacocatAx\""},
              {"self.text.charAt(1) + self.text.substring(2) + self.text.substring(0, 1)", "\"ółwż\""},
              {"'abc'.charAt(3)", "\"\""},
              {"'abc'.charAt(4)", "error: index out of range: 4"},
              {"'hello mellow'.indexOf('ello') + 'hello mellow'.lastIndexOf('ello')", "8"},
              {"'hello mellow'.indexOf('ello', 2)", "7"},
              {"'abc'.substring(2, 1)", "error: invalid substring range. start: 2, end: 1"},
              {"'hello hello'.replace('he', 'we')", "\"wello wello\""},
              {"'hello hello'.replace('he', 'we', 1)", "\"wello hello\""},
              {"'a,b,c'.split(',')", R"(["a","b","c"])"},
              {"'a,b,c'.split(',', 2)", R"(["a","b,c"])"},
              {"'żó'.split('')", R"(["ż","ó"])"},
              {"''.split(',')", R"([""])"},
              {"['a', 'b'].join() + ['a', 'b'].join('-')", "\"aba-b\""},
              {"strings.quote('a\"b\\n')", R"("\"a\\\"b\\n\"")"},
              {"'%s is %d, %.2f, %x%%'.format(['a', 5, 1.005, 255])", "\"a is 5, 1.00, ff%\""},
              {"'%s %s'.format([[1, 'b'], {'k': true}])", R"("[1, \"b\"] {\"k\":true}")"},
              {"'%d'.format(['a'])", "error: error during formatting: %d cannot show a value of type string"},
              {"'%s'.format([])", "error: error during formatting: index 0 out of range"},
              {"self.n.startsWith('a')", "error: no such overload"},
              {"1.startsWith('a')",
               "compile: ERROR: <input>:1:3: found no matching overload for 'startsWith' applied to '(int)'"}});
}

TEST(Cel, ListFunctions) {
  expect_all(
      {{"[1, 2, 2].isSorted() && !self.list.isSorted()", "true"},
       {"self.list.sum() + self.list.min() + self.list.max()", "10"},
       {"[].sum()", "0"},
       {"[].min()", "error: min called on empty list"},
       {"[1, 'a'].min()", "error: no such overload"},
       {"['a', 'b', 'a'].indexOf('a') + ['a', 'b', 'a'].lastIndexOf('a')", "2"},
       {"[1].indexOf(2)", "-1"},
       {"[duration('1s'), duration('2s')].sum() == duration('3s')", "true"},
       {"sets.contains([1, 2], [2]) && sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1], [1, 3])", "true"}});
}

TEST(Cel, TimesAndDurations) {
  expect_all(
      {{"timestamp(self.time).getFullYear()", "2026"},
       {"timestamp(self.time).getMonth() + timestamp(self.time).getDayOfMonth() + timestamp(self.time).getDate()", "6"},
       {"timestamp(self.time).getDayOfWeek() + timestamp(self.time).getDayOfYear()", "35"},
       {"timestamp(self.time).getHours('+02:30') * 100 + timestamp(self.time).getMinutes('+02:30')", "635"},
       {"timestamp(self.time).getMilliseconds()", "500"},
       {"timestamp(self.time) + duration('1h') - timestamp(self.time) == duration('60m')", "true"},
       {"string(timestamp(self.time) + duration('500ms'))", "\"2026-02-03T04:05:07Z\""},
       {"string(duration('1h30m'))", "\"5400s\""},
       {"duration('90s').getMinutes()", "1"},
       {"timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-01T00:00:00.1Z')", "true"},
       {"timestamp('9999-12-31T23:59:59Z') + duration('1s')", "error: timestamp overflow"},
       {"timestamp('x')", "error: type conversion error from \"x\" to 'google.protobuf.Timestamp'"},
       {"timestamp(0).getHours('Mars/Base')", "error: unknown time zone Mars/Base; give UTC or an offset (+02:00)"},
       {"duration('1s') + 1",
        "compile: ERROR: <input>:1:16: found no matching overload for '_+_' applied to "
        "'(google.protobuf.Duration, int)'"}});
}

TEST(Cel, ConversionsAndTypes) {
  expect_all({{"int('42') + int(2.9) + int(3u)", "47"},
              {"int('x')", "error: type conversion error from \"x\" to 'int'"},
              {"int(1e300)", "error: integer overflow"},
              {"uint(-1)", "error: unsigned integer overflow"},
              {"double('1.5') + double(1)", "2.5"},
              {"string(1) + string(true) + string(1.5) + string(1e21) + string(b'a')", "\"1true1.51e+21a\""},
              {"bool('t') && !bool('FALSE')", "true"},
              {"type(1) == int && type('a') == string && type([]) == list && type(null) == null_type", "true"},
              {"type(timestamp(0)) == google.protobuf.Timestamp && type(type(1)) == type", "true"},
              {"type(dyn(1)) == uint", "false"},
              {"int(timestamp('1970-01-01T00:01:00Z'))", "60"}});
}

TEST(Cel, SemanticVersions) {
  expect_all(
      {{"semver('1.2.3').major() + semver('1.2.3').minor() * 10 + semver('1.2.3').patch() * 100", "321"},
       {"semver('1.10.0').isGreaterThan(semver('1.9.9')) && semver('1.0.0-rc.2').isLessThan(semver('1.0.0'))", "true"},
       {"semver('1.0.0-rc.2').compareTo(semver('1.0.0-rc.10'))", "-1"},
       {"semver('1.0.0-alpha').compareTo(semver('1.0.0-alpha.1'))", "-1"},
       {"semver('1.0.0-1').isLessThan(semver('1.0.0-a'))", "true"},
       {"semver('1.0.0+a') == semver('1.0.0+b')", "true"},
       {"semver('v1.02', true) == semver('1.2.0')", "true"},
       {"isSemver('v1.2') || isSemver('1.02.3') || isSemver('1.2.3.4') || isSemver('1.2.3-') || isSemver('')", "false"},
       {"isSemver('1.2.3-rc.1+build.01') && isSemver('v1', true) && !isSemver('v1', false)", "true"},
       {"semver('one')", "error: semver: \"one\" is not a semantic version"}});
}

TEST(Cel, QuantitiesAddressesAndUrls) {
  expect_all({{"quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').isLessThan(quantity('1'))", "true"},
              {"quantity('1k').compareTo(quantity('1000')) == 0 && quantity('1k') == quantity('1000')", "true"},
              {"quantity('1k').add(quantity('1')).asInteger() + quantity('1k').sub(1).asInteger()", "2000"},
              {"quantity('1.5').isInteger() || quantity('-1').sign() == 1", "false"},
              {"quantity('1.5').asInteger()", "error: cannot convert value to integer"},
              {"isQuantity('1x') || !isQuantity('10Mi')", "false"},
              {"ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && !isIP('256.0.0.1')", "true"},
              {"cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('0.0.0.0/0')", "true"},
              {"string(cidr('10.1.0.0/8').masked()) + string(cidr('fd00::/8').ip())", "\"10.0.0.0/8fd00::\""},
              {"url('https://a.b:80/c%20d?x=1&x=2').getHostname() + url('https://a.b:80/c').getPort()", "\"a.b80\""},
              {"url('https://a.b:80/c%20d?x=1&x=2').getQuery()['x']", R"(["1","2"])"},
              {"isURL('../a') || !isURL('/a/b')", "false"}});
}

TEST(Cel, OptionalValues) {
  expect_all({{"self.?missing.orValue(7)", "7"},
              {"self.?nested.?namespace.orValue('x')", "\"ns\""},
              {"self.nested.?missing.deep.hasValue()", "false"},
              {"self.list[?9].orValue(0) + self.list[?0].value()", "3"},
              {"self.?missing.value()", "error: optional.none() dereference"},
              {"self.?n.optMap(x, x + 1).orValue(0)", "4"},
              {"self.?missing.or(self.?n).value()", "3"},
              {"[1, ?self.?missing, ?self.?n]", "[1,3]"},
              {"{?'a': self.?missing, 'b': 1}", R"({"b":1})"},
              {"optional.ofNonZeroValue('').hasValue()", "false"}});
}

// Where a variable of that name is declared, and only there.
TEST(Cel, MessagesAreMapsOfTheirFields) {
  const Variable variables[] = {{"Object", nullptr}, {"JSONPatch", nullptr}};
  const Value values[] = {Value(), Value()};
  const auto outcome = [&](std::string_view text) {
    const auto expression = Expression::compile(text, variables);
    if (!expression.ok()) return std::string("refused");
    Cost cost(1000);
    const auto result = expression->evaluate(values, cost);
    return result.ok() ? result->to_json()->to_text() : result.error().message;
  };
  EXPECT_EQ(outcome("Object{spec: Object.spec{replicas: 1 + 1, __namespace__: 'n'}}"),
            R"({"spec":{"namespace":"n","replicas":2}})");
  EXPECT_EQ(outcome("[JSONPatch{op: 'add', path: '/a', value: {'k': [1]}}]"),
            R"([{"op":"add","path":"/a","value":{"k":[1]}}])");
  EXPECT_EQ(outcome("[JSONPatch{op: 'remove', path: '/labels/' + jsonpatch.escapeKey('k8s.io/my~label')}]"),
            R"([{"op":"remove","path":"/labels/k8s.io~1my~0label"}])");
  EXPECT_EQ(outcome("Object{?a: optional.none(), b: 1}"), R"({"b":1})");
  EXPECT_EQ(outcome("Object{}"), "{}");
  EXPECT_EQ(outcome("Object{'a': 1}"), "refused");
  EXPECT_EQ(outcome("Object{a}"), "refused");
  EXPECT_EQ(outcome("Object.a(1){b: 1}"), "refused");
  EXPECT_NE(outcome_of("Object{a: 1}").find("undeclared reference to 'Object'"), std::string::npos);
  EXPECT_NE(outcome_of("self{a: 1}").find("messages cannot be made here"), std::string::npos);
}

TEST(Cel, WhatIsRefusedBeforeEvaluation) {
  expect_all(
      {{"", "compile: ERROR: <input>:1:1: Syntax error: the expression ends too early"},
       {"1 +", "compile: ERROR: <input>:1:4: Syntax error: the expression ends too early"},
       {"other == 1", "compile: ERROR: <input>:1:1: undeclared reference to 'other' (in container '')"},
       {"nothing(1)", "compile: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')"},
       {"self.nothing(1)", "compile: ERROR: <input>:1:6: undeclared reference to 'nothing' (in container '')"},
       {"size()", "compile: ERROR: <input>:1:1: found no matching overload for 'size' applied to 0 arguments"},
       {"for", "compile: ERROR: <input>:1:1: reserved identifier: for"},
       {"self.a b", "compile: ERROR: <input>:1:8: Syntax error: mismatched input 'b'"},
       {"1 ?? 2", "compile: ERROR: <input>:1:4: Syntax error: mismatched input '?'"},
       {"self.list.all(1, true)", "compile: ERROR: <input>:1:11: undeclared reference to 'all' (in container '')"},
       {"a #", "compile: ERROR: <input>:1:3: Syntax error: token recognition error at: \"#\""},
       {"self{a: 1}", "compile: ERROR: <input>:1:5: messages cannot be made here"}});
}

TEST(Cel, LimitsAreErrorsThatSaySo) {
  EXPECT_EQ(outcome_of(std::string(60, '(') + "1" + std::string(60, ')')),
            "compile: ERROR: <input>:1:51: more than 50 levels of brackets");
  std::string sum = "1";
  for (int i = 0; i < 120; ++i) sum += "+1";
  EXPECT_NE(outcome_of(sum).find("nested deeper than 100 levels"), std::string::npos);
  std::string chain = "true";
  for (int i = 0; i < 2000; ++i) chain += " && true";
  EXPECT_EQ(outcome_of(chain), "true");
  EXPECT_EQ(outcome_of(std::string(100'001, ' ')), "compile: the expression is longer than 100000 bytes");
  const std::string nested = "self.list.all(a, self.list.all(b, self.list.all(c, self.list.all(d, true))))";
  EXPECT_EQ(outcome_of(nested), "true");
  EXPECT_EQ(outcome_of(nested, 100), "error: operation cancelled: actual cost limit exceeded");
  // Neither logic nor macros absorb it.
  EXPECT_EQ(outcome_of("(" + nested + ") || true", 100), "error: operation cancelled: actual cost limit exceeded");
}

TEST(Cel, DeepListsAreEvaluated) {
  std::string text;
  for (int i = 0; i < 49; ++i) text += "[1, ";
  text += "1" + std::string(49, ']');
  EXPECT_EQ(outcome_of(text).substr(0, 3), "[1,");
}

class Numbers final : public Shape {
 public:
  [[nodiscard]] Type type() const override { return Type::Double; }
  [[nodiscard]] Reading reading() const override { return Reading::Double; }
  [[nodiscard]] const Shape* member(std::string_view) const override { return nullptr; }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
};

class Times final : public Shape {
 public:
  [[nodiscard]] Type type() const override { return Type::Timestamp; }
  [[nodiscard]] Reading reading() const override { return Reading::Timestamp; }
  [[nodiscard]] const Shape* member(std::string_view) const override { return nullptr; }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
};

class Things final : public Shape {
 public:
  [[nodiscard]] Type type() const override { return Type::Object; }
  [[nodiscard]] const Shape* member(std::string_view name) const override {
    if (name == "whole") return &numbers_;
    return name == "time" ? &times_ : nullptr;
  }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
  [[nodiscard]] bool is_open() const override { return false; }

 private:
  Numbers numbers_;
  Times times_;
};

TEST(Cel, ShapesSayHowJsonIsReadAndWhatIsThere) {
  const json::Value object = json::Value::parse(kSelf).value();
  const Things shape;
  const Variable variables[] = {{"self", &shape}};
  const Value values[] = {Value::of(object, &shape)};
  const auto good = Expression::compile("self.whole / 4.0 == 0.5 && self.time.getFullYear() == 2026", variables);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->result_type(), "bool");
  EXPECT_TRUE(good->uses("self"));
  Cost cost;
  EXPECT_TRUE(good->evaluate(values, cost).value() == Value::of_bool(true));
  const auto bad = Expression::compile("self.hole == 1.0", variables);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "ERROR: <input>:1:6: undefined field 'hole'\n | self.hole == 1.0\n | .....^");
  EXPECT_FALSE(Expression::compile("self.whole == 'a'", variables).ok());
}

}  // namespace
}  // namespace basalt::cel
