"""Tests of the grouping of sources."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import groups


def sources(folder, **texts):
    result = []
    for name, text in texts.items():
        path = os.path.join(folder, name + '.cc')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        result.append(groups.Source(path))
    return result


def names_of(grouping):
    return [[os.path.basename(source.path)[:-3] for source in group] for group in grouping]


class GroupsTest(unittest.TestCase):
    def grouping(self, **texts):
        with tempfile.TemporaryDirectory() as folder:
            return names_of(groups.grouped(sources(folder, **texts)))

    def test_files_without_private_names_go_together(self):
        self.assertEqual(self.grouping(a='int f() { return 1; }', b='int g() { return f(); }'), [['a', 'b']])

    def test_the_same_private_function_keeps_files_apart(self):
        private = 'namespace x { namespace { int size_of(int v) { return v; } } }'
        self.assertEqual(self.grouping(a=private, b=private), [['a'], ['b']])

    def test_a_private_name_that_another_file_calls_keeps_them_apart(self):
        self.assertEqual(self.grouping(a='namespace { int parse() { return 1; } }', b='int g() { return parse(); }'), [['a'], ['b']])
        self.assertEqual(self.grouping(a='namespace { int parse() { return 1; } }', b='int g() { return json::parse() + x.parse(); }'),
                         [['a', 'b']])

    def test_private_types_and_constants_count(self):
        for private in ('struct Entry { int a; };', 'constexpr int kMost = 3;', 'constexpr auto kEvery = std::chrono::milliseconds(3);', 'enum class Entry { a };'):
            with self.subTest(private):
                text = 'namespace { ' + private + ' }'
                self.assertEqual(self.grouping(a=text, b=text), [['a'], ['b']])
        self.assertEqual(self.grouping(a='static int count() { return 1; }', b='static int count() { return 2; }'), [['a'], ['b']])
        self.assertEqual(self.grouping(a='constexpr int kMost = 3;', b='constexpr int kMost = 4;'), [['a'], ['b']])

    def test_text_in_comments_and_literals_does_not_count(self):
        self.assertEqual(self.grouping(a='namespace { int parse() { return 1; } }', b='const char* t() { return "parse()"; } // parse()'),
                         [['a', 'b']])

    def test_functions_with_constant_parameters_are_not_private(self):
        self.assertEqual(self.grouping(a='namespace x { bool is_empty(const A& a) { return true; } }',
                                       b='namespace x { bool is_empty(const B& b) { return is_empty(b.a); } }'), [['a', 'b']])

    def test_the_same_using_declaration_keeps_no_files_apart(self):
        self.assertEqual(self.grouping(a='using ::testing::HasSubstr;', b='using testing::HasSubstr; auto m = HasSubstr("x");'), [['a', 'b']])
        self.assertEqual(self.grouping(a='using Fixture = One;', b='using Fixture = One; void f(Fixture&);'), [['a', 'b']])

    def test_another_meaning_of_a_used_name_keeps_files_apart(self):
        self.assertEqual(self.grouping(a='using one::Name;', b='using two::Name; Name n;'), [['a'], ['b']])
        self.assertEqual(self.grouping(a='using one::Name;', b='void f(Name&);'), [['a'], ['b']])
        self.assertEqual(self.grouping(a='using Fixture = One;', b='using Fixture = Two; void f(Fixture&);'), [['a'], ['b']])
        self.assertEqual(self.grouping(a='using Fixture = One;', b='struct Fixture {}; void f(Fixture&);'), [['a'], ['b']])

    def test_files_that_open_different_namespaces_stay_apart(self):
        self.assertEqual(self.grouping(a='using namespace testing;', b='using namespace testing;', c='int g();'), [['a', 'b'], ['c']])

    def test_a_file_with_a_macro_stands_alone(self):
        self.assertEqual(self.grouping(a='#define X 1', b='int g();'), [['a'], ['b']])

    def test_the_same_test_in_two_files_keeps_them_apart(self):
        text = 'namespace { TEST(Suite, Works) { EXPECT_TRUE(true); } }'
        other = 'namespace { TEST(Suite, WorksToo) { EXPECT_TRUE(true); } }'
        self.assertEqual(self.grouping(a=text, b=text, c=other), [['a', 'c'], ['b']])

    def test_groups_are_bounded(self):
        many = {f'f{index:03}': f'int f{index}() {{ return 0; }}' for index in range(groups.FILES_MAX + 1)}
        self.assertEqual([len(group) for group in self.grouping(**many)], [groups.FILES_MAX, 1])


if __name__ == '__main__':
    unittest.main()
