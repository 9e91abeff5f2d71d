"""Every header compiles alone.

Reading the standard library takes most of the time of such a compilation, so it is read once, precompiled. That would hide
a header that forgot to include <string>: what a header uses of the precompiled ones is therefore looked up in its text.
A few headers of ours that many others include are precompiled, too, and serve those that do: that hides nothing.
"""
import concurrent.futures
import hashlib
import json
import re
import subprocess
import tempfile

COMPILER = "clang++-19"
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Isrc", "-I.", "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL",
         # What cmake tells every test.
         '-DBASALT_SOURCE_DIR=""', '-DBASALT_BINARY_DIR=""', '-DBASALT_KUBE_DIR_DEFAULT=""', '-DBASALT_PROGRAM=""']
# The precompiled headers of the standard library, and the names for which each must be included.
STANDARD = {
    "array": "array to_array",
    "atomic": "atomic atomic_flag memory_order_relaxed memory_order_acquire memory_order_release memory_order_acq_rel",
    "chrono": "chrono chrono_literals",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "deque": "deque",
    "filesystem": "filesystem",
    "functional": "function hash",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this static_pointer_cast",
    "optional": "optional nullopt",
    "set": "set multiset",
    "span": "span",
    "string": "string to_string",
    "string_view": "string_view",
    "unordered_map": "unordered_map unordered_multimap",
    "vector": "vector",
}
# Including the second gives the first by what the standard says of them.
GIVES = {"string_view": {"string"}}
HEADER_OF = {name: header for header, names in STANDARD.items() for name in names.split()}


def with_included(root, header, known):
    """Every file of the tree that a header reads, itself included; `known` remembers the answers for the direct ones."""
    found, ahead = set(), [header]
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.add(path)
        if path not in known:
            names = re.findall(r'^#include "([^"]+)"', (root / path).read_text(encoding="utf-8"), re.MULTILINE)
            known[path] = [place for name in names for place in ("src/" + name, name) if (root / place).is_file()]
        ahead += known[path]
    return sorted(found)


def standard_headers_missing(text, included_texts):
    """What a header uses of the standard library though neither it nor a header of ours that it includes includes it."""
    code = re.sub(r'//.*|"(\\.|[^"\\\n])*"', "", text)
    wanted = {HEADER_OF[name] for name in re.findall(r"\bstd::(\w+)", code) if name in HEADER_OF}
    given = {header for other in included_texts for header in re.findall(r"^#include <([^>]+)>", other, re.MULTILINE)}
    return sorted(header for header in wanted if not given & ({header} | GIVES.get(header, set())))


SHARED_MAX = 24  # headers of ours that are precompiled


def shared_headers(closures, sizes):
    """The headers whose precompiled form saves most, at most SHARED_MAX. `closures`: what each header reads."""
    weight = {header: sum(sizes[path] for path in closure) for header, closure in closures.items()}
    users = {header: [] for header in closures}
    for user, closure in closures.items():
        for path in closure:
            if path != user and path in users:
                users[path].append(user)
    saved = dict.fromkeys(closures, 0)
    chosen = []
    while len(chosen) < SHARED_MAX:
        gain, best = max((sum(max(0, weight[header] - saved[user]) for user in users[header]), header) for header in sorted(closures))
        if gain < 4 * weight[best]:
            break
        chosen.append(best)
        for user in users[best]:
            saved[user] = max(saved[user], weight[best])
    return chosen


class Precompiled:
    """The standard library, and shared headers of ours on top of it."""

    def __init__(self, root, folder, closures, sizes):
        self.closures = closures
        self.weight = {}
        self.files = {}
        self.standard = self.make(root, folder, "standard", "".join(f"#include <{header}>\n" for header in sorted(STANDARD)), [])
        for number, header in enumerate(shared_headers(closures, sizes) if len(closures) > SHARED_MAX else []):
            name = header.removeprefix("src/")
            try:
                made = self.make(root, folder, f"shared-{number}", f'#include "{name}"\n', ["-include-pch", self.standard])
            except subprocess.CalledProcessError:
                continue  # it does not compile, which is said when its turn comes
            self.files[header] = made
            self.weight[header] = sum(sizes[path] for path in closures[header])

    @staticmethod
    def make(root, folder, name, text, more):
        source, target = folder / f"{name}.h", str(folder / f"{name}.pch")
        source.write_text(text)
        # What the precompiled text leaves to be instantiated would else be done in each compilation.
        subprocess.run([COMPILER, *FLAGS, "-fpch-instantiate-templates", *more, "-x", "c++-header", str(source), "-o", target], cwd=root,
                       check=True, capture_output=bool(more))
        return target

    def for_header(self, header):
        """The one that spares this header most, of those that hold nothing but what it reads itself."""
        fitting = [shared for shared in self.files if shared != header and shared in self.closures[header]]
        return self.files[max(fitting, key=self.weight.get)] if fitting else self.standard


def problem(root, path, precompiled):
    """Why the header does not compile by itself, read twice; None if it does."""
    name = path.removeprefix("src/")
    command = [COMPILER, *FLAGS, "-fsyntax-only", "-include-pch", precompiled.for_header(path), "-x", "c++", "-"]
    done = subprocess.run(command, cwd=root, input=f'#include "{name}"\n' * 2, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"{COMPILER} ended with {done.returncode}"]
    return next((line for line in lines if "error:" in line), lines[0])


def check(root, files, jobs):
    """Yields (path, line, message). A header that passed, and reads the same text as then, is not compiled again."""
    headers = [f for f in files if f.endswith(".h") and f.startswith(("src/", "test/"))]
    known, digests, closures, sizes = {}, {}, {}, {}
    for header in headers:
        closures[header] = with_included(root, header, known)
        texts = {path: (root / path).read_text(encoding="utf-8") for path in closures[header]}
        sizes.update((path, len(text)) for path, text in texts.items())
        digests[header] = hashlib.sha256("\0".join(f"{path}\0{text}" for path, text in texts.items()).encode()).hexdigest()
        for missing in standard_headers_missing(texts[header], texts.values()):
            yield header, 1, f"uses what <{missing}> declares, and includes it neither itself nor by a header of ours"
    memory = root / "build" / "tidy-headers.json"
    passed = json.loads(memory.read_text()) if memory.is_file() else {}
    changed = [header for header in headers if passed.get(header) != digests[header]]
    if changed:
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            precompiled = Precompiled(root, root.__class__(folder), {header: closures[header] for header in changed}, sizes)
            for header, found in zip(changed, pool.map(lambda h: problem(root, h, precompiled), changed)):
                passed[header] = None if found else digests[header]
                if found:
                    yield header, 1, f"does not compile alone: {found}"
    memory.parent.mkdir(exist_ok=True)
    memory.write_text(json.dumps({header: passed[header] for header in headers}, indent=0))
