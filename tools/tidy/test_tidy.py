"""Each rule of tidy.py is shown to catch what it is for, and to leave the rest alone."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import headers  # noqa: E402
import tidy  # noqa: E402


def messages(path, text):
    return [message for _, message in tidy.check_file(path, text.encode())]


class TidyTest(unittest.TestCase):
    def test_upward_include_is_refused(self):
        self.assertTrue(any("downward" in m for m in messages("src/json/a.cc", '#include "kube/client.h"\n')))

    def test_downward_include_is_fine(self):
        self.assertEqual(messages("src/kube/a.cc", '#include "json/value.h"\n'), [])

    def test_short_include_is_refused(self):
        self.assertTrue(any("full path" in m for m in messages("src/kube/a.cc", '#include "client.h"\n')))

    def test_long_file_is_refused_unless_generated(self):
        text = "int x;\n" * (tidy.SOURCE_LINES_MAX + 1)
        self.assertTrue(any("split" in m for m in messages("src/kube/a.cc", text)))
        self.assertEqual(messages("src/api/gen/a.cc", text), [])

    def test_banned_calls(self):
        for code in ("std::this_thread::yield();", "auto t = std::chrono::steady_clock::now();", "throw 1;",
                     "std::thread t;", "usleep(1);", "std::async(f);",
                     "for (const auto& type : server.types()->all()) {"):
            with self.subTest(code):
                self.assertNotEqual(messages("src/kube/a.cc", code + "\n"), [])
                self.assertEqual(messages("src/kube/a_test.cc", code + "\n"), [])

    def test_ranges_over_what_is_kept_are_fine(self):
        for code in ("for (const auto& type : types->all()) {", "for (int i = 0; i < list()->size(); ++i) {"):
            with self.subTest(code):
                self.assertEqual(messages("src/kube/a.cc", code + "\n"), [])

    def test_comments_and_strings_are_not_code(self):
        self.assertEqual(messages("src/kube/a.cc", '// std::thread\nconst char* s = "throw";\n'), [])

    def test_rt_may_use_threads(self):
        self.assertEqual(messages("src/rt/a.cc", "std::thread t;\n"), [])

    def test_unowned_todo_is_refused(self):
        self.assertNotEqual(messages("src/rt/a.cc", "// TO" + "DO: later\n"), [])
        self.assertEqual(messages("src/rt/a.cc", "// TO" + "DO(#12): later\n"), [])

    def test_text_rules(self):
        self.assertNotEqual(messages("src/rt/a.cc", "int x; \n"), [])
        self.assertNotEqual(messages("src/rt/a.cc", "int x;"), [])
        self.assertNotEqual(messages("src/rt/a.h", "int x;\n"), [])

    def test_header_that_needs_another_is_refused(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            needy, shared = str(folder / "needy.h"), "src/base/error.h"
            (folder / "needy.h").write_text("#pragma once\nbasalt::Error* error;\n")
            closures = {header: headers.with_included(root, header, {}) for header in ("src/base/result.h", shared)}
            closures.update({f"user-{i}": [shared, f"user-{i}"] for i in range(headers.SHARED_MAX)}, **{needy: [needy]})
            sizes = {path: 1000 for closure in closures.values() for path in closure}
            precompiled = headers.Precompiled(root, folder, closures, sizes)
            self.assertEqual(list(precompiled.files), [shared])
            self.assertIsNone(headers.problem(root, "src/base/result.h", precompiled))
            self.assertIn("basalt", headers.problem(root, needy, precompiled))

    def test_only_what_many_headers_read_is_precompiled(self):
        closures = {"low": ["low"], "lonely": ["lonely"], **{f"user-{i}": [f"user-{i}", "low"] for i in range(9)}}
        self.assertEqual(headers.shared_headers(closures, {path: 10 for path in closures}), ["low"])

    def test_forgotten_standard_header_is_refused(self):
        uses = "std::string text;  // std::vector\n"
        self.assertEqual(headers.standard_headers_missing(uses, [uses]), ["string"])
        self.assertEqual(headers.standard_headers_missing(uses, [uses, "#include <string>\n"]), [])


if __name__ == "__main__":
    unittest.main()
