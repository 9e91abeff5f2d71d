#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/store/store.h"

// What the store's tests share. Not part of the program.
namespace basalt::apiserver::testing {

// A folder of its own for each test, removed in the end. In memory where that can be: none of the tests takes power
// from the machine, and there a sync costs nothing.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = ::access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        ((has_memory ? memory : std::filesystem::temp_directory_path()) / "basalt-store-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A write that owns its texts. The object reads {"rv":"<revision>","data":"<data>"}.
class TestWrite {
 public:
  static TestWrite create(ResourceId resource, std::string ns, std::string name, std::string data) {
    return {WriteKind::Create, resource, std::move(ns), std::move(name), std::move(data), 0};
  }
  static TestWrite update(ResourceId resource, std::string ns, std::string name, std::string data,
                          Revision expected = 0) {
    return {WriteKind::Update, resource, std::move(ns), std::move(name), std::move(data), expected};
  }
  static TestWrite remove(ResourceId resource, std::string ns, std::string name, Revision expected = 0) {
    return {WriteKind::Delete, resource, std::move(ns), std::move(name), "", expected};
  }

  [[nodiscard]] Write view() const {
    Write write;
    write.kind = kind_;
    write.resource = resource_;
    write.ns = ns_;
    write.name = name_;
    write.expected = expected_;
    if (kind_ != WriteKind::Delete) {
      write.object = {R"({"rv":")", after_};
      write.attributes = attributes_.packed();
    }
    return write;
  }
  Result<EntryRef> on(Store& store) const { return store.write(view()); }

 private:
  TestWrite(WriteKind kind, ResourceId resource, std::string ns, std::string name, std::string data, Revision expected)
      : kind_(kind), resource_(resource), ns_(std::move(ns)), name_(std::move(name)), expected_(expected) {
    after_ = R"(","data":")" + data + "\"}";
    attributes_.reset("uid-of-" + name_);
    attributes_.add_label("data", data);
  }

  WriteKind kind_;
  ResourceId resource_;
  std::string ns_;
  std::string name_;
  Revision expected_;
  std::string after_;
  AttributesWriter attributes_;
};

inline std::string object_text(Revision revision, std::string_view data) {
  return R"({"rv":")" + std::to_string(revision) + R"(","data":")" + std::string(data) + "\"}";
}

inline std::string data_of(const Entry& entry) {
  return std::string(entry.attributes().label("data").value_or(std::string_view("?")));
}

// "default/a=data@revision", for comparisons that read well when they fail.
inline std::string describe(const Entry& entry) {
  return std::string(entry.key()) + "=" + data_of(entry) + "@" + std::to_string(entry.mod_revision());
}

inline std::vector<std::string> describe(const std::vector<EntryRef>& entries) {
  std::vector<std::string> texts;
  for (const EntryRef& entry : entries) texts.push_back(describe(*entry));
  return texts;
}

inline std::unique_ptr<Store> open_or_fail(rt::Runtime& runtime, StoreOptions options) {
  auto store = Store::open(runtime, std::move(options));
  EXPECT_TRUE(store.ok()) << store.error().to_string();
  return store.ok() ? std::move(store).value() : nullptr;
}

}  // namespace basalt::apiserver::testing
